package providertest

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func cancelChecks() []Check {
	need := []string{"JobCanceler"}
	return []Check{
		{Name: "cancel-running", Doc: "A cancel ends a running job, and is proven where that is guaranteed.", Needs: need, run: checkCancelRunning},
		{Name: "cancel-early", Doc: "A cancel right behind the launch ends the job, started or not.", Needs: need, run: checkCancelEarly},
		{Name: "cancel-ignoring-term", Doc: "A job that ignores TERM is killed when the grace has passed, and not before.", Needs: need, run: checkCancelIgnoring},
		{Name: "cancel-grace", Doc: "A job gets TERM and the whole grace.", Needs: need, run: checkCancelGrace},
		{Name: "cancel-at-once", Doc: "A grace of zero kills at once, also behind a longer one.", Needs: need, run: checkCancelAtOnce},
		{Name: "cancel-tree", Doc: "A cancel reaches grandchildren in sessions of their own.", Needs: need, run: checkCancelTree},
		{Name: "cancel-twice", Doc: "Cancels may come twice and at once.", Needs: need, run: checkCancelTwice},
		{Name: "cancel-ended", Doc: "Cancelling an ended job succeeds and changes nothing.", Needs: need, run: checkCancelEnded},
		{Name: "cancel-one", Doc: "A cancel ends no other job.", Needs: need, run: checkCancelOne},
	}
}

// cancelled waits for a cancel's proof.
func (s *suite) cancelled(t T, h sdk.JobHandle) sdk.JobStatusResult {
	t.Helper()
	if !s.g.CancelReadBack {
		return sdk.JobStatusResult{}
	}
	st := s.ended(t, h)
	if st.State != sdk.StateCancelled || st.Reason != sdk.ReasonCancelled {
		t.Errorf("after the cancel: %s; want cancelled", essence(st))
	}
	if res := s.cancel(t, h, nil); !res.Gone {
		t.Errorf("the job is %s, and a cancel doesn't say that it is gone", st.State)
	}
	return st
}

func checkCancelRunning(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	s.running(t, j.handle)
	if res := s.cancel(t, j.handle, nil); !res.Accepted {
		t.Errorf("the cancel of a running job was not accepted: %s", res.Evidence)
	}
	s.cancelled(t, j.handle)
}

func checkCancelEarly(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	s.cancel(t, j.handle, nil)
	s.cancelled(t, j.handle)
}

// graced skips where no grace, or not this one, can be set.
func (s *suite) graced(t T, d time.Duration) *time.Duration {
	t.Helper()
	if g := s.g.Grace; !g.Supported || d < g.Min || d > g.Max {
		t.Skipf("a grace of %s is not supported", d)
	}
	return &d
}

func checkCancelIgnoring(s *suite, t T) {
	grace := s.graced(t, max(s.h.Second, s.g.Grace.Min))
	j := s.startGraced(t, Do(Step{Do: ActIgnoreTerm}, Print("up\n"), Hang()), grace)
	s.up(t, j.handle)
	before := time.Now()
	if res := s.cancel(t, j.handle, grace); res.Gone {
		t.Errorf("a job that ignores TERM is gone at once")
	}
	s.cancelled(t, j.handle)
	if took := time.Since(before); s.g.CancelReadBack && took < *grace {
		t.Errorf("killed after %s, the grace is %s", took, *grace)
	}
}

// startGraced runs a job whose launch has the grace, where only a launch can
// have one.
func (s *suite) startGraced(t T, b Behaviour, grace *time.Duration) job {
	t.Helper()
	spec := s.spec(t, b)
	if s.g.Grace.AtLaunch {
		spec.Grace = grace
	}
	return s.startSpec(t, spec, nil)
}

// up waits until the job has written something, so that its handlers stand.
func (s *suite) up(t T, h sdk.JobHandle) {
	t.Helper()
	s.running(t, h)
	if !s.g.Logs.Live || !sdk.Has(s.p, sdk.Logger().String()) {
		_ = sdk.SystemClock().Sleep(t.Context(), s.h.Second)
		return
	}
	s.eventually(t, "first output", func() bool {
		o := s.readLog(t.Context(), s.p, h, nil, false)
		if o.err != nil {
			t.Fatalf("logs: %v", o.err)
		}
		return o.entries > 0
	})
}

func checkCancelGrace(s *suite, t T) {
	// Much longer than the job needs: a busy backend takes a while to tell of its end.
	grace := s.graced(t, max(10*s.h.Second, min(60*s.h.Second, s.g.Grace.Max)))
	bye := Step{Do: ActOnTerm, Data: []byte("bye\n"), For: s.h.Second / 2, N: 5}
	j := s.startGraced(t, Do(bye, Print("up\n"), Hang()), grace)
	s.up(t, j.handle)
	before := time.Now()
	s.cancel(t, j.handle, grace)
	if !s.g.CancelReadBack {
		return
	}
	st := s.cancelled(t, j.handle)
	if took := time.Since(before); took >= *grace || took < s.h.Second/2 {
		t.Errorf("the job ended after %s; it needs %s of the grace of %s", took, s.h.Second/2, *grace)
	}
	if st.ExitCode != nil && *st.ExitCode != 5 {
		t.Errorf("the job exited with 5, the code reported is %d", *st.ExitCode)
	}
	if sdk.Has(s.p, sdk.Logger().String()) {
		if out := s.shown(t, j.handle); !strings.Contains(out, "bye\n") {
			t.Errorf("no TERM reached the job: it showed %q", out)
		}
	}
}

func checkCancelAtOnce(s *suite, t T) {
	if s.g.Grace.AtLaunch {
		t.Skipf("a cancel can't change the grace")
	}
	long, zero := s.graced(t, 1000*s.h.Second), s.graced(t, 0)
	for _, graces := range [][]*time.Duration{{zero}, {long, zero}} {
		j := s.start(t, Do(Step{Do: ActIgnoreTerm}, Print("up\n"), Hang()))
		s.up(t, j.handle)
		for _, g := range graces {
			s.cancel(t, j.handle, g)
		}
		before := time.Now()
		s.cancelled(t, j.handle)
		if took := time.Since(before); took > 5*s.h.Second {
			t.Errorf("the job ended %s after it was to be killed at once", took)
		}
	}
}

// checkCancelTree has a grandchild leave a mark a while after its birth. Only a mark
// behind the cancel's proof tells that it lived on. One that is there by then says
// that the cancel took longer than the grandchild waited, and the next waits longer.
func checkCancelTree(s *suite, t T) {
	var grace *time.Duration
	if s.g.Grace.Supported {
		d := min(max(s.h.Second/2, s.g.Grace.Min), s.g.Grace.Max)
		grace = &d
	}
	for wait := 4 * s.h.Second; wait <= 256*s.h.Second; wait *= 4 {
		key := s.ids.NewID().String()
		j := s.startGraced(t, Do(Step{Do: ActGrandchild, Name: key, For: wait}, Print("up\n"), Hang()), grace)
		s.up(t, j.handle)
		born := time.Now() // or sooner
		s.cancel(t, j.handle, grace)
		s.cancelled(t, j.handle)
		if s.h.Marks(t, key) > 0 {
			continue
		}
		if err := sdk.SystemClock().Sleep(t.Context(), time.Until(born.Add(wait+s.h.Second))); err != nil {
			t.Fatalf("the test ended: %v", err)
		}
		if s.h.Marks(t, key) == 0 {
			return
		}
		if s.g.CancelReadBack {
			t.Fatalf("the grandchild outlived the cancel")
		}
	}
	t.Errorf("the grandchild has left its mark, however long it waited for the cancel")
}

func checkCancelTwice(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	s.running(t, j.handle)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = need(s.p, sdk.Canceler()).CancelJob(t.Context(), sdk.CancelJobRequest{Handle: j.handle})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("cancels at once: %v", err)
	}
	s.cancelled(t, j.handle)
}

func checkCancelEnded(s *suite, t T) {
	j := s.start(t, Do(Exit(3)))
	before := s.ended(t, j.handle)
	res := s.cancel(t, j.handle, nil)
	if s.g.CancelReadBack && !res.Gone {
		t.Errorf("the cancel of an ended job doesn't say that it is gone")
	}
	if after := s.status(t, j.handle); essence(after) != essence(before) {
		t.Errorf("a cancel changed an ended job from %s to %s", essence(before), essence(after))
	}
}

func checkCancelOne(s *suite, t T) {
	a, b := s.start(t, Do(Hang())), s.start(t, Do(Hang()))
	s.running(t, b.handle)
	s.cancel(t, a.handle, nil)
	s.cancelled(t, a.handle)
	if st := s.status(t, b.handle); st.State != sdk.StateRunning {
		t.Errorf("another job is %s: %s", st.State, st.Reason)
	}
}
