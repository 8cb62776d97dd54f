package aws

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	pocket "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestStates sees a task go through the real states in the real order, with
// what belongs to each.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stay, look = time.Minute, time.Second
		c := newQuietCloud(t, Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: 3 * stay} })})
		c.ECS().SetKnobs(pocket.Knobs{Pace: pocket.Pace{Provisioning: stay, Pending: stay, Activating: stay, Deactivating: stay, Stopping: stay, Deprovisioning: stay}})
		c.Logs().CreateGroup("jobs")
		task := c.run(t, onFargate(c.register(t, definition("states"))))
		order := []string{"PROVISIONING", "PENDING", "ACTIVATING", "RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED"}
		var states []string
		for *task.LastStatus != "STOPPED" {
			time.Sleep(look)
			task = c.describe(t, *task.TaskArn)
			state := *task.LastStatus
			if len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
			seen := slices.Index(order, state)
			for what, when := range map[string]struct {
				set  bool
				from int
			}{
				"containers":       {len(task.Containers) > 0, 1},
				"connectivity":     {task.Connectivity == types.ConnectivityConnected, 1},
				"pullStartedAt":    {task.PullStartedAt != nil && task.PullStoppedAt != nil, 2},
				"startedAt":        {task.StartedAt != nil, 3},
				"stoppingAt":       {task.StoppingAt != nil, 4},
				"exit code":        {len(task.Containers) > 0 && task.Containers[0].ExitCode != nil, 6},
				"executionStopped": {task.ExecutionStoppedAt != nil, 6},
				"stopCode":         {task.StopCode != "", 6},
				"stoppedAt":        {task.StoppedAt != nil, 7},
				"ENI gone":         {*task.Attachments[0].Status == "DELETED", 7},
			} {
				if when.set != (seen >= when.from) {
					t.Errorf("in %s: %s set is %t", state, what, when.set)
				}
			}
			if want := map[bool]string{true: "STOPPED", false: "RUNNING"}[seen >= 4]; *task.DesiredStatus != want {
				t.Errorf("in %s the desired status is %s", state, *task.DesiredStatus)
			}
		}
		if !slices.Equal(states, order) {
			t.Errorf("states: %v", states)
		}
		if !task.CreatedAt.Before(*task.StartedAt) || !task.StartedAt.Before(*task.StoppedAt) {
			t.Errorf("created %v, started %v, stopped %v", task.CreatedAt, task.StartedAt, task.StoppedAt)
		}
	})
}

// TestStopTask stops a task that ends on TERM, one that must be killed, and one
// that never ran.
func TestStopTask(t *testing.T) {
	c := newCloud(t, Options{})
	polite := c.register(t, definition("polite", "sh", "-c", `trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done`))
	rude := definition("rude", "sh", "-c", `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	rude.ContainerDefinitions[0].StopTimeout = sdk.Int32(1)
	for name, k := range map[string]struct {
		definition string
		code       int32
		lines      []string
	}{
		"polite": {polite, 5, []string{"up", "bye"}},
		"rude":   {c.register(t, rude), 137, []string{"up"}},
	} {
		arn := *c.run(t, onFargate(k.definition)).TaskArn
		c.until(t, arn, "RUNNING")
		testwait.Until(t, 10*time.Second, "first line", func() bool { return len(c.lines(t, arn)) > 0 })
		for range 2 { // the second changes nothing
			out, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: &arn})
			if err != nil {
				t.Fatal(err)
			}
			if *out.Task.DesiredStatus != "STOPPED" || out.Task.StopCode != types.TaskStopCodeUserInitiated {
				t.Errorf("%s: StopTask leaves %s, %s", name, *out.Task.DesiredStatus, out.Task.StopCode)
			}
		}
		task := c.until(t, arn, "STOPPED")
		if got := *task.Containers[0].ExitCode; got != k.code || task.StopCode != types.TaskStopCodeUserInitiated || *task.StoppedReason != "Task stopped by user" {
			t.Errorf("%s: exit code %d, stopped by %s: %s", name, got, task.StopCode, *task.StoppedReason)
		}
		if got := c.lines(t, arn); !slices.Equal(got, k.lines) {
			t.Errorf("%s: log %q, want %q", name, got, k.lines)
		}
	}
	c.ECS().SetKnobs(pocket.Knobs{Pace: pocket.Pace{Provisioning: time.Hour}})
	arn := *c.run(t, onFargate(polite)).TaskArn
	if _, err := c.ecs.StopTask(t.Context(), &ecs.StopTaskInput{Task: &arn, Reason: sdk.String("no")}); err != nil {
		t.Fatal(err)
	}
	task := c.until(t, arn, "STOPPED")
	if task.StopCode != types.TaskStopCodeUserInitiated || *task.StoppedReason != "no" || len(task.Containers) != 0 || task.StartedAt != nil {
		t.Errorf("a task that never ran was stopped by %s: %s, with %d containers", task.StopCode, *task.StoppedReason, len(task.Containers))
	}
}

// TestMishaps brings each mishap about.
func TestMishaps(t *testing.T) {
	c := newCloud(t, Options{})
	def := c.register(t, definition("mishap", "sh", "-c", `trap 'exit 143' TERM; while :; do sleep 0.02; done`))
	const soon = 20 * time.Millisecond
	exit := func(n int32) *int32 { return &n }
	for name, k := range map[string]struct {
		mishap                pocket.Mishap
		code                  types.TaskStopCode
		reason, container     string
		exit                  *int32
		containers            int
		ran                   bool
		essentialEndsByItself bool
	}{
		"F5 never placed": {mishap: pocket.Mishap{Stage: pocket.StagePlace, After: soon}, code: "TaskFailedToStart", reason: "Unable to place"},
		"network":         {mishap: pocket.Mishap{Stage: pocket.StageENI}, code: "TaskFailedToStart", reason: "Timeout waiting for network interface provisioning to complete."},
		"image":           {mishap: pocket.Mishap{Stage: pocket.StagePull}, code: "TaskFailedToStart", reason: "CannotPullContainerError: ", container: "CannotPullContainerError: ", containers: 1},
		"init":            {mishap: pocket.Mishap{Stage: pocket.StageInit}, code: "TaskFailedToStart", reason: "ResourceInitializationError: ", containers: 1},
		"spot":            {mishap: pocket.Mishap{Stage: pocket.StageSpot, After: soon}, code: "SpotInterruption", reason: "Your Spot Task was interrupted.", exit: exit(143), containers: 1, ran: true},
		"host":            {mishap: pocket.Mishap{Stage: pocket.StageHost, After: soon}, code: "TerminationNotice", reason: "Host EC2 ", containers: 1, ran: true},
		"memory":          {mishap: pocket.Mishap{Stage: pocket.StageOOM, After: soon}, code: "EssentialContainerExited", reason: "Essential container in task exited", container: "OutOfMemoryError: Container killed due to memory usage", exit: exit(137), containers: 1, ran: true},
		"F21 child":       {mishap: pocket.Mishap{Stage: pocket.StageOOM, After: soon, ExitCode: exit(0)}, code: "EssentialContainerExited", reason: "Essential", container: "OutOfMemoryError", exit: exit(0), containers: 1, ran: true},
		"own words":       {mishap: pocket.Mishap{Stage: pocket.StageSpot, After: soon, StopCode: "TerminationNotice", StoppedReason: "r", Reason: "c", NoExitCode: true}, code: "TerminationNotice", reason: "r", container: "c", containers: 1, ran: true},
	} {
		k.mishap.Tasks = 1
		remove := c.ECS().Strike(k.mishap)
		task := c.until(t, *c.run(t, onFargate(def)).TaskArn, "STOPPED")
		remove()
		if task.StopCode != k.code || !strings.HasPrefix(*task.StoppedReason, k.reason) {
			t.Errorf("%s: stopped by %s: %s", name, task.StopCode, *task.StoppedReason)
		}
		if (task.StartedAt != nil) != k.ran || len(task.Containers) != k.containers {
			t.Errorf("%s: started at %v, %d containers", name, task.StartedAt, len(task.Containers))
			continue
		}
		if k.containers == 0 {
			continue
		}
		got := task.Containers[0]
		if !strings.HasPrefix(sdk.ToString(got.Reason), k.container) || (got.Reason == nil) != (k.container == "") {
			t.Errorf("%s: the container's reason is %v", name, sdk.ToString(got.Reason))
		}
		if (got.ExitCode == nil) != (k.exit == nil) || k.exit != nil && *got.ExitCode != *k.exit {
			t.Errorf("%s: exit code %v, want %v", name, got.ExitCode, k.exit)
		}
	}
}

// TestStartFailures starts what can't be started.
func TestStartFailures(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		change            func(*types.ContainerDefinition)
		reason, container string
	}{
		"no program": {func(d *types.ContainerDefinition) { d.Command = []string{"/nosuch"} }, "CannotStartContainerError: ", "CannotStartContainerError: "},
		"no command": {func(d *types.ContainerDefinition) { d.Command = nil }, "CannotCreateContainerError: ", "CannotCreateContainerError: "},
		"no folder":  {func(d *types.ContainerDefinition) { d.WorkingDirectory = sdk.String("/nosuch") }, "CannotStartContainerError: ", "CannotStartContainerError: "},
		"no group":   {func(d *types.ContainerDefinition) { d.LogConfiguration.Options["awslogs-group"] = "nosuch" }, "ResourceInitializationError: failed to validate logger args", ""},
		"no secret": {func(d *types.ContainerDefinition) {
			d.Secrets = []types.Secret{{Name: sdk.String("S"), ValueFrom: sdk.String("arn:aws:secretsmanager:" + Region + ":" + Account + ":secret:nosuch-123456")}}
		}, "ResourceInitializationError: unable to pull secrets or registry auth: ", ""},
		"no parameter": {func(d *types.ContainerDefinition) {
			d.Secrets = []types.Secret{{Name: sdk.String("S"), ValueFrom: sdk.String("nosuch")}}
		}, "ResourceInitializationError: unable to pull secrets or registry auth: ", ""},
	} {
		d := definition("fails", "true")
		k.change(&d.ContainerDefinitions[0])
		task := c.until(t, *c.run(t, onFargate(c.register(t, d))).TaskArn, "STOPPED")
		got := task.Containers[0]
		if task.StopCode != types.TaskStopCodeTaskFailedToStart || !strings.HasPrefix(*task.StoppedReason, k.reason) || !strings.HasPrefix(sdk.ToString(got.Reason), k.container) {
			t.Errorf("%s: stopped by %s: %s; container: %s", name, task.StopCode, *task.StoppedReason, sdk.ToString(got.Reason))
		}
		if got.ExitCode != nil || task.StartedAt != nil || *got.LastStatus != "STOPPED" {
			t.Errorf("%s: exit code %v, started at %v, container %s", name, got.ExitCode, task.StartedAt, *got.LastStatus)
		}
	}
}

// TestSidecars runs a container that is waited for, one that ends first without
// harm, and one that outlives the main one.
func TestSidecars(t *testing.T) {
	c := newCloud(t, Options{})
	d := definition("sidecars", "sh", "-c", "echo main; sleep 0.1; exit 4")
	side := func(name string, command ...string) types.ContainerDefinition {
		s := d.ContainerDefinitions[0]
		s.Name, s.Command, s.Essential, s.DependsOn = &name, command, sdk.Bool(false), nil
		return s
	}
	d.ContainerDefinitions[0].DependsOn = []types.ContainerDependency{{ContainerName: sdk.String("init"), Condition: types.ContainerConditionSuccess}}
	d.ContainerDefinitions = append(d.ContainerDefinitions, side("init", "true"), side("short", "sh", "-c", "exit 9"), side("long", "sleep", "60"))
	arn := c.register(t, d)
	task := c.until(t, *c.run(t, onFargate(arn)).TaskArn, "STOPPED")
	var codes []int32
	for _, got := range task.Containers {
		codes = append(codes, *got.ExitCode)
	}
	if !slices.Equal(codes, []int32{4, 0, 9, 143}) {
		t.Errorf("exit codes %v", codes)
	}
	d.ContainerDefinitions[1].Command = []string{"false"}
	task = c.until(t, *c.run(t, onFargate(c.register(t, d))).TaskArn, "STOPPED")
	if task.StopCode != types.TaskStopCodeTaskFailedToStart || !strings.HasPrefix(*task.StoppedReason, "Dependency on container init") {
		t.Errorf("after a failed init: %s: %s", task.StopCode, *task.StoppedReason)
	}
}

// TestClose leaves nothing that runs, and every task STOPPED.
func TestClose(t *testing.T) {
	executor := run.NewProcesses(nil)
	c := newCloud(t, Options{Executor: executor})
	def := c.register(t, definition("close", "sh", "-c", "trap '' TERM; sleep 60 & wait"))
	in := onFargate(def)
	in.Count = sdk.Int32(3)
	out, err := c.ecs.RunTask(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range out.Tasks {
		c.until(t, *task.TaskArn, "RUNNING")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, task := range out.Tasks {
		if got := c.describe(t, *task.TaskArn); *got.LastStatus != "STOPPED" || *got.Containers[0].ExitCode != 137 {
			t.Errorf("after Close a task is %s, exit code %d", *got.LastStatus, *got.Containers[0].ExitCode)
		}
	}
	if _, err := c.ecs.RunTask(t.Context(), in); err == nil {
		t.Error("RunTask goes on after Close")
	}
}
