package control_test

import (
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

// world is a state directory, a cloud, and the engines that a test opens.
type world struct {
	t     *testing.T
	dir   string
	cloud *fake.Cloud
	set   fake.Settings
	store *sqlite.Store
	logs  *joblog.Store
	clock *stepClock
	back  control.Backend
	// wrap, when not nil, decorates each provider.
	wrap func(sdk.Provider) sdk.Provider
	// log and redact, when not nil, are the engines'.
	log    *slog.Logger
	redact func(string) string
	// count, when not nil, wraps the engines' ledger.
	count func(ledger.Store) ledger.Store
	// also are further names of the provider.
	also []string
	// gone is why the engines that are opened from now on can't open providers.
	gone error

	mu       sync.Mutex
	warnings []string
}

// stepClock is the system's clock with an offset that a test moves.
type stepClock struct {
	mu  sync.Mutex
	off time.Duration
	// most, when not 0, bounds every sleep.
	most time.Duration
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *stepClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	if c.most > 0 {
		d = min(d, c.most)
	}
	c.mu.Unlock()
	return sdk.SystemClock().Sleep(ctx, d)
}

// bound makes every sleep from now on as short as d.
func (c *stepClock) bound(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = d
}

func (c *stepClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

type option func(*world)

func withSettings(s fake.Settings) option { return func(w *world) { w.set = s } }

func withBackend(f func(*control.Backend)) option { return func(w *world) { f(&w.back) } }

func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: &stepClock{}}
	w.back = control.Backend{Name: "fake", PollInterval: 50 * time.Millisecond, CallTimeout: 2 * time.Second}
	for _, o := range opts {
		o(w)
	}
	w.cloud = fake.NewCloud(fake.Options{Record: true})
	var err error
	if w.store, err = sqlite.Open(t.Context(), w.dir, sqlite.Options{Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	if w.logs, err = joblog.Open(filepath.Join(w.dir, "logs"), joblog.Options{Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

type providers struct {
	b    control.Backend
	also []string
	// gone, when not nil, is why no run's provider can be opened.
	gone error
}

func (p providers) Backend(_ context.Context, name string) (control.Backend, error) {
	if slices.Contains(p.also, name) {
		b := p.b
		b.Name = name
		return b, nil
	}
	if name != p.b.Name {
		return control.Backend{}, sdk.Errorf(sdk.NotFound, "open provider", "no provider %q", name)
	}
	return p.b, nil
}

func (p providers) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	if p.gone != nil {
		return control.Backend{}, p.gone
	}
	return p.Backend(ctx, run.Provider)
}

func (p providers) Names() []string { return append([]string{p.b.Name}, p.also...) }

// engine opens an engine with a provider of its own, as a process would.
func (w *world) engine() *control.Engine {
	w.t.Helper()
	d := fake.NewDriver(w.cloud, w.set)
	state := filepath.Join(w.dir, "driver")
	if err := os.MkdirAll(state, 0o700); err != nil {
		w.t.Fatal(err)
	}
	p, err := d.Open(w.t.Context(), sdk.OpenRequest{Name: "fake", Clock: w.clock, IDs: sdk.NewIDSource(w.clock),
		Log: slog.New(slog.DiscardHandler), Owner: w.store.ID(), LedgerID: w.store.ID(), StateDir: state, Secrets: noSecrets{}})
	if err != nil {
		w.t.Fatal(err)
	}
	b := w.back
	b.Provider, b.Driver = p, &d
	if w.wrap != nil {
		b.Provider = w.wrap(p)
	}
	var store ledger.Store = w.store
	if w.count != nil {
		store = w.count(store)
	}
	e, err := control.New(w.t.Context(), control.Options{Store: store, Logs: w.logs, Providers: providers{b, w.also, w.gone}, StateDir: w.dir,
		Actor: "engine@test", Clock: w.clock, Log: w.log, Redact: w.redact, Warn: func(_ sdk.ID, m string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.warnings = append(w.warnings, m)
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			w.t.Errorf("close engine: %v", err)
		}
		if err := p.Close(); err != nil {
			w.t.Errorf("close provider: %v", err)
		}
	})
	return e
}

type noSecrets struct{}

func (noSecrets) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.NewSecretValue([]byte("s3cr3t-canary")), nil
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func spec(args ...string) sdk.JobSpec { return sdk.JobSpec{Image: "img", Args: args} }

func request(s sdk.JobSpec) control.SubmitRequest {
	return control.SubmitRequest{Provider: "fake", Spec: s, Actor: "tester@test"}
}

func (w *world) submit(e *control.Engine, req control.SubmitRequest) sdk.ID {
	w.t.Helper()
	s, err := e.Submit(w.ctx(), req)
	if err != nil {
		w.t.Fatalf("submit: %v", err)
	}
	return s.Run.ID
}

func (w *world) wait(e *control.Engine, id sdk.ID, m control.Milestone) ledger.Run {
	w.t.Helper()
	r, err := e.Wait(w.ctx(), id, m)
	if err != nil {
		w.t.Fatalf("wait for %d: %v; run is %s %s phase %s: %s", m, err, r.State, r.Reason, r.Phase, r.Message)
	}
	return r
}

func (w *world) attempts(id sdk.ID) []ledger.Attempt {
	w.t.Helper()
	a, err := w.store.Attempts(w.ctx(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// output returns the captured bytes of a run by stream, and the last verdict.
func (w *world) output(e *control.Engine, id sdk.ID) (map[sdk.Stream]string, sdk.Verdict) {
	w.t.Helper()
	out := map[sdk.Stream]string{}
	var v sdk.Verdict
	for it, err := range e.Follow(w.ctx(), id, control.FollowOptions{Follow: true}) {
		if err != nil {
			w.t.Fatalf("follow: %v", err)
		}
		if it.Entry != nil {
			out[it.Entry.Stream] += string(it.Entry.Data)
		}
		if it.End != nil {
			v = it.End.Verdict
		}
	}
	return out, v
}

func (w *world) expect(r ledger.Run, state sdk.JobState, why sdk.Reason) {
	w.t.Helper()
	if r.State != state || r.Reason != why {
		w.t.Fatalf("run is %s %s (%s), want %s %s", r.State, r.Reason, r.Message, state, why)
	}
}

// until polls a condition without sleeping blindly.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	ctx := w.ctx()
	for !cond() {
		if err := sdk.SystemClock().Sleep(ctx, 5*time.Millisecond); err != nil {
			w.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// sound checks the ledger, and that one object was made for each attempt at
// most.
func (w *world) sound(id sdk.ID) {
	w.t.Helper()
	rep, err := w.store.Verify(w.ctx(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range rep.Faults {
		w.t.Errorf("ledger: %+v", f)
	}
	for _, a := range w.attempts(id) {
		if n := w.cloud.Made(a.ID); n > 1 {
			w.t.Errorf("attempt %d made %d objects", a.Number, n)
		}
	}
}

func (w *world) warned(part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.warnings, "\n"), part)
}
