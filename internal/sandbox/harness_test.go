package sandbox

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them should need it.
const patience = 2 * time.Minute

// world is a state folder, a fake cloud that plays every kind, and an engine.
type world struct {
	t      *testing.T
	dir    string
	cloud  *fake.Cloud
	store  *sqlite.Store
	engine *control.Engine
	jobs   *Jobs
}

// backends are the providers of a world, all on one cloud.
func backends() []Provider {
	return []Provider{{Name: "argo-a", Kind: "argo"}, {Name: "cloud", Kind: "fake"}, {Name: "docker", Kind: "docker"}}
}

type providers struct{ b control.Backend }

func (p providers) Backend(_ context.Context, name string) (control.Backend, error) {
	if !slices.Contains(p.Names(), name) {
		return control.Backend{}, sdk.Errorf(sdk.NotFound, "open provider", "no provider %q", name)
	}
	b := p.b
	b.Name = name
	return b, nil
}

func (p providers) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	return p.Backend(ctx, run.Provider)
}

func (p providers) Names() []string { return []string{"argo-a", "cloud", "docker"} }

type noSecrets struct{}

func (noSecrets) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.NewSecretValue([]byte("s3cr3t-canary")), nil
}

// newWorld makes one; wrap, when not nil, decorates the provider.
func newWorld(t *testing.T, set fake.Settings, wrap func(sdk.Provider) sdk.Provider) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), cloud: fake.NewCloud(fake.Options{Record: true})}
	var err error
	if w.store, err = sqlite.Open(t.Context(), w.dir, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.must(w.store.Close()) })
	logs, err := joblog.Open(filepath.Join(w.dir, "logs"), joblog.Options{})
	w.must(err)
	d := fake.NewDriver(w.cloud, set)
	state := filepath.Join(w.dir, "driver")
	w.must(os.MkdirAll(state, 0o700))
	p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Log: slog.New(slog.DiscardHandler), Owner: w.store.ID(), LedgerID: w.store.ID(), StateDir: state, Secrets: noSecrets{}})
	if err != nil {
		t.Fatal(err)
	}
	b := control.Backend{Provider: p, Driver: &d, PollInterval: 20 * time.Millisecond, CallTimeout: patience}
	if wrap != nil {
		b.Provider = wrap(p)
	}
	w.engine, err = control.New(t.Context(), control.Options{Store: w.store, Logs: logs, Providers: providers{b}, StateDir: w.dir, Actor: "engine@test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.must(w.engine.Close(ctx))
		w.must(p.Close())
	})
	w.jobs = &Jobs{Engine: w.engine, Attempts: w.engine.Attempts, Actor: "ann@test", Now: time.Now}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) env(c Choice) Environment {
	w.t.Helper()
	e, err := Places{Providers: backends(), Jobs: w.jobs}.Find(w.ctx(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// choices are the environments that go through the engine.
func choices() map[string]Choice {
	return map[string]Choice{
		LocalDocker:       {},
		Ephemeral:         {ExecEnv: Ephemeral, ArgoModule: "argo-a"},
		ProviderEphemeral: {ExecEnv: ProviderEphemeral, Provider: "cloud"},
	}
}

// runs lists the ledger's runs.
func (w *world) runs() []ledger.Run {
	w.t.Helper()
	var out []ledger.Run
	for r, err := range w.store.Runs(w.ctx(), ledger.RunFilter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func (w *world) spec(id sdk.ID) sdk.JobSpec {
	w.t.Helper()
	run, err := w.store.Run(w.ctx(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := sdk.DecodeSpec(run.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// script is an execution of the fake cloud's script, such as "echo up; hang".
func script(s string) Exec {
	return Exec{Image: "img", Command: strings.Fields(strings.ReplaceAll(s, ";", " ; "))}
}

// output collects what an execution writes.
type output struct {
	mu    sync.Mutex
	bytes map[sdk.Stream]*bytes.Buffer
	notes []string
	run   sdk.ID
	// first is closed at the first bytes, begun once there is a run.
	first, begun         chan struct{}
	onceFirst, onceBegun sync.Once
	fail                 error
}

func newOutput() *output {
	return &output{bytes: map[sdk.Stream]*bytes.Buffer{}, first: make(chan struct{}), begun: make(chan struct{})}
}

func (o *output) Write(s sdk.Stream, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes[s] == nil {
		o.bytes[s] = &bytes.Buffer{}
	}
	o.bytes[s].Write(data)
	o.onceFirst.Do(func() { close(o.first) })
	return o.fail
}

func (o *output) Note(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notes = append(o.notes, text)
}

func (o *output) Started(run sdk.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.run = run
	o.onceBegun.Do(func() { close(o.begun) })
}

func (o *output) text(s sdk.Stream) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes[s] == nil {
		return ""
	}
	return o.bytes[s].String()
}

func (o *output) said(part string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.notes, func(n string) bool { return strings.Contains(n, part) })
}

func request(e Exec, o *output) Request {
	return Request{Exec: e, Output: o, Stop: make(chan struct{}), Why: func() string { return "Ctrl-C" }}
}
