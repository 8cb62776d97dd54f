//go:build unix

package pluginhost_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// learner is a redactor.
type learner struct {
	mu    sync.Mutex
	known []string
}

func (l *learner) know(v sdk.SecretValue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = append(l.known, string(v.Reveal()))
}

func (l *learner) redact(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.known {
		text = strings.ReplaceAll(text, v, sdk.Redacted)
	}
	return text
}

func (l *learner) set(o *pluginhost.Options) { o.Know, o.Redact = l.know, l.redact }

// secrets resolves any reference to its own text, without the scheme.
type secrets struct{}

func (secrets) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.NewSecretValue([]byte("value-of-" + strings.TrimPrefix(string(ref), "secret://env/"))), nil
}

// TestPluginSaysSecrets: a plugin that says its credentials, and secrets that it resolved
// for a run, says them in vain.
func TestPluginSaysSecrets(t *testing.T) {
	var l learner
	y := newYard(t, "tattles", l.set)
	p, err := y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(`{"name": "c"}`), Secrets: secrets{}, Credentials: map[string]string{"API_TOKEN": "value-of-token", "REGION": "north-by-east"}})
	if err != nil {
		t.Fatal(err)
	}
	runner := can(t, p, sdk.Runner())
	ids := sdk.NewIDSource(sdk.SystemClock())
	prepared, err := runner.PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1,
		Spec: sdk.JobSpec{V: sdk.SpecVersion, Args: sdk.Argv{"exit", "0"}, Secrets: map[string]sdk.SecretRef{"A": "secret://env/A"}}})
	if err != nil || len(prepared.Problems) > 0 {
		t.Fatalf("prepare: %v, %v", err, prepared.Problems)
	}
	if _, err := runner.RunJob(t.Context(), sdk.RunJobRequest{Launch: prepared}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "all that it says", func() bool {
		log := y.log.String()
		return strings.Contains(log, "resolved") && strings.Contains(log, "API_TOKEN=") && strings.Contains(log, "REGION=")
	})
	if log := y.log.String(); strings.Contains(log, "value-of-") || !strings.Contains(log, "north-by-east") {
		t.Errorf("the log has\n%s", log)
	}
}

// told returns what the processes of a published plugin were initialized with.
func (y *yard) told() []string {
	y.t.Helper()
	files, err := filepath.Glob(filepath.Join(y.dir, "told *"))
	if err != nil {
		y.t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			y.t.Fatal(err)
		}
		out = append(out, string(data))
	}
	slices.Sort(out)
	return out
}

// TestPublishedPluginIsShared: users that want a published plugin initialized alike share
// its process, which is told once, so that what it remembers is there for all of them. The
// secrets of its configuration aren't logged.
func TestPublishedPluginIsShared(t *testing.T) {
	var l learner
	y := newYard(t, "published", l.set, "config: {region: north-by-east, api_token: hush-hush}")
	open := func(config string) (sdk.Provider, error) {
		return y.tryOpen(sdk.OpenRequest{Config: json.RawMessage(config)})
	}
	for range 2 { // as a command and its keeper
		if _, err := open(`{"account": "a"}`); err != nil {
			t.Fatal(err)
		}
	}
	// Another provider may lead to the same.
	if _, err := open(`{"account": "b", "plugin": {}}`); err != nil {
		t.Fatal(err)
	}
	if got, want := y.told(), []string{`{"region":"north-by-east","api_token":"hush-hush"}` + "\n"}; !slices.Equal(got, want) {
		t.Errorf("its processes were told %q", got)
	}
	if _, err := open(`{"plugin": {"region": "south"}}`); err != nil {
		t.Fatal(err)
	}
	if got := y.told(); len(got) != 2 {
		t.Errorf("its processes were told %q", got)
	}
	// One that refuses its configuration has no second try: another process has.
	for range 2 {
		if _, err := open(`{"plugin": {"region": "refused"}}`); sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), "no such region") {
			t.Errorf("refused: %v", err)
		}
	}
	if got := y.told(); len(got) != 4 {
		t.Errorf("its processes were told %q", got)
	}
	if log := y.log.String(); strings.Contains(log, "hush-hush") || !strings.Contains(log, "north-by-east") {
		t.Errorf("the log has\n%s", log)
	}
}
