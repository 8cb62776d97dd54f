package ecs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// served is a world with a provider and services.
func served(t *testing.T, change map[string]any) (*world, *live) {
	w := serviceWorld(t)
	for k, v := range change {
		w.Config[k] = v
		if v == nil {
			delete(w.Config, k)
		}
	}
	return w, &live{w: w, p: w.Open()}
}

func opOf(path sdk.WorkloadPath) sdk.OpRequest {
	return sdk.OpRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Path: path}
}

func statusOf(t *testing.T, p *provider, path sdk.WorkloadPath, rollout string) sdk.DeploymentStatus {
	t.Helper()
	res, err := p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path, Rollout: rollout})
	if err != nil {
		t.Fatal(err)
	}
	return res.Status
}

func execOf(t *testing.T, p *provider, path sdk.WorkloadPath, r sdk.ExecWorkloadRequest) (string, sdk.ExecWorkloadResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Patience)
	defer cancel()
	var out bytes.Buffer
	r.Op = opOf(path)
	if r.Stdout == nil {
		r.Stdout = &out
	}
	res, err := p.ExecWorkload(ctx, r)
	return out.String(), res, err
}

// TestF91ExitCode: without a shell that tells the code there is none, and it says
// why; a command that is a shell's tells it, and the provider's shell does for all.
func TestF91ExitCode(t *testing.T) {
	w, l := served(t, map[string]any{"exec_shell": nil})
	path := l.make(providertest.Testing(t), 1)
	if g := l.p.Info().Guarantees.Workload.Exec; g.ExitCode {
		t.Errorf("without a shell the guarantee is %+v", g)
	}
	out, res, err := execOf(t, l.p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"echo", "a b", "it's"}})
	if err != nil || out != "a b it's\n" || res.ExitCode != nil || !strings.Contains(res.Why, "exec_shell") || res.Trace == "" {
		t.Errorf("without a shell: %q, %+v, %v", out, res, err)
	}
	out, res, err = execOf(t, l.p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"/bin/sh", "-c", "printf 'no newline'; exit 42"}})
	if err != nil || out != "no newline" || res.ExitCode == nil || *res.ExitCode != 42 {
		t.Errorf("a shell's own command: %q, %+v, %v", out, res, err)
	}
	w.Config["exec_shell"] = "sh"
	p := w.Open()
	for command, code := range map[string]int{"true": 0, "false": 1, "no-such-program": 127} {
		if _, res, err := execOf(t, p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{command}}); err != nil || res.ExitCode == nil || *res.ExitCode != code {
			t.Errorf("%s under the provider's shell: %+v, %v", command, res, err)
		}
	}
	// A shell that isn't in the container has told no code of the command.
	w.Config["exec_shell"] = "/no/such/shell"
	if _, res, err := execOf(t, w.Open(), path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}); err != nil || res.ExitCode != nil || !strings.Contains(res.Why, "Unable to start command") {
		t.Errorf("without the shell: %+v, %v", res, err)
	}
	if _, _, err := execOf(t, p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"cat"}, Stdin: strings.NewReader("x")}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("input without a terminal: %v", err)
	}
	// No input is an input that ends.
	if _, res, err := execOf(t, p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"cat"}}); err != nil || res.ExitCode == nil || *res.ExitCode != 0 {
		t.Errorf("cat without input: %+v, %v", res, err)
	}
}

// TestF91AgentNotReady asks again while the agent isn't connected, and no longer
// than it may; a lost reply isn't asked again.
func TestF91AgentNotReady(t *testing.T) {
	w, l := served(t, nil)
	path := l.make(providertest.Testing(t), 1)
	const late = 3
	w.cloud.Faults().Add(fault.Rule{Action: "ecs:ExecuteCommand", Count: late, Effect: fault.Effect{Refuse: &fault.Refusal{Code: "TargetNotConnectedException", Message: "The execute command failed due to an internal error. Try again later."}}})
	before := w.cloud.Calls().Count("ecs:ExecuteCommand")
	if _, res, err := execOf(t, l.p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}); err != nil || res.ExitCode == nil || *res.ExitCode != 0 {
		t.Errorf("with an agent that is late: %+v, %v", res, err)
	}
	if n := w.cloud.Calls().Count("ecs:ExecuteCommand") - before; n != late+1 {
		t.Errorf("asked %d times", n)
	}
	w.cloud.Faults().Add(fault.Rule{Action: "ecs:ExecuteCommand", Count: 1, Effect: fault.Effect{Drop: true}})
	before = w.cloud.Calls().Count("ecs:ExecuteCommand")
	if _, _, err := execOf(t, l.p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}); err == nil || sdk.IsClear(err) {
		t.Errorf("with the reply lost: %v", err)
	}
	if n := w.cloud.Calls().Count("ecs:ExecuteCommand") - before; n != 1 {
		t.Errorf("after a lost reply it was sent %d times", n)
	}
}

// typist types into a terminal what a test tells it, and waits for what comes.
type typist struct {
	t    *testing.T
	mu   sync.Mutex
	out  bytes.Buffer
	keys *io.PipeWriter
}

func (y *typist) Write(p []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.out.Write(p)
}

func (y *typist) await(text string) {
	y.t.Helper()
	testwait.Until(y.t, drivertest.Patience, text, func() bool {
		y.mu.Lock()
		defer y.mu.Unlock()
		return strings.Contains(y.out.String(), text)
	})
}

func (y *typist) keyIn(text string) {
	y.t.Helper()
	if _, err := io.WriteString(y.keys, text); err != nil {
		y.t.Fatal(err)
	}
}

// TestExecTerminal types at a shell, resizes its terminal, and interrupts a command.
func TestExecTerminal(t *testing.T) {
	_, l := served(t, nil)
	path := l.make(providertest.Testing(t), 1)
	in, keys := io.Pipe()
	y := &typist{t: t, keys: keys}
	resize, signals := make(chan sdk.TerminalSize), make(chan string)
	type end struct {
		res sdk.ExecWorkloadResult
		err error
	}
	done := make(chan end, 1)
	go func() {
		res, err := l.p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: opOf(path), Command: sdk.Argv{"sh"}, Terminal: &sdk.TerminalSize{Columns: 91, Rows: 17},
			Resize: resize, Signals: signals, Stdin: in, Stdout: y})
		done <- end{res, err}
	}()
	y.keyIn("PS1=; stty -echo; stty size; echo rea''dy\r")
	y.await("ready\r\n")
	y.await("17 91\r\n")
	resize <- sdk.TerminalSize{Columns: 120, Rows: 40}
	y.keyIn("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo resi''zed\r")
	y.await("resized\r\n")
	y.keyIn("trap 'echo interr''upted; exit 5' INT; echo wai''ting; while :; do sleep 0.05; done\r")
	y.await("waiting\r\n")
	signals <- "INT"
	y.await("interrupted\r\n")
	got := testwait.Receive(t, drivertest.Patience, "session's end", done)
	if got.err != nil || got.res.ExitCode == nil || *got.res.ExitCode != 5 {
		t.Errorf("%+v, %v", got.res, got.err)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if strings.Contains(y.out.String(), "windlass-") {
		t.Errorf("the trailer stands in the output: %q", y.out.String())
	}
	_ = in.Close()
}

// TestF94FollowsTheDeployment: ECS calls a service stable while tasks of before
// still stop, and when its scheduler hasn't looked yet; the status doesn't.
func TestF94FollowsTheDeployment(t *testing.T) {
	w, l := served(t, nil)
	path := l.make(providertest.Testing(t), 3)
	w.Eventually("complete rollout", func() bool { return statusOf(t, l.p, path, "").Rollout == sdk.RolloutComplete })
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.ServiceDelay = 300 * time.Millisecond })
	res, err := l.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: opOf(path), Replicas: 4})
	if err != nil {
		t.Fatal(err)
	}
	if st := statusOf(t, l.p, path, res.Op.Rollout); st.Rollout != sdk.RolloutProgressing || *st.Desired != 4 || *st.Ready != 3 {
		t.Errorf("before the scheduler looks: %s, %d of %d", st.Rollout, *st.Ready, *st.Desired)
	}
	w.Eventually("complete scale", func() bool { return statusOf(t, l.p, path, res.Op.Rollout).Rollout == sdk.RolloutComplete })

	slow := l.makeSlow(providertest.Testing(t))
	w.Eventually("complete rollout", func() bool { return statusOf(t, l.p, slow, "").Rollout == sdk.RolloutComplete })
	res, err = l.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: opOf(slow), Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	stable := func() bool { // as `aws ecs wait services-stable` judges it
		out, err := l.p.ecs.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Services: []string{slow.Name()}})
		if err != nil {
			t.Fatal(err)
		}
		v := out.Services[0]
		return len(v.Deployments) == 1 && v.RunningCount == v.DesiredCount
	}
	w.Eventually("service that is stable to AWS's waiter", stable)
	if st := statusOf(t, l.p, slow, res.Op.Rollout); st.Rollout != sdk.RolloutProgressing || len(st.Instances) != 2 {
		t.Errorf("while a task still stops: %s, %+v", st.Rollout, st.Instances)
	}
	w.Eventually("end of the old task", func() bool { return statusOf(t, l.p, slow, res.Op.Rollout).Rollout == sdk.RolloutComplete })
}

// makeSlow makes a service of two tasks that take a second to end.
func (l *live) makeSlow(t providertest.T) sdk.WorkloadPath {
	l.w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.ServiceDelay, k.Pace.Stopping = 0, time.Second })
	defer l.w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.Pace = pocketecs.DefaultPace() })
	return l.make(t, 2)
}

// TestF94CircuitBreaker follows a deployment that ECS gives up: it failed, and says
// why, also when the one of before is back; so are its settings.
func TestF94CircuitBreaker(t *testing.T) {
	w, l := served(t, nil)
	path, spec := l.spec("breaks", "app:1")
	spec.Config = map[string]string{"MODE": "good"}
	if _, err := l.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOf(path), Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("complete rollout", func() bool { return statusOf(t, l.p, path, "").Rollout == sdk.RolloutComplete })
	remove := w.cloud.ECS().Strike(pocketecs.Mishap{Tasks: 3, Stage: pocketecs.StagePull})
	defer remove()
	res, err := l.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOf(path), Set: map[string]string{"MODE": "bad"}})
	if err != nil {
		t.Fatal(err)
	}
	var st sdk.DeploymentStatus
	w.Eventually("failed rollout", func() bool {
		st = statusOf(t, l.p, path, res.Op.Rollout)
		return st.Rollout == sdk.RolloutFailed
	})
	if st.Failure == nil || st.Failure.Reason != sdk.ReasonImagePull || st.Failure.Message == "" {
		t.Errorf("failure %+v", st.Failure)
	}
	steady := func() bool {
		out, err := l.p.ecs.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Services: []string{path.Name()}})
		if err != nil {
			t.Fatal(err)
		}
		v := out.Services[0]
		return len(v.Deployments) == 1 && v.RunningCount == v.DesiredCount && v.PendingCount == 0 && v.Deployments[0].RolloutState == types.DeploymentRolloutStateCompleted
	}
	w.Eventually("rollback", steady)
	// What runs is as it was before the change, which so has failed, asked for by its
	// name or as the newest.
	for _, rollout := range []string{res.Op.Rollout, ""} {
		if st := statusOf(t, l.p, path, rollout); st.Rollout != sdk.RolloutFailed || rollout == "" && st.RolloutID != res.Op.Rollout || st.Failure == nil || st.Failure.Reason != sdk.ReasonImagePull ||
			!strings.Contains(st.Failure.Message, "deployment failed") {
			t.Errorf("after the rollback the rollout %q is %s of %s, %+v", rollout, st.Rollout, st.RolloutID, st.Failure)
		}
	}
	out, got, err := execOf(t, l.p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"sh", "-c", `echo "$MODE"`}})
	if err != nil || got.ExitCode == nil || out != "good\n" {
		t.Errorf("after the rollback the setting is %q, %+v, %v", out, got, err)
	}
	// A change that comes after it is another matter, one of the count alone too.
	if _, err := l.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: opOf(path), Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("complete change", func() bool { return statusOf(t, l.p, path, "").Rollout == sdk.RolloutComplete })
}

func TestListHasImages(t *testing.T) {
	_, l := served(t, nil)
	path := l.make(providertest.Testing(t), 1)
	found := false
	for it, err := range l.p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Path == path {
			found = it.Image == "app:1"
		}
	}
	if !found {
		t.Errorf("%s isn't listed with its image", path)
	}
}

// TestF95ReadsTargetsFirst: a target whose scaling is suspended owns nothing; one
// that can't be read keeps a change of the count from being made, unless told.
func TestF95ReadsTargetsFirst(t *testing.T) {
	w, l := served(t, nil)
	path := l.make(providertest.Testing(t), 1)
	l.autoscale(providertest.Testing(t), path, 2, 9)
	if _, err := l.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: opOf(path), Replicas: 3}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("against a target: %v", err)
	}
	calls := w.cloud.Calls().Count("ecs:TagResource")
	w.cloud.Faults().Add(fault.Rule{Action: "application-autoscaling:*", Effect: fault.Effect{Refuse: w.cloud.Deny("pocket", "application-autoscaling:DescribeScalableTargets", "*")}})
	if _, err := l.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: opOf(path)}); !errors.Is(err, sdk.PermissionDenied) {
		t.Errorf("with targets that can't be read: %v", err)
	}
	if n := w.cloud.Calls().Count("ecs:TagResource") - calls; n != 0 {
		t.Errorf("%d marks of refused changes", n)
	}
	if st := statusOf(t, l.p, path, ""); len(st.Warnings) == 0 || st.Autoscaler != nil {
		t.Errorf("status says %q of targets that can't be read", st.Warnings)
	}
	op := opOf(path)
	op.AgainstAutoscaler = true
	if _, err := l.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: op}); err != nil {
		t.Errorf("told so: %v", err)
	}
}

// TestServicesKeepSettings: a value stands in Parameter Store alone, once for each
// operation, and what another tool set stays.
func TestServicesKeepSettings(t *testing.T) {
	w, l := served(t, nil)
	path := l.make(providertest.Testing(t), 1)
	const value = "canary-setting-93b1"
	dry := opOf(path)
	dry.DryRun = true
	plan, err := l.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: dry, Set: map[string]string{"A": value}})
	if err != nil || len(plan.Op.Calls) != 4 {
		t.Fatalf("dry run: %+v, %v", plan.Op, err)
	}
	if n := w.cloud.Calls().Count("ssm:PutParameter") + w.cloud.Calls().Count("ecs:TagResource"); n != 0 {
		t.Errorf("a dry run made %d calls", n)
	}
	if _, err := l.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOf(path), Set: map[string]string{"A": value, "EMPTY": ""}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range w.cloud.Calls().Calls("") {
		if strings.HasPrefix(c.Action, "ecs:") && (bytes.Contains(c.Request, []byte(value)) || bytes.Contains(c.Reply, []byte(value))) {
			t.Errorf("the value stands in %s", c.Action)
		}
	}
	out, err := l.p.ecs.DescribeTaskDefinition(t.Context(), &ecs.DescribeTaskDefinitionInput{TaskDefinition: new(path.Name()), Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags}})
	if err != nil {
		t.Fatal(err)
	}
	c := out.TaskDefinition.ContainerDefinitions[0]
	if out.TaskDefinition.Revision != 2 || len(c.Secrets) != 1 || len(c.Environment) != 1 || c.LogConfiguration.Options["awslogs-stream-prefix"] != "svc" {
		t.Errorf("revision %d: %+v", out.TaskDefinition.Revision, c)
	}
	for what, r := range map[string]sdk.ApplyConfigRequest{
		"too long":          {Set: map[string]string{"A": strings.Repeat("x", 4097)}},
		"a reference":       {Set: map[string]string{"A": "{{ssm:other}}"}},
		"a value of secret": {Secrets: map[string]sdk.SecretRef{"A": "secret://env/A"}},
		"no such secret":    {Secrets: map[string]sdk.SecretRef{"A": "secret://aws-sm/nosuch"}},
	} {
		r.Op = opOf(path)
		if _, err := l.p.ApplyConfig(t.Context(), r); err == nil || !sdk.IsClear(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.cloud.Secrets().Put("db", "hush")
	if _, err := l.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOf(path), Secrets: map[string]sdk.SecretRef{"DB": "secret://aws-sm/db"}}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("secret in the task", func() bool {
		got, _, err := execOf(t, l.p, path, sdk.ExecWorkloadRequest{Command: sdk.Argv{"sh", "-c", `echo "$DB $A"`}})
		return err == nil && got == "hush "+value+"\n"
	})
}

// TestServiceMetricsNeedInsights: a cluster that measures no tasks says so.
func TestServiceMetricsNeedInsights(t *testing.T) {
	w, l := served(t, nil)
	if _, err := l.p.ecs.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: new("plain"), CapacityProviders: []string{"FARGATE"}}); err != nil {
		t.Fatal(err)
	}
	spec := sdk.DeploymentSpec{Name: "api", Image: "app:1"}
	if _, err := l.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOf("plain/api"), Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("complete rollout", func() bool { return statusOf(t, l.p, "plain/api", "").Rollout == sdk.RolloutComplete })
	for it, err := range l.p.StreamMetrics(t.Context(), sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{"plain/api"}}) {
		if err != nil || it.Failed == nil || !errors.Is(it.Failed, sdk.FailedPrecondition) {
			t.Errorf("%+v, %v", it, err)
		}
		break
	}
}
