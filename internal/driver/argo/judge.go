package argo

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// Words of Argo's controller, and of the kubelet in its messages.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/controller/operator.go
const (
	wordsStopped  = "Stopped with strategy"
	wordsShutdown = "workflow shutdown with strategy"
	wordsDeadline = "Pod was active on the node longer than the specified deadline"
	wordsLate     = "Step exceeded its deadline"
	wordsDeleted  = "pod deleted"
)

// lastWords is how Argo tells of a container's end: "main: Error (exit code 7)".
// Before version 3.5 the container isn't named.
var lastWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:([a-z0-9-]+): )?(\S+) \(exit code (-?\d+)\)`)
})

// judge is the state that Argo tells. The Workflow is over only when Argo says so of
// itself: of a step it says so at once when it is told to end it.
func judge(w *argo.Workflow) sdk.JobStatusResult {
	res := sdk.JobStatusResult{State: sdk.StatePending, CreatedAt: w.CreationTimestamp.UTC(), Raw: rawOf(w)}
	node, ok := w.Node()
	code := codeOf(&node)
	if node.Phase == argo.Running || w.PodRunning() || code != nil {
		res.Launches = 1
	}
	if !w.Status.Done() {
		progress(&res, w, &node, ok)
		return res
	}
	if res.EndedAt = node.FinishedAt.UTC(); node.FinishedAt.IsZero() {
		res.EndedAt = w.Status.FinishedAt.UTC()
	}
	if w.Status.Phase == argo.Succeeded {
		res.State, res.Reason, res.ExitCode, res.Launches = sdk.StateSucceeded, sdk.ReasonCompleted, code, 1
		return res
	}
	failure(&res, w, &node, code)
	return res
}

// codeOf is the container's code, nil where Argo has none, and where it was made up
// for a container that never ran or wasn't seen to end.
func codeOf(n *argo.Node) *int {
	if n.Outputs == nil || n.Outputs.ExitCode == nil {
		return nil
	}
	code, err := strconv.Atoi(*n.Outputs.ExitCode)
	if err != nil {
		return nil
	}
	if _, word, ok := ending(n.Message); ok && madeUp(word) {
		return nil
	}
	return &code
}

func madeUp(word string) bool {
	return word == "StartError" || word == "ContainerCannotRun" || word == "ContainerStatusUnknown"
}

// ending reads which container a step's message is about, and its word.
func ending(message string) (container, word string, ok bool) {
	m := lastWords().FindStringSubmatch(message)
	if m == nil {
		return "", "", false
	}
	return cmp.Or(m[1], podspec.Main), m[2], true
}

// progress is what a Workflow that isn't over does, or waits for.
func progress(res *sdk.JobStatusResult, w *argo.Workflow, node *argo.Node, ok bool) {
	res.Message = oneLine(w.Status.Message)
	switch {
	case res.Launches > 0:
		res.State = sdk.StateRunning
		res.Message = oneLine(node.Message)
	case !ok:
		if w.Status.Phase == argo.Pending {
			res.Reason = sdk.ReasonQueued // by a limit on Workflows, or a lock
		}
		res.Message = cmp.Or(res.Message, "Argo has made no pod yet")
	default:
		res.Message = oneLine(node.Message)
		word, _, _ := strings.Cut(node.Message, ":")
		switch word {
		case "Unschedulable":
			res.Reason = sdk.ReasonUnschedulable
		case "SchedulingGated":
			res.Reason = sdk.ReasonQueued
		default:
			res.Reason = podspec.WaitingReason(word)
		}
	}
}

// failure is how a Workflow that didn't succeed has ended. A code of 0 isn't
// reported: nothing says that the job completed.
func failure(res *sdk.JobStatusResult, w *argo.Workflow, node *argo.Node, code *int) {
	if code != nil && *code != 0 {
		res.ExitCode = code
	}
	message := cmp.Or(node.Message, w.Status.Message)
	res.State, res.Message = sdk.StateFailed, oneLine(message)
	container, word, told := ending(message)
	switch {
	case strings.HasPrefix(w.Status.Message, wordsStopped), strings.HasPrefix(message, wordsShutdown):
		res.State, res.Reason = sdk.StateCancelled, sdk.ReasonCancelled
	case strings.Contains(message, wordsDeadline), strings.Contains(message, wordsLate):
		res.Reason = sdk.ReasonTimedOut
	case told && container == podspec.Main:
		res.Reason = wordReason(word)
		res.OOMObserved = word == "OOMKilled"
	case told:
		// Argo's own containers: init before the job's, wait beside it.
		res.Reason = sdk.ReasonInfrastructure
		if container == "init" {
			res.Reason = sdk.ReasonFailedToStart
		}
	default:
		res.Reason = messageReason(message, node)
	}
}

// wordReason is why the container main ended, by the kubelet's word.
func wordReason(word string) sdk.Reason {
	switch {
	case word == "OOMKilled":
		return sdk.ReasonOOMKilled
	case word == "ContainerStatusUnknown":
		return sdk.ReasonInfrastructure
	case madeUp(word):
		return sdk.ReasonInvalidSpec
	}
	return sdk.ReasonNonzeroExit
}

// messageReason is why a pod failed as a whole, by the kubelet's and Argo's messages:
// a Workflow has no words of the API's.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/eviction/helpers.go
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager.go
func messageReason(message string, node *argo.Node) sdk.Reason {
	has := func(texts ...string) bool {
		for _, t := range texts {
			if strings.Contains(message, t) {
				return true
			}
		}
		return false
	}
	switch {
	case has("The node was low on resource", "The node had condition", "Usage of EmptyDir volume", "ephemeral local storage usage exceeds", wordsDeleted):
		return sdk.ReasonEvicted
	case has("Preempted in order to admit critical pod", "Preempted by"):
		return sdk.ReasonPreempted
	case has("imminent node shutdown", "node shutdown", "Node is shutting down"):
		return sdk.ReasonNodeLost
	case has("failed to look-up entrypoint"):
		return sdk.ReasonImagePull
	case has("Pod failed before", "Pod was rejected", "Predicate", "error in entry template execution"):
		return sdk.ReasonFailedToStart
	case node.ID == "":
		return sdk.ReasonFailedToStart // nothing was ever started
	case node.Outputs != nil && node.Outputs.ExitCode != nil && *node.Outputs.ExitCode != "0":
		return sdk.ReasonNonzeroExit
	}
	return sdk.ReasonUnknown
}

// rawOf keeps what Argo says, in its own words.
func rawOf(w *argo.Workflow) map[string]string {
	m := map[string]string{}
	add := func(key, value string) {
		if value != "" {
			m[key] = value
		}
	}
	add("workflow.phase", w.Status.Phase)
	add("workflow.message", w.Status.Message)
	add("workflow.shutdown", w.Spec.Shutdown)
	if n, ok := w.Node(); ok {
		add("node.phase", n.Phase)
		add("node.message", n.Message)
		add("node.host", n.HostNodeName)
		if n.Outputs != nil && n.Outputs.ExitCode != nil {
			add("node.exit_code", *n.Outputs.ExitCode)
		}
	}
	for _, c := range w.Status.Conditions {
		if c.Status == "True" {
			add("condition."+c.Type, cmp.Or(c.Message, c.Status))
		}
	}
	return m
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
