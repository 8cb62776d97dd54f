package cloudrun

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/sdk"
)

// TestNoRetriesOfTheClient: a call that changes something is sent once, whatever
// becomes of its reply.
func TestNoRetriesOfTheClient(t *testing.T) {
	for name, effect := range map[string]fault.Effect{
		"dropped reply": {Drop: true}, "reset": {Reset: true}, "unavailable": {Refuse: pocket.Unavailable()}, "throttled": {Refuse: pocket.Throttle()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pocket.Options{}, nil)
			p := w.Open()
			h, done := w.Run(p, w.Plan(p, shell("sleep 100"))), w.Run(p, w.Plan(p, shell("true")))
			w.Running(p, h)
			w.Ended(p, done)
			for action, call := range map[string]func() error{
				"run:CreateJob": func() error {
					_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))})
					return err
				},
				"run:CancelExecution": func() error {
					_, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
					return err
				},
				"run:DeleteJob": func() error {
					_, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: done})
					return err
				},
			} {
				before := w.Count(action)
				remove := w.cloud.Faults().Add(fault.Rule{Action: action, Effect: effect})
				err := call()
				remove()
				if n := w.Count(action) - before; n != 1 {
					t.Errorf("%s went out %d times", action, n)
				}
				if err == nil || effect.Refuse == nil && sdk.IsClear(err) {
					t.Errorf("%s: got %v, want an error that is not clear", action, err)
				}
			}
		})
	}
}

// TestLostReplyRunsOnce: a launch whose reply was lost is found by its name, and
// sent again by several processes at once makes nothing more.
func TestLostReplyRunsOnce(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	l := w.Plan(p, shell(w.Mark("once")+"; sleep 0.3"))
	w.cloud.Faults().Add(fault.Rule{Action: "run:CreateJob", Count: 1, Effect: fault.Effect{Drop: true}})
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
		t.Fatalf("got %v, want an error that is not clear", err)
	}
	var wg sync.WaitGroup
	results := make([]sdk.RunJobResult, 4)
	errs := make([]error, len(results))
	for i := range results {
		q := w.Open()
		wg.Go(func() { results[i], errs[i] = q.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}) })
	}
	wg.Wait()
	for i, res := range results {
		if errs[i] != nil || !res.Adopted || res.Handle.ID != l.Names["job"] {
			t.Errorf("send %d: %+v, %v", i, res, errs[i])
		}
	}
	w.Ended(p, results[0].Handle)
	if n := w.Marked("once"); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

// TestF16JobsLimit: the quota of jobs is waited for, and a clean-up gives room.
func TestF16JobsLimit(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.MaxJobs = 1 })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	l := w.Plan(p, shell("true"))
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.ResourceExhausted || !e.Retryable || e.Reason != sdk.ReasonQuota || !sdk.IsClear(err) || !strings.Contains(e.Remedy, "reap") {
		t.Fatalf("got %v, want a quota that can be tried again", err)
	}
	w.Ended(p, h)
	res, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
	if err != nil || len(res.Removed) != 1 {
		t.Fatalf("clean-up: %v, %v", res, err)
	}
	if st := w.Ended(p, w.Run(p, l)); st.State != sdk.StateSucceeded {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
}

// TestF16Orphans: jobs whose deletion failed are listed, and the reaper's removal
// leaves none.
func TestF16Orphans(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	const n = 20
	remove := w.cloud.Faults().Add(fault.Rule{Action: "run:DeleteJob", Effect: fault.Effect{Refuse: pocket.Unavailable()}})
	for range n {
		h := w.Run(p, w.Plan(p, shell("true")))
		w.Ended(p, h)
		if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err == nil {
			t.Fatal("the clean-up succeeded")
		}
	}
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
	if len(orphans) != n {
		t.Fatalf("%d objects are listed, want %d", len(orphans), n)
	}
	for _, o := range orphans {
		if o.Live || o.LedgerID != w.Ledger {
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

// TestF86StaleDelete: a deletion that was accepted with a lost reply, and comes
// again, is success.
func TestF86StaleDelete(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	w.cloud.Faults().Add(fault.Rule{Action: "run:DeleteJob", Count: 1, Effect: fault.Effect{Drop: true}})
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err == nil {
		t.Fatal("a lost reply is no error")
	}
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("status: %v, want NotFound", err)
	}
}

// TestCheck lists each permission that is missing.
func TestCheck(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	missing := func() (out []string) {
		res, err := p.Check(t.Context(), sdk.CheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range res.Items {
			if !it.OK {
				out = append(out, it.Name)
			}
		}
		return out
	}
	if got := missing(); len(got) != 0 {
		t.Errorf("missing with all rights: %v", got)
	}
	for _, permission := range []string{"run.jobs.list", "run.jobs.create", "run.jobs.run", "run.jobs.delete", "run.executions.cancel", "run.tasks.list", "logging.logEntries.list"} {
		w.cloud.Policy().Deny(permission)
		if got := missing(); len(got) != 1 || got[0] != permission {
			t.Errorf("without %s: missing %v", permission, got)
		}
	}
	if n := w.Count("run:CancelExecution"); n > 1 {
		t.Errorf("%d cancels were sent", n)
	}
}
