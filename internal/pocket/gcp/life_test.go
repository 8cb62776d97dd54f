package gcp

import (
	"fmt"
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
)

// TestLife runs a job whose command really runs, and looks at all that is
// reported of it.
func TestLife(t *testing.T) {
	c := newCloud(t, Options{})
	if _, err := c.Secrets().Put("password", []byte("hush")); err != nil {
		t.Fatal(err)
	}
	j := jobOf("sh", "-c", `echo "$1 $MODE $PASSWORD"; echo oops >&2; env | grep ^CLOUD_RUN_ | sort; exit 3`, "x", "given")
	j.Labels = map[string]string{"team": "a"}
	j.Template.Labels = map[string]string{"run": "one"}
	box := j.Template.Template.Containers[0]
	box.Env = []*runpb.EnvVar{{Name: "MODE", Values: &runpb.EnvVar_Value{Value: "slow"}},
		{Name: "PASSWORD", Values: &runpb.EnvVar_ValueSource{ValueSource: &runpb.EnvVarSource{SecretKeyRef: &runpb.SecretKeySelector{Secret: "password", Version: "latest"}}}}}
	made := c.create(t, "one", j)
	if made.Name != parent+"/jobs/one" || made.Reconciling || made.TerminalCondition.GetState() != runpb.Condition_CONDITION_SUCCEEDED || made.Generation != 1 || made.ObservedGeneration != 1 || made.Etag == "" {
		t.Errorf("the job is %v", made)
	}
	op, first := c.start(t, "one", &runpb.RunJobRequest_Overrides{ContainerOverrides: []*runpb.RunJobRequest_Overrides_ContainerOverride{{Env: []*runpb.EnvVar{{Name: "MODE", Values: &runpb.EnvVar_Value{Value: "quick"}}}}}})
	if first.Job != "one" || first.TaskCount != 1 || !first.Reconciling || first.CompletionTime != nil || conditionOf(first.Conditions, "Completed").State != runpb.Condition_CONDITION_PENDING {
		t.Errorf("the operation shows %v", first)
	}
	op = c.done(t, op)
	want := fmt.Sprintf("Task %s-task0 failed with exit code: 3 and message: The container exited with an error.", short(first.Name))
	if op.GetError().GetCode() != int32(codes.Aborted) || op.GetError().GetMessage() != want {
		t.Errorf("the operation ended with %v", op.GetError())
	}
	about := &runpb.Execution{}
	if err := op.Metadata.UnmarshalTo(about); err != nil || about.Name != first.Name || about.FailedCount != 1 {
		t.Errorf("the operation is about %v, %v", about, err)
	}
	e := c.execution(t, first.Name)
	end := conditionOf(e.Conditions, "Completed")
	if end.State != runpb.Condition_CONDITION_FAILED || end.Message != want || end.GetExecutionReason() != runpb.Condition_NON_ZERO_EXIT_CODE {
		t.Errorf("condition Completed is %v", end)
	}
	for _, kind := range []string{"ContainerReady", "ResourcesAvailable", "Started"} {
		if got := conditionOf(e.Conditions, kind); got.State != runpb.Condition_CONDITION_SUCCEEDED {
			t.Errorf("condition %s is %v", kind, got)
		}
	}
	if e.FailedCount != 1 || e.SucceededCount+e.CancelledCount+e.RunningCount+e.RetriedCount != 0 || e.Reconciling || e.StartTime == nil || e.CompletionTime == nil || e.Labels["run"] != "one" {
		t.Errorf("the execution is %v", e)
	}
	list, err := c.tasks.ListTasks(t.Context(), &runpb.ListTasksRequest{Parent: e.Name})
	if err != nil || len(list.Tasks) != 1 {
		t.Fatal(list, err)
	}
	task := list.Tasks[0]
	if r := task.LastAttemptResult; r.GetExitCode() != 3 || r.GetStatus().GetCode() != int32(codes.Aborted) || r.GetTermSignal() != 0 {
		t.Errorf("the attempt's result is %v", r)
	}
	if got, err := c.tasks.GetTask(t.Context(), &runpb.GetTaskRequest{Name: task.Name}); err != nil || got.Uid != task.Uid {
		t.Errorf("GetTask: %v, %v", got, err)
	}
	if got, want := c.output(t, e, "stdout"), fmt.Sprintf("given quick hush\nCLOUD_RUN_EXECUTION=%s\nCLOUD_RUN_JOB=one\nCLOUD_RUN_TASK_ATTEMPT=0\nCLOUD_RUN_TASK_COUNT=1\nCLOUD_RUN_TASK_INDEX=0\n", short(e.Name)); got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	if got := c.output(t, e, "stderr"); got != "oops\n" {
		t.Errorf("stderr is %q", got)
	}
	if got := c.output(t, e, "varlog/system"); got != "Container called exit(3).\n" {
		t.Errorf("the system's log is %q", got)
	}
	got, err := c.jobs.GetJob(t.Context(), &runpb.GetJobRequest{Name: made.Name})
	if err != nil || got.ExecutionCount != 1 || got.LatestCreatedExecution.GetName() != short(e.Name) || got.LatestCreatedExecution.GetCompletionStatus() != runpb.ExecutionReference_EXECUTION_FAILED {
		t.Errorf("the job is %v, %v", got, err)
	}
}
