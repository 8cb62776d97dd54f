package providertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func submitChecks() []Check {
	find := []string{"JobFinder"}
	return []Check{
		{Name: "run-twice", Doc: "Sending a launch again makes no second job, in another process neither.", run: checkRunTwice},
		{Name: "run-at-once", Doc: "Sending a launch several times at once makes one job.", run: checkRunAtOnce},
		{Name: "run-returns", Doc: "RunJob doesn't wait for the job.", run: checkRunReturns},
		{Name: "lost-reply", Doc: "A job whose reply was lost is found, and ran once.", Needs: find, run: checkLostReply},
		{Name: "lost-request", Doc: "A launch that never arrived is not found.", Needs: find, run: checkLostRequest},
		{Name: "find-absent", Doc: "A launch that was not sent is absent, as far as that can be proven.", Needs: find, run: checkFindAbsent},
		{Name: "find-found", Doc: "A launch that was sent is found, with its labels.", Needs: find, run: checkFindFound},
		{Name: "find-run", Doc: "All attempts of a run are found by run and owner.", Needs: find, run: checkFindRun},
		{Name: "find-hidden", Doc: "A list that lags proves no absence.", Needs: find, run: checkFindHidden},
	}
}

// dedup reports whether the backend keeps identical launches to one object.
func (s *suite) dedup(t T) {
	if by := s.g.Submit.By; by != sdk.SubmitByName && by != sdk.SubmitByToken {
		t.Skipf("submit by %s: a launch is not sent twice", by)
	}
}

func checkRunTwice(s *suite, t T) {
	s.dedup(t)
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key), Sleep(s.h.Second/2))))
	j := s.startLaunch(t, l, nil)
	for i, p := range []sdk.Provider{s.p, s.reopen(t)} {
		res, err := s.send(t.Context(), p, l, nil)
		if err != nil {
			t.Fatalf("send %d: %v", i+2, err)
		}
		s.tidyUp(t, res.Handle)
		if res.Handle.ID != j.handle.ID {
			t.Errorf("send %d gave the job %s, the first gave %s", i+2, res.Handle.ID, j.handle.ID)
		}
		if !res.Adopted && s.g.Submit.By != sdk.SubmitByToken {
			t.Errorf("send %d doesn't say that the job was there already", i+2)
		}
	}
	s.ended(t, j.handle)
	if n := s.h.Marks(t, key); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

func checkRunAtOnce(s *suite, t T) {
	s.dedup(t)
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key), Sleep(s.h.Second/2))))
	type answer struct {
		res sdk.RunJobResult
		err error
	}
	answers := make([]answer, 4)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i].res, answers[i].err = s.send(t.Context(), s.p, l, nil) })
	}
	wg.Wait()
	var h sdk.JobHandle
	for _, a := range answers {
		// One may see the other in the making; it may say so, clearly.
		if a.err != nil {
			if c := sdk.CodeOf(a.err); c != sdk.Aborted && c != sdk.AlreadyExists && c != sdk.Unavailable {
				t.Errorf("run: %v", a.err)
			}
			continue
		}
		if h.ID != "" && h.ID != a.res.Handle.ID {
			t.Errorf("two jobs: %s and %s", h.ID, a.res.Handle.ID)
		}
		h = a.res.Handle
		s.tidyUp(t, h)
	}
	if h.ID == "" {
		t.Fatalf("none of the calls gave a handle")
	}
	s.ended(t, h)
	if n := s.h.Marks(t, key); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

func checkRunReturns(s *suite, t T) {
	j := s.start(t, Do(Sleep(5*s.h.Second), Print("x\n")))
	st := s.status(t, j.handle)
	if st.State.Terminal() {
		t.Errorf("RunJob returned when the job had ended: %s", essence(st))
	}
}

// find searches until what was made must be seen.
func (s *suite) find(t T, r sdk.FindJobsRequest) sdk.FindJobsResult {
	t.Helper()
	f := need(s.p, sdk.Finder())
	var res sdk.FindJobsResult
	s.eventually(t, "proof", func() bool {
		var err error
		if res, err = f.FindJobs(t.Context(), r); err != nil {
			t.Fatalf("find: %v", err)
		}
		s.checkFound(t, res)
		// Without a time of sending nothing can be waited for.
		return res.Outcome != sdk.FindNotVisible || res.VisibleAt.IsZero() || r.SentAt.IsZero()
	})
	return res
}

// checkFound judges an answer by itself.
func (s *suite) checkFound(t T, res sdk.FindJobsResult) {
	t.Helper()
	switch res.Outcome {
	case sdk.FindFound:
		if len(res.Jobs) == 0 {
			t.Fatalf("found, and no job named")
		}
	case sdk.FindAbsent:
		if s.g.Submit.By == sdk.SubmitByNothing || !s.g.Found.Consistent {
			t.Fatalf("absence is claimed by a backend whose searches prove none")
		}
		fallthrough
	case sdk.FindNotVisible:
		if len(res.Jobs) > 0 {
			t.Fatalf("%s, and %d jobs named", res.Outcome, len(res.Jobs))
		}
		if res.Outcome == sdk.FindNotVisible && res.VisibleAt.IsZero() && s.g.Found.Consistent && s.g.Submit.By != sdk.SubmitByNothing {
			t.Fatalf("a consistent backend never proves absence")
		}
	default:
		t.Fatalf("outcome %q is none", res.Outcome)
	}
}

func checkLostReply(s *suite, t T) {
	if s.h.Faults.LoseReply == nil {
		t.Skipf("the harness can't lose replies")
	}
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key), Sleep(s.h.Second/2))))
	s.h.Faults.LoseReply(t, OpRunJob)
	sent := time.Now()
	// A driver may look by itself whether the job is there, and have no error.
	if _, err := s.send(t.Context(), s.p, l, nil); sdk.IsClear(err) {
		t.Errorf("run with a lost reply: got %v, want an error that is not clear", err)
	}
	res := s.find(t, sdk.FindJobsRequest{Launch: &l, SentAt: sent})
	if s.g.Submit.By == sdk.SubmitByNothing {
		return
	}
	for _, j := range res.Jobs {
		s.tidyUp(t, j.Handle)
	}
	if res.Outcome != sdk.FindFound || len(res.Jobs) != 1 {
		t.Fatalf("got %s with %d jobs, want the one job", res.Outcome, len(res.Jobs))
	}
	h := res.Jobs[0].Handle
	if by := s.g.Submit.By; by == sdk.SubmitByName || by == sdk.SubmitByToken {
		again, err := s.send(t.Context(), s.p, l, nil)
		if err != nil || again.Handle.ID != h.ID || !again.Adopted && by != sdk.SubmitByToken {
			t.Errorf("sending again: got job %s, adopted %t, %v; want %s, adopted", again.Handle.ID, again.Adopted, err, h.ID)
		}
	}
	s.ended(t, h)
	if n := s.h.Marks(t, key); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

func checkLostRequest(s *suite, t T) {
	if s.h.Faults.Refuse == nil {
		t.Skipf("the harness can't cut connections")
	}
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key))))
	s.h.Faults.Refuse(t, OpRunJob)
	sent := time.Now()
	// A driver that proves the loss by itself may send again.
	res, err := s.send(t.Context(), s.p, l, nil)
	if err == nil {
		s.tidyUp(t, res.Handle)
		s.ended(t, res.Handle)
		if n := s.h.Marks(t, key); n != 1 {
			t.Errorf("the job ran %d times", n)
		}
		return
	}
	if found := s.find(t, sdk.FindJobsRequest{Launch: &l, SentAt: sent}); found.Outcome == sdk.FindFound {
		t.Errorf("a job was found whose launch never arrived")
	}
	if n := s.h.Marks(t, key); n != 0 {
		t.Errorf("the job ran %d times", n)
	}
}

func checkFindAbsent(s *suite, t T) {
	l := s.prepare(t, s.spec(t, Do()))
	for _, r := range []sdk.FindJobsRequest{{Launch: &l, SentAt: time.Now()}, {RunID: l.RunID, Owner: l.Owner, SentAt: time.Now()}, {RunID: l.RunID}} {
		if res := s.find(t, r); res.Outcome == sdk.FindFound {
			t.Errorf("a launch that was never sent is found: %+v", res.Jobs)
		}
	}
}

func (s *suite) checkFoundJob(t T, j sdk.FoundJob, want job) {
	t.Helper()
	l := want.launch
	if j.Handle.ID != want.handle.ID || j.RunID != l.RunID || j.AttemptID != l.AttemptID || j.Attempt != l.Attempt || j.Owner != l.Owner || j.LedgerID != l.LedgerID {
		t.Errorf("found %+v; want job %s, run %s, attempt %s (%d), owner %s, ledger %s", j, want.handle.ID, l.RunID, l.AttemptID, l.Attempt, l.Owner, l.LedgerID)
	}
	st, err := s.ask(t.Context(), j.Handle)
	if err != nil || !st.State.Valid() {
		t.Errorf("the handle that was found doesn't work: %v", err)
	}
}

func checkFindFound(s *suite, t T) {
	if s.g.Submit.By == sdk.SubmitByNothing {
		t.Skipf("submit by nothing: jobs can't be found")
	}
	j := s.start(t, Do(Hang()))
	s.start(t, Do(Hang()))
	res := s.find(t, sdk.FindJobsRequest{Launch: &j.launch, SentAt: j.sent})
	if res.Outcome != sdk.FindFound || len(res.Jobs) != 1 {
		t.Fatalf("got %s with %d jobs, want the one job", res.Outcome, len(res.Jobs))
	}
	s.checkFoundJob(t, res.Jobs[0], j)
}

func checkFindRun(s *suite, t T) {
	if s.g.Submit.By == sdk.SubmitByNothing {
		t.Skipf("submit by nothing: jobs can't be found")
	}
	r := s.request(s.spec(t, Do(Hang())))
	want := map[sdk.ID]job{}
	for n := 1; n <= 2; n++ {
		r.Attempt, r.AttemptID = n, s.ids.NewID()
		l := s.prepareAny(t, r)
		if len(l.Problems) > 0 {
			t.Fatalf("prepare: refused: %s", sdk.JoinProblems(l.Problems))
		}
		want[r.AttemptID] = s.startLaunch(t, l, nil)
	}
	owner := want[r.AttemptID].launch.Owner
	s.start(t, Do(Hang()))
	for _, o := range []string{owner, ""} {
		var res sdk.FindJobsResult
		s.eventually(t, "both attempts", func() bool {
			res = s.find(t, sdk.FindJobsRequest{RunID: r.RunID, Owner: o})
			return len(res.Jobs) >= 2
		})
		if len(res.Jobs) != 2 {
			t.Fatalf("owner %q: %d jobs instead of 2", o, len(res.Jobs))
		}
		for _, f := range res.Jobs {
			s.checkFoundJob(t, f, want[f.AttemptID])
		}
	}
	if res := s.find(t, sdk.FindJobsRequest{RunID: r.RunID, Owner: owner + "-other"}); res.Outcome == sdk.FindFound {
		t.Errorf("another owner's search finds %d jobs", len(res.Jobs))
	}
}

func checkFindHidden(s *suite, t T) {
	if s.h.Faults.Hide == nil || s.g.Found.Within == 0 {
		t.Skipf("nothing can be hidden")
	}
	restore := s.h.Faults.Hide(t)
	defer restore()
	j := s.start(t, Do(Hang()))
	res, err := need(s.p, sdk.Finder()).FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &j.launch, SentAt: j.sent})
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	s.checkFound(t, res)
	if res.Outcome == sdk.FindAbsent {
		t.Errorf("a job that is hidden for a while is absent at once")
	}
	if _, err := s.ask(t.Context(), j.handle); errors.Is(err, sdk.NotFound) {
		t.Errorf("a job that was accepted just now is not found: %v", err)
	}
	restore()
	ctx, cancel := context.WithTimeout(t.Context(), s.g.Found.Within)
	defer cancel()
	s.eventually(t, "found job", func() bool {
		res = s.find(t, sdk.FindJobsRequest{Launch: &j.launch, SentAt: j.sent})
		return res.Outcome == sdk.FindFound || ctx.Err() != nil
	})
	if res.Outcome != sdk.FindFound {
		t.Errorf("past %s the job is %s", s.g.Found.Within, res.Outcome)
	}
}
