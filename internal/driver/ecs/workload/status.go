package workload

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read service"

// The states of a task.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html
const (
	taskRunning = "RUNNING"
	taskStopped = "STOPPED"
)

// WorkloadStatus implements sdk.WorkloadStatuser.
func (s *Services) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	a, err := s.address(opStatus, r.Path)
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	look := s.look
	if r.Brief && r.OpID.IsZero() {
		look = s.brief
	}
	v, err := look(ctx, opStatus, a)
	missing := sdk.CodeOf(err) == sdk.NotFound || err == nil && v.service == nil
	switch {
	case missing && !r.OpID.IsZero():
		return sdk.WorkloadStatusResult{Status: sdk.DeploymentStatus{Path: r.Path}, Op: trace(nil, r.OpID, r.Before)}, nil
	case err != nil:
		return sdk.WorkloadStatusResult{}, err
	case missing:
		return sdk.WorkloadStatusResult{}, s.absent(opStatus, a)
	}
	res := sdk.WorkloadStatusResult{Status: v.status(r.Path, r.Rollout)}
	if !r.OpID.IsZero() {
		res.Op = trace(v.service, r.OpID, r.Before)
	}
	return res, nil
}

// status tells how a service is, and how far a rollout has come; empty is the
// newest one.
func (v view) status(path sdk.WorkloadPath, rollout string) sdk.DeploymentStatus {
	st := sdk.DeploymentStatus{Path: path, Autoscaler: v.scaler, Raw: v.raw()}
	svc := v.service
	m, _ := markOf(svc)
	st.Generation = generation(svc, m.op)
	st.GenerationSeen = st.Generation
	desired, ready, updated := int(svc.DesiredCount), 0, 0
	if v.definition != nil {
		st.Image = str(v.definition.ContainerDefinitions[v.definition.main()].Image)
	}
	d := newest(svc)
	for _, t := range v.tasks {
		in := v.instance(t)
		if in.State == sdk.InstanceEnded {
			continue
		}
		st.Instances = append(st.Instances, in)
		if in.Ready {
			ready++
			if d != nil && in.Generation == str(d.Id) {
				updated++
			}
		}
	}
	st.Desired, st.Ready, st.Updated = &desired, &ready, &updated
	if v.brief {
		st.Ready, st.Updated = v.serving(), nil
	}
	if n, stopped := restores(svc); stopped {
		st.Stopped, st.Restores = true, &n
	}
	if v.scalerErr != nil {
		st.Warnings = append(st.Warnings, "whether something scales the service by itself isn't known: "+v.scalerErr.Error())
	}
	if d == nil {
		st.Rollout = sdk.RolloutUnknown
		st.Warnings = append(st.Warnings, "its deployments are made by a controller other than ECS, so that they can't be followed here")
	} else {
		st.RolloutID = str(d.Id)
		st.Rollout = v.rollout(rollout, ready)
		if v.brief && st.Rollout != sdk.RolloutFailed {
			st.Rollout = sdk.RolloutUnknown // the tasks tell
		}
		if id, _ := v.givenUp(); id != "" && rollout == "" && id != st.RolloutID {
			st.RolloutID = id
			st.Warnings = append(st.Warnings, "the newest change was given up, and the deployment of before took its place")
		}
	}
	st.Failure = v.failure()
	return st
}

// serving is how many tasks serve by the service's own count, where that is the same:
// nothing is replaced, none is leaving, and no health check has a say.
func (v view) serving() *int {
	svc := v.service
	if v.checked() || len(svc.Deployments) != 1 || svc.PendingCount != 0 || svc.RunningCount != svc.DesiredCount {
		return nil
	}
	return new(int(svc.RunningCount))
}

// instance is one task.
func (v view) instance(t types.Task) sdk.InstanceStatus {
	in := sdk.InstanceStatus{Name: lastPart(str(t.TaskArn)), Generation: str(t.StartedBy), Started: at(t.StartedAt)}
	last, leaving := str(t.LastStatus), str(t.DesiredStatus) == taskStopped
	switch {
	case last == taskStopped:
		in.State = sdk.InstanceEnded
	case leaving:
		in.State = sdk.InstanceStopping
	case last == taskRunning:
		in.State = sdk.InstanceRunning
	case slices.Contains([]string{"PROVISIONING", "PENDING", "ACTIVATING"}, last):
		in.State = sdk.InstancePending
	default:
		in.State = sdk.InstanceUnknown
	}
	// A task without a health check is UNKNOWN for ever, one with one until its
	// first result.
	healthy := t.HealthStatus != types.HealthStatusUnhealthy && (t.HealthStatus == types.HealthStatusHealthy || !v.checked())
	in.Ready = in.State == sdk.InstanceRunning && healthy
	if in.State == sdk.InstanceRunning && !healthy {
		in.Message = "health: " + strings.ToLower(string(t.HealthStatus))
	} else if !in.Ready {
		in.Reason, in.Message = why(t)
	}
	if in.Message == "" && !in.Ready {
		in.Message = strings.ToLower(last)
	}
	return in
}

// checked reports whether containers have a health check that counts.
func (v view) checked() bool {
	return v.definition != nil && slices.ContainsFunc(v.definition.ContainerDefinitions, func(c types.ContainerDefinition) bool {
		return c.HealthCheck != nil && (c.Essential == nil || *c.Essential)
	})
}

// raw are ECS's own words.
func (v view) raw() map[string]string {
	svc := v.service
	m := map[string]string{"status": str(svc.Status), "task_definition": str(svc.TaskDefinition), "launch_type": string(svc.LaunchType),
		"scheduling_strategy": string(svc.SchedulingStrategy), "platform_version": str(svc.PlatformVersion), "arn": str(svc.ServiceArn)}
	if d := newest(svc); d != nil {
		m["rollout_state"], m["rollout_state_reason"] = string(d.RolloutState), str(d.RolloutStateReason)
	}
	if len(svc.Events) > 0 {
		m["last_event"] = str(svc.Events[0].Message)
	}
	for k, t := range m {
		if t == "" {
			delete(m, k)
		}
	}
	return m
}
