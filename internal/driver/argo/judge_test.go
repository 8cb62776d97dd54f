package argo

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/sdk"
)

// seen is a Workflow whose only step is as given.
func seen(phase, message string, n argo.Node, code string) *argo.Workflow {
	w := &argo.Workflow{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Status: argo.Status{Phase: phase, Message: message}}
	if n.Phase != "" {
		n.ID, n.Type = "w", "Pod"
		if code != "" {
			n.Outputs = &argo.Outputs{ExitCode: &code}
		}
		w.Status.Nodes = map[string]argo.Node{"w": n}
	}
	return w
}

// TestF21Ends: the code is Argo's, and absent where it has none or made one up; each
// of Argo's words has its reason.
func TestF21Ends(t *testing.T) {
	failed := func(message string) argo.Node {
		return argo.Node{Phase: argo.Failed, Message: message, HostNodeName: "n"}
	}
	for name, k := range map[string]struct {
		w      *argo.Workflow
		state  sdk.JobState
		reason sdk.Reason
		code   int // -1 is none
	}{
		"not seen":           {seen("", "", argo.Node{}, ""), sdk.StatePending, "", -1},
		"postponed":          {seen(argo.Pending, "too many", argo.Node{}, ""), sdk.StatePending, sdk.ReasonQueued, -1},
		"no pod":             {seen(argo.Running, "", argo.Node{}, ""), sdk.StatePending, "", -1},
		"unschedulable":      {seen(argo.Running, "", argo.Node{Phase: argo.Pending, Message: "Unschedulable: 0/1 nodes"}, ""), sdk.StatePending, sdk.ReasonUnschedulable, -1},
		"pulling":            {seen(argo.Running, "", argo.Node{Phase: argo.Pending, Message: "ImagePullBackOff: x"}, ""), sdk.StatePending, sdk.ReasonImagePull, -1},
		"creating":           {seen(argo.Running, "", argo.Node{Phase: argo.Pending, Message: "PodInitializing"}, ""), sdk.StatePending, "", -1},
		"running":            {seen(argo.Running, "", argo.Node{Phase: argo.Running}, ""), sdk.StateRunning, "", -1},
		"reporting":          {seen(argo.Running, "", argo.Node{Phase: argo.Running}, "3"), sdk.StateRunning, "", -1},
		"succeeded":          {seen(argo.Succeeded, "", argo.Node{Phase: argo.Succeeded}, "0"), sdk.StateSucceeded, sdk.ReasonCompleted, 0},
		"no code":            {seen(argo.Succeeded, "", argo.Node{Phase: argo.Succeeded}, ""), sdk.StateSucceeded, sdk.ReasonCompleted, -1},
		"no number":          {seen(argo.Succeeded, "", argo.Node{Phase: argo.Succeeded}, "x"), sdk.StateSucceeded, sdk.ReasonCompleted, -1},
		"failed":             {seen(argo.Failed, "main: Error (exit code 7)", failed("main: Error (exit code 7)"), "7"), sdk.StateFailed, sdk.ReasonNonzeroExit, 7},
		"failed, before 3.5": {seen(argo.Failed, "", failed("Error (exit code 7)"), "7"), sdk.StateFailed, sdk.ReasonNonzeroExit, 7},
		"failed, no code":    {seen(argo.Failed, "", failed("main: Error (exit code 7)"), ""), sdk.StateFailed, sdk.ReasonNonzeroExit, -1},
		"oom":                {seen(argo.Failed, "", failed("main: OOMKilled (exit code 137)"), "137"), sdk.StateFailed, sdk.ReasonOOMKilled, 137},
		"start error":        {seen(argo.Failed, "", failed("main: StartError (exit code 128): no such file"), "128"), sdk.StateFailed, sdk.ReasonInvalidSpec, -1},
		"unknown status":     {seen(argo.Failed, "", failed("main: ContainerStatusUnknown (exit code 137)"), "137"), sdk.StateFailed, sdk.ReasonInfrastructure, -1},
		"deadline":           {seen(argo.Failed, "", failed(wordsDeadline), "143"), sdk.StateFailed, sdk.ReasonTimedOut, 143},
		"terminated":         {seen(argo.Failed, "Stopped with strategy 'Terminate'", failed("main: Error (exit code 143)"), "143"), sdk.StateCancelled, sdk.ReasonCancelled, 143},
		"terminated early":   {seen(argo.Failed, "Stopped with strategy 'Terminate'", argo.Node{Phase: argo.Failed, Message: "workflow shutdown with strategy:  Terminate"}, ""), sdk.StateCancelled, sdk.ReasonCancelled, -1},
		"code 0, no success": {seen(argo.Failed, "", failed("pod failed: wait container did not complete successfully"), "0"), sdk.StateFailed, sdk.ReasonUnknown, -1},
		"executor":           {seen(argo.Error, "", failed("wait: Error (exit code 64)"), "0"), sdk.StateFailed, sdk.ReasonInfrastructure, -1},
		"init":               {seen(argo.Error, "", failed("init: Error (exit code 1)"), ""), sdk.StateFailed, sdk.ReasonFailedToStart, -1},
		"deleted":            {seen(argo.Error, "", failed("pod deleted"), ""), sdk.StateFailed, sdk.ReasonEvicted, -1},
		"evicted":            {seen(argo.Failed, "", failed("The node was low on resource: memory."), ""), sdk.StateFailed, sdk.ReasonEvicted, -1},
		"shutdown":           {seen(argo.Failed, "", failed("Pod was terminated in response to imminent node shutdown."), ""), sdk.StateFailed, sdk.ReasonNodeLost, -1},
		"no template":        {seen(argo.Error, "invalid spec: x", argo.Node{}, ""), sdk.StateFailed, sdk.ReasonFailedToStart, -1},
		"no entry point":     {seen(argo.Error, "error in entry template execution: failed to look-up entrypoint/cmd for image x", argo.Node{}, ""), sdk.StateFailed, sdk.ReasonImagePull, -1},
	} {
		st := judge(k.w)
		code := -1
		if st.ExitCode != nil {
			code = *st.ExitCode
		}
		if st.State != k.state || st.Reason != k.reason || code != k.code {
			t.Errorf("%s: got %s %q, code %d; want %s %q, %d", name, st.State, st.Reason, code, k.state, k.reason, k.code)
		}
		if !sdk.LegalReason(st.State, st.Reason) {
			t.Errorf("%s: %s with the reason %q isn't legal", name, st.State, st.Reason)
		}
	}
	// A step that Argo has told to end still runs until its pod doesn't.
	w := seen(argo.Running, "", argo.Node{Phase: argo.Failed, Message: "workflow shutdown with strategy:  Terminate", HostNodeName: "n"}, "")
	w.Status.Conditions = []argo.Condition{{Type: "PodRunning", Status: "True"}}
	if st := judge(w); st.State != sdk.StateRunning {
		t.Errorf("a pod that is being ended is %s", st.State)
	}
}
