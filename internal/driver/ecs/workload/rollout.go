package workload

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// rollout says how far a deployment has come, by its ID. ECS's own COMPLETED isn't
// the end: it says so while tasks of before still stop, and leaves it at that when
// the count alone changes. So all tasks are counted.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Deployment.html
func (v view) rollout(id string, ready int) sdk.RolloutState {
	d := newest(v.service)
	if id == "" {
		if given, _ := v.givenUp(); given != "" {
			return sdk.RolloutFailed
		}
		id = str(d.Id)
	}
	if id != str(d.Id) {
		return v.superseded(id)
	}
	switch d.RolloutState {
	case types.DeploymentRolloutStateFailed:
		return sdk.RolloutFailed
	case types.DeploymentRolloutStateCompleted, "":
	default:
		return sdk.RolloutProgressing
	}
	live := 0
	for _, t := range v.tasks {
		if str(t.LastStatus) == taskStopped {
			continue
		}
		if str(t.StartedBy) != id || str(t.DesiredStatus) == taskStopped {
			return sdk.RolloutProgressing
		}
		live++
	}
	want := int(v.service.DesiredCount)
	if live != want || ready != want || len(v.service.Deployments) > 1 {
		return sdk.RolloutProgressing
	}
	return sdk.RolloutComplete
}

// superseded is the state of a deployment that isn't the newest: given up, as its
// own state or an event says, or else not to be told.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-event-messages-list.html
func (v view) superseded(id string) sdk.RolloutState {
	for _, o := range v.service.Deployments {
		if str(o.Id) == id && o.RolloutState == types.DeploymentRolloutStateFailed {
			return sdk.RolloutFailed
		}
	}
	for _, e := range v.service.Events {
		if strings.Contains(str(e.Message), "(deployment "+id+") deployment failed") {
			return sdk.RolloutFailed
		}
	}
	return sdk.RolloutUnknown
}

// givenUp is the ID of the newest change, where ECS gave it up, and in which words:
// what is primary then is the way back, or it is what was before. It is none once
// another change came after it, as far as that can be told: a change of the count that
// isn't ours leaves no trace.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/deployment-circuit-breaker.html
func (v view) givenUp() (id string, words types.ServiceEvent) {
	d := newest(v.service)
	if d == nil {
		return "", words
	}
	for _, o := range v.service.Deployments {
		if o.RolloutState == types.DeploymentRolloutStateFailed {
			return str(o.Id), types.ServiceEvent{Message: o.RolloutStateReason, CreatedAt: o.UpdatedAt}
		}
	}
	m, marked := markOf(v.service)
	back := false
	for _, e := range v.service.Events {
		text := str(e.Message)
		if marked && m.op.Time().After(at(e.CreatedAt)) {
			return "", words // our change is newer
		}
		back = back || strings.Contains(text, "rolling back to deployment "+str(d.Id)+".")
		if begin, _, failed := strings.Cut(text, ") deployment failed"); back && failed {
			return begin[strings.LastIndexByte(begin, ' ')+1:], e
		}
	}
	return "", words
}

// failure is the last that went wrong: a deployment that was given up, with why its
// last task failed, or a task that ended by itself.
func (v view) failure() *sdk.WorkloadFailure {
	var last *types.Task
	for i := range v.tasks {
		t := &v.tasks[i]
		if str(t.LastStatus) != taskStopped || t.StopCode == types.TaskStopCodeServiceSchedulerInitiated || t.StopCode == types.TaskStopCodeUserInitiated {
			continue
		}
		if last == nil || at(t.StoppedAt).After(at(last.StoppedAt)) {
			last = t
		}
	}
	var f *sdk.WorkloadFailure
	if last != nil {
		reason, message := why(*last)
		f = &sdk.WorkloadFailure{Reason: cmp.Or(reason, sdk.ReasonUnknown), Message: message, Instance: lastPart(str(last.TaskArn)), At: at(last.StoppedAt)}
	}
	if id, e := v.givenUp(); id != "" {
		if f == nil {
			f = &sdk.WorkloadFailure{Reason: sdk.ReasonFailedToStart, At: at(e.CreatedAt)}
		}
		f.Message = strings.TrimSuffix(str(e.Message)+" "+f.Message, " ")
		return f
	}
	if f == nil {
		f = v.failedEvent()
	}
	return f
}

// failedEvent is a deployment that was given up and is gone, of the newest events.
func (v view) failedEvent() *sdk.WorkloadFailure {
	for _, e := range v.service.Events {
		text := str(e.Message)
		switch {
		case strings.Contains(text, "deployment failed"):
			return &sdk.WorkloadFailure{Reason: sdk.ReasonFailedToStart, Message: text, At: at(e.CreatedAt)}
		case strings.Contains(text, "unable to place a task"):
			return &sdk.WorkloadFailure{Reason: cmp.Or(aws.ReasonOf(text), sdk.ReasonCapacity), Message: text, At: at(e.CreatedAt)}
		case strings.Contains(text, "steady state"):
			return nil // what came before it is over
		}
	}
	return nil
}

// why says why a task ended, or ends.
func why(t types.Task) (sdk.Reason, string) {
	texts := []string{str(t.StoppedReason)}
	code := ""
	for _, c := range t.Containers {
		if c.Reason != nil {
			texts = append(texts, *c.Reason)
		}
		if c.ExitCode != nil && *c.ExitCode != 0 && code == "" {
			code = fmt.Sprintf("container %s ended with %d", str(c.Name), *c.ExitCode)
		}
	}
	reason := aws.ReasonOf(texts...)
	switch {
	case reason != "":
	case t.StopCode == types.TaskStopCodeTaskFailedToStart:
		reason = sdk.ReasonFailedToStart
	case code != "":
		reason = sdk.ReasonNonzeroExit
	case t.StopCode == types.TaskStopCodeEssentialContainerExited:
		reason = sdk.ReasonCompleted
	case t.StopCode == types.TaskStopCodeSpotInterruption:
		reason = sdk.ReasonPreempted
	}
	var parts []string
	for _, s := range append(texts, code) {
		s = strings.Join(strings.Fields(s), " ")
		if s != "" && !strings.Contains(strings.Join(parts, "; "), s) {
			parts = append(parts, s)
		}
	}
	return reason, strings.Join(parts, "; ")
}
