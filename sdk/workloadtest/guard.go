package workloadtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

func guardChecks() []Check {
	return []Check{
		{Name: "expect", Doc: "A change is refused where something else is there than was expected.", run: checkExpect},
		{Name: "expect-holds", Doc: "A change goes through where what was expected is there.", run: checkExpectHolds},
		{Name: "dry-run", Doc: "A dry run lists the calls without values, and changes nothing.", run: checkDryRun},
		{Name: "autoscaler", Doc: "A count that an autoscaler owns isn't changed unless told (F95).", run: checkAutoscaler},
	}
}

// hasID reports whether an error of the contract in err's chain has that ID.
func hasID(err error, id string) bool {
	var e *sdk.Error
	return errors.As(err, &e) && e.ID == id
}

func checkExpect(s *suite, t T) {
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		st := s.settled(t, path, 2)
		before := s.h.Changes(t, path)
		five := 5
		for what, e := range map[string]sdk.Expect{"replicas": {Replicas: &five}, "generation": {Generation: st.Generation + "0"}} {
			if what == "replicas" && st.Desired == nil {
				continue
			}
			req := s.op(path)
			req.Expect = e
			_, err := v.call(t.Context(), s.p, req)
			refused(t, "other "+what, err, sdk.FailedPrecondition)
			if !hasID(err, sdk.ErrExpect) {
				t.Errorf("other %s: %v lacks the ID %s", what, err, sdk.ErrExpect)
			}
		}
		s.unchanged(t, path, before, "refused")
	})
}

func checkExpectHolds(s *suite, t T) {
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		st := s.settled(t, path, 2)
		req := s.op(path)
		req.Expect = sdk.Expect{Replicas: st.Desired, Generation: st.Generation}
		r, err := v.call(t.Context(), s.p, req)
		s.accepted(t, string(v.op), r, err)
		// What was read before the change no longer holds.
		req = s.op(path)
		req.Expect.Generation = st.Generation
		_, err = v.call(t.Context(), s.p, req)
		refused(t, "with the generation of before", err, sdk.FailedPrecondition)
	})
}

func checkDryRun(s *suite, t T) {
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		was := s.settled(t, path, 2)
		before := s.h.Changes(t, path)
		req := s.op(path)
		req.DryRun = true
		r, err := v.call(t.Context(), s.p, req)
		if err != nil {
			t.Fatalf("dry run: %v", err)
		}
		if len(r.Calls) == 0 || !r.Changed {
			t.Errorf("a dry run of a change gives %+v", r)
		}
		for _, c := range r.Calls {
			if c.Name == "" || c.Object == "" || strings.Contains(fmt.Sprint(c), canary) {
				t.Errorf("call %+v", c)
			}
		}
		s.unchanged(t, path, before, "a dry run")
		if now := s.status(t, path); now.Generation != was.Generation || !is(now.Desired, 2) {
			t.Errorf("a dry run changed %+v to %+v", was, now)
		}
		_, err = v.call(t.Context(), s.p, sdk.OpRequest{OpID: s.ids.NewID(), Path: s.h.Absent, DryRun: true})
		refused(t, "a dry run on what isn't there", err, sdk.NotFound)
		req.Expect.Generation = was.Generation + "0"
		_, err = v.call(t.Context(), s.p, req)
		refused(t, "a dry run with another generation", err, sdk.FailedPrecondition)
	})
}

func checkAutoscaler(s *suite, t T) {
	if s.h.Autoscale == nil {
		t.Skipf("the harness has no autoscaler")
	}
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		s.h.Autoscale(t, path, 2, 9)
		s.eventually(t, "autoscaler", func() bool { return s.status(t, path).Autoscaler != nil })
		if a := s.status(t, path).Autoscaler; a.Name == "" || a.Min != 2 || a.Max != 9 {
			t.Errorf("the autoscaler is %+v", a)
		}
		before := s.h.Changes(t, path)
		r, err := v.call(t.Context(), s.p, s.op(path))
		if !v.count {
			s.accepted(t, string(v.op), r, err)
			return
		}
		refused(t, "against an autoscaler", err, sdk.FailedPrecondition)
		if !hasID(err, sdk.ErrAutoscaler) {
			t.Errorf("%v lacks the ID %s", err, sdk.ErrAutoscaler)
		}
		s.unchanged(t, path, before, "refused")
		req := s.op(path)
		req.AgainstAutoscaler = true
		r, err = v.call(t.Context(), s.p, req)
		s.accepted(t, "against an autoscaler, as told", r, err)
		if len(r.Warnings) == 0 {
			t.Errorf("nothing is said of the autoscaler")
		}
	})
}
