package control_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func (w *world) cancel(e *control.Engine, id sdk.ID) {
	w.t.Helper()
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test", Why: "test"}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) running(id sdk.ID) {
	w.t.Helper()
	w.until("the job runs", func() bool {
		r, err := w.store.Run(w.t.Context(), id)
		return err == nil && r.State == sdk.StateRunning
	})
}

func TestCancelRunning(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("echo", "before", ";", "hang")))
	w.running(id)
	w.cancel(e, id)
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateCancelled, sdk.ReasonCancelled)
	if r.CancelBy != "tester@test" {
		t.Fatalf("cancelled by %q", r.CancelBy)
	}
	// F50: what it said before is there.
	if out, _ := w.output(e, id); out[sdk.StreamStdout] != "before\n" {
		t.Fatalf("output %q", out)
	}
	if len(w.cloud.Jobs()) != 0 {
		t.Fatalf("left behind %v", w.cloud.Jobs())
	}
	w.sound(id)
}

func TestF71CancelFromAnotherProcess(t *testing.T) {
	w := newWorld(t)
	holder, other := w.engine(), w.engine()
	id := w.submit(holder, request(spec("hang")))
	w.running(id)
	w.cancel(other, id)
	w.expect(w.wait(other, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if len(other.Held()) != 0 {
		t.Fatal("the other process took the run of a living holder")
	}
}

func TestCancelOfADeadHoldersRun(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.submit(first, request(spec("hang")))
	w.running(id)
	first.Crash()
	second := w.engine()
	w.cancel(second, id)
	w.expect(w.wait(second, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	w.sound(id)
}

func TestCancelBeforeSend(t *testing.T) {
	w := newWorld(t, withBackend(func(b *control.Backend) { b.MaxInFlight = 1 }))
	e := w.engine()
	hog := w.submit(e, request(spec("hang")))
	w.running(hog)
	id := w.submit(e, request(spec("true")))
	w.cancel(e, id)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if w.cloud.Made(w.attempts(id)[0].ID) != 0 {
		t.Fatal("a cancelled waiting run was launched")
	}
	w.cancel(e, hog)
	w.wait(e, hog, control.MilestoneFinished)
}

func TestCancelInDoubtFindsTheJob(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	w.cloud.Inject(fake.Fault{Op: fake.OpFindJobs, Kind: fake.FaultError, Status: 503, Times: 1})
	id := w.submit(e, request(spec("hang")))
	w.cancel(e, id)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if len(w.cloud.Jobs()) != 0 {
		t.Fatalf("left behind %v", w.cloud.Jobs())
	}
	w.sound(id)
}

// halfMade is a backend on which an interrupted launch leaves an object that is
// no job yet.
type halfMade struct {
	sdk.JobFinder
	mu     sync.Mutex
	hidden int
}

func (f *halfMade) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Launch != nil && f.hidden > 0 {
		f.hidden--
		return sdk.FindJobsResult{Outcome: sdk.FindAbsent}, nil
	}
	return f.JobFinder.FindJobs(ctx, r)
}

func TestCancelOfAHalfMadeLaunchLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.wrap = func(p sdk.Provider) sdk.Provider {
		inner, _ := sdk.Of(p, sdk.Finder())
		d, err := sdk.Decorate(p, map[string]any{sdk.Finder().String(): &halfMade{JobFinder: inner, hidden: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	entered, release := w.cloud.Block(fake.OpFindJobs)
	_ = entered
	id := w.submit(e, request(spec("hang")))
	w.cancel(e, id)
	release()
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if len(w.cloud.Jobs()) != 0 {
		t.Fatalf("left behind %v", w.cloud.Jobs())
	}
	w.sound(id)
}

func TestIgnoredTermIsKilled(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	s := spec("ignore-term", ";", "hang")
	grace := 100 * time.Millisecond
	s.Grace = &grace
	id := w.submit(e, request(s))
	w.running(id)
	w.cancel(e, id)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
}

func TestCancelThatFailsIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("hang")))
	w.running(id)
	w.cloud.Inject(fake.Fault{Op: fake.OpCancelJob, Kind: fake.FaultError, Status: 503, Times: 2})
	w.cancel(e, id)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if !w.warned("the cancel failed") {
		t.Fatal("nobody was told")
	}
}

func TestF73GoneWhileDeleting(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("hang")))
	w.running(id)
	w.cloud.Inject(fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultError, Status: 404, Times: 1})
	w.cancel(e, id)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if n := w.cloud.Calls(fake.OpCleanupJob); n != 1 {
		t.Fatalf("gone was not success: %d calls", n)
	}
	w.sound(id)
}

func TestF73VanishedAfterAnAcceptedCancel(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	s := spec("ignore-term", ";", "hang")
	grace := time.Minute
	s.Grace = &grace
	id := w.submit(e, request(s))
	w.running(id)
	w.cancel(e, id)
	w.until("the cancel was sent", func() bool { return w.cloud.Calls(fake.OpCancelJob) > 0 })
	for _, j := range w.cloud.JobsOf(id) {
		w.cloud.Vanish(j)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	w.sound(id)
}

func TestCancelAfterTheEndChangesNothing(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("exit", "7")))
	w.wait(e, id, control.MilestoneFinished)
	w.cancel(e, id)
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
	w.sound(id)
}

func TestTimeout(t *testing.T) {
	// F42, F83: our clock decides, and a time-out is never a success.
	g := fake.BestGuarantees()
	g.Deadline = sdk.DeadlineGuarantee{}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	s := spec("echo", "begun", ";", "hang")
	s.Timeout = 200 * time.Millisecond
	id := w.submit(e, request(s))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonTimedOut)
	if out, _ := w.output(e, id); out[sdk.StreamStdout] != "begun\n" {
		t.Fatalf("output %q", out)
	}
	w.sound(id)
}

func TestF83DeadlineSurvivesTheHolder(t *testing.T) {
	g := fake.BestGuarantees()
	g.Deadline = sdk.DeadlineGuarantee{}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	first := w.engine()
	s := spec("hang")
	s.Timeout = time.Hour
	id := w.submit(first, request(s))
	w.running(id)
	first.Crash()
	w.clock.step(2 * time.Hour)
	second := w.engine()
	if n, err := second.Recover(w.ctx(), ""); err != nil || n != 1 {
		t.Fatalf("recovered %d, %v", n, err)
	}
	w.expect(w.wait(second, id, control.MilestoneFinished), sdk.StateFailed, sdk.ReasonTimedOut)
	w.sound(id)
}

func TestClockStepDoesNotEndARun(t *testing.T) {
	g := fake.BestGuarantees()
	g.Deadline = sdk.DeadlineGuarantee{}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	id := w.submit(e, request(spec("sleep", "300ms")))
	w.running(id)
	w.clock.step(-10 * time.Minute)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}

func TestClockSetBackKeepsPolling(t *testing.T) {
	// Without a watcher, only polls can tell of the end.
	w := newWorld(t, withSettings(fake.Settings{Capabilities: []string{"JobRunner", "JobFinder", "JobCanceler", "JobCleaner", "JobLogger", "JobBatcher"}}))
	e := w.engine()
	id := w.submit(e, request(spec("sleep", "500ms")))
	w.running(id)
	w.clock.step(-3 * time.Hour)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}

func TestStartTimeout(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Set(fake.Knobs{StartDelay: fake.Duration(time.Hour)})
	s := spec("true")
	s.StartTimeout = 200 * time.Millisecond
	id := w.submit(e, request(s))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateFailed, sdk.ReasonStartTimeout)
	if len(w.cloud.Jobs()) != 0 {
		t.Fatalf("left behind %v", w.cloud.Jobs())
	}
}

// waiting says of jobs that are pending why, and once they are cancelled something else.
type waiting struct {
	sdk.JobBatcher
	cloud *fake.Cloud
	why   sdk.Reason
	words string
}

func (b waiting) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	cancelled := b.cloud.Calls(fake.OpCancelJob) > 0
	res, err := b.JobBatcher.JobStatuses(ctx, r)
	for i := range res.Items {
		if s := &res.Items[i].Result; s.State == sdk.StatePending && cancelled {
			s.Message = "it is being stopped"
		} else if s.State == sdk.StatePending {
			s.Reason, s.Message = b.why, b.words
		}
	}
	return res, err
}

// TestStartTimeoutSaysWhy: the end carries what the backend last said of the wait, also
// where another holder comes to record it.
func TestStartTimeoutSaysWhy(t *testing.T) {
	for _, c := range []struct {
		why         sdk.Reason
		words, want string
	}{
		{sdk.ReasonImagePull, "ImagePullBackOff: no such image", "did not start within 30s: image_pull: ImagePullBackOff: no such image"},
		{"", "pulling the image", "did not start within 30s: pulling the image"},
		{sdk.ReasonUnschedulable, "", "did not start within 30s: unschedulable"},
		{"", "", "did not start within 30s"},
	} {
		for _, takenUp := range []bool{false, true} {
			w := newWorld(t)
			w.wrap = func(p sdk.Provider) sdk.Provider {
				b, _ := sdk.Of(p, sdk.Batcher())
				d, err := sdk.Decorate(p, map[string]any{sdk.Batcher().String(): waiting{b, w.cloud, c.why, c.words}})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			w.cloud.Set(fake.Knobs{StartDelay: fake.Duration(time.Hour)})
			if takenUp {
				w.cloud.Inject(fake.Fault{Op: fake.OpCancelJob, Kind: fake.FaultError, Status: 503, Times: -1})
			}
			e := w.engine()
			s := spec("true")
			s.StartTimeout = 30 * time.Second
			id := w.submit(e, request(s))
			w.row(id, "the wait is on record", func(r ledger.Run) bool {
				return r.Phase == ledger.PhaseSubmitted && r.Reason == c.why && r.Message == c.words
			})
			w.clock.step(31 * time.Second)
			if takenUp {
				w.until("a cancel", func() bool { return w.cloud.Calls(fake.OpCancelJob) > 0 })
				e.Crash()
				w.cloud.Set(fake.Knobs{StartDelay: fake.Duration(time.Hour)})
				e = w.engine()
				if _, err := e.Recover(t.Context(), ""); err != nil {
					t.Fatal(err)
				}
			}
			run := w.wait(e, id, control.MilestoneFinished)
			w.expect(run, sdk.StateFailed, sdk.ReasonStartTimeout)
			if run.Message != c.want {
				t.Errorf("taken up %t: %q, want %q", takenUp, run.Message, c.want)
			}
			if got := control.PendingReason(run); got != c.why {
				t.Errorf("it waited for %q, want %q", got, c.why)
			}
			w.sound(id)
		}
	}
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	w := newWorld(t, withBackend(func(b *control.Backend) { b.MaxInFlight = 2 }))
	e := w.engine()
	var ids []sdk.ID
	for range 6 {
		ids = append(ids, w.submit(e, request(spec("sleep", "60ms"))))
	}
	var sent []time.Time
	for _, id := range ids {
		w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
		sent = append(sent, w.attempts(id)[0].SentAt)
	}
	for i := 1; i < len(sent); i++ {
		if sent[i].Before(sent[i-1]) {
			t.Errorf("run %d was sent before run %d", i, i-1)
		}
	}
}

func TestF74PlaceOfADeadHolderIsFreed(t *testing.T) {
	w := newWorld(t, withBackend(func(b *control.Backend) { b.MaxInFlight = 1 }))
	first := w.engine()
	hog := w.submit(first, request(spec("sleep", "100ms")))
	w.running(hog)
	first.Crash()
	second := w.engine()
	id := w.submit(second, request(spec("true")))
	w.expect(w.wait(second, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	w.expect(w.wait(second, hog, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}

func TestF81StaleHolderIsFenced(t *testing.T) {
	w := newWorld(t)
	stale, fresh := w.engine(), w.engine()
	id := w.submit(stale, request(spec("sleep", "400ms")))
	w.running(id)
	if err := fresh.Take(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(fresh, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	w.until("the stale holder lets go", func() bool { return len(stale.Held()) == 0 })
	r, _ := w.store.Run(t.Context(), id)
	if r.Holder != fresh.HolderID() || r.Fence < 2 {
		t.Fatalf("holder %s, fence %d", r.Holder, r.Fence)
	}
	w.sound(id)
}

func TestF11RecoverAtEveryPhase(t *testing.T) {
	for _, op := range []fake.Op{fake.OpRunJob, fake.OpJobStatuses, fake.OpCleanupJob} {
		t.Run(string(op), func(t *testing.T) {
			w := newWorld(t)
			first := w.engine()
			entered, release := w.cloud.Block(op)
			id := w.submit(first, request(spec("mark", "effect", ";", "echo", "x")))
			<-entered
			first.Crash()
			release()
			second := w.engine()
			if n, err := second.Recover(w.ctx(), ""); err != nil || n != 1 {
				t.Fatalf("recovered %d, %v", n, err)
			}
			w.expect(w.wait(second, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
			if n := w.cloud.Marks("effect"); n != 1 {
				t.Fatalf("the job ran %d times", n)
			}
			if out, v := w.output(second, id); out[sdk.StreamStdout] != "x\n" || v != sdk.VerdictComplete {
				t.Fatalf("output %q %s", out, v)
			}
			if len(w.cloud.Jobs()) != 0 {
				t.Fatalf("left behind %v", w.cloud.Jobs())
			}
			w.sound(id)
		})
	}
}

func TestHandOver(t *testing.T) {
	w := newWorld(t)
	a, b := w.engine(), w.engine()
	id := w.submit(a, request(spec("lines", "20", ";", "sleep", "200ms", ";", "lines", "20")))
	w.running(id)
	if err := a.HandOver(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	r, _ := w.store.Run(t.Context(), id)
	if !r.Holder.IsZero() {
		t.Fatalf("still held by %s", r.Holder)
	}
	if err := b.Take(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(a, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if r, _ := w.store.Run(t.Context(), id); r.Phase != ledger.PhaseCleaned {
		t.Fatalf("phase %s", r.Phase)
	}
	w.sound(id)
}

func TestReap(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultLostReply, Times: 1})
	req := request(spec("true"))
	req.Cleanup = control.CleanupNever
	kept := w.submit(e, req)
	w.wait(e, kept, control.MilestoneFinished)
	orphanRun, orphanAttempt := sdk.NewIDSource(w.clock).NewID(), sdk.NewIDSource(w.clock).NewID()
	if _, err := w.cloud.Forge(w.store.ID(), orphanRun, orphanAttempt); err != nil {
		t.Fatal(err)
	}
	w.clock.step(time.Hour)
	n := 0
	for it, err := range e.Reap(w.ctx(), control.ReapRequest{Actor: "tester@test"}) {
		if err != nil || it.Err != nil {
			t.Fatalf("%v %v", err, it.Err)
		}
		n++
		if it.Orphan != (it.Object.RunID == orphanRun) {
			t.Errorf("%+v", it)
		}
	}
	if n != 2 {
		t.Fatalf("listed %d objects, want 2", n)
	}
}
