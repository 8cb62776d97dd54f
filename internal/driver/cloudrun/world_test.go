package cloudrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}

// world is a pocket cloud with providers on it.
type world struct {
	t      testing.TB
	cloud  *pocket.Server
	gate   *gate
	marks  string
	owner  string
	ledger string
	log    safeBuffer
	config map[string]any
	values map[sdk.SecretRef]string
}

// newWorld starts a pocket cloud without a quota of log reads. Change adds to the
// config, or takes away by nil.
func newWorld(t testing.TB, o pocket.Options, change map[string]any) *world {
	t.Helper()
	o.Record = true
	cloud, err := pocket.New(o)
	if err != nil {
		t.Fatal(err)
	}
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gate := newGate(address)
	web := httptest.NewUnstartedServer(gate)
	web.Config.Protocols = &http.Protocols{}
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(func() {
		web.Close()
		gate.trans.CloseIdleConnections()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Grace = 500 * time.Millisecond })
	cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
	ids := sdk.NewIDSource(sdk.SystemClock())
	w := &world{t: t, cloud: cloud, gate: gate, marks: t.TempDir(), owner: "suite-" + ids.NewID().Short(), ledger: ids.NewID().String(),
		values: map[sdk.SecretRef]string{}}
	w.config = map[string]any{
		"project": pocket.Project, "region": pocket.Location, "endpoint": web.URL,
		"log_late": "50ms", "log_quiet": "300ms", "log_max": "3s", "visible_within": "2s",
		"read_rate": 1000000, "write_rate": 1000000, "log_rate": 1000000,
	}
	maps.Copy(w.config, change)
	for k, v := range change {
		if v == nil {
			delete(w.config, k)
		}
	}
	return w
}

func pocketCredentials() map[string]string {
	return map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "pocket"}
}

func (w *world) request() sdk.OpenRequest {
	raw, err := json.Marshal(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	return sdk.OpenRequest{Name: "test", Config: raw, Credentials: pocketCredentials(), Secrets: secretsOf(w.values), Clock: sdk.SystemClock(),
		IDs: sdk.NewIDSource(sdk.SystemClock()), Owner: w.owner, LedgerID: w.ledger, StateDir: w.t.TempDir(),
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

// open opens a provider as a process of its own would.
func (w *world) open(change ...func(r *sdk.OpenRequest)) *provider {
	return w.openOn(Driver(), change...)
}

// openOn opens a provider of a driver's value.
func (w *world) openOn(d sdk.Driver, change ...func(r *sdk.OpenRequest)) *provider {
	w.t.Helper()
	r := w.request()
	for _, f := range change {
		f(&r)
	}
	p, err := d.Open(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return p.(*provider)
}

type secretsOf map[sdk.SecretRef]string

func (m secretsOf) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, ok := m[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s is not set", ref)
	}
	return sdk.NewSecretValue([]byte(v)), nil
}

// shell is a spec of a job that runs a script.
func shell(script string) sdk.JobSpec {
	return sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"sh", "-c", script}}
}

// prepare prepares a job of a new run.
func (w *world) prepare(p *provider, spec sdk.JobSpec) sdk.Launch {
	w.t.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := p.PrepareJob(w.t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1,
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second)})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// plan prepares a job that may be launched.
func (w *world) plan(p *provider, spec sdk.JobSpec) sdk.Launch {
	w.t.Helper()
	l := w.prepare(p, spec)
	if len(l.Problems) > 0 {
		w.t.Fatalf("refused: %s", sdk.JoinProblems(l.Problems))
	}
	return l
}

func (w *world) run(p *provider, l sdk.Launch) sdk.JobHandle {
	w.t.Helper()
	res, err := p.RunJob(w.t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.Handle
}

func (w *world) status(p *provider, h sdk.JobHandle) sdk.JobStatusResult {
	w.t.Helper()
	st, err := p.JobStatus(w.t.Context(), sdk.JobStatusRequest{Handle: h})
	if err != nil {
		w.t.Fatal(err)
	}
	if !sdk.LegalReason(st.State, st.Reason) {
		w.t.Fatalf("state %s with reason %q", st.State, st.Reason)
	}
	return st
}

func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	testwait.Until(w.t, patience, what, cond)
}

func (w *world) ended(p *provider, h sdk.JobHandle) sdk.JobStatusResult {
	w.t.Helper()
	var st sdk.JobStatusResult
	w.eventually("end of the job", func() bool {
		st = w.status(p, h)
		return st.State.Terminal()
	})
	return st
}

func (w *world) running(p *provider, h sdk.JobHandle) {
	w.t.Helper()
	w.eventually("running job", func() bool {
		st := w.status(p, h)
		if st.State.Terminal() {
			w.t.Fatalf("the job is %s: %s, %s", st.State, st.Reason, st.Message)
		}
		return st.State == sdk.StateRunning
	})
}

// follow reads the log until want lines have come, or it has been silent for
// looks rounds.
func (w *world) follow(ctx context.Context, p *provider, h sdk.JobHandle, want, looks int) []string {
	var lines []string
	for it, err := range p.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
		switch {
		case err != nil:
			w.t.Error(err)
			return lines
		case it.Entry != nil:
			lines = append(lines, string(it.Entry.Data))
		case it.End == nil && it.Gap == nil:
			looks--
		}
		if it.End != nil || len(lines) >= want && looks <= 0 {
			return lines
		}
	}
	return lines
}

// text returns what a read of the log gives now.
func (w *world) text(p *provider, h sdk.JobHandle) string {
	w.t.Helper()
	var b strings.Builder
	for it, err := range p.JobLogs(w.t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if it.Entry != nil {
			b.Write(it.Entry.Data)
			if it.Entry.LineEnd == sdk.LineEndStripped {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

func (w *world) mark(key string) string { return fmt.Sprintf("echo x >>'%s/%s'", w.marks, key) }

func (w *world) marked(key string) int {
	data, err := os.ReadFile(w.marks + "/" + key)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return bytes.Count(data, []byte("x"))
}

func (w *world) count(action string) int { return w.cloud.Calls().Count(action) }
