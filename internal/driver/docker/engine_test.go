package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// secretsMap resolves references from a map.
type secretsMap map[sdk.SecretRef]string

func (m secretsMap) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, ok := m[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s", ref)
	}
	return sdk.NewSecretValue([]byte(v)), nil
}

// bench is a provider under test with what it takes to run jobs on it.
type bench struct {
	*provider
	ids   sdk.IDSource
	state string
}

// openTest opens a provider on an engine. Jobs that the test runs are removed
// when it is over.
func openTest(t testing.TB, host string, change ...func(*sdk.OpenRequest)) *bench {
	t.Helper()
	clock := sdk.SystemClock()
	b := &bench{ids: sdk.NewIDSource(clock), state: t.TempDir()}
	r := sdk.OpenRequest{
		Name: "test", Config: json.RawMessage(fmt.Sprintf(`{"host":%q}`, host)), Clock: clock, IDs: b.ids,
		Owner: "test-" + strings.ToLower(b.ids.NewID().Short()), LedgerID: b.ids.NewID().String(), StateDir: b.state,
		Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&r)
	}
	p, err := Driver().Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	b.provider = p.(*provider)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// realEngine opens a provider on the machine's engine, and removes what is left
// of its owner at the end.
func realEngine(t testing.TB, change ...func(*sdk.OpenRequest)) *bench {
	t.Helper()
	b := openTest(t, testneed.Docker(t), change...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for o, err := range b.ListOwned(ctx, sdk.ListOwnedRequest{Owner: b.owner}) {
			if err != nil {
				t.Error(err)
				return
			}
			o.Live = true
			if _, err := b.RemoveOwned(ctx, sdk.RemoveOwnedRequest{Object: o}); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

func sh(script string, args ...string) sdk.JobSpec {
	return sdk.JobSpec{V: 1, Image: testneed.Image, Args: append(sdk.Argv{"sh", "-c", script, "sh"}, args...)}
}

// prepare returns the launch of a first attempt.
func (b *bench) prepare(t testing.TB, spec sdk.JobSpec) sdk.Launch {
	t.Helper()
	l, err := b.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: b.ids.NewID(), AttemptID: b.ids.NewID(), Attempt: 1,
		Expires: time.Now().Add(time.Hour).Truncate(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	// What is stored is what is sent.
	data, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if l, err = sdk.DecodeLaunch(data); err != nil {
		t.Fatal(err)
	}
	return l
}

// send runs a launch without problems.
func (b *bench) send(t testing.TB, l sdk.Launch) sdk.JobHandle {
	t.Helper()
	if len(l.Problems) > 0 {
		t.Fatalf("problems: %s", sdk.JoinProblems(l.Problems))
	}
	r, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Progress: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	return r.Handle
}

func (b *bench) run(t testing.TB, spec sdk.JobSpec) sdk.JobHandle {
	t.Helper()
	return b.send(t, b.prepare(t, spec))
}

// ended waits for a job's end.
func (b *bench) ended(t testing.TB, h sdk.JobHandle) sdk.JobStatusResult {
	t.Helper()
	var r sdk.JobStatusResult
	testwait.Until(t, patience, "end of the job", func() bool {
		var err error
		if r, err = b.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
		return r.State.Terminal()
	})
	if !sdk.LegalReason(r.State, r.Reason) {
		t.Errorf("reason %q beside state %q", r.Reason, r.State)
	}
	return r
}

// output is a log as it was read.
type output struct {
	out, err string
	verdict  sdk.Verdict
	gaps     int
	cursor   *sdk.LogCursor
}

func (b *bench) logs(t testing.TB, h sdk.JobHandle, follow bool, cursor *sdk.LogCursor) output {
	t.Helper()
	o, err := b.readLogs(t.Context(), h, follow, cursor)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (b *bench) readLogs(ctx context.Context, h sdk.JobHandle, follow bool, cursor *sdk.LogCursor) (output, error) {
	var o output
	var stdout, stderr bytes.Buffer
	for item, err := range b.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: follow, Cursor: cursor}) {
		if err != nil {
			return o, err
		}
		switch {
		case item.Entry != nil && item.Entry.Stream == sdk.StreamStdout:
			stdout.Write(item.Entry.Data)
		case item.Entry != nil:
			stderr.Write(item.Entry.Data)
		case item.Gap != nil:
			o.gaps++
		case item.End != nil:
			o.verdict = item.End.Verdict
		}
		if item.Cursor != nil {
			o.cursor = item.Cursor
		}
	}
	o.out, o.err = stdout.String(), stderr.String()
	return o, nil
}

func newTextLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
