package workload

import (
	"context"
	"maps"
	"path"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
)

// rereads is how often a change is decided anew because another one came between
// the read and the call. Each was refused, so that nothing is done twice.
const rereads = 5

// change is one change of a service, as its verb describes it.
type change struct {
	op  string
	req sdk.OpRequest
	// count: it says how many instances there are to be.
	count bool
	// edit changes v, which has the state st, and returns the members that matter,
	// nil where there is nothing to change.
	edit func(v *runpb.Service, st sdk.DeploymentStatus) (args map[string]string, err error)
	// anew: a new revision is wanted.
	anew bool
}

// apply carries a change out. It returns the service as it is then, as far as the
// reply tells.
//
// It is first decided on what a status has just read, where there is such a read:
// the etag goes along, so that the call is refused if anything came between. Where
// that leads to no call, the decision is made anew on a read of its own.
func (w *Workloads) apply(ctx context.Context, ch change) (sdk.OpResult, *runpb.Service, error) {
	id, err := w.parse(ctx, ch.op, ch.req.Path)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	v, _ := w.recent.Take(id, w.r.Clock.Now(), fresh)
	for n := 0; ; n++ {
		read := v == nil || ch.req.DryRun
		if read {
			if v, err = w.get(ctx, ch.op, id); err != nil {
				return sdk.OpResult{}, nil, err
			}
		}
		res, after, sent, err := w.try(ctx, ch, v)
		// https://google.aip.dev/154
		if sent && sdk.CodeOf(err) == sdk.Aborted && n < rereads || !sent && !read {
			v = nil
			continue
		}
		return res, after, err
	}
}

// try decides a change on v, and sends it.
func (w *Workloads) try(ctx context.Context, ch change, v *runpb.Service) (res sdk.OpResult, after *runpb.Service, sent bool, err error) {
	res = sdk.OpResult{Generation: generation(v), Trace: traceOf(v)}
	if v.GetAnnotations()[annotationOp] == ch.req.OpID.String() {
		res.Changed, res.Rollout = true, res.Generation
		return res, v, false, nil // it was carried out before
	}
	st := w.judge(v)
	if err := ch.req.Expect.Check(ch.op, st); err != nil {
		return sdk.OpResult{}, nil, false, err
	}
	next := proto.CloneOf(v)
	if next.Annotations = maps.Clone(next.GetAnnotations()); next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	if next.Template == nil {
		next.Template = &runpb.RevisionTemplate{}
	}
	args, err := ch.edit(next, st)
	if err != nil || args == nil {
		return res, v, false, err
	}
	if a := st.Autoscaler; a != nil && ch.count {
		if !ch.req.AgainstAutoscaler {
			e := w.fail(sdk.FailedPrecondition, ch.op, "%s is scaled by %s between %d and %d instances", st.Path, a.Name, a.Min, a.Max)
			e.ID, e.Remedy = sdk.ErrAutoscaler, "change the service's minimum and maximum, or repeat the command with --against-autoscaler, which turns manual scaling on"
			return sdk.OpResult{}, nil, false, e
		}
		res.Warnings = append(res.Warnings, "the service has manual scaling now: it no longer follows its requests")
	}
	next.Annotations[annotationOp] = ch.req.OpID.String()
	next.Template.Revision = ""
	req := &runpb.UpdateServiceRequest{Service: next, ForceNewRevision: ch.anew}
	if ch.req.DryRun {
		return sdk.OpResult{Changed: true, Generation: res.Generation, Warnings: res.Warnings,
			Calls: []sdk.PlannedCall{{Name: "run.projects.locations.services.patch", Object: next.GetName(), Args: args}}}, v, false, nil
	}
	op, err := call(ctx, w, w.r.Writes, ch.op, func(ctx context.Context) (*longrunningpb.Operation, error) {
		return w.r.Services.UpdateService(ctx, req)
	})
	if err != nil {
		return sdk.OpResult{}, nil, true, err
	}
	after = accepted(op, next)
	res.Changed, res.Generation = true, ""
	if after.GetGeneration() > v.GetGeneration() {
		res.Generation, res.Rollout = generation(after), generation(after)
	}
	return res, after, true, nil
}

// fresh is how old a read may be on which a change is decided; an older one would
// mostly be refused.
const fresh = 2 * time.Second

// accepted is the service in an operation's metadata, else as it was sent.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services/patch
func accepted(op *longrunningpb.Operation, sent *runpb.Service) *runpb.Service {
	var v runpb.Service
	if op.GetMetadata() == nil || op.GetMetadata().UnmarshalTo(&v) != nil || path.Base(v.GetName()) != path.Base(sent.GetName()) {
		return sent
	}
	return &v
}
