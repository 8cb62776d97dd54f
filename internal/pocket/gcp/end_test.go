package gcp

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
)

// counts are an execution's.
type counts struct{ running, succeeded, failed, cancelled, retried int32 }

func countsOf(e *runpb.Execution) counts {
	return counts{e.RunningCount, e.SucceededCount, e.FailedCount, e.CancelledCount, e.RetriedCount}
}

// lastResult is the result of an execution's first task.
func (c *cloud) lastResult(t *testing.T, e *runpb.Execution) *runpb.TaskAttemptResult {
	t.Helper()
	task, err := c.tasks.GetTask(t.Context(), &runpb.GetTaskRequest{Name: e.Name + "/tasks/" + short(e.Name) + "-task0"})
	if err != nil {
		t.Fatal(err)
	}
	return task.LastAttemptResult
}

// TestF27Cancel cancels an execution: its operation, and that of the run, end
// without an error, and only the counts tell.
func TestF27Cancel(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "long", jobOf("sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"))
	ran, e := c.start(t, "long", nil)
	c.until(t, e.Name, "output", func(*runpb.Execution) bool { return c.output(t, e, "stdout") == "up\n" })
	if e := c.execution(t, e.Name); e.RunningCount != 1 || e.StartTime == nil || conditionOf(e.Conditions, "Completed").State != runpb.Condition_CONDITION_RECONCILING {
		t.Errorf("while it runs the execution is %v", e)
	}
	op, err := c.execs.CancelExecution(t.Context(), &runpb.CancelExecutionRequest{Name: e.Name})
	if err != nil {
		t.Fatal(err)
	}
	mid := &runpb.Execution{}
	if err := op.Metadata.UnmarshalTo(mid); err != nil || conditionOf(mid.Conditions, "Completed").GetExecutionReason() != runpb.Condition_CANCELLING {
		t.Errorf("while it is cancelled the execution is %v, %v", mid, err)
	}
	c.result(t, op, &runpb.Execution{})
	end := &runpb.Execution{}
	c.result(t, ran, end)
	if got := countsOf(end); got != (counts{cancelled: 1}) || conditionOf(end.Conditions, "Completed").GetExecutionReason() != runpb.Condition_CANCELLED {
		t.Errorf("the execution ended as %+v: %v", got, end.Conditions)
	}
	if r := c.lastResult(t, end); r.GetExitCode() != 7 || r.GetTermSignal() != 0 {
		t.Errorf("a container that handled TERM left %v", r)
	}
	if got := c.output(t, end, "stdout"); got != "up\nbye\n" {
		t.Errorf("its output is %q", got)
	}
	if j, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: parent + "/jobs/long"}); err != nil || j.LatestCreatedExecution.GetCompletionStatus() != runpb.ExecutionReference_EXECUTION_CANCELLED {
		t.Errorf("the job says %v, %v", j.GetLatestCreatedExecution(), err)
	}
}

// TestKill ends a container that ignores TERM.
func TestKill(t *testing.T) {
	c := newCloud(t, Options{})
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Grace = 20 * time.Millisecond })
	c.create(t, "deaf", jobOf("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done"))
	ran, e := c.start(t, "deaf", nil)
	c.until(t, e.Name, "output", func(*runpb.Execution) bool { return c.output(t, e, "stdout") == "up\n" })
	if _, err := c.execs.CancelExecution(t.Context(), &runpb.CancelExecutionRequest{Name: e.Name}); err != nil {
		t.Fatal(err)
	}
	c.done(t, ran)
	if r := c.lastResult(t, e); r.GetTermSignal() != 9 || r.GetExitCode() != 0 {
		t.Errorf("its result is %v", r)
	}
}

// TestF28Timeout lets a task reach its time-out, whose moment a knob moves.
func TestF28Timeout(t *testing.T) {
	c := newCloud(t, Options{})
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.TimeoutDelay = -900 * time.Millisecond })
	j := jobOf("sleep", "60")
	j.Template.Template.Timeout = durationpb.New(time.Second)
	c.create(t, "slow", j)
	op, e := c.start(t, "slow", nil)
	op = c.done(t, op)
	if op.GetError().GetCode() != int32(codes.DeadlineExceeded) {
		t.Errorf("the operation ended with %v", op.GetError())
	}
	e = c.execution(t, e.Name)
	want := "Task " + short(e.Name) + "-task0 failed with message: The configured timeout was reached."
	if got := conditionOf(e.Conditions, "Completed"); got.Message != want || countsOf(e) != (counts{failed: 1}) {
		t.Errorf("the execution ended with %v, %+v", got, countsOf(e))
	}
	if r := c.lastResult(t, e); r.GetTermSignal() != 15 || r.GetStatus().GetCode() != int32(codes.DeadlineExceeded) {
		t.Errorf("its result is %v", r)
	}
}

// TestRetries fails a task twice and lets it succeed.
func TestRetries(t *testing.T) {
	c := newCloud(t, Options{})
	j := jobOf("sh", "-c", `echo "try $CLOUD_RUN_TASK_ATTEMPT"; test "$CLOUD_RUN_TASK_ATTEMPT" = 2`)
	j.Template.Template.Retries = &runpb.TaskTemplate_MaxRetries{MaxRetries: 2}
	c.create(t, "flaky", j)
	e := c.ended(t, "flaky", nil)
	if got := countsOf(e); got != (counts{succeeded: 1, retried: 1}) || !strings.HasPrefix(conditionOf(e.Conditions, "Completed").Message, "Execution completed successfully in ") {
		t.Errorf("the execution ended as %+v: %v", got, e.Conditions)
	}
	task, err := c.tasks.ListTasks(t.Context(), &runpb.ListTasksRequest{Parent: e.Name})
	if err != nil || task.Tasks[0].Retried != 2 || task.Tasks[0].LastAttemptResult.GetExitCode() != 0 {
		t.Errorf("the task is %v, %v", task, err)
	}
	if got := c.output(t, e, "stdout"); got != "try 0\ntry 1\ntry 2\n" {
		t.Errorf("its output is %q", got)
	}
}

// TestTasks runs several tasks: all that succeed, then one that fails and takes
// the others along.
func TestTasks(t *testing.T) {
	c := newCloud(t, Options{})
	j := jobOf("sh", "-c", `echo "$CLOUD_RUN_TASK_INDEX of $CLOUD_RUN_TASK_COUNT"`)
	j.Template.TaskCount, j.Template.Parallelism = 3, 1
	c.create(t, "many", j)
	e := c.ended(t, "many", nil)
	if got := c.output(t, e, "stdout"); countsOf(e) != (counts{succeeded: 3}) || got != "0 of 3\n1 of 3\n2 of 3\n" {
		t.Errorf("the execution ended as %+v with output %q", countsOf(e), got)
	}
	page, err := c.tasks.ListTasks(t.Context(), &runpb.ListTasksRequest{Parent: e.Name, PageSize: 2})
	if err != nil || len(page.Tasks) != 2 || page.NextPageToken == "" {
		t.Fatalf("a page of tasks: %v, %v", page, err)
	}
	rest, err := c.tasks.ListTasks(t.Context(), &runpb.ListTasksRequest{Parent: e.Name, PageSize: 2, PageToken: page.NextPageToken})
	if err != nil || len(rest.Tasks) != 1 || rest.Tasks[0].Index != 2 || rest.NextPageToken != "" {
		t.Errorf("the next page: %v, %v", rest, err)
	}
	if _, err := c.tasks.ListTasks(t.Context(), &runpb.ListTasksRequest{Parent: parent + "/jobs/-/executions/-", PageToken: page.NextPageToken}); err == nil {
		t.Error("a page token of another listing was taken")
	}

	c.create(t, "mixed", &runpb.Job{Template: &runpb.ExecutionTemplate{TaskCount: 3, Template: &runpb.TaskTemplate{Retries: &runpb.TaskTemplate_MaxRetries{}, Containers: []*runpb.Container{
		{Image: "app", Command: []string{"sh", "-c", `test "$CLOUD_RUN_TASK_INDEX" = 1 || exec sleep 60; exit 5`}}}}}})
	e = c.ended(t, "mixed", nil)
	if got := countsOf(e); got != (counts{failed: 1, cancelled: 2}) || !strings.Contains(conditionOf(e.Conditions, "Completed").Message, "-task1 failed with exit code: 5 ") {
		t.Errorf("the execution ended as %+v: %v", got, e.Conditions)
	}
	e = c.ended(t, "mixed", &runpb.RunJobRequest_Overrides{TaskCount: 1, ContainerOverrides: []*runpb.RunJobRequest_Overrides_ContainerOverride{{Args: []string{"ignored"}, Env: []*runpb.EnvVar{{Name: "X"}}}}, Timeout: durationpb.New(time.Second)})
	if e.TaskCount != 1 || e.Template.Timeout.AsDuration() != time.Second || len(e.Template.Containers[0].Args) != 1 || e.Template.Containers[0].Env[0].Name != "X" {
		t.Errorf("with overrides the execution is %v", e)
	}
}

// TestMishaps strikes executions where real ones fail.
func TestMishaps(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "job", jobOf("sleep", "60"))
	for name, k := range map[string]struct {
		mishap         cloudrun.Mishap
		code           codes.Code
		kind, message  string
		signal         int32
		tasksNeverRan  bool
		failed, cancel int32
	}{
		"image":     {mishap: cloudrun.Mishap{Stage: cloudrun.StageImage}, code: codes.NotFound, kind: "ContainerReady", message: "Image 'app' not found.", tasksNeverRan: true, failed: 1},
		"resources": {mishap: cloudrun.Mishap{Stage: cloudrun.StageResources}, code: codes.ResourceExhausted, kind: "ResourcesAvailable", message: "no available instance", tasksNeverRan: true, failed: 1},
		"memory":    {mishap: cloudrun.Mishap{Stage: cloudrun.StageOOM}, code: codes.ResourceExhausted, kind: "Completed", message: "Memory limit of 512 MiB exceeded", signal: 9, failed: 1},
		"platform":  {mishap: cloudrun.Mishap{Stage: cloudrun.StageInternal, Message: "Lost."}, code: codes.Internal, kind: "Completed", message: "failed with message: Lost.", failed: 1},
	} {
		k.mishap.Executions = 1
		remove := c.Run().Strike(k.mishap)
		op, e := c.start(t, "job", nil)
		op = c.done(t, op)
		remove()
		e = c.execution(t, e.Name)
		got := conditionOf(e.Conditions, k.kind)
		if op.GetError().GetCode() != int32(k.code) || got.State != runpb.Condition_CONDITION_FAILED || !strings.Contains(got.Message, k.message) || e.FailedCount != k.failed {
			t.Errorf("%s: the operation ended with %v, the execution with %v, %+v", name, op.GetError(), e.Conditions, countsOf(e))
		}
		if r := c.lastResult(t, e); (r == nil) != k.tasksNeverRan || r.GetTermSignal() != k.signal || r.GetExitCode() != 0 {
			t.Errorf("%s: the attempt's result is %v", name, r)
		}
	}

	defer c.Run().Strike(cloudrun.Mishap{NoExitCode: true, Show: func(e *runpb.Execution) { e.RunningCount = 9 }})()
	c.create(t, "three", jobOf("sh", "-c", "exit 3"))
	if e := c.ended(t, "three", nil); e.RunningCount != 9 || c.lastResult(t, e).GetExitCode() != 0 || c.lastResult(t, e).GetStatus().GetCode() != int32(codes.Aborted) {
		t.Errorf("altered, the execution is %v", e)
	}
}

// TestNoProgram starts what isn't there.
func TestNoProgram(t *testing.T) {
	c := newCloud(t, Options{})
	c.create(t, "none", jobOf("/no/such/program"))
	e := c.ended(t, "none", nil)
	if got := conditionOf(e.Conditions, "Completed").Message; !strings.Contains(got, "failed with message: Application failed to start: ") || countsOf(e) != (counts{failed: 1}) {
		t.Errorf("the execution ended with %q, %+v", got, countsOf(e))
	}
	if got := c.output(t, e, "varlog/system"); !strings.Contains(got, "no such file or directory") {
		t.Errorf("the system's log is %q", got)
	}
}
