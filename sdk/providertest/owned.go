package providertest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

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
		if wrong := badTimes(o); wrong != "" {
			t.Errorf("%s %s: %s", o.Type, o.ID, wrong)
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

// badTimes says what an object's times or sizes can't be.
func badTimes(o sdk.OwnedObject) string {
	switch z := o.Size; {
	case !o.Ended.IsZero() && (o.Live || o.Ended.Before(o.Started)):
		return fmt.Sprintf("it ended at %s, started at %s, and live is %t", o.Ended, o.Started, o.Live)
	case z.CPU < 0 || z.Memory < 0 || z.Disk < 0:
		return fmt.Sprintf("its size is %+v", z)
	}
	return ""
}

func checkOwnedBreak(s *suite, t T) {
	for range 2 {
		// What starts a job may live in this process; it is to have started.
		j := s.start(t, Do(Print("up\n"), Hang()))
		s.up(t, j.handle)
		s.listed(t, j)
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
	b := Do(Exit(0))
	if s.g.KeepsEnded {
		b = Do(Hang()) // an ended job is in no list; removing one that runs ends it
	}
	j := s.start(t, b)
	if !s.g.KeepsEnded {
		s.ended(t, j.handle)
	}
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
