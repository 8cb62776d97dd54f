package batch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestF8LostReply: a job whose reply was lost is found by its name and adopted,
// by this process and by any other; it was submitted once and ran once.
func TestF8LostReply(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.OneJobPerLaunch("batch:SubmitJob")
	if n := w.Count("batch:SubmitJob"); n != 2 {
		t.Errorf("%d submits of two launches", n)
	}
}

// TestF8NotFoundProvesNothing: a job that isn't found may be there; how long it
// may be hidden is told, and after that that nothing will be proven.
func TestF8NotFoundProvesNothing(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.hide(time.Hour)
	l := w.Plan(p, shell("sleep 100"))
	h := w.Run(p, l)
	sent := time.Now()
	res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: sent})
	if err != nil || res.Outcome != sdk.FindNotVisible || !res.VisibleAt.Equal(sent.Add(time.Duration(p.cfg.MissingGrace))) {
		t.Errorf("right behind the launch: %+v, %v", res, err)
	}
	for _, r := range []sdk.FindJobsRequest{{Launch: &l, SentAt: sent.Add(-time.Hour)}, {RunID: l.RunID}, {}} {
		if res, err := p.FindJobs(t.Context(), r); err != nil || res.Outcome != sdk.FindNotVisible || !res.VisibleAt.IsZero() {
			t.Errorf("%+v: %+v, %v", r, res, err)
		}
	}
	if err := p.terminate(t.Context(), "test", h.ID, ""); err != nil {
		t.Fatal(err)
	}
}

// mutations are the calls by which the driver changes something.
func mutations() []drivertest.Mutation {
	disk := func(gib int64) func(s *sdk.JobSpec) { return func(s *sdk.JobSpec) { s.EphemeralStorage = gib << 30 } }
	return []drivertest.Mutation{
		{Action: "batch:RegisterJobDefinition", Op: providertest.OpRunJob, Before: true, With: disk(30)},
		{Action: "batch:SubmitJob", Op: providertest.OpRunJob},
		{Action: "batch:TagResource", Op: providertest.OpRenewExpiry},
		{Action: "batch:TerminateJob", Op: providertest.OpCancelJob},
		{Action: "batch:DeregisterJobDefinition", Op: providertest.OpCleanupJob, With: disk(40)},
	}
}

func calm(t testing.TB) *drivertest.World[*provider] {
	return newWorld(t, pocket.Options{}, nil).World
}

// TestNoRetriesOfTheSDK: a call that changes something is sent once, whatever
// becomes of its reply.
func TestNoRetriesOfTheSDK(t *testing.T) {
	drivertest.SendsOnce(t, calm, mutations(), map[string]*fault.Refusal{
		"500": {Status: 500, Code: "ServerException", Message: "internal"}, "throttled": pocket.Throttle()})
}

// TestLostReplies: what lost its reply is done once, and done when asked again.
func TestLostReplies(t *testing.T) { drivertest.OutlivesLostReplies(t, calm, mutations()) }

// TestCancelledCalls: what is cancelled returns at once.
func TestCancelledCalls(t *testing.T) { drivertest.EndsWithItsContext(t, calm, mutations()) }

// TestCredentialsStaySecret: the secret key is in nothing but signatures.
func TestCredentialsStaySecret(t *testing.T) { calm(t).CredentialsStaySecret("batch:DescribeJobs") }

// TestUnsent: whatever becomes of the calls before the submit, the launch isn't in
// doubt: it may be sent again, and makes one job.
func TestUnsent(t *testing.T) {
	for name, effect := range map[string]fault.Effect{
		"dropped reply": {Drop: true}, "reset": {Reset: true}, "500": {Refuse: &fault.Refusal{Status: 500, Code: "ServerException", Message: "internal"}},
	} {
		for _, action := range []string{"batch:DescribeJobDefinitions", "batch:RegisterJobDefinition"} {
			w := newWorld(t, pocket.Options{}, nil)
			p := w.Open()
			l := w.Plan(p, shell(w.Mark("unsent")))
			w.cloud.Faults().Add(fault.Rule{Action: action, Count: 1, Effect: effect})
			if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); !sdk.IsClear(err) || !sdk.IsRetryable(err) || w.Count("batch:SubmitJob") != 0 {
				t.Errorf("%s of %s: %v, %d submits", name, action, err, w.Count("batch:SubmitJob"))
			}
			w.Ended(p, w.Run(p, l))
			if n := w.Marked("unsent"); n != 1 {
				t.Errorf("%s of %s: ran %d times", name, action, n)
			}
		}
	}
	w := newWorld(t, pocket.Options{}, map[string]any{"submit_limit": 1})
	p := w.Open()
	w.Run(p, w.Plan(p, shell("true")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.RunJob(ctx, sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))}); !sdk.IsClear(err) || !sdk.IsRetryable(err) {
		t.Errorf("no turn in time: %v", err)
	}
	if n := w.Count("batch:SubmitJob"); n != 1 {
		t.Errorf("%d submits", n)
	}
}

// TestThrottledSubmit: a refusal for too many calls made nothing, and the same
// launch may be sent again.
func TestThrottledSubmit(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.WaitsForRoom(p, func() func() {
		return w.cloud.Faults().Add(fault.Rule{Action: "batch:SubmitJob", Count: 1, Effect: fault.Effect{Refuse: pocket.Throttle()}})
	}, sdk.ReasonQueued, "")
	// What was clearly refused isn't searched for, but by the check itself.
	if n := w.Count("batch:ListJobs"); n != 1 {
		t.Errorf("%d searches", n)
	}
}

// TestDefinitions: many equal launches at once register one definition, and the
// last clean-up takes it away.
func TestDefinitions(t *testing.T) {
	drivertest.SharesDefinition(t, calm(t), "batch:RegisterJobDefinition", "batch:DeregisterJobDefinition")
}

// TestDefinitionGoesWithTheLast: however many clean up at once, one of them is the
// last, and takes the definition away.
func TestDefinitionGoesWithTheLast(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for round := range 10 {
		handles := make([]sdk.JobHandle, 8)
		for i := range handles {
			handles[i] = w.Run(p, w.Plan(p, shell("true")))
		}
		for _, h := range handles {
			w.Ended(p, h)
		}
		drivertest.AtOnce(len(handles), func(i int) {
			if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: handles[i]}); err != nil {
				t.Error(err)
			}
		})
		if n := w.Count("batch:DeregisterJobDefinition"); n != round+1 {
			t.Fatalf("round %d: %d definitions deregistered", round, n)
		}
	}
}

// TestSharedDefinition: a fresh process doesn't take away a definition that
// another job waits with.
func TestSharedDefinition(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	first, second := w.Run(p, w.Plan(p, shell("true"))), w.Run(p, w.Plan(p, shell("sleep 100")))
	w.Ended(p, first)
	fresh := w.Open()
	if res, err := fresh.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: first}); err != nil || len(res.Removed) > 0 {
		t.Errorf("removed %q, %v", res.Removed, err)
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: second}); err != nil {
		t.Fatal(err)
	}
	w.Ended(p, second)
	if res, err := fresh.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: second}); err != nil || len(res.Removed) != 1 {
		t.Errorf("removed %q, %v", res.Removed, err)
	}
}

// TestInactiveDefinition: a definition that somebody deregistered since is
// registered again, and the launch goes on.
func TestInactiveDefinition(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p, other := w.Open(), w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	if _, err := other.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	if st := w.Ended(p, w.Run(p, w.Plan(p, shell("exit 4")))); st.ExitCode == nil || *st.ExitCode != 4 {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
	if n := w.Count("batch:SubmitJob"); n != 3 {
		t.Errorf("%d submits instead of 3", n)
	}
}

// TestQueueThatIsNot: a queue that isn't there, or is disabled, says nothing of
// the job, and what to do.
func TestQueueThatIsNot(t *testing.T) {
	w := newWorld(t, pocket.Options{JobQueues: []pocketbatch.Queue{{Name: "off", Disabled: true}}}, nil)
	for _, queue := range []string{"nosuch", "off"} {
		w.Config["queue"] = queue
		p := w.Open()
		_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.FailedPrecondition || !strings.Contains(e.Remedy, "queue") {
			t.Errorf("%s: %v", queue, err)
		}
		res, err := p.Check(t.Context(), sdk.CheckRequest{})
		if err != nil || !slices.ContainsFunc(res.Items, func(i sdk.CheckItem) bool { return !i.OK && i.Name == "batch:DescribeJobQueues" && i.Remedy != "" }) {
			t.Errorf("%s: check says %+v, %v", queue, res.Items, err)
		}
	}
}

// TestSecretsInNoRequest: the value of a secret that ECS fetches is in no request
// or reply; that of a visible one is in SubmitJob's, and where AWS Batch itself
// shows it.
func TestSecretsInNoRequest(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	const stored, param, seen = "canary-stored-0123456789", "canary-param-0123456789", "canary-visible-0123456789"
	w.cloud.Secrets().Put("db", `{"password":"`+stored+`"}`)
	w.cloud.Parameters().Put("/prod/key", param)
	w.Secrets.Set("SEEN", []byte(seen))
	spec := shell(`printf '%s%s%s' "$DB" "$KEY" "$SEEN" | wc -c`)
	spec.Secrets = map[string]sdk.SecretRef{"DB": "secret://aws-sm/db#password", "KEY": "secret://aws-ssm/prod/key", "SEEN": "secret://env/SEEN"}
	spec.AllowVisibleSecret = true
	l := w.Plan(p, spec)
	if len(l.Warnings) != 1 {
		t.Errorf("warnings %q", l.Warnings)
	}
	h := w.Run(p, l)
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
		t.Fatalf("the job is %s: %s", st.State, st.Message)
	}
	w.Eventually("length of the secrets", func() bool {
		got, _ := w.Text(p, h, nil)
		return strings.TrimSpace(got) == itoa(int64(len(stored+param+seen)))
	})
	for _, value := range []string{stored, param, seen} {
		w.NotKept(value, l, h)
	}
	w.Unseen(stored)
	w.Unseen(param)
	w.Unseen(seen, "batch:SubmitJob", "batch:DescribeJobs")
}

// TestOverridesMove: what the overrides of a task can't hold goes into the
// definition, and the job runs; just below it stays where it is.
func TestOverridesMove(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for _, n := range []int{maxOverrides - 200, maxOverrides + 1, 20000} {
		spec := shell(`echo ${#LONG}`)
		spec.Env = sdk.Env{"LONG": strings.Repeat("x", n)}
		l := w.Plan(p, spec)
		req, err := decodeRequest(l.Request)
		if err != nil || (len(req.Definition.Container.Environment) > 0) != (n > maxOverrides) {
			t.Errorf("%d: %+v, %v", n, req.Job.Override, err)
		}
		h := w.Run(p, l)
		if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
			t.Errorf("%d: %s, %s", n, st.State, st.Message)
		}
		w.Eventually("length", func() bool {
			got, _ := w.Text(p, h, nil)
			return got == itoa(int64(n))+"\n"
		})
	}
}

// TestF72BulkCancel: thousands of jobs are ended by their labels alone, over
// many pages and throttled calls, and none is left.
func TestF72BulkCancel(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 300
	}
	w := newWorld(t, pocket.Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: -1} })}, nil)
	w.cloud.Batch().SetKnobs(pocketbatch.Knobs{Pace: pocketbatch.Pace{Submitted: time.Millisecond, Runnable: time.Hour}, PageSize: 100})
	p := w.Open()
	req, err := decodeRequest(w.Plan(p, shell("x")).Request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.ensureDefinition(t.Context(), req.Definition, 0); err != nil {
		t.Fatal(err)
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	drivertest.AtOnce(n, func(int) {
		run, attempt := ids.NewID(), ids.NewID()
		in := req.Job.input(nil)
		name := jobName(run, attempt, 1)
		in.JobName, in.Tags = &name, map[string]string{sdk.LabelRun: run.String(), sdk.LabelAttempt: attempt.String(), sdk.LabelOwner: w.Owner, sdk.LabelLedger: w.Ledger}
		if _, err := p.batch.SubmitJob(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
	for _, action := range []string{"batch:ListJobs", "batch:DescribeJobs", "batch:TerminateJob"} {
		w.cloud.Faults().Add(fault.Rule{Action: action, Share: 0.05, Effect: fault.Effect{Refuse: pocket.Throttle()}})
	}
	fresh := w.Open()
	var ended atomic.Int64
	w.Eventually("end of all jobs", func() bool {
		var found []sdk.OwnedObject
		whole := true
		for o, err := range fresh.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: w.Owner}) {
			if err != nil && !sdk.IsRetryable(err) {
				t.Fatal(err)
			}
			whole = whole && err == nil
			if o.Type == typeJob {
				found = append(found, o)
			}
		}
		drivertest.AtOnce(len(found), func(i int) {
			if _, err := fresh.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: found[i]}); err == nil {
				ended.Add(1)
			} else if !sdk.IsRetryable(err) {
				t.Error(err)
			}
		})
		return whole && len(found) == 0
	})
	w.cloud.Faults().Clear()
	if got := int(ended.Load()); got < n {
		t.Errorf("%d of %d jobs were ended", got, n)
	}
	for o, err := range fresh.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
		if err != nil || o.Type == typeJob {
			t.Fatalf("left: %+v, %v", o, err)
		}
	}
}
