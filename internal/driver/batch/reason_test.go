package batch

import (
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// endings is the golden table of what AWS Batch says and what it comes to.
var endings = []struct {
	name string
	f    facts
	want string
	oom  bool
}{
	{name: "success", f: facts{succeeded: true, status: "Essential container in task exited", code: code(0), started: true}, want: "succeeded completed"},
	{name: "success without a code", f: facts{succeeded: true, started: true}, want: "succeeded completed"},
	{name: "a child out of memory", f: facts{succeeded: true, container: "OutOfMemoryError: Container killed due to memory usage", code: code(0), started: true}, want: "succeeded completed", oom: true},
	{name: "failure", f: facts{status: "Essential container in task exited", code: code(3), started: true}, want: "failed nonzero_exit"},
	{name: "128+9 proves no signal", f: facts{status: "Essential container in task exited", code: code(137), started: true}, want: "failed nonzero_exit"},
	{name: "out of memory", f: facts{status: "Essential container in task exited", container: "OutOfMemoryError: Container killed due to memory usage", code: code(137), started: true}, want: "failed oom_killed", oom: true},
	{name: "no code", f: facts{status: "Essential container in task exited", started: true}, want: "failed unknown"},
	{name: "code 0 of a job that failed", f: facts{status: "Essential container in task exited", code: code(0), started: true}, want: "failed unknown"},
	{name: "no word", f: facts{}, want: "failed failed_to_start"},

	{name: "spot on Fargate", f: facts{status: "Your Spot Task was interrupted.", code: code(143), started: true}, want: "failed preempted"},
	{name: "spot instance", f: facts{status: "Host EC2 (instance i-0123456789abcdef0) terminated: Spot interruption", started: true}, want: "failed preempted"},
	{name: "host", f: facts{status: "Host EC2 (instance i-0123456789abcdef0) terminated.", started: true}, want: "failed node_lost"},
	{name: "maintenance", f: facts{status: "ECS is performing maintenance on the underlying infrastructure hosting the task", started: true}, want: "failed evicted"},

	{name: "cancel", f: facts{status: "windlass: cancelled", code: code(143), started: true, asked: true}, want: "cancelled cancelled"},
	{name: "cancel in the queue", f: facts{status: "windlass: cancelled", asked: true}, want: "cancelled cancelled"},
	{name: "cancel answered with 0", f: facts{status: "windlass: cancelled", code: code(0), started: true, asked: true}, want: "cancelled cancelled"},
	{name: "cancel that came too late", f: facts{succeeded: true, status: "Essential container in task exited", code: code(0), started: true, asked: true}, want: "succeeded completed"},
	{name: "time-out", f: facts{status: "Job attempt duration exceeded timeout", code: code(137), started: true}, want: "failed timed_out"},
	{name: "time-out that terminates", f: facts{status: "Job attempt duration exceeded timeout", code: code(137), started: true, asked: true}, want: "failed timed_out"},

	{name: "image", f: facts{status: "Task failed to start", container: "CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref docker.io/library/nosuch:1: not found"}, want: "failed image_pull"},
	{name: "image's rights", f: facts{status: "CannotPullContainerError: AccessDeniedException: User is not authorized to perform ecr:BatchGetImage"}, want: "failed image_pull"},
	{name: "secret's rights", f: facts{status: "ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed: unable to retrieve secret from asm: AccessDeniedException: User is not authorized to perform: secretsmanager:GetSecretValue"}, want: "failed permission_denied"},
	{name: "secret gone", f: facts{status: "ResourceInitializationError: unable to pull secrets or registry auth: ResourceNotFoundException: Secrets Manager can't find the specified secret."}, want: "failed failed_to_start"},
	{name: "program", f: facts{status: "Task failed to start", container: `CannotStartContainerError: Error response from daemon: OCI runtime create failed: exec: "nosuch": executable file not found in $PATH: unknown`}, want: "failed invalid_spec"},
	{name: "role", f: facts{status: "ECS was unable to assume the role 'arn:aws:iam::123456789012:role/x' that was provided for this task."}, want: "failed permission_denied"},
	{name: "overrides", f: facts{status: "Container Overrides length must be at most 8192"}, want: "failed invalid_spec"},
	{name: "interface", f: facts{status: "Timeout waiting for network interface provisioning to complete."}, want: "failed infrastructure"},
	{name: "capacity", f: facts{status: "Capacity is unavailable at this time. Please try again later or in a different availability zone"}, want: "failed capacity"},
	{name: "engine", f: facts{status: "Task failed to start", container: "DockerTimeoutError: Could not transition to created; timed out after waiting 4m0s", started: true}, want: "failed infrastructure"},
}

func code(n int32) *int32 { return &n }

// TestF19Reasons: the container's reason beside the
// job's, and one reason of both.
func TestF19Reasons(t *testing.T) {
	for _, c := range endings {
		e := judge(c.f)
		if got := string(e.state) + " " + string(e.reason); got != c.want || e.oom != c.oom {
			t.Errorf("%s: %s, OOM %t; want %s, %t", c.name, got, e.oom, c.want, c.oom)
		}
		if !sdk.LegalReason(e.state, e.reason) {
			t.Errorf("%s: %s: %s is not legal", c.name, e.state, e.reason)
		}
		if e.state != sdk.StateSucceeded && e.message == "" {
			t.Errorf("%s: no word of AWS Batch's is kept", c.name)
		}
	}
}

// TestF35Preempted: a machine that was taken back is no plain failure, whatever
// code the container left.
func TestF35Preempted(t *testing.T) {
	for text, want := range map[string]sdk.Reason{
		"Your Spot Task was interrupted.":                                            sdk.ReasonPreempted,
		"Host EC2 (instance i-0123456789abcdef0) terminated: Spot interruption":      sdk.ReasonPreempted,
		"Host EC2 (instance i-0123456789abcdef0) terminated.":                        sdk.ReasonNodeLost,
		"Host EC2 (instance i-0123456789abcdef0) stopped/terminated.":                sdk.ReasonNodeLost,
		"EC2 instance i-0123456789abcdef0 was terminated by a spot instance request": sdk.ReasonPreempted,
	} {
		for _, c := range []*int32{nil, code(143), code(137)} {
			if e := judge(facts{status: text, code: c, started: true}); e.state != sdk.StateFailed || e.reason != want {
				t.Errorf("%s: %s, %s; want %s", text, e.state, e.reason, want)
			}
		}
	}
}

// TestWaitingReasons: why a job waits, of what AWS documents.
func TestWaitingReasons(t *testing.T) {
	for text, want := range map[string]sdk.Reason{
		"": "", "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - x": sdk.ReasonCapacity, "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - x": sdk.ReasonUnschedulable,
		"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - x": sdk.ReasonUnschedulable, "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS - x": sdk.ReasonPermissionDenied, "a word of tomorrow": sdk.ReasonQueued,
	} {
		if got := waitingReason(text); got != want || !sdk.LegalReason(sdk.StatePending, got) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzJudge: no words of a backend's make an end that is illegal, or a success
// of a job that failed.
func FuzzJudge(f *testing.F) {
	for _, c := range endings {
		n := int32(-1)
		if c.f.code != nil {
			n = *c.f.code
		}
		f.Add(c.f.status, c.f.container, n, c.f.succeeded, c.f.started, c.f.asked)
	}
	f.Fuzz(func(t *testing.T, status, container string, n int32, succeeded, started, asked bool) {
		in := facts{status: status, container: container, succeeded: succeeded, started: started, asked: asked}
		if n >= 0 {
			in.code = &n
		}
		e := judge(in)
		if !e.state.Terminal() || !sdk.LegalReason(e.state, e.reason) || (e.state == sdk.StateSucceeded) != succeeded {
			t.Errorf("%+v: %s: %s", in, e.state, e.reason)
		}
		if why := waitingReason(status); !sdk.LegalReason(sdk.StatePending, why) {
			t.Errorf("%q: waiting for %s", status, why)
		}
	})
}
