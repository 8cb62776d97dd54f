package cloudrun

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// mutations are the calls by which the driver changes something.
func mutations() []drivertest.Mutation {
	return []drivertest.Mutation{
		{Action: "run:CreateJob", Op: providertest.OpRunJob},
		{Action: "run:CancelExecution", Op: providertest.OpCancelJob},
		{Action: "run:DeleteJob", Op: providertest.OpCleanupJob},
	}
}

func calm(t testing.TB) *drivertest.World[*provider] {
	return newWorld(t, pocket.Options{}, nil).World
}

// TestNoRetriesOfTheClient: a call that changes something is sent once, whatever
// becomes of its reply.
func TestNoRetriesOfTheClient(t *testing.T) {
	drivertest.SendsOnce(t, calm, mutations(), map[string]*fault.Refusal{"unavailable": pocket.Unavailable(), "throttled": pocket.Throttle()})
}

// TestLostReplies: what lost its reply is done once, and done when asked again.
func TestLostReplies(t *testing.T) { drivertest.OutlivesLostReplies(t, calm, mutations()) }

// TestCancelledCalls: what is cancelled returns at once.
func TestCancelledCalls(t *testing.T) { drivertest.EndsWithItsContext(t, calm, mutations()) }

// TestLostReplyRunsOnce: a launch whose reply was lost is found by its name, and
// sent by several processes at once makes one job.
func TestLostReplyRunsOnce(t *testing.T) { calm(t).OneJobPerLaunch("run:CreateJob") }

// TestCredentialsStaySecret: the access token is in nothing but the header that
// it is for.
func TestCredentialsStaySecret(t *testing.T) { calm(t).CredentialsStaySecret("run:GetExecution") }

// TestF16JobsLimit: the quota of jobs is waited for, and a clean-up gives room.
func TestF16JobsLimit(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.MaxJobs = 1 })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.WaitsForRoom(p, func() func() {
		return func() {
			w.Ended(p, h)
			res, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
			if err != nil || len(res.Removed) != 1 {
				t.Fatalf("clean-up: %v, %v", res, err)
			}
		}
	}, sdk.ReasonQuota, "reap")
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
	w.NamesMissingRights(p, permissions(p), func(right string) func() {
		w.cloud.Policy().Deny(right)
		return func() { w.cloud.Policy().Deny() }
	})
	if n := w.Count("run:CancelExecution"); n > 1 {
		t.Errorf("%d cancels were sent", n)
	}
}
