package providertest

import (
	"errors"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func cleanupChecks() []Check {
	clean := []string{"JobCleaner"}
	return []Check{
		{Name: "cleanup", Doc: "Clean-up removes all of a job, and may come again.", Needs: clean, run: checkCleanup},
		{Name: "cleanup-running", Doc: "Clean-up refuses a job that runs, and leaves it alone.", Needs: clean, run: checkCleanupRunning},
		{Name: "cleanup-one", Doc: "Clean-up leaves other jobs alone.", Needs: clean, run: checkCleanupOne},
		{Name: "gone-job", Doc: "Of a job that is gone the state is NotFound, and cancel and clean-up succeed.", Needs: clean, run: checkGone},
		{Name: "vanished-job", Doc: "So it is when somebody else removed it.", run: checkVanished},
	}
}

// leftovers lists what a run has on the backend.
func (s *suite) leftovers(t T, l sdk.Launch) []string {
	t.Helper()
	var out []string
	if s.h.Leftovers != nil {
		out = s.h.Leftovers(t, l.RunID)
	}
	if sdk.Has(s.p, sdk.Lister().String()) {
		for _, o := range s.owned(t, l.Owner) {
			if o.RunID == l.RunID && !o.Shared {
				out = append(out, o.Type+" "+o.ID)
			}
		}
	}
	return out
}

func (s *suite) cleanup(t T, h sdk.JobHandle) sdk.CleanupJobResult {
	t.Helper()
	res, err := need(s.p, sdk.Cleaner()).CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
	if err != nil {
		t.Fatalf("clean-up: %v", err)
	}
	return res
}

func checkCleanup(s *suite, t T) {
	spec := s.spec(t, Do(Print("x\n"), Exit(3)))
	spec.Files = []sdk.InputFile{{Path: s.h.FileDir + "/windlass-in-" + s.ids.NewID().Short(), Data: []byte("x")}}
	if len(s.problems(t, spec)) > 0 {
		spec.Files = nil
	}
	j := s.startSpec(t, spec, nil)
	s.ended(t, j.handle)
	if res := s.cleanup(t, j.handle); len(res.Removed) == 0 && !s.g.KeepsEnded {
		t.Errorf("clean-up names nothing that it removed")
	}
	s.eventually(t, "empty list", func() bool { return len(s.leftovers(t, j.launch)) == 0 })
	res := s.cleanup(t, j.handle)
	if len(res.Removed) > 0 {
		t.Errorf("a second clean-up removed %s", strings.Join(res.Removed, ", "))
	}
}

func checkCleanupRunning(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	s.running(t, j.handle)
	_, err := need(s.p, sdk.Cleaner()).CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: j.handle})
	if !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("clean-up of a running job: got %v, want FailedPrecondition", err)
	}
	if st, err := s.ask(t.Context(), j.handle); err != nil || st.State != sdk.StateRunning {
		t.Errorf("after the refused clean-up the job is %s (%v)", st.State, err)
	}
}

func checkCleanupOne(s *suite, t T) {
	a, b := s.start(t, Do(Exit(3))), s.start(t, Do(Exit(4)))
	s.ended(t, a.handle)
	before := s.ended(t, b.handle)
	s.cleanup(t, a.handle)
	after, err := s.ask(t.Context(), b.handle)
	if err != nil || essence(after) != essence(before) {
		t.Errorf("another job changed from %s to %s (%v)", essence(before), essence(after), err)
	}
}

func checkGone(s *suite, t T) {
	j := s.start(t, Do(Exit(3)))
	before := s.ended(t, j.handle)
	s.cleanup(t, j.handle)
	if s.g.KeepsEnded {
		s.kept(t, j.handle, before)
		return
	}
	s.gone(t, j.handle, s.g.Found.Within)
}

// kept checks a job that was cleaned up on a backend that can't remove it: what
// is told of it stays the same, or it is forgotten.
func (s *suite) kept(t T, h sdk.JobHandle, before sdk.JobStatusResult) {
	t.Helper()
	st, err := s.ask(t.Context(), h)
	if !errors.Is(err, sdk.NotFound) && (err != nil || essence(st) != essence(before)) {
		t.Errorf("clean-up changed the job from %s to %s, %v", essence(before), essence(st), err)
	}
	if c, ok := sdk.Of(s.p, sdk.Canceler()); ok {
		res, err := c.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Gone {
			t.Errorf("cancel of a job that was cleaned up: got gone %t, %v", res.Gone, err)
		}
	}
}

func (s *suite) gone(t T, h sdk.JobHandle, within time.Duration) {
	t.Helper()
	// As long as a new object may be hidden, nothing says that it isn't.
	deadline := time.Now().Add(within + s.h.Eventually)
	for {
		st, err := s.ask(t.Context(), h)
		if errors.Is(err, sdk.NotFound) {
			break
		}
		if err != nil || st.State != sdk.StatePending || within == 0 || time.Now().After(deadline) {
			t.Errorf("state of a job that is gone: got %s, %v; want NotFound", st.State, err)
			break
		}
		s.pause(t)
	}
	if c, ok := sdk.Of(s.p, sdk.Canceler()); ok {
		res, err := c.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Gone {
			t.Errorf("cancel of a job that is gone: got gone %t, %v", res.Gone, err)
		}
	}
	if c, ok := sdk.Of(s.p, sdk.Cleaner()); ok {
		if _, err := c.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			t.Errorf("clean-up of a job that is gone: %v", err)
		}
	}
}

func checkVanished(s *suite, t T) {
	if s.h.Faults.Vanish == nil {
		t.Skipf("the harness can't make jobs vanish")
	}
	j := s.start(t, Do(Hang()))
	s.running(t, j.handle)
	s.h.Faults.Vanish(t, j.handle)
	s.gone(t, j.handle, s.g.Found.Within)
}
