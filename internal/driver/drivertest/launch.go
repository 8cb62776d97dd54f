package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// processes is how many have one launch at once.
const processes = 5

// OneJobPerLaunch checks that however many processes have one launch, also after a
// reply was lost, there is one job, and all come to it: by sending the launch
// again, or, where that would make a second job, by looking for it. Action is the
// call that makes the job.
func (w *World[P]) OneJobPerLaunch(action string) {
	t := w.T
	t.Helper()
	providers := make([]P, processes)
	for i := range providers {
		providers[i] = w.Open()
	}
	p := providers[0]
	by := p.Info().Guarantees.Submit.By
	come := send[P]
	if by == sdk.SubmitBySearch {
		come = find[P]
	}

	lost, kept := w.Marked("lost"), w.Marked("kept")
	l := w.Plan(p, Shell(w.Mark("lost")+"; sleep 0.3"))
	w.setup.Faults.Add(fault.Rule{Action: action, Count: 1, Effect: fault.Effect{Drop: true}})
	if _, err := send(t.Context(), p, l); err == nil || sdk.IsClear(err) {
		t.Fatalf("a lost reply: got %v, want an error that isn't clear", err)
	}
	h := w.oneJob(providers, l, come)
	again, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil || again.Handle.ID != h.ID || by != sdk.SubmitByToken && !again.Adopted {
		t.Errorf("sent again by the process that is in doubt: %+v, %v", again, err)
	}
	w.Ended(p, h)
	if n := w.Marked("lost") - lost; n != 1 {
		t.Errorf("after a lost reply the job ran %d times", n)
	}

	l = w.Plan(p, Shell(w.Mark("kept")+"; sleep 0.3"))
	if by == sdk.SubmitBySearch {
		w.Run(p, l) // what was clear is never sent again
	}
	w.Ended(p, w.oneJob(providers, l, come))
	if n := w.Marked("kept") - kept; n != 1 {
		t.Errorf("sent by %d processes the job ran %d times", processes, n)
	}
}

// oneJob lets all come to a launch's job at once.
func (w *World[P]) oneJob(providers []P, l sdk.Launch, come func(context.Context, P, sdk.Launch) (sdk.JobHandle, error)) sdk.JobHandle {
	w.T.Helper()
	handles, errs := make([]sdk.JobHandle, len(providers)), make([]error, len(providers))
	AtOnce(len(providers), func(i int) { handles[i], errs[i] = come(w.T.Context(), providers[i], l) })
	if err := errors.Join(errs...); err != nil {
		w.T.Fatal(err)
	}
	for _, h := range handles {
		if h.ID == "" || h.ID != handles[0].ID {
			w.T.Errorf("the jobs are %q and %q", handles[0].ID, h.ID)
		}
	}
	return handles[0]
}

func send[P Provider](ctx context.Context, p P, l sdk.Launch) (sdk.JobHandle, error) {
	res, err := p.RunJob(ctx, sdk.RunJobRequest{Launch: l})
	return res.Handle, err
}

func find[P Provider](ctx context.Context, p P, l sdk.Launch) (sdk.JobHandle, error) {
	res, err := p.FindJobs(ctx, sdk.FindJobsRequest{Launch: &l, SentAt: time.Now()})
	switch {
	case err != nil:
		return sdk.JobHandle{}, err
	case res.Outcome != sdk.FindFound || len(res.Jobs) != 1 || res.Jobs[0].AttemptID != l.AttemptID:
		return sdk.JobHandle{}, fmt.Errorf("found %+v, want the launch's job", res)
	}
	return res.Jobs[0].Handle, nil
}

// WaitsForRoom checks that a launch that is refused for a lack of room has made
// nothing and says so, with a reason, and a remedy that has some words; and that it
// is taken once there is room. Full takes the room away and returns what gives it
// back.
func (w *World[P]) WaitsForRoom(p P, full func() (room func()), reason sdk.Reason, remedy string) {
	t := w.T
	t.Helper()
	key := "room-" + sdk.NewIDSource(sdk.SystemClock()).NewID().Short()
	l := w.Plan(p, Shell(w.Mark(key)))
	room := full()
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.ResourceExhausted || !e.Retryable || e.Reason != reason || !strings.Contains(e.Remedy, remedy) {
		t.Fatalf("got %v, want ResourceExhausted for %s that can be tried again, with %q in its remedy", err, reason, remedy)
	}
	if res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: l.RunID, Owner: w.Owner}); err != nil || len(res.Jobs) > 0 {
		t.Errorf("after a refusal there are %+v, %v", res.Jobs, err)
	}
	room()
	if st := w.Ended(p, w.Run(p, l)); st.State != sdk.StateSucceeded {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
	if n := w.Marked(key); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}
