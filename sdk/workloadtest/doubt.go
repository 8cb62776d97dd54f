package workloadtest

import (
	"errors"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func doubtChecks() []Check {
	return []Check{
		{Name: "op-twice", Doc: "The same operation sent twice changes the workload once.", run: checkOpTwice},
		{Name: "op-found", Doc: "An accepted operation is found again, one that never was isn't.", run: checkOpFound},
		{Name: "lost-reply", Doc: "A lost reply leaves an unclear error, one change at most, and an operation that is found.", run: checkLostReply},
		{Name: "not-sent", Doc: "A call that was cut off before it was carried out isn't found as accepted.", run: checkNotSent},
		{Name: "throttled", Doc: "Too many calls are ResourceExhausted and retryable, nothing changed, and the driver didn't try again.", run: checkThrottled},
	}
}

func checkOpTwice(s *suite, t T) {
	if s.g.Ops.By == sdk.OpNowhere {
		t.Skipf("operations aren't kept")
	}
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		req := s.op(path)
		r, err := v.call(t.Context(), s.p, req)
		s.accepted(t, string(v.op), r, err)
		before := s.h.Changes(t, path)
		if _, err := v.call(t.Context(), s.p, req); err != nil {
			t.Errorf("the same operation again: %v", err)
		}
		s.unchanged(t, path, before, "the same operation again")
	})
}

// trace asks what became of an operation until the guarantee's time is over, or
// it is known.
func (s *suite) trace(t T, path sdk.WorkloadPath, id sdk.ID, before string) sdk.OpTrace {
	t.Helper()
	deadline := time.Now().Add(s.g.Ops.Within + s.h.Poll)
	for {
		res, err := s.ask(t, sdk.WorkloadStatusRequest{Path: path, OpID: id, Before: before})
		if err != nil {
			t.Fatalf("ask for an operation: %v", err)
		}
		if res.Op == nil {
			t.Fatalf("asked for an operation, and nothing is said of it")
		}
		if res.Op.State == sdk.OpAccepted || time.Now().After(deadline) {
			if res.Op.Evidence == "" {
				t.Errorf("the operation is %s without evidence", res.Op.State)
			}
			return *res.Op
		}
		s.pause(t)
	}
}

// findable is what an accepted operation that was the last is found as.
func (s *suite) findable() sdk.OpState {
	if s.g.Ops.By == sdk.OpNowhere {
		return sdk.OpUnknown
	}
	return sdk.OpAccepted
}

func checkOpFound(s *suite, t T) {
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		was := s.settled(t, path, 2)
		req := s.op(path)
		r, err := v.call(t.Context(), s.p, req)
		s.accepted(t, string(v.op), r, err)
		tr := s.trace(t, path, req.OpID, was.Generation)
		if tr.State != s.findable() {
			t.Errorf("an accepted operation is found as %s (%s), want %s", tr.State, tr.Evidence, s.findable())
		}
		if tr.State == sdk.OpAccepted && r.Generation != "" && tr.Generation != "" && tr.Generation != r.Generation {
			t.Errorf("the operation made generation %s, and is found with %s", r.Generation, tr.Generation)
		}
		if tr := s.trace(t, path, s.ids.NewID(), was.Generation); tr.State == sdk.OpAccepted {
			t.Errorf("an operation that never was is found: %s", tr.Evidence)
		}
	})
	id := s.ids.NewID()
	if tr := s.trace(t, s.h.Absent, id, ""); tr.State == sdk.OpAccepted {
		t.Errorf("an operation on what isn't there is found: %s", tr.Evidence)
	}
}

func checkLostReply(s *suite, t T) {
	if s.h.Faults.LoseReply == nil {
		t.Skipf("the harness can't lose replies")
	}
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		was := s.settled(t, path, 2)
		before := s.h.Changes(t, path)
		calls := s.calls(t, v.op)
		s.h.Faults.LoseReply(t, v.op)
		req := s.op(path)
		_, err := v.call(t.Context(), s.p, req)
		if err == nil || sdk.IsClear(err) {
			t.Fatalf("with its reply lost: got %v, want an error that proves nothing", err)
		}
		if now := s.h.Changes(t, path); now > before+1 {
			t.Errorf("the backend carried out %d changes for one operation", now-before)
		}
		if now := s.calls(t, v.op); now > calls+1 {
			t.Errorf("the driver sent it %d times", now-calls)
		}
		if tr := s.trace(t, path, req.OpID, was.Generation); tr.State != s.findable() {
			t.Errorf("it is found as %s (%s), want %s", tr.State, tr.Evidence, s.findable())
		}
	})
}

func (s *suite) calls(t T, op Op) int {
	if s.h.Faults.Calls == nil {
		return 0
	}
	return s.h.Faults.Calls(t, op)
}

func checkNotSent(s *suite, t T) {
	if s.h.Faults.Refuse == nil {
		t.Skipf("the harness can't cut connections")
	}
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		was := s.settled(t, path, 2)
		before := s.h.Changes(t, path)
		s.h.Faults.Refuse(t, v.op)
		req := s.op(path)
		if _, err := v.call(t.Context(), s.p, req); err == nil {
			t.Fatalf("a call that was cut off succeeds")
		}
		s.unchanged(t, path, before, "cut off")
		if tr := s.trace(t, path, req.OpID, was.Generation); tr.State == sdk.OpAccepted {
			t.Errorf("it is found as accepted: %s", tr.Evidence)
		}
	})
}

func checkThrottled(s *suite, t T) {
	if s.h.Faults.Throttle == nil {
		t.Skipf("the harness can't throttle")
	}
	s.each(t, func(t T, v verb, path sdk.WorkloadPath) {
		before := s.h.Changes(t, path)
		calls := s.calls(t, v.op)
		s.h.Faults.Throttle(t, v.op, 1)
		_, err := v.call(t.Context(), s.p, s.op(path))
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.ResourceExhausted || !e.Retryable {
			t.Errorf("got %v, want ResourceExhausted that is retryable", err)
		}
		if now := s.calls(t, v.op); now > calls+1 {
			t.Errorf("the driver sent it %d times", now-calls)
		}
		s.unchanged(t, path, before, "throttled")
	})
}
