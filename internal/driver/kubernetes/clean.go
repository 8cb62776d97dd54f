package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// A deletion takes a moment: the pods go behind the Job.
const (
	deleteFirst = 10 * time.Millisecond
	deleteLast  = time.Second
	deleteMost  = 40 * time.Second
)

// CleanupJob implements sdk.JobCleaner. It deletes the Job, its Secret and its
// policy, and reads back that they and the pods are gone.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.CodeOf(err), opClean, err)
	}
	h := r.Handle
	if err := p.checkHandle(opClean, h); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	s, err := p.look(ctx, opClean, h)
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	if s.job != nil && !judge(s).State.Terminal() {
		return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the Job %s runs, or is about to", h.ID))
	}
	var out sdk.CleanupJobResult
	if s.job != nil {
		removed, err := p.removeJob(ctx, opClean, s.job)
		if err != nil {
			return out, err
		}
		if removed {
			out.Removed = append(out.Removed, "job "+h.ID)
		}
	}
	for _, at := range []kube.Place{kube.Secrets(p.session.Namespace, h.ID), kube.Policies(p.session.Namespace, h.ID)} {
		removed, err := p.session.RemovePart(ctx, opClean, at, p.spend)
		if err != nil {
			return out, err
		}
		if removed {
			out.Removed = append(out.Removed, kindOf(at)+" "+h.ID)
		}
	}
	return out, p.gone(ctx, opClean, h)
}

// removeJob deletes a Job. removed is false where somebody else did.
func (p *provider) removeJob(ctx context.Context, op string, j *batchv1.Job) (removed bool, err error) {
	err = p.spend(ctx, op, func() error {
		return p.session.Delete(ctx, op, kube.Jobs(p.session.Namespace, j.Name), string(j.UID))
	})
	switch sdk.CodeOf(err) {
	case 0:
		return true, nil
	case sdk.NotFound:
		return false, nil
	}
	return false, err
}

// gone reads back that neither the Job nor a pod of it is left.
func (p *provider) gone(ctx context.Context, op string, h sdk.JobHandle) error {
	wait, until := deleteFirst, time.Now().Add(deleteMost)
	for {
		s, err := p.look(ctx, op, h)
		switch {
		case err != nil:
			return err
		case s.job == nil && len(s.pods) == 0:
			return nil
		case time.Now().After(until):
			e := p.fail(sdk.Unavailable, op, fmt.Errorf("the Job %s or its pods are still being deleted", h.ID))
			e.Retryable = true
			return e
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return p.fail(sdk.CodeOf(err), op, errors.Join(fmt.Errorf("the Job %s is being deleted", h.ID), err))
		}
		wait = min(2*wait, deleteLast)
	}
}

// kindOf is the word for what stands at a place.
func kindOf(at kube.Place) string {
	switch at.Resource {
	case "secrets":
		return typeSecret
	case "networkpolicies":
		return typePolicy
	}
	return typeJob
}
