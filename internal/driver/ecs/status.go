package ecs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/driver/noexec"
	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// The states of a task.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html
const (
	statusProvisioning = "PROVISIONING"
	statusPending      = "PENDING"
	statusActivating   = "ACTIVATING"
	statusRunning      = "RUNNING"
	statusStopped      = "STOPPED"
)

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	res, err := p.JobStatuses(ctx, sdk.JobStatusesRequest{Handles: []sdk.JobHandle{r.Handle}})
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	return res.Items[0].Result, res.Items[0].Err
}

// JobStatuses implements sdk.JobBatcher.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	asked := map[string][]string{}
	seen := map[string]bool{}
	for i, h := range r.Handles {
		if err := p.checkHandle(opStatus, h); err != nil {
			out.Items[i].Err = err
			continue
		}
		if !seen[h.ID] {
			seen[h.ID] = true
			asked[h.Metadata[keyCluster]] = append(asked[h.Metadata[keyCluster]], h.ID)
		}
	}
	for cluster, arns := range asked {
		found, err := p.describe(ctx, opStatus, cluster, arns, false)
		if err != nil && len(asked) == 1 {
			return sdk.JobStatusesResult{}, err
		}
		for i, h := range r.Handles {
			if out.Items[i].Err != nil || h.Metadata[keyCluster] != cluster {
				continue
			}
			if err != nil {
				out.Items[i].Err = err
				continue
			}
			out.Items[i].Result, out.Items[i].Err = p.stateOf(h, found)
		}
	}
	return out, nil
}

// stateOf judges one task of an answer. One that is missing was made only just
// now, or is gone.
func (p *provider) stateOf(h sdk.JobHandle, found map[string]types.Task) (sdk.JobStatusResult, error) {
	t, ok := found[h.ID]
	if !ok {
		if p.young(h) {
			return sdk.JobStatusResult{State: sdk.StatePending, Message: "accepted; ECS doesn't show it yet", Raw: map[string]string{"failure": "MISSING"}}, nil
		}
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("ECS knows no task "+h.Name+"; it forgets a task about an hour after its end"))
	}
	if !hasEnded(t) {
		p.tasks.seen(h, t)
	} else if _, known := p.tasks.get(h.ID); known {
		p.tasks.seen(h, t)
	}
	return result(t), nil
}

// result is the state that a task's description tells.
func result(t types.Task) sdk.JobStatusResult {
	res := sdk.JobStatusResult{CreatedAt: at(t.CreatedAt), StartedAt: at(t.StartedAt), Raw: raw(t)}
	if !res.StartedAt.IsZero() {
		res.Launches = 1
		if res.StartedAt.Before(res.CreatedAt) {
			res.CreatedAt = res.StartedAt
		}
	}
	if hasEnded(t) {
		ended(t, &res)
		return res
	}
	switch status := str(t.LastStatus); {
	case status == statusProvisioning || status == statusPending || status == statusActivating || t.StartedAt == nil:
		res.State, res.Message = sdk.StatePending, strings.ToLower(status)
	default:
		res.State = sdk.StateRunning
		if status != statusRunning {
			res.Message = strings.ToLower(status)
		}
	}
	return res
}

// ended judges a task that is over.
func ended(t types.Task, res *sdk.JobStatusResult) {
	res.EndedAt = at(t.ExecutionStoppedAt)
	if res.EndedAt.IsZero() {
		res.EndedAt = at(t.StoppedAt)
	}
	if res.EndedAt.Before(res.StartedAt) {
		res.EndedAt = res.StartedAt
	}
	main, _ := mainContainer(t)
	e := judge(facts{stopCode: string(t.StopCode), stopped: str(t.StoppedReason), container: str(main.Reason), code: main.ExitCode, started: t.StartedAt != nil,
		others: otherReasons(t)})
	res.State, res.Reason, res.OOMObserved, res.Message = e.state, e.reason, e.oom, e.message
	if why := noexec.Why(str(main.Reason) + " " + str(t.StoppedReason)); why != "" && main.ExitCode == nil && res.State == sdk.StateFailed {
		res.Raw[sdk.RawExec] = why
	}
	if main.ExitCode != nil {
		code := int(*main.ExitCode)
		// A code of 0 needs ECS's own word that the container came to its end.
		if code != 0 || res.State == sdk.StateSucceeded || res.State == sdk.StateCancelled {
			res.ExitCode = &code
		}
	}
}

// otherReasons are the words of the containers that don't decide.
func otherReasons(t types.Task) string {
	var out []string
	for _, c := range t.Containers {
		if str(c.Name) != containerName && str(c.Reason) != "" {
			out = append(out, str(c.Name)+": "+str(c.Reason))
		}
	}
	for _, a := range t.Attachments {
		for _, d := range a.Details {
			if str(d.Name) == "statusReason" || str(d.Name) == "reason" {
				out = append(out, str(a.Type)+": "+str(d.Value))
			}
		}
	}
	return strings.Join(out, "; ")
}

// raw keeps every reason that there is, as ECS put it.
func raw(t types.Task) map[string]string {
	m := map[string]string{
		"last_status": str(t.LastStatus), "desired_status": str(t.DesiredStatus), "stop_code": string(t.StopCode), "stopped_reason": str(t.StoppedReason),
		"capacity_provider": str(t.CapacityProviderName), "launch_type": string(t.LaunchType), "platform_version": str(t.PlatformVersion),
		"availability_zone": str(t.AvailabilityZone), "container_instance": str(t.ContainerInstanceArn), "other_reasons": otherReasons(t),
	}
	for _, c := range t.Containers {
		key := "container." + str(c.Name) + "."
		m[key+"status"], m[key+"reason"] = str(c.LastStatus), str(c.Reason)
		if c.ExitCode != nil {
			m[key+"exit_code"] = itoa(int64(*c.ExitCode))
		}
		if str(c.Name) == containerName {
			m["image_digest"] = str(c.ImageDigest)
		}
	}
	for k, v := range m {
		if v == "" {
			delete(m, k)
		}
	}
	return m
}
