package aci

import (
	"strings"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// TestMishaps: what befalls a group is told by its reason.
func TestMishaps(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.Pace.PullTimeout = 50 * time.Millisecond })
	p := w.Open()
	for name, c := range map[string]struct {
		m        pocket.Mishap
		script   string
		state    sdk.JobState
		reason   sdk.Reason
		code     int // -1 for none
		launches int
	}{
		"capacity":    {pocket.Mishap{Stage: pocket.StageCapacity}, "true", sdk.StateFailed, sdk.ReasonCapacity, -1, 0},
		"failure":     {pocket.Mishap{Stage: pocket.StageFail}, "true", sdk.StateFailed, sdk.ReasonFailedToStart, -1, 0},
		"pull":        {pocket.Mishap{Stage: pocket.StagePull}, "true", sdk.StateFailed, sdk.ReasonImagePull, -1, 0},
		"OOM":         {pocket.Mishap{Stage: pocket.StageOOM}, "sleep 100", sdk.StateFailed, sdk.ReasonOOMKilled, 137, 1},
		"host":        {pocket.Mishap{Stage: pocket.StageHost}, "sleep 100", sdk.StateFailed, sdk.ReasonEvicted, -1, 1},
		"no code":     {pocket.Mishap{Stage: pocket.StageNoCode}, "true", sdk.StateFailed, sdk.ReasonUnknown, -1, 1},
		"maintenance": {pocket.Mishap{Stage: pocket.StageMaintenance, After: 20 * time.Millisecond}, "sleep 0.2; exit 5", sdk.StateFailed, sdk.ReasonNonzeroExit, 5, 2},
		"F30 group runs on": {pocket.Mishap{Stage: pocket.StageGroupState, State: "Running"}, "exit 4",
			sdk.StateFailed, sdk.ReasonNonzeroExit, 4, 1},
		"F30 group failed": {pocket.Mishap{Stage: pocket.StageGroupState, State: "Failed"}, "exit 0",
			sdk.StateSucceeded, sdk.ReasonCompleted, 0, 1},
	} {
		remove := w.cloud.Strike(c.m)
		h := w.Run(p, w.Plan(p, shell(c.script)))
		st := w.Ended(p, h)
		remove()
		code := -1
		if st.ExitCode != nil {
			code = *st.ExitCode
		}
		if st.State != c.state || st.Reason != c.reason || code != c.code || st.Launches != c.launches || st.Raw["restart_count"] == "" {
			t.Errorf("%s: got %s (%s), code %d, %d launches: %s", name, st.State, st.Reason, code, st.Launches, st.Message)
		}
	}
}

// TestUnrunnable: a command that isn't there, or can't be run, is told as such, with
// docker's code for it, and no launch.
func TestUnrunnable(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.Unrunnable(p)
	spec := shell("")
	spec.Args = sdk.Argv{"no-such-program"}
	st := w.Ended(p, w.Run(p, w.Plan(p, spec)))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonInvalidSpec || st.ExitCode == nil || *st.ExitCode != 127 || st.Launches != 0 {
		t.Errorf("got %s (%s), code %v, %d launches: %s", st.State, st.Reason, st.ExitCode, st.Launches, st.Message)
	}
}

// TestF32RestartsAreTold: a container that is run again though nothing asks for it,
// with a log that Azure doesn't show, is told of, and a cancel ends it.
func TestF32RestartsAreTold(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.LogNull = true })
	w.cloud.Strike(pocket.Mishap{Stage: pocket.StageMaintenance, After: 20 * time.Millisecond})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo x; sleep 100")))
	var st sdk.JobStatusResult
	w.Eventually("second launch", func() bool {
		st = w.Status(p, h)
		return st.Launches == 2 && st.Raw["current_state"] == stateRunning
	})
	if st.State != sdk.StateRunning || !strings.Contains(st.Message, "restarted") || st.Raw["previous_state.exit_code"] != "7147" {
		t.Errorf("got %s: %s, %v", st.State, st.Message, st.Raw)
	}
	if text, _ := w.Text(p, h, nil); text != "" {
		t.Errorf("the log is %q", text)
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled {
		t.Errorf("after the cancel: %s (%s)", st.State, st.Reason)
	}
}

// TestStoppedWhileComingUp: a cancel waits until Azure takes the stop.
func TestStoppedWhileComingUp(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.Pace.Pending = 300 * time.Millisecond })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(w.Mark("early")+"; sleep 100")))
	res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
	if err != nil || !res.Accepted {
		t.Fatalf("cancel: %+v, %v", res, err)
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled {
		t.Errorf("after the cancel: %s (%s): %s", st.State, st.Reason, st.Message)
	}
}

// TestStopTakesItsTime: between a stop and its proof the job is never told to have
// ended by itself, whatever code it ends with.
func TestStopTakesItsTime(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for _, script := range []string{"trap 'exit 0' TERM; sleep 100 & wait", "trap 'exit 7' TERM; sleep 100 & wait", "trap '' TERM; sleep 100"} {
		h := w.Run(p, w.Plan(p, shell("echo up; "+script)))
		w.Eventually("first output", func() bool {
			text, _ := w.Text(p, h, nil)
			return text != ""
		})
		res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Accepted || !strings.HasPrefix(res.Evidence, "Azure took the stop; read back: group state ") {
			t.Fatalf("cancel: %+v, %v", res, err)
		}
		if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Reason != sdk.ReasonCancelled {
			t.Errorf("%s: %s (%s)", script, st.State, st.Reason)
		}
		if res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone || res.Accepted {
			t.Errorf("again: %+v, %v", res, err)
		}
	}
}

// TestCancelAgainWhileItStops: a cancel behind another that is at it is taken.
func TestCancelAgainWhileItStops(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.Pace.Grace = time.Minute })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("trap '' TERM; echo up; i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i+1)); done")))
	w.Eventually("first output", func() bool {
		text, _ := w.Text(p, h, nil)
		return text != ""
	})
	for range 3 {
		res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Accepted || res.Gone {
			t.Errorf("cancel: %+v, %v", res, err)
		}
		if st := w.Status(p, h); st.State != sdk.StateRunning {
			t.Errorf("meanwhile it is %s", st.State)
		}
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled {
		t.Errorf("in the end: %s", st.State)
	}
}

// TestStopOfAnEndedJob: a stop that comes behind the job's own end changes nothing.
func TestStopOfAnEndedJob(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("exit 9")))
	w.Ended(p, h)
	if err := p.stop(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if res, err := p.stopped(t.Context(), h); err != nil || res.Accepted || !res.Gone {
		t.Errorf("read back: %+v, %v", res, err)
	}
	if st := w.Status(p, h); st.State != sdk.StateFailed || st.ExitCode == nil || *st.ExitCode != 9 {
		t.Errorf("the job is %s, code %v", st.State, st.ExitCode)
	}
}

// TestF86DeletesThatLinger: a deletion that takes its time is waited for; one that
// is refused is told, and done when it is asked for again.
func TestF86DeletesThatLinger(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.DeleteTakes, k.DeleteDelay = 100*time.Millisecond, 200*time.Millisecond })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	w.cloud.Faults().Add(fault.Rule{Action: "ContainerGroups_Delete", Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: 500, Code: "InternalServerError", Message: "words"}}})
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err == nil || sdk.IsClear(err) {
		t.Errorf("a refused deletion: %v", err)
	}
	res, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
	if err != nil || len(res.Removed) != 1 {
		t.Fatalf("again: %v, %v", res, err)
	}
	if _, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("after the clean-up: %v", err)
	}
}

// TestRenewKeepsTags: a renewal changes the expiry and nothing else, and restarts
// nothing.
func TestRenewKeepsTags(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"tags": map[string]string{"team": "a"}})
	p := w.Open()
	spec := shell(w.Mark("renewed") + "; sleep 0.3")
	spec.Labels = map[string]string{"Cost-Center": "x"}
	l := w.Plan(p, spec)
	h := w.Run(p, l)
	w.Running(p, h)
	before, err := p.getGroup(t.Context(), "test", h.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := l.Expires.Add(time.Hour)
	if _, err := p.RenewExpiry(t.Context(), sdk.RenewExpiryRequest{Handle: h, Expires: at}); err != nil {
		t.Fatal(err)
	}
	after, err := p.getGroup(t.Context(), "test", h.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Tags) != len(before.Tags) || tag(after, "team") != "a" || tag(after, "cost-center") != "x" || tag(after, sdk.LabelExpires) != itoa(at.Unix()) {
		t.Errorf("tags %v, before %v", after.Tags, before.Tags)
	}
	if st := w.Ended(p, h); st.Launches != 1 || w.Marked("renewed") != 1 {
		t.Errorf("%d launches, ran %d times", st.Launches, w.Marked("renewed"))
	}
}

// TestF16Orphans: groups whose deletion failed are listed over all pages, and the
// reaper's removal leaves none.
func TestF16Orphans(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.PageSize = 7 })
	p := w.Open()
	const n = 20
	remove := w.cloud.Faults().Add(fault.Rule{Action: "ContainerGroups_Delete", Effect: fault.Effect{Refuse: &fault.Refusal{Status: 503, Code: "ServerTimeout", Message: "words"}}})
	for range n {
		h := w.Run(p, w.Plan(p, shell("true")))
		w.Ended(p, h)
		if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err == nil {
			t.Fatal("the clean-up succeeded")
		}
	}
	live := w.Run(p, w.Plan(p, shell("sleep 100")))
	w.Running(p, live)
	remove()
	list := func() (out []sdk.OwnedObject) {
		for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: w.Owner}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
		return out
	}
	orphans := list()
	if len(orphans) != n+1 {
		t.Fatalf("%d objects are listed, want %d", len(orphans), n+1)
	}
	for _, o := range orphans {
		if size := (sdk.OwnedSize{CPU: 1000, Memory: 1536 * mib}); o.Size != size || o.Started.IsZero() || o.Ended.IsZero() != o.Live {
			t.Errorf("size %+v, started %s, ended %s", o.Size, o.Started, o.Ended)
		}
		if o.Live != (o.ID == live.ID) || o.LedgerID != w.Ledger || o.CreatedAt.IsZero() || o.Expires.IsZero() {
			t.Errorf("object %+v", o)
		}
		if _, err := p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
			t.Error(err)
		}
	}
	if rest := list(); len(rest) != 0 {
		t.Errorf("%d objects are left", len(rest))
	}
}

// TestF72CancelsUnderThrottling: many jobs are cancelled while Azure refuses calls,
// and none is left running.
func TestF72CancelsUnderThrottling(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	const n = 30
	handles := make([]sdk.JobHandle, n)
	for i := range handles {
		handles[i] = w.Run(p, w.Plan(p, shell("sleep 100")))
	}
	for _, action := range []string{"ContainerGroups_Stop", "ContainerGroups_Get"} {
		w.cloud.Faults().Add(fault.Rule{Action: action, Count: n, Share: 0.5, Effect: fault.Effect{Refuse: pocket.Throttled()}})
	}
	for _, h := range handles {
		w.Eventually("accepted cancel", func() bool {
			_, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
			if err != nil && !sdk.IsRetryable(err) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: w.Owner}) {
		if err != nil {
			t.Fatal(err)
		}
		w.Eventually("end of "+o.ID, func() bool {
			st, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: p.handle(o.ID, time.Now())})
			return err == nil && st.State == sdk.StateCancelled
		})
	}
}
