package cloudrun

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"

	typeJob = "job"
)

// ListOwned implements sdk.OwnedLister. An execution goes with its job and is no
// object of its own.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		err := p.listJobs(ctx, opList, func(j *runpb.Job) bool {
			o, ok := ownedJob(j)
			return !ok || r.Owner != "" && o.Owner != r.Owner || yield(o, nil)
		})
		if err != nil {
			yield(sdk.OwnedObject{}, err)
		}
	}
}

// ownedJob makes an object of a job that carries our labels. What a label may
// have been fitted to stands in full in an annotation.
func ownedJob(j *runpb.Job) (sdk.OwnedObject, bool) {
	labels, notes := j.GetLabels(), j.GetAnnotations()
	run, err := sdk.ParseID(labels[sdk.LabelRun])
	if err != nil {
		return sdk.OwnedObject{}, false
	}
	attempt, err := sdk.ParseID(labels[sdk.LabelAttempt])
	id := last(j.GetName())
	if err != nil || id != jobID(attempt) {
		return sdk.OwnedObject{}, false
	}
	o := sdk.OwnedObject{Type: typeJob, ID: id, Name: id, RunID: run, AttemptID: attempt, Owner: cmp.Or(notes[sdk.LabelOwner], labels[sdk.LabelOwner]),
		LedgerID: cmp.Or(notes[sdk.LabelLedger], labels[sdk.LabelLedger]), CreatedAt: at(j.GetCreateTime())}
	if o.Owner == "" {
		return sdk.OwnedObject{}, false
	}
	if n, err := strconv.ParseInt(labels[sdk.LabelExpires], 10, 64); err == nil {
		o.Expires = time.Unix(n, 0).UTC()
	}
	o.Live, o.State = liveness(j)
	o.Size = sizeOf(j)
	// A job doesn't tell when its execution began to run, only when it was made.
	e := j.GetLatestCreatedExecution()
	o.Started = at(e.GetCreateTime())
	if !o.Live {
		o.Ended = at(e.GetCompletionTime())
	}
	return o, true
}

// sizeOf is what a job's execution costs by while it runs.
// https://cloud.google.com/run/docs/reference/rest/v2/Container#ResourceRequirements
func sizeOf(j *runpb.Job) sdk.OwnedSize {
	var s sdk.OwnedSize
	for _, c := range j.GetTemplate().GetTemplate().GetContainers() {
		limits := c.GetResources().GetLimits()
		s.CPU += gcp.Quantity(limits["cpu"], 1000)
		s.Memory += gcp.Quantity(limits["memory"], 1)
	}
	return s
}

// liveness tells from a job alone whether its execution runs or is to start.
func liveness(j *runpb.Job) (live bool, state string) {
	e := j.GetLatestCreatedExecution()
	switch {
	case j.GetDeleteTime() != nil:
		return false, "DELETING"
	case e == nil:
		return !neverStarts(j), j.GetTerminalCondition().GetState().String()
	case e.GetCompletionTime() != nil:
		return false, e.GetCompletionStatus().String()
	}
	return true, e.GetCompletionStatus().String()
}

// neverStarts reports whether a job without an execution won't get one: the
// platform has given up on it.
func neverStarts(j *runpb.Job) bool {
	return !j.GetReconciling() && j.GetTerminalCondition().GetState() == runpb.Condition_CONDITION_FAILED
}

// RemoveOwned implements sdk.OwnedLister. A job that runs is stopped with its
// deletion.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	o := r.Object
	if o.Type != typeJob || o.ID != jobID(o.AttemptID) {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%s %q is no object of ours", o.Type, o.ID))
	}
	j, err := p.getJob(ctx, opRemove, o.ID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return sdk.RemoveOwnedResult{}, nil
	case err != nil:
		return sdk.RemoveOwnedResult{}, err
	}
	is, ok := ownedJob(j)
	if !ok || is.RunID != o.RunID || is.AttemptID != o.AttemptID || is.Owner != o.Owner || is.LedgerID != o.LedgerID {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("the job %s no longer carries the labels that were listed", o.ID))
	}
	_, err = p.remove(ctx, opRemove, j)
	return sdk.RemoveOwnedResult{}, err
}
