package clouds

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestMain lets many tests run at once, however few the cores: most of their time
// they wait for clouds and pauses. A flag -parallel has the last word.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// soon bounds each wait for what must happen.
const soon = 10 * time.Minute

// rig is an engine with a provider on a pocket cloud, of the kind aws-ecs unless
// driver says otherwise.
type rig struct {
	t      *testing.T
	dir    string
	url    string
	cloud  *pocket.Server
	store  *sqlite.Store
	logs   *joblog.Store
	config map[string]any
	driver sdk.Driver
	back   control.Backend
	engine *control.Engine
	// secrets are what the submitter has.
	secrets sdk.SecretResolver
	// poll is the interval of looks.
	poll time.Duration

	mu    sync.Mutex
	warns []string
}

func newRig(t *testing.T, o pocket.Options, change map[string]any) *rig {
	t.Helper()
	o.Record = true
	cloud, err := pocket.New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	r := &rig{t: t, dir: t.TempDir(), url: web.URL, cloud: cloud, poll: 100 * time.Millisecond, driver: ecs.Driver()}
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.store, err = sqlite.Open(t.Context(), r.dir, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.logs, err = joblog.Open(filepath.Join(r.dir, "logs"), joblog.Options{}); err != nil {
		t.Fatal(err)
	}
	r.config = map[string]any{"region": pocket.Region, "endpoint": web.URL, "subnets": []string{"subnet-0123456789abcdef0"},
		"execution_role": "arn:aws:iam::" + pocket.Account + ":role/execution", "log_quiet": "300ms", "log_max": "5s", "missing_grace": "3s",
		"describe_rate": 1000, "log_rate": 1000}
	maps.Copy(r.config, change)
	return r
}

// start opens the provider and an engine over it.
func (r *rig) start(decorate ...map[string]any) {
	r.t.Helper()
	raw, err := json.Marshal(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	d := r.driver
	p, err := d.Open(r.t.Context(), sdk.OpenRequest{Name: d.Kind, Config: raw, Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Credentials: map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"},
		Secrets:     r.secrets, Log: slog.New(slog.DiscardHandler), Owner: "rig", LedgerID: r.store.ID(), StateDir: r.t.TempDir()})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range decorate {
		if p, err = sdk.Decorate(p, o); err != nil {
			r.t.Fatal(err)
		}
	}
	r.back = control.Backend{Name: d.Kind, Provider: p, Driver: &d, PollInterval: r.poll}
	r.engine, err = control.New(r.t.Context(), control.Options{Store: r.store, Logs: r.logs, Providers: one{r.back}, StateDir: r.dir, Owner: "rig", Actor: "tester",
		Warn: func(_ sdk.ID, m string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.warns = append(r.warns, m)
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.stop)
}

// stop closes engine and provider; runs that are open stay open.
func (r *rig) stop() {
	if r.engine == nil {
		return
	}
	if err := r.engine.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	if err := r.back.Close(); err != nil {
		r.t.Error(err)
	}
	r.engine = nil
}

type secretsOf map[sdk.SecretRef]string

func (m secretsOf) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, ok := m[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s is not set", ref)
	}
	return sdk.NewSecretValue([]byte(v)), nil
}

type one struct{ b control.Backend }

func (o one) Backend(context.Context, string) (control.Backend, error) { return o.b, nil }

func (o one) BackendFor(context.Context, ledger.Run) (control.Backend, error) { return o.b, nil }

func (o one) Names() []string { return []string{o.b.Name} }

func shell(script string) sdk.JobSpec {
	return sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"sh", "-c", script}}
}

func (r *rig) submit(spec sdk.JobSpec) sdk.ID {
	r.t.Helper()
	s, err := r.engine.Submit(r.t.Context(), control.SubmitRequest{Provider: r.driver.Kind, Spec: spec, Actor: "tester"})
	if err != nil {
		r.t.Fatal(err)
	}
	return s.Run.ID
}

func (r *rig) wait(id sdk.ID, until control.Milestone) ledger.Run {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), soon)
	defer cancel()
	run, err := r.engine.Wait(ctx, id, until)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.t.Fatalf("wait: %v; run %s is %s (%s), phase %s, holder %q: %s; warnings: %q", err, id, run.State, run.Reason, run.Phase, run.Holder, run.Message, r.warns)
	}
	return run
}

// sees waits until the run's row is as wanted.
func (r *rig) sees(id sdk.ID, what string, ok func(run ledger.Run) bool) {
	r.t.Helper()
	testwait.Until(r.t, soon, what, func() bool {
		run, err := r.store.Run(r.t.Context(), id)
		return err == nil && ok(run)
	})
}

func (r *rig) output(id sdk.ID) string {
	r.t.Helper()
	var out []byte
	for it, err := range r.engine.Follow(r.t.Context(), id, control.FollowOptions{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		if it.Entry != nil && it.Entry.Stream != sdk.StreamSystem {
			out = append(out, it.Entry.Data...)
			if it.Entry.LineEnd == sdk.LineEndStripped {
				out = append(out, '\n')
			}
		}
	}
	return string(out)
}

func (r *rig) count(action string) int { return r.cloud.Calls().Count(action) }
