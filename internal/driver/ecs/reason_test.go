package ecs

import (
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// endings is the golden table of what ECS says and what it comes to. The texts
// are AWS's own.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
var endings = []struct {
	name string
	f    facts
	want string
	oom  bool
}{
	{name: "success", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", code: code(0), started: true}, want: "succeeded completed"},
	{name: "failure", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", code: code(3), started: true}, want: "failed nonzero_exit"},
	{name: "128+9 proves no signal", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", code: code(137), started: true}, want: "failed nonzero_exit"},
	{name: "out of memory", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", container: "OutOfMemoryError: Container killed due to memory usage", code: code(137), started: true}, want: "failed oom_killed", oom: true},
	{name: "a child out of memory", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", container: "OutOfMemoryError: Container killed due to memory usage", code: code(0), started: true}, want: "succeeded completed", oom: true},
	{name: "no code", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", started: true}, want: "failed unknown"},
	{name: "no code, never started", f: facts{}, want: "failed failed_to_start"},
	{name: "code 0 without ECS's word", f: facts{code: code(0), started: true}, want: "failed unknown"},
	{name: "code 0 and a sidecar that failed", f: facts{stopCode: "EssentialContainerExited", stopped: "Essential container in task exited", code: code(0), others: "envoy: OutOfMemoryError: Container killed due to memory usage", started: true}, want: "succeeded completed"},

	{name: "spot", f: facts{stopCode: "SpotInterruption", stopped: "Your Spot Task was interrupted.", code: code(143), started: true}, want: "failed preempted"},
	{name: "spot by its text", f: facts{stopped: "Your Spot Task was interrupted.", started: true}, want: "failed preempted"},
	{name: "spot instance", f: facts{stopCode: "TerminationNotice", stopped: "Host EC2 (instance i-0123456789abcdef0) terminated: Spot interruption", started: true}, want: "failed preempted"},
	{name: "host", f: facts{stopCode: "TerminationNotice", stopped: "Host EC2 (instance i-0123456789abcdef0) terminated.", started: true}, want: "failed node_lost"},
	{name: "host by its text", f: facts{stopped: "Host EC2 (instance i-0123456789abcdef0) stopped/terminated.", started: true}, want: "failed node_lost"},
	{name: "maintenance", f: facts{stopCode: "ServiceSchedulerInitiated", stopped: "ECS is performing maintenance on the underlying infrastructure hosting the task", started: true}, want: "failed evicted"},
	{name: "deregistered instance", f: facts{stopCode: "UserInitiated", stopped: "Container instance deregistration forced by user", started: true}, want: "failed evicted"},
	{name: "cancel", f: facts{stopCode: "UserInitiated", stopped: "windlass: cancelled", code: code(143), started: true}, want: "cancelled cancelled"},
	{name: "cancel before the start", f: facts{stopCode: "UserInitiated", stopped: "windlass: cancelled"}, want: "cancelled cancelled"},
	{name: "cancel answered with 0", f: facts{stopCode: "UserInitiated", stopped: "windlass: cancelled", code: code(0), started: true}, want: "cancelled cancelled"},

	{name: "image", f: facts{stopCode: "TaskFailedToStart", stopped: "Task failed to start", container: "CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref docker.io/library/nosuch:1: not found"}, want: "failed image_pull"},
	{name: "image's rights", f: facts{stopCode: "TaskFailedToStart", stopped: "CannotPullContainerError: AccessDeniedException: User is not authorized to perform ecr:BatchGetImage"}, want: "failed image_pull"},
	{name: "image from ECR", f: facts{stopCode: "TaskFailedToStart", container: "CannotPullECRContainerError: AccessDeniedException"}, want: "failed image_pull"},
	{name: "secret's rights", f: facts{stopCode: "TaskFailedToStart", stopped: "ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed: unable to retrieve secret from asm: AccessDeniedException: User is not authorized to perform: secretsmanager:GetSecretValue"}, want: "failed permission_denied"},
	{name: "secret gone", f: facts{stopCode: "TaskFailedToStart", stopped: "ResourceInitializationError: unable to pull secrets or registry auth: ResourceNotFoundException: Secrets Manager can't find the specified secret."}, want: "failed failed_to_start"},
	{name: "log group", f: facts{stopCode: "TaskFailedToStart", stopped: "ResourceInitializationError: failed to validate logger args: create stream has been retried 1 times: failed to create Cloudwatch log stream: ResourceNotFoundException: The specified log group does not exist. : exit status 1"}, want: "failed failed_to_start"},
	{name: "program", f: facts{stopCode: "TaskFailedToStart", stopped: `CannotStartContainerError: OCI runtime create failed: exec: "nosuch": executable file not found in $PATH: unknown`}, want: "failed invalid_spec"},
	{name: "role", f: facts{stopCode: "TaskFailedToStart", stopped: "ECS was unable to assume the role 'arn:aws:iam::123456789012:role/x' that was provided for this task."}, want: "failed permission_denied"},
	{name: "interface", f: facts{stopCode: "TaskFailedToStart", stopped: "Timeout waiting for network interface provisioning to complete."}, want: "failed infrastructure"},
	{name: "capacity", f: facts{stopCode: "TaskFailedToStart", stopped: "Capacity is unavailable at this time. Please try again later or in a different availability zone"}, want: "failed capacity"},
	{name: "instances", f: facts{stopCode: "TaskFailedToStart", stopped: "No Container Instances were found in your capacity provider."}, want: "failed capacity"},
	{name: "never placed", f: facts{stopCode: "TaskFailedToStart", stopped: "Task failed to start"}, want: "failed failed_to_start"},
	{name: "engine", f: facts{container: "DockerTimeoutError: Could not transition to created; timed out after waiting 4m0s", started: true}, want: "failed infrastructure"},
	{name: "by another container's reason", f: facts{stopCode: "TaskFailedToStart", others: "init: CannotPullContainerError: no such image"}, want: "failed image_pull"},
	{name: "a code of tomorrow", f: facts{stopCode: "SomethingNew", stopped: "Essential container in task exited", code: code(0), started: true}, want: "failed unknown"},
}

func code(n int32) *int32 { return &n }

// TestF19Reasons, with F18, F21 and F35 among its rows.
func TestF19Reasons(t *testing.T) {
	for _, c := range endings {
		e := judge(c.f)
		if got := string(e.state) + " " + string(e.reason); got != c.want || e.oom != c.oom {
			t.Errorf("%s: %s, OOM %t; want %s, %t", c.name, got, e.oom, c.want, c.oom)
		}
		if !sdk.LegalReason(e.state, e.reason) {
			t.Errorf("%s: %s: %s is not legal", c.name, e.state, e.reason)
		}
		if c.f.stopped != "" && e.state != sdk.StateSucceeded && e.message == "" {
			t.Errorf("%s: no word of ECS's is kept", c.name)
		}
	}
}

// TestF18NoCodeIsNoSuccess: whatever else ECS says, a task without a code has
// not succeeded.
func TestF18NoCodeIsNoSuccess(t *testing.T) {
	for _, c := range endings {
		c.f.code = nil
		if e := judge(c.f); e.state == sdk.StateSucceeded {
			t.Errorf("%s: succeeded without a code", c.name)
		}
	}
}

// TestPlacement: what RunTask says in place of a task.
func TestPlacement(t *testing.T) {
	for text, want := range map[string]struct {
		reason sdk.Reason
		again  bool
	}{
		"RESOURCE:MEMORY": {sdk.ReasonCapacity, true},
		"RESOURCE:CPU":    {sdk.ReasonCapacity, true},
		"RESOURCE:ENI":    {sdk.ReasonCapacity, true},
		"AGENT":           {sdk.ReasonCapacity, true},
		"INACTIVE":        {sdk.ReasonCapacity, true},
		"Capacity is unavailable at this time. Please try again later or in a different availability zone": {sdk.ReasonCapacity, true},
		"EMPTY CAPACITY PROVIDER": {sdk.ReasonCapacity, true},
		"You've reached the limit on the number of tasks you can run concurrently": {sdk.ReasonQuota, true},
		"You've reached the limit on the number of vCPUs you can run concurrently": {sdk.ReasonQuota, true},
		"ATTRIBUTE": {sdk.ReasonUnschedulable, false},
		"MemberOf placement constraint unsatisfied.": {sdk.ReasonUnschedulable, false},
		"a word of tomorrow":                         {sdk.ReasonCapacity, true},
	} {
		if why, again := placementReason(text); why != want.reason || again != want.again {
			t.Errorf("%s: %s, %t; want %s, %t", text, why, again, want.reason, want.again)
		}
	}
}
