package control_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// reap returns what a reap found, by object.
func (w *world) reap(e *control.Engine, req control.ReapRequest) map[string]control.ReapItem {
	w.t.Helper()
	req.Actor = "tester@test"
	out := map[string]control.ReapItem{}
	for it, err := range e.Reap(w.ctx(), req) {
		if err != nil {
			w.t.Fatal(err)
		}
		out[it.Object.ID] = it
	}
	return out
}

// TestF16ReapAfterFailedCleanup: 200 runs whose clean-up fails leave nothing after
// one reap, whether their holder died or still tries.
func TestF16ReapAfterFailedCleanup(t *testing.T) {
	const runs = 200
	for name, alive := range map[string]bool{"the holder died": false, "the holder still tries": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cloud.Inject(fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultError, Status: 503, Times: -1})
			first := w.engine()
			ids := make([]sdk.ID, runs)
			for i := range ids {
				ids[i] = w.submit(first, request(spec("true")))
			}
			for _, id := range ids {
				w.until("the clean-up has failed", func() bool {
					a := w.attempts(id)
					return len(a) == 1 && a[0].CleanupErr != ""
				})
			}
			if !alive {
				first.Crash()
				w.cloud.Set(w.cloud.Knobs())
			}
			e := w.engine()
			listed := w.reap(e, control.ReapRequest{DryRun: true})
			if len(listed) != runs {
				t.Fatalf("%d objects listed", len(listed))
			}
			for _, it := range listed {
				if !it.Orphan || !strings.Contains(it.Why, "its clean-up failed: ") || it.Removed || it.Kind != "fake" {
					t.Errorf("%+v", it)
				}
			}
			for _, it := range w.reap(e, control.ReapRequest{}) {
				if it.Err != nil {
					t.Error(it.Err)
				}
			}
			if left := w.reap(e, control.ReapRequest{DryRun: true}); len(left) != 0 {
				t.Errorf("%d objects are left", len(left))
			}
			w.cloud.Set(w.cloud.Knobs())
			if alive {
				e = first
			}
			for _, id := range ids {
				w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
			}
			w.sound(ids[0])
		})
	}
}

// lister is a backend of objects alone.
type lister struct {
	mu      sync.Mutex
	objects []sdk.OwnedObject
	// using frees shared objects with the removal of these.
	using  string
	fails  map[string]error
	broken error
}

func (l *lister) ListOwned(context.Context, sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		l.mu.Lock()
		objects := slices.Clone(l.objects)
		l.mu.Unlock()
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
		if l.broken != nil {
			yield(sdk.OwnedObject{}, l.broken)
		}
	}
}

func (l *lister) RemoveOwned(_ context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := l.fails[r.Object.ID]; err != nil {
		return sdk.RemoveOwnedResult{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects = slices.DeleteFunc(l.objects, func(o sdk.OwnedObject) bool { return o.ID == r.Object.ID })
	if r.Object.ID == l.using {
		for i := range l.objects {
			l.objects[i].Live = l.objects[i].Live && !l.objects[i].Shared
		}
	}
	return sdk.RemoveOwnedResult{}, nil
}

func (w *world) listing(l *lister) {
	w.wrap = func(p sdk.Provider) sdk.Provider {
		out, err := sdk.Decorate(p, map[string]any{sdk.Lister().String(): l})
		if err != nil {
			w.t.Fatal(err)
		}
		return out
	}
}

// TestReapJudges: the ledger decides about its own objects; those of others go
// only when expired by a margin, ended, and of the owner that was named.
func TestReapJudges(t *testing.T) {
	w := newWorld(t)
	l := &lister{}
	w.listing(l)
	e := w.engine()
	ids := sdk.NewIDSource(w.clock)
	mine, now := w.store.ID(), w.clock.Now()
	done := w.submit(e, request(spec("true")))
	w.wait(e, done, control.MilestoneFinished)
	running := w.submit(e, request(spec("hang")))
	w.running(running)
	keep := request(spec("true"))
	keep.Cleanup = control.CleanupNever
	kept := w.submit(e, keep)
	w.wait(e, kept, control.MilestoneFinished)
	attempt := func(run sdk.ID) sdk.ID { return w.attempts(run)[0].ID }
	cases := []struct {
		name   string
		o      sdk.OwnedObject
		owner  string
		orphan bool
		why    string
	}{
		{"cleaned, and there again", sdk.OwnedObject{LedgerID: mine, RunID: done, AttemptID: attempt(done)}, "", true, "ended succeeded and was cleaned up"},
		{"of a run that runs", sdk.OwnedObject{LedgerID: mine, RunID: running, AttemptID: attempt(running), Live: true}, "", false, "its run is running"},
		{"expired, of a run that runs", sdk.OwnedObject{LedgerID: mine, RunID: running, AttemptID: attempt(running), Expires: now.Add(-24 * time.Hour)}, "x", false, "its run is running"},
		{"kept", sdk.OwnedObject{LedgerID: mine, RunID: kept, AttemptID: attempt(kept)}, "", false, "windlass rm"},
		{"without a row", sdk.OwnedObject{LedgerID: mine, RunID: ids.NewID(), CreatedAt: now.Add(-time.Hour), Live: true}, "", true, "no row"},
		{"without a row, and young", sdk.OwnedObject{LedgerID: mine, RunID: ids.NewID(), CreatedAt: now}, "", false, "too young"},
		{"a definition in use", sdk.OwnedObject{LedgerID: mine, Shared: true, Live: true}, "", false, "in use"},
		{"a definition", sdk.OwnedObject{LedgerID: mine, Shared: true}, "", true, "nothing uses it"},
		{"another's, in use", sdk.OwnedObject{LedgerID: "other", Owner: "x", Live: true, Expires: now.Add(-24 * time.Hour)}, "x", false, "in use"},
		{"another's without expiry", sdk.OwnedObject{LedgerID: "other", Owner: "x"}, "x", false, "no expiry"},
		{"another's, just expired", sdk.OwnedObject{LedgerID: "other", Owner: "x", Expires: now.Add(-59 * time.Minute)}, "x", false, "has not expired"},
		{"another's, expired", sdk.OwnedObject{LedgerID: "other", Owner: "x", Expires: now.Add(-61 * time.Minute)}, "", false, "--owner x removes it"},
		{"another's, another owner named", sdk.OwnedObject{LedgerID: "other", Owner: "x", Expires: now.Add(-61 * time.Minute)}, "y", false, "--owner x removes it"},
		{"another's, its owner named", sdk.OwnedObject{LedgerID: "other", Owner: "x", Expires: now.Add(-61 * time.Minute)}, "x", true, "ended and expired"},
		{"without a ledger", sdk.OwnedObject{Owner: "x", RunID: done, AttemptID: attempt(done)}, "x", false, "no expiry"},
	}
	for _, c := range cases {
		c.o.Type, c.o.ID = "thing", c.name
		l.objects = []sdk.OwnedObject{c.o}
		for _, dry := range []bool{true, false} {
			it := w.reap(e, control.ReapRequest{DryRun: dry, Owner: c.owner})[c.name]
			if it.Orphan != c.orphan || !strings.Contains(it.Why, c.why) || it.Removed != (c.orphan && !dry) || it.Err != nil {
				t.Errorf("%s: %+v", c.name, it)
			}
			if left := len(l.objects); (left == 0) != it.Removed {
				t.Errorf("%s: %d left after dry %t", c.name, left, dry)
			}
		}
	}
	w.cancel(e, running)
}

// TestReapIsAudited: a reap that removes has one row, with what it removed, what
// failed, and who asked; one that removes nothing has none. What fails doesn't
// keep the rest.
func TestReapIsAudited(t *testing.T) {
	w := newWorld(t)
	l := &lister{fails: map[string]error{"b": sdk.Errorf(sdk.PermissionDenied, "remove", "not allowed")}, broken: sdk.Errorf(sdk.Unavailable, "list", "cut off")}
	w.listing(l)
	e := w.engine()
	old := w.clock.Now().Add(-time.Hour)
	for _, id := range []string{"a", "b", "c"} {
		l.objects = append(l.objects, sdk.OwnedObject{Type: "thing", ID: id, LedgerID: w.store.ID(), RunID: sdk.NewIDSource(w.clock).NewID(), CreatedAt: old})
	}
	rows := func() (out []ledger.Run) {
		for run, err := range w.store.Runs(t.Context(), ledger.RunFilter{Action: "reap"}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, run)
		}
		return out
	}
	if got := w.reap(e, control.ReapRequest{DryRun: true}); len(got) != 4 || len(rows()) != 0 {
		t.Errorf("%d items, %d rows", len(got), len(rows()))
	}
	got := w.reap(e, control.ReapRequest{})
	if !got["a"].Removed || got["b"].Removed || sdk.CodeOf(got["b"].Err) != sdk.PermissionDenied || !got["c"].Removed || sdk.CodeOf(got[""].Err) != sdk.Unavailable {
		t.Errorf("%+v", got)
	}
	all := rows()
	if len(all) != 1 || all[0].Actor != "tester@test" || all[0].State != sdk.StateFailed || all[0].Open() {
		t.Fatalf("%+v", all)
	}
	removed := 0
	for ev, err := range w.store.Events(t.Context(), ledger.EventFilter{Run: all[0].ID, Kinds: []ledger.Kind{ledger.KindRemoved}}) {
		if err != nil {
			t.Fatal(err)
		}
		removed++
		if !strings.Contains(string(ev.Change), "thing") {
			t.Errorf("%+v", ev)
		}
	}
	if removed != 2 {
		t.Errorf("%d removals on record", removed)
	}
}

// TestReapNamesAnObjectOnce: providers of one identity list the same objects, each of
// which is told of once, with all of their names, and removed once. A name that is
// given twice is one.
func TestReapNamesAnObjectOnce(t *testing.T) {
	w := newWorld(t)
	w.also = []string{"again", "third"}
	l := &lister{}
	w.listing(l)
	e := w.engine()
	old := w.clock.Now().Add(-time.Hour)
	for _, id := range []string{"a", "b"} {
		l.objects = append(l.objects, sdk.OwnedObject{Type: "thing", ID: id, LedgerID: w.store.ID(), RunID: sdk.NewIDSource(w.clock).NewID(), CreatedAt: old})
	}
	l.objects = append(l.objects, sdk.OwnedObject{Type: "other", ID: "a", LedgerID: "other", Live: true})
	for _, c := range []struct {
		names, also []string
		by          string
		dry         bool
	}{
		{nil, []string{"again", "third"}, "fake", true},
		{[]string{"third", "fake", "third"}, []string{"fake"}, "third", true},
		{[]string{"again"}, nil, "again", true},
		{nil, []string{"again", "third"}, "fake", false},
	} {
		var told []string
		for it, err := range e.Reap(w.ctx(), control.ReapRequest{Providers: c.names, DryRun: c.dry, Actor: "tester@test"}) {
			if err != nil || it.Err != nil || it.Provider != c.by || !slices.Equal(it.Also, c.also) || it.Removed != (!c.dry && it.Orphan) {
				t.Errorf("%v: %+v, %v", c.names, it, err)
			}
			told = append(told, it.Object.Type+" "+it.Object.ID)
		}
		if !slices.Equal(told, []string{"thing a", "thing b", "other a"}) {
			t.Errorf("%v: %v", c.names, told)
		}
	}
	l.broken = sdk.Errorf(sdk.Unavailable, "list", "cut off")
	var failed []string
	for it, err := range e.Reap(w.ctx(), control.ReapRequest{DryRun: true, Actor: "tester@test"}) {
		if err != nil {
			t.Error(err)
		} else if it.Err != nil {
			failed = append(failed, it.Provider)
		}
	}
	if !slices.Equal(failed, []string{"fake", "again", "third"}) {
		t.Errorf("failed: %v", failed)
	}
}

// TestReapFreesDefinitions: a definition that only a removed job used goes in the
// same reap.
func TestReapFreesDefinitions(t *testing.T) {
	w := newWorld(t)
	l := &lister{using: "job"}
	w.listing(l)
	e := w.engine()
	l.objects = []sdk.OwnedObject{
		{Type: "definition", ID: "def", LedgerID: w.store.ID(), Shared: true, Live: true},
		{Type: "job", ID: "job", LedgerID: w.store.ID(), RunID: sdk.NewIDSource(w.clock).NewID(), CreatedAt: w.clock.Now().Add(-time.Hour), Live: true}}
	if got := w.reap(e, control.ReapRequest{}); !got["job"].Removed || !got["def"].Removed || len(l.objects) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestReapLeavesDefinitionsOfLaunches: a run between its intent and its handle
// may need a definition that nothing uses yet.
func TestReapLeavesDefinitionsOfLaunches(t *testing.T) {
	w := newWorld(t)
	l := &lister{objects: []sdk.OwnedObject{{Type: "definition", ID: "def", LedgerID: w.store.ID(), Shared: true}}}
	w.listing(l)
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: -1})
	e := w.engine()
	id := w.submit(e, request(spec("true")))
	if got := w.reap(e, control.ReapRequest{}); got["def"].Removed || !strings.Contains(got["def"].Why, "being sent") {
		t.Errorf("%+v", got)
	}
	w.cloud.Set(w.cloud.Knobs())
	w.wait(e, id, control.MilestoneFinished)
	if got := w.reap(e, control.ReapRequest{}); !got["def"].Removed {
		t.Errorf("%+v", got)
	}
}

// TestReapDrainsFirst: what an ended run left is removed only once its output is
// safe.
func TestReapDrainsFirst(t *testing.T) {
	w := newWorld(t)
	w.cloud.Inject(fake.Fault{Op: fake.OpJobLogs, Kind: fake.FaultReset, Times: -1})
	first := w.engine()
	id := w.submit(first, request(spec("echo", "last words")))
	w.until("the run has ended", func() bool {
		r, err := w.store.Run(t.Context(), id)
		return err == nil && r.Phase == ledger.PhaseEnded
	})
	first.Crash()
	e := w.engine()
	for _, it := range w.reap(e, control.ReapRequest{DryRun: true}) {
		if it.Orphan || !strings.Contains(it.Why, "its run is succeeded, and nobody looks after it") {
			t.Errorf("%+v", it)
		}
	}
	w.cloud.Set(w.cloud.Knobs())
	w.reap(e, control.ReapRequest{})
	w.wait(e, id, control.MilestoneFinished)
	if out, _ := w.output(e, id); out[sdk.StreamStdout] != "last words\n" {
		t.Errorf("output %q", out)
	}
	w.sound(id)
}

// TestCleanupFailsOnRecordOnce: a clean-up that fails the same way again and again
// is one event, however often it is tried.
func TestCleanupFailsOnRecordOnce(t *testing.T) {
	w := newWorld(t)
	w.clock.most = time.Millisecond
	w.cloud.Inject(fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultError, Status: 503, Times: -1})
	e := w.engine()
	id := w.submit(e, request(spec("true")))
	w.until("tries", func() bool { return w.cloud.Calls(fake.OpCleanupJob) > 5 })
	w.cloud.Set(w.cloud.Knobs())
	w.wait(e, id, control.MilestoneFinished)
	n := 0
	for _, err := range w.store.Events(t.Context(), ledger.EventFilter{Run: id, Kinds: []ledger.Kind{ledger.KindCleanupErr}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}
