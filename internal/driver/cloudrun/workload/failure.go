package workload

import (
	"context"
	"path"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

// failure is why a service's newest change failed. The service tells it in words;
// the newest revision has the reason. A revision that can't be read leaves the words.
func (w *Workloads) failure(ctx context.Context, v *runpb.Service) (*sdk.WorkloadFailure, error) {
	c := v.GetTerminalCondition()
	f := &sdk.WorkloadFailure{Reason: sdk.ReasonUnknown, Message: oneLine(c.GetMessage())}
	if t := c.GetLastTransitionTime(); t != nil {
		f.At = t.AsTime()
	}
	if why := reasonOf(c); why != "" {
		f.Reason = why
	}
	name := v.GetLatestCreatedRevision()
	if name == "" || name == v.GetLatestReadyRevision() {
		return f, nil
	}
	if !strings.Contains(name, "/") {
		name = v.GetName() + "/revisions/" + name
	}
	rev, err := call(ctx, w, w.r.Reads, opStatus, func(ctx context.Context) (*runpb.Revision, error) {
		return w.r.Revisions.GetRevision(ctx, &runpb.GetRevisionRequest{Name: w.serviceName(path.Base(v.GetName())) + "/revisions/" + path.Base(name)})
	})
	switch sdk.CodeOf(err) {
	case 0:
	case sdk.NotFound, sdk.PermissionDenied:
		return f, nil
	default:
		return nil, err
	}
	for _, c := range rev.GetConditions() {
		if c.GetState() != runpb.Condition_CONDITION_FAILED {
			continue
		}
		if why := reasonOf(c); why != "" {
			f.Reason = why
			if c.GetMessage() != "" {
				f.Message = oneLine(c.GetMessage())
			}
			if c.GetType() != "Ready" {
				break // the part says more than the whole
			}
		}
	}
	return f, nil
}

// CommonReason is what a condition's reason means for jobs and services alike; empty where
// that depends on which it is.
// https://cloud.google.com/run/docs/reference/rest/v2/Condition
func CommonReason(r runpb.Condition_CommonReason) sdk.Reason {
	switch r {
	case runpb.Condition_CONTAINER_MISSING, runpb.Condition_CONTAINER_PERMISSION_DENIED, runpb.Condition_CONTAINER_IMAGE_UNAUTHORIZED,
		runpb.Condition_CONTAINER_IMAGE_AUTHORIZATION_CHECK_FAILED:
		return sdk.ReasonImagePull
	case runpb.Condition_ENCRYPTION_KEY_PERMISSION_DENIED, runpb.Condition_ENCRYPTION_KEY_CHECK_FAILED, runpb.Condition_SECRETS_ACCESS_CHECK_FAILED:
		return sdk.ReasonPermissionDenied
	case runpb.Condition_VPC_NETWORK_NOT_FOUND:
		return sdk.ReasonInvalidSpec
	}
	return ""
}

// reasonOf is the reason of a condition, empty where it has none that says more
// than that the revision failed.
func reasonOf(c *runpb.Condition) sdk.Reason {
	if why := CommonReason(c.GetReason()); why != "" {
		return why
	}
	switch c.GetReason() {
	case runpb.Condition_PROGRESS_DEADLINE_EXCEEDED:
		return sdk.ReasonStartTimeout
	case runpb.Condition_INTERNAL:
		return sdk.ReasonInfrastructure
	}
	switch c.GetRevisionReason() {
	case runpb.Condition_HEALTH_CHECK_CONTAINER_ERROR:
		return sdk.ReasonFailedToStart
	case runpb.Condition_ACTIVE_REVISION_LIMIT_REACHED:
		return sdk.ReasonQuota
	case runpb.Condition_MIN_INSTANCES_NOT_PROVISIONED:
		return sdk.ReasonCapacity
	}
	return ""
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
