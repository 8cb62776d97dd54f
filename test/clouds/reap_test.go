package clouds

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/price"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// yard is a pocket cloud on which much may be left behind.
type yard struct {
	driver      sdk.Driver
	config      map[string]any
	credentials map[string]string
	faults      *fault.Plan
	// deletes is the pattern of the calls that a clean-up makes, refusal what the
	// cloud answers when it has had enough of them.
	deletes string
	refusal *fault.Refusal
	// live is the type of what runs.
	live string
}

func awsYard(t *testing.T, executor run.Executor) (*pocket.Server, map[string]any) {
	t.Helper()
	cloud, err := pocket.New(pocket.Options{Executor: executor})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	return cloud, map[string]any{"region": pocket.Region, "endpoint": web.URL, "execution_role": "arn:aws:iam::" + pocket.Account + ":role/execution",
		"log_quiet": "200ms", "log_max": "5s", "missing_grace": "3s", "describe_rate": 10000, "log_rate": 10000}
}

var awsKeys = map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"}

// yards are the kinds that leave something in a cloud.
var yards = map[string]func(t *testing.T, executor run.Executor) yard{
	ecs.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud, config := awsYard(t, executor)
		config["subnets"] = []string{"subnet-0123456789abcdef0"}
		return yard{driver: ecs.Driver(), config: config, credentials: awsKeys, faults: cloud.Faults(), deletes: "ecs:Deregister*", refusal: pocket.Throttle(), live: "task"}
	},
	batch.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud, config := awsYard(t, executor)
		config["queue"] = pocketbatch.DefaultQueue
		return yard{driver: batch.Driver(), config: config, credentials: awsKeys, faults: cloud.Faults(), deletes: "batch:Deregister*", refusal: pocket.Throttle(), live: "job"}
	},
	cloudrun.Kind: func(t *testing.T, executor run.Executor) yard {
		cloud, err := pocketgcp.New(pocketgcp.Options{Executor: executor})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cloud.Close(); err != nil {
				t.Error(err)
			}
		})
		address, err := cloud.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
		return yard{driver: cloudrun.Driver(), faults: cloud.Faults(), deletes: "run:DeleteJob", refusal: pocketgcp.Unavailable(), live: "job",
			credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "pocket"},
			config: map[string]any{"project": pocketgcp.Project, "region": pocketgcp.Location, "endpoint": "http://" + address,
				"log_late": "50ms", "log_quiet": "200ms", "log_max": "3s", "visible_within": "2s", "read_rate": 1000000, "write_rate": 1000000, "log_rate": 1000000}}
	},
}

// site is a state folder whose engines work in a yard.
type site struct {
	t     *testing.T
	yard  yard
	dir   string
	store *sqlite.Store
	logs  *joblog.Store
}

func newSite(t *testing.T, y yard) *site {
	t.Helper()
	s := &site{t: t, yard: y, dir: t.TempDir()}
	var err error
	if s.store, err = sqlite.Open(t.Context(), s.dir, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.logs, err = joblog.Open(filepath.Join(s.dir, "logs"), joblog.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens a provider and an engine over it, as a process does, and returns
// what closes both.
func (s *site) open() (*control.Engine, sdk.Provider, func()) {
	s.t.Helper()
	raw, err := json.Marshal(s.yard.config)
	if err != nil {
		s.t.Fatal(err)
	}
	d := s.yard.driver
	p, err := d.Open(s.t.Context(), sdk.OpenRequest{Name: d.Kind, Config: raw, Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Credentials: s.yard.credentials, Log: slog.New(slog.DiscardHandler), Owner: "rig", LedgerID: s.store.ID(), StateDir: s.t.TempDir()})
	if err != nil {
		s.t.Fatal(err)
	}
	back := control.Backend{Name: d.Kind, Provider: p, Driver: &d, PollInterval: 100 * time.Millisecond}
	e, err := control.New(s.t.Context(), control.Options{Store: s.store, Logs: s.logs, Providers: one{back}, StateDir: s.dir, Owner: "rig", Actor: "tester"})
	if err != nil {
		s.t.Fatal(err)
	}
	shut := sync.OnceFunc(func() {
		if err := e.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
		if err := p.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(shut)
	return e, p, shut
}

func (s *site) submit(e *control.Engine, spec sdk.JobSpec) sdk.ID {
	s.t.Helper()
	got, err := e.Submit(s.t.Context(), control.SubmitRequest{Provider: s.yard.driver.Kind, Spec: spec, Actor: "tester"})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.Run.ID
}

func (s *site) reap(e *control.Engine, dry bool) (items []control.ReapItem) {
	s.t.Helper()
	for it, err := range e.Reap(s.t.Context(), control.ReapRequest{DryRun: dry, Actor: "tester"}) {
		if err != nil || it.Err != nil {
			s.t.Fatalf("reap: %v, %v of %+v", err, it.Err, it.Object)
		}
		items = append(items, it)
	}
	return items
}

func (s *site) listed(p sdk.Provider) (out []sdk.OwnedObject) {
	s.t.Helper()
	l, ok := sdk.Of(p, sdk.Lister())
	if !ok {
		s.t.Fatal("it lists nothing")
	}
	for o, err := range l.ListOwned(s.t.Context(), sdk.ListOwnedRequest{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// TestF16NothingAfterReap: 200 runs, each with things of its own, whose deletes all
// fail, leave nothing after one reap, whether their holder has died or still tries.
func TestF16NothingAfterReap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds: left out by -short")
	}
	for kind, build := range yards {
		for name, alive := range map[string]bool{"the holder died": false, "the holder still tries": true} {
			t.Run(kind+"/"+name, func(t *testing.T) { nothingAfterReap(t, build, alive) })
		}
	}
}

func nothingAfterReap(t *testing.T, build func(*testing.T, run.Executor) yard, alive bool) {
	const runs = 200
	y := build(t, run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("done\n")} }))
	s := newSite(t, y)
	y.faults.Add(fault.Rule{Action: y.deletes, Effect: fault.Effect{Refuse: y.refusal}})
	first, _, shut := s.open()
	ids := submitAll(s, first, runs)
	for _, id := range ids {
		testwait.Until(t, soon, "failed clean-up", func() bool {
			a, err := s.store.Attempts(t.Context(), id)
			return err == nil && len(a) == 1 && a[0].CleanupErr != ""
		})
	}
	if !alive {
		shut()
	}
	e, p, _ := s.open()
	if n := len(s.listed(p)); n < runs {
		t.Fatalf("%d objects are there before the reap", n)
	}
	y.faults.Clear()
	s.reap(e, false)
	if left := s.listed(p); len(left) > 0 {
		t.Errorf("%d objects are left, such as %+v", len(left), left[0])
	}
	if alive {
		shut() // rather than wait for its next try, which may be a minute away
		if _, err := e.Recover(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		got, err := e.Wait(t.Context(), id, control.MilestoneFinished)
		if err != nil || got.State != sdk.StateSucceeded || got.Phase != ledger.PhaseCleaned {
			t.Fatalf("%s, phase %s, %v", got.State, got.Phase, err)
		}
	}
	if rep, err := s.store.Verify(t.Context(), nil); err != nil || len(rep.Faults) > 0 {
		t.Errorf("ledger: %+v, %v", rep.Faults, err)
	}
}

func submitAll(s *site, e *control.Engine, runs int) []sdk.ID {
	ids := make([]sdk.ID, runs)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			got, err := e.Submit(s.t.Context(), control.SubmitRequest{Provider: s.yard.driver.Kind, Actor: "tester",
				Spec: sdk.JobSpec{Image: fmt.Sprintf("app:%d", i), Args: sdk.Argv{"true"}}})
			if err != nil {
				s.t.Error(err)
				return
			}
			ids[i] = got.Run.ID
		})
	}
	wg.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	return ids
}

// TestReapTellsCost: what runs is listed with why it stays and about what it
// costs; once its run is given up it would go, and goes, with what it used.
func TestReapTellsCost(t *testing.T) {
	for kind, build := range yards {
		t.Run(kind, func(t *testing.T) {
			y := build(t, run.NewScripted(func(run.Spec) run.Play { return run.Play{For: time.Hour} }))
			s := newSite(t, y)
			e, p, shut := s.open()
			id := s.submit(e, sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"true"}, CPU: 1000, Memory: 2 << 30})
			testwait.Until(t, soon, "running job", func() bool {
				r, err := s.store.Run(t.Context(), id)
				return err == nil && r.State == sdk.StateRunning
			})
			live := 0
			for _, it := range s.reap(e, true) {
				if it.Orphan || it.Why == "" || it.Object.Owner != "rig" || it.Object.LedgerID != s.store.ID() {
					t.Errorf("%+v", it)
				}
				cost, ok := price.Of(it.Kind, it.Object, it.At)
				if !ok {
					t.Errorf("no price of %+v", it.Object)
				}
				if it.Object.Type == y.live {
					if live++; cost.Hourly < 0.04 || cost.Hourly > 0.1 || cost.Total == nil || *cost.Total <= 0 || it.Object.Size.CPU != 1000 || it.Object.Size.Memory != 2<<30 {
						t.Errorf("costs %s: %+v", cost, it.Object)
					}
				} else if cost.Hourly != 0 {
					t.Errorf("costs %s: %+v", cost, it.Object)
				}
			}
			if live != 1 {
				t.Errorf("%d of them run", live)
			}
			shut()
			// Another ledger of the same owner sees it, and leaves it alone.
			other := newSite(t, y)
			oe, _, _ := other.open()
			for _, it := range other.reap(oe, false) {
				if it.Orphan || it.Removed {
					t.Errorf("another ledger's: %+v", it)
				}
			}
			e, p, _ = s.open()
			if err := e.Cancel(t.Context(), control.CancelRequest{Run: id, Actor: "tester"}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Wait(t.Context(), id, control.MilestoneFinished); err != nil {
				t.Fatal(err)
			}
			s.reap(e, false)
			if left := s.listed(p); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}
