package ecs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestF1Failures: a RunTask that is answered with failures has made nothing, and
// says whether room may come.
func TestF1Failures(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for _, failure := range []string{"RESOURCE:MEMORY", pocketecs.Capacity} {
		w.WaitsForRoom(p, func() func() {
			w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.Placements = []string{failure} })
			return func() {}
		}, sdk.ReasonCapacity, "")
	}
	if n := w.Count("ecs:RunTask"); n != 4 {
		t.Errorf("%d calls for two launches that were refused once", n)
	}
}

// mutations are the calls by which the driver changes something.
func mutations() []drivertest.Mutation {
	in := func(folder string) func(s *sdk.JobSpec) { return func(s *sdk.JobSpec) { s.Workdir = folder } }
	return []drivertest.Mutation{
		{Action: "ecs:RegisterTaskDefinition", Op: providertest.OpRunJob, Before: true, With: in("/tmp")},
		{Action: "ecs:RunTask", Op: providertest.OpRunJob},
		{Action: "ecs:TagResource", Op: providertest.OpRenewExpiry},
		{Action: "ecs:StopTask", Op: providertest.OpCancelJob},
		{Action: "ecs:DeregisterTaskDefinition", Op: providertest.OpCleanupJob, With: in("/usr")},
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

// TestOneTaskPerLaunch: processes that send one launch at once, also after a lost
// reply, get one task.
func TestOneTaskPerLaunch(t *testing.T) { calm(t).OneJobPerLaunch("ecs:RunTask") }

// TestCredentialsStaySecret: the secret key is in nothing but signatures.
func TestCredentialsStaySecret(t *testing.T) { calm(t).CredentialsStaySecret("ecs:DescribeTasks") }

// TestF7Definitions: many equal launches at once register one definition, and
// the last clean-up takes it away.
func TestF7Definitions(t *testing.T) {
	drivertest.SharesDefinition(t, calm(t), "ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition")
}

// TestF7FamilyLock: while another process registers a revision of the family,
// the driver waits for its turn.
func TestF7FamilyLock(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	busy := &fault.Refusal{Code: "ClientException", Message: "Too many concurrent attempts to create a new revision of the specified family."}
	w.cloud.Faults().Add(fault.Rule{Action: "ecs:RegisterTaskDefinition", Count: 2, Effect: fault.Effect{Refuse: busy}})
	w.Ended(p, w.Run(p, w.Plan(p, shell("true"))))
	if n := w.Count("ecs:RegisterTaskDefinition"); n != 3 {
		t.Errorf("%d registrations instead of 3", n)
	}
}

// TestRefusedLeavesNothing: a launch that is refused for good takes its
// definition away again, unless others use it.
func TestRefusedLeavesNothing(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	refuse := func() {
		remove := w.cloud.Faults().Add(fault.Rule{Action: "ecs:RunTask", Count: 1, Effect: fault.Effect{Refuse: w.cloud.Deny("pocket", "ecs:RunTask", "*")}})
		defer remove()
		if _, err := w.Open().RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("sleep 100"))}); sdk.CodeOf(err) != sdk.PermissionDenied {
			t.Fatalf("got %v", err)
		}
	}
	refuse()
	if n := w.Count("ecs:DeregisterTaskDefinition"); n != 1 {
		t.Errorf("%d definitions deregistered", n)
	}
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	w.Running(p, h)
	refuse()
	if n := w.Count("ecs:DeregisterTaskDefinition"); n != 1 {
		t.Errorf("a definition in use was deregistered")
	}
}

// TestInactiveDefinition: a definition that somebody deregistered since is
// registered again, and the launch goes on.
func TestInactiveDefinition(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p, other := w.Open(), w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	if err := other.deregister(t.Context(), "test", h.Metadata[keyDefinition]); err != nil {
		t.Fatal(err)
	}
	again := w.Run(p, w.Plan(p, shell("exit 4")))
	if st := w.Ended(p, again); st.ExitCode == nil || *st.ExitCode != 4 {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
	if again.Metadata[keyDefinition] == h.Metadata[keyDefinition] {
		t.Error("the handle names the definition that is inactive")
	}
}

// TestLaunchInDoubt: sent again after a lost reply, and after the definition was
// registered anew, the launch makes no second task.
func TestLaunchInDoubt(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	l := w.Plan(p, shell(w.Mark("doubt")+"; sleep 100"))
	w.cloud.Faults().Add(fault.Rule{Action: "ecs:RunTask", Count: 1, Effect: fault.Effect{Drop: true}})
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
		t.Fatalf("a lost reply: got %v", err)
	}
	w.Eventually("running job", func() bool { return w.Marked("doubt") == 1 })
	other := w.Open()
	res, err := other.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.deregister(t.Context(), "test", res.Handle.Metadata[keyDefinition]); err != nil {
		t.Fatal(err)
	}
	third, err := w.Open().RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil || third.Handle.ID != res.Handle.ID {
		t.Errorf("after a deregistration: %s, %v; want %s", third.Handle.ID, err, res.Handle.ID)
	}
	if n := w.Marked("doubt"); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

// TestF12FindStopped: a task that ended sooner than it was sought is found among
// the stopped ones, also when a stop has deleted its tags; startedBy stands with
// no other filter, which the pocket cloud refuses as AWS does.
func TestF12FindStopped(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.PageSize = 3 })
	for range 7 {
		w.Ended(p, w.Run(p, w.Plan(p, shell("true"))))
	}
	for name, script := range map[string]string{"ended": "exit 3", "stopped": "sleep 100"} {
		l := w.Plan(p, shell(script))
		h := w.Run(p, l)
		if name == "stopped" {
			w.Running(p, h)
			if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
				t.Fatal(err)
			}
		}
		w.Ended(p, h)
		w.Eventually("stopped task", func() bool { return w.Status(p, h).Raw["last_status"] == statusStopped })
		fresh := w.Open()
		for how, r := range map[string]sdk.FindJobsRequest{
			"launch": {Launch: &l, SentAt: time.Now()}, "run and owner": {RunID: l.RunID, Owner: w.Owner}, "run": {RunID: l.RunID},
		} {
			res, err := fresh.FindJobs(t.Context(), r)
			if err != nil || res.Outcome != sdk.FindFound || len(res.Jobs) != 1 {
				t.Errorf("%s, by %s: %s with %d jobs, %v", name, how, res.Outcome, len(res.Jobs), err)
				continue
			}
			j := res.Jobs[0]
			if j.Handle.ID != h.ID || j.AttemptID != l.AttemptID || j.Attempt != 1 || j.Owner != w.Owner || j.LedgerID != w.Ledger {
				t.Errorf("%s, by %s: %+v", name, how, j)
			}
			if j.Handle.Metadata[keyLogStream] != h.Metadata[keyLogStream] || j.Handle.Metadata[keyLogGroup] != h.Metadata[keyLogGroup] {
				t.Errorf("%s, by %s: the log is sought at %v", name, how, j.Handle.Metadata)
			}
		}
	}
}

// TestFindNothing: not finding a task proves nothing.
func TestFindNothing(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	l := w.Plan(p, shell("true"))
	for _, r := range []sdk.FindJobsRequest{{Launch: &l, SentAt: time.Now().Add(-2 * time.Hour)}, {RunID: l.RunID}, {}} {
		if res, err := p.FindJobs(t.Context(), r); err != nil || res.Outcome != sdk.FindNotVisible || !res.VisibleAt.IsZero() {
			t.Errorf("%+v: %+v, %v", r, res, err)
		}
	}
}

// TestFindWithoutCluster: a cluster that isn't there has taken no launch.
func TestFindWithoutCluster(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"cluster": "nowhere"})
	p := w.Open()
	l := w.Plan(p, shell("true"))
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || !sdk.IsClear(err) || sdk.IsRetryable(err) {
		t.Errorf("run: %v", err)
	}
	if res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: time.Now()}); err != nil || res.Outcome != sdk.FindAbsent {
		t.Errorf("find: %+v, %v", res, err)
	}
}

// TestPlacements: each way to place a task is one that ECS takes.
func TestPlacements(t *testing.T) {
	w := newWorld(t, pocket.Options{Instances: true}, map[string]any{"security_groups": []string{"sg-0123456789abcdef0"}})
	p := w.Open()
	grace := 5 * time.Second
	for name, spec := range map[string]sdk.JobSpec{
		"spot":        {Options: json.RawMessage(`{"capacity_providers":[{"name":"FARGATE_SPOT","weight":3},{"name":"FARGATE"}]}`)},
		"version":     {Options: json.RawMessage(`{"platform_version":"1.4.0","architecture":"arm64","assign_public_ip":true,"task_role":"` + role("job") + `"}`)},
		"size":        {CPU: 2000, Memory: 8 << 30, EphemeralStorage: 50 << 30, Grace: &grace, Workdir: "/tmp", Labels: map[string]string{"team": "a b"}, Name: "nightly"},
		"instances":   {Options: json.RawMessage(`{"launch_type":"ec2"}`), CPU: 100, Memory: 100 << 20},
		"bridge":      {Options: json.RawMessage(`{"launch_type":"ec2"}`), Network: "bridge"},
		"entrypoint":  {Entrypoint: sdk.Argv{"sh", "-c"}, Args: sdk.Argv{"exit 6"}},
		"one cleared": {Entrypoint: sdk.Argv{}, Args: sdk.Argv{"sh", "-c", "exit 6"}},
		"long":        {Env: sdk.Env{"LONG": strings.Repeat("long ", 4000)}},
	} {
		spec.Image = "busybox:local"
		if spec.Args == nil {
			spec.Args = sdk.Argv{"sh", "-c", "exit 6"}
		}
		st := w.Ended(p, w.Run(p, w.Plan(p, spec)))
		if st.ExitCode == nil || *st.ExitCode != 6 {
			t.Errorf("%s: %s: %s, %s", name, st.State, st.Reason, st.Message)
		}
	}
}

// TestF86SecretsInNoRequest: the value of a secret that ECS fetches is in no
// request or reply; that of a visible one is in RunTask's request, and where ECS
// itself shows it.
func TestF86SecretsInNoRequest(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	const stored, param, seen = "canary-stored-0123456789", "canary-param-0123456789", "canary-visible-0123456789"
	w.cloud.Secrets().Put("db", `{"password":"`+stored+`"}`)
	w.cloud.Parameters().Put("/prod/key", param)
	w.Secrets.Set("SEEN", []byte(seen))
	spec := shell(`printf '%s %s %s\n' "$DB" "$KEY" "$SEEN" | sha256sum`)
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
	for _, value := range []string{stored, param, seen} {
		w.NotKept(value, l, h)
	}
	w.Unseen(stored)
	w.Unseen(param)
	w.Unseen(seen, "ecs:RunTask", "ecs:DescribeTasks")
	for action, want := range map[string]int{"secretsmanager:GetSecretValue": 0, "ssm:GetParameters": 0} {
		if n := w.Count(action); n != want {
			t.Errorf("the driver itself called %s %d times", action, n)
		}
	}
}

// TestMissingSecret: a secret that Secrets Manager doesn't have is refused
// before launch.
func TestMissingSecret(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	spec := shell("true")
	spec.Secrets = map[string]sdk.SecretRef{"S": "secret://aws-sm/nosuch"}
	l := w.Prepare(p, spec)
	if !slices.ContainsFunc(l.Problems, func(p sdk.Problem) bool {
		return p.Field == "secrets.S" && strings.Contains(p.Message, "nosuch")
	}) {
		t.Errorf("got %v", l.Problems)
	}
	spec.Secrets = map[string]sdk.SecretRef{"S": "secret://aws-ssm/nosuch"}
	st := w.Ended(p, w.Run(p, w.Plan(p, spec)))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonFailedToStart || st.ExitCode != nil {
		t.Errorf("a parameter that isn't there: %s: %s, %s", st.State, st.Reason, st.Message)
	}
}

// TestOverridesAsCounted: the driver counts the overrides as the pocket cloud
// does, and more where characters take several bytes.
func TestOverridesAsCounted(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for _, value := range []string{"", "plain", `"quoted" \ and <tags> & more`, "\x01\x7f\t\n", strings.Repeat("x", 5000)} {
		spec := sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"true"}, Env: sdk.Env{"A": value}}
		base, err := override{Command: spec.Args, Environment: spec.Env}.size()
		if err != nil {
			t.Fatal(err)
		}
		spec.Env["PAD"] = ""
		more, err := override{Command: spec.Args, Environment: spec.Env}.size()
		if err != nil {
			t.Fatal(err)
		}
		spec.Env["PAD"] = strings.Repeat("p", maxOverrides-more)
		l := w.Plan(p, spec)
		req, err := decodeRequest(l.Request)
		if err != nil || len(req.Run.Override.Environment) == 0 {
			t.Fatalf("%q of base %d: not in the overrides, %v", value, base, err)
		}
		w.Ended(p, w.Run(p, l))
		// One character more, past the driver's own look, is refused by ECS.
		req.Run.Override.Environment["PAD"] += "p"
		req.Run.Token += "x"
		if _, _, err := p.start(t.Context(), req.Run.input(nil)); sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%q: %d characters: %v", value, maxOverrides+1, err)
		}
	}
}
