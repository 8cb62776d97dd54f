package providertest

import (
	"errors"
	"fmt"
	"slices"
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
	grace := s.graced(t, s.h.Second)
	j := s.start(t, Do(Step{Do: ActIgnoreTerm}, Print("up\n"), Hang()))
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
	grace := s.graced(t, 10*s.h.Second)
	bye := Step{Do: ActOnTerm, Data: []byte("bye\n"), For: s.h.Second / 2, N: 5}
	j := s.start(t, Do(bye, Print("up\n"), Hang()))
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

func checkCancelTree(s *suite, t T) {
	key, late := s.ids.NewID().String(), 4*s.h.Second
	j := s.start(t, Do(Step{Do: ActGrandchild, Name: key, For: late}, Print("up\n"), Hang()))
	s.up(t, j.handle)
	born := time.Now()
	var grace *time.Duration
	if s.g.Grace.Supported {
		d := min(max(s.h.Second/2, s.g.Grace.Min), s.g.Grace.Max)
		grace = &d
	}
	s.cancel(t, j.handle, grace)
	s.cancelled(t, j.handle)
	if time.Since(born) > late {
		t.Skipf("the cancel took longer than the grandchild waits")
	}
	if err := sdk.SystemClock().Sleep(t.Context(), time.Until(born.Add(late+s.h.Second))); err != nil {
		t.Fatalf("the test ended: %v", err)
	}
	if n := s.h.Marks(t, key); n != 0 {
		t.Errorf("the grandchild outlived the cancel")
	}
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
	if res := s.cleanup(t, j.handle); len(res.Removed) == 0 {
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
	s.ended(t, j.handle)
	s.cleanup(t, j.handle)
	s.gone(t, j.handle, s.g.Found.Within)
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

func ownedChecks() []Check {
	list := []string{"OwnedLister"}
	return []Check{
		{Name: "owned-list", Doc: "All that was made is listed, with its labels, for its owner alone.", Needs: list, run: checkOwnedList},
		{Name: "owned-break", Doc: "Breaking out of a list frees it.", Needs: list, run: checkOwnedBreak},
		{Name: "owned-remove", Doc: "Listed objects can be removed, again too, and not when their labels changed.", Needs: list, run: checkOwnedRemove},
		{Name: "owned-foreign", Doc: "Other owners' objects are not listed.", Needs: list, run: checkOwnedForeign},
		{Name: "renew", Doc: "An expiry moves.", Needs: []string{"OwnedLister", "ExpiryRenewer"}, run: checkRenew},
	}
}

func (s *suite) owned(t T, owner string) []sdk.OwnedObject {
	t.Helper()
	var out []sdk.OwnedObject
	for o, err := range need(s.p, sdk.Lister()).ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: owner}) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		out = append(out, o)
	}
	return out
}

// listed waits until a job's own objects are listed.
func (s *suite) listed(t T, j job) []sdk.OwnedObject {
	t.Helper()
	var out []sdk.OwnedObject
	s.eventually(t, "listed object", func() bool {
		out = slices.DeleteFunc(s.owned(t, j.launch.Owner), func(o sdk.OwnedObject) bool { return o.AttemptID != j.launch.AttemptID })
		return len(out) > 0
	})
	return out
}

func checkOwnedList(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	s.running(t, j.handle)
	live := false
	for _, o := range s.listed(t, j) {
		l := j.launch
		if o.Type == "" || o.ID == "" || o.RunID != l.RunID || o.Owner != l.Owner || o.LedgerID != l.LedgerID {
			t.Errorf("listed %+v; want type, ID, run %s, owner %s, ledger %s", o, l.RunID, l.Owner, l.LedgerID)
		}
		if !o.Expires.IsZero() && !o.Expires.Truncate(time.Second).Equal(l.Expires) {
			t.Errorf("%s %s expires at %s, the launch says %s", o.Type, o.ID, o.Expires, l.Expires)
		}
		live = live || o.Live
	}
	if !live {
		t.Errorf("nothing of a running job is listed as live")
	}
	for _, owner := range []string{j.launch.Owner + "-other", "-"} {
		for _, o := range s.owned(t, owner) {
			if o.AttemptID == j.launch.AttemptID {
				t.Errorf("%s %s is listed for the owner %q", o.Type, o.ID, owner)
			}
		}
	}
	if !slices.ContainsFunc(s.owned(t, ""), func(o sdk.OwnedObject) bool { return o.AttemptID == j.launch.AttemptID }) {
		t.Errorf("the job is not in the list of all owners")
	}
}

func checkOwnedBreak(s *suite, t T) {
	for range 2 {
		s.listed(t, s.start(t, Do(Hang())))
	}
	s.frees(t, func() {
		for _, err := range need(s.p, sdk.Lister()).ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			break
		}
	})
}

func checkOwnedRemove(s *suite, t T) {
	j := s.start(t, Do(Exit(0)))
	s.ended(t, j.handle)
	l := need(s.p, sdk.Lister())
	for _, o := range s.listed(t, j) {
		changed := o
		changed.RunID = s.ids.NewID()
		if _, err := l.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: changed}); !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("remove %s with other labels: got %v, want FailedPrecondition", o.ID, err)
		}
		for i := range 2 {
			if _, err := l.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
				t.Errorf("remove %s, time %d: %v", o.ID, i+1, err)
			}
		}
	}
	s.eventually(t, "empty list", func() bool { return len(s.leftovers(t, j.launch)) == 0 })
}

func checkOwnedForeign(s *suite, t T) {
	if s.h.Faults.Forge == nil {
		t.Skipf("the harness can't make others' objects")
	}
	j := s.start(t, Do(Hang()))
	other := fmt.Sprintf("%s-other-%s", j.launch.Owner, s.ids.NewID().Short())
	s.h.Faults.Forge(t, other)
	s.eventually(t, "other's object in the list of all", func() bool { return len(s.owned(t, other)) == 1 })
	for _, o := range s.owned(t, j.launch.Owner) {
		if o.Owner != j.launch.Owner {
			t.Errorf("%s %s of the owner %q is listed for %q", o.Type, o.ID, o.Owner, j.launch.Owner)
		}
	}
	for _, o := range s.owned(t, other) {
		if _, err := need(s.p, sdk.Lister()).RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
			t.Errorf("remove what was forged: %v", err)
		}
	}
}

func checkRenew(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	s.listed(t, j)
	at := j.launch.Expires.Add(3 * time.Hour)
	if _, err := need(s.p, sdk.Renewer()).RenewExpiry(t.Context(), sdk.RenewExpiryRequest{Handle: j.handle, Expires: at}); err != nil {
		t.Fatalf("renew: %v", err)
	}
	s.eventually(t, "new expiry", func() bool {
		return !slices.ContainsFunc(s.listed(t, j), func(o sdk.OwnedObject) bool { return !o.Expires.Truncate(time.Second).Equal(at) })
	})
}
