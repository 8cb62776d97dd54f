package workload

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opStatus = "read service"
	opList   = "list services"

	listPage = 100
	// standardMax is how many instances a revision has at most where nothing is
	// said. https://cloud.google.com/run/docs/configuring/max-instances
	standardMax = 100
	// mayArrive is for how long a call whose connection was cut may still be carried
	// out: its deadline, which goes along, is half of it.
	mayArrive = time.Minute
)

// ListWorkloads implements sdk.WorkloadLister. The API has no filter.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services/list
func (w *Workloads) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(yield func(sdk.WorkloadItem, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.WorkloadItem{}, &sdk.Error{Code: sdk.CodeOf(err), Op: opList, Provider: w.r.Provider, Err: err})
			return
		}
		req := &runpb.ListServicesRequest{Parent: w.r.Session.Location(), PageSize: listPage}
		for {
			out, err := call(ctx, w, w.r.Reads, opList, func(ctx context.Context) (*runpb.ListServicesResponse, error) {
				return w.r.Services.ListServices(ctx, req)
			})
			if err != nil {
				yield(sdk.WorkloadItem{}, err)
				return
			}
			for _, v := range out.GetServices() {
				id := path.Base(v.GetName())
				if v.GetDeleteTime() != nil || r.Name != "" && r.Name != id {
					continue
				}
				st := w.judge(v)
				if !yield(sdk.WorkloadItem{Path: st.Path, Image: st.Image, Desired: st.Desired, Stopped: st.Stopped}, nil) {
					return
				}
			}
			if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// WorkloadStatus implements sdk.WorkloadStatuser.
func (w *Workloads) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	id, err := w.parse(ctx, opStatus, r.Path)
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	v, err := w.get(ctx, opStatus, id)
	if sdk.CodeOf(err) == sdk.NotFound && !r.OpID.IsZero() {
		return sdk.WorkloadStatusResult{Status: sdk.DeploymentStatus{Path: r.Path, Rollout: sdk.RolloutUnknown}, Op: w.absent(r.OpID)}, nil
	}
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	w.recent.Put(id, v, w.r.Clock.Now())
	res := sdk.WorkloadStatusResult{Status: w.judge(v)}
	st := &res.Status
	if st.Rollout == sdk.RolloutFailed && !r.Brief {
		if st.Failure, err = w.failure(ctx, v); err != nil {
			return sdk.WorkloadStatusResult{}, err
		}
	}
	if r.Rollout != "" && r.Rollout != st.RolloutID {
		// A name that is newer than what was read is one whose change isn't shown yet.
		asked, err := strconv.ParseInt(r.Rollout, 10, 64)
		st.Rollout, st.RolloutID, st.Failure = sdk.RolloutUnknown, r.Rollout, nil
		if err == nil && asked > v.GetGeneration() {
			st.Rollout = sdk.RolloutProgressing
		}
	}
	if !r.OpID.IsZero() {
		res.Op = w.trace(v, r.OpID, r.Before)
	}
	return res, nil
}

// trace tells what became of an operation.
func (w *Workloads) trace(v *runpb.Service, id sdk.ID, before string) *sdk.OpTrace {
	now := generation(v)
	switch {
	case v.GetAnnotations()[annotationOp] == id.String():
		t := &sdk.OpTrace{State: sdk.OpAccepted, Evidence: traceOf(v)}
		// Whoever changes a service otherwise leaves the annotation as it is.
		if n, err := strconv.ParseInt(before, 10, 64); err == nil && n+1 == v.GetGeneration() || before == "" && v.GetGeneration() == 1 {
			t.Generation, t.Rollout = now, now
		}
		return t
	case before != now:
		return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the service was changed since, and has the last operation alone"}
	}
	return w.absent(id)
}

// absent is the trace of an operation that isn't there. An ID begins with the time
// at which it was made, which is before it was sent.
func (w *Workloads) absent(id sdk.ID) *sdk.OpTrace {
	if w.r.Clock.Now().Sub(id.Time()) <= mayArrive {
		return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "it isn't there, and may still arrive: a call is worked on for up to " + mayArrive.String()}
	}
	return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: "it isn't there, and no call is worked on for so long"}
}

func traceOf(v *runpb.Service) string {
	return "annotation " + annotationOp + " of service " + path.Base(v.GetName())
}

func generation(v *runpb.Service) string { return strconv.FormatInt(v.GetGeneration(), 10) }

// judge tells how a service is by what it says of itself. Cloud Run tells neither
// how many instances there are nor which.
func (w *Workloads) judge(v *runpb.Service) sdk.DeploymentStatus {
	c := main(v.GetTemplate())
	st := sdk.DeploymentStatus{Path: w.pathOf(path.Base(v.GetName())), Image: c.GetImage(), Generation: generation(v), GenerationSeen: strconv.FormatInt(v.GetObservedGeneration(), 10),
		Rollout: rollout(v), RolloutID: generation(v), Raw: map[string]string{
			"ready":                   strings.TrimPrefix(v.GetTerminalCondition().GetState().String(), "CONDITION_"),
			"latest_created_revision": path.Base(v.GetLatestCreatedRevision()),
			"latest_ready_revision":   path.Base(v.GetLatestReadyRevision()),
			"uri":                     v.GetUri(),
		}}
	if manual(v) {
		n := int(v.GetScaling().GetManualInstanceCount())
		st.Desired = &n
		if keeps, ok := v.GetAnnotations()[annotationRestores]; ok && n == 0 {
			st.Stopped = true
			if was, err := parseRestores(keeps); err == nil && was.manual {
				st.Restores = &was.count
			}
		}
	} else {
		st.Autoscaler = autoscaler(v)
	}
	for k, val := range st.Raw {
		if val == "" || val == "." {
			delete(st.Raw, k)
		}
	}
	if pin := pinned(v); pin != "" {
		st.Warnings = append(st.Warnings, pin+": a new revision serves nobody until it is given traffic")
	}
	return st
}

// rollout is the platform's verdict on the newest generation. A reconciliation that
// failed leaves the observed generation where it was.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services#Service
func rollout(v *runpb.Service) sdk.RolloutState {
	switch state := v.GetTerminalCondition().GetState(); {
	case v.GetReconciling():
		return sdk.RolloutProgressing
	case state == runpb.Condition_CONDITION_FAILED:
		return sdk.RolloutFailed
	case state == runpb.Condition_CONDITION_SUCCEEDED && v.GetObservedGeneration() == v.GetGeneration():
		return sdk.RolloutComplete
	}
	return sdk.RolloutProgressing
}

// manual reports whether people say how many instances there are to be.
func manual(v *runpb.Service) bool {
	return v.GetScaling().GetScalingMode() == runpb.ServiceScaling_MANUAL
}

// autoscaler is Cloud Run's own. Where minimum or maximum is set for the service
// and for a revision, both hold.
// https://cloud.google.com/run/docs/configuring/min-instances
func autoscaler(v *runpb.Service) *sdk.Autoscaler {
	service, revision := v.GetScaling(), v.GetTemplate().GetScaling()
	a := &sdk.Autoscaler{Name: "Cloud Run's autoscaling", Min: int(max(service.GetMinInstanceCount(), revision.GetMinInstanceCount()))}
	a.Max = standardMax
	if n := int(revision.GetMaxInstanceCount()); n > 0 {
		a.Max = n
	}
	if n := int(service.GetMaxInstanceCount()); n > 0 {
		a.Max = min(a.Max, n)
	}
	return a
}

// main is the container that requests go to: the one with a port, else the first.
// https://cloud.google.com/run/docs/deploying#sidecars
func main(t *runpb.RevisionTemplate) *runpb.Container {
	list := t.GetContainers()
	for _, c := range list {
		if len(c.GetPorts()) > 0 {
			return c
		}
	}
	if len(list) == 0 {
		return &runpb.Container{}
	}
	return list[0]
}

// pinned says which traffic goes to named revisions, and so not to a new one; empty
// where all goes to the latest.
func pinned(v *runpb.Service) string {
	var parts []string
	for _, t := range v.GetTraffic() {
		if t.GetRevision() != "" && t.GetPercent() > 0 {
			parts = append(parts, fmt.Sprintf("%d %% of the traffic to revision %s", t.GetPercent(), t.GetRevision()))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "the service sends " + strings.Join(parts, ", ")
}
