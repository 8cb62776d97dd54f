package kubernetes

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"
	opRenew  = "renew expiry"

	typeJob    = "job"
	typeSecret = "secret"
	typePolicy = "networkpolicy"
)

// ListOwned implements sdk.OwnedLister: Jobs, and Secrets and policies, which live
// as long as their attempt's Job does. Pods go with their Job. Of Secrets the
// cluster is asked for the metadata alone.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		selector := sdk.LabelOwner
		if r.Owner != "" {
			selector += "=" + kube.LabelValue(r.Owner)
		}
		jobs, err := p.jobsOf(ctx, opList, selector)
		if err != nil {
			yield(sdk.OwnedObject{}, err)
			return
		}
		live := map[sdk.ID]bool{}
		for i := range jobs {
			o, ok := ownedJob(&jobs[i])
			if !ok || r.Owner != "" && o.Owner != r.Owner {
				continue
			}
			live[o.AttemptID] = o.Live
			if !yield(o, nil) {
				return
			}
		}
		for _, at := range []kube.Place{kube.Secrets(p.session.Namespace, ""), kube.Policies(p.session.Namespace, "")} {
			metas, err := list(ctx, p, opList, at.Metadata(), selector, func(l *metav1.PartialObjectMetadataList) ([]metav1.PartialObjectMetadata, string) {
				return l.Items, l.Continue
			})
			if err != nil {
				yield(sdk.OwnedObject{}, err)
				return
			}
			for _, m := range metas {
				o, ok := kube.Owned(kindOf(at), m.ObjectMeta)
				if !ok || r.Owner != "" && o.Owner != r.Owner {
					continue
				}
				o.Live = live[o.AttemptID]
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

func ownedJob(j *batchv1.Job) (sdk.OwnedObject, bool) {
	o, ok := kube.Owned(typeJob, j.ObjectMeta)
	if !ok {
		return o, false
	}
	st := judge(sight{job: j})
	o.Live, o.State = !st.State.Terminal() && j.DeletionTimestamp == nil, "Active"
	o.Ended = st.EndedAt
	if t := j.Status.StartTime; t != nil {
		o.Started = t.UTC()
	}
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			o.State = string(c.Type)
		}
	}
	for _, c := range j.Spec.Template.Spec.Containers {
		o.Size.CPU += c.Resources.Requests.Cpu().MilliValue()
		o.Size.Memory += c.Resources.Requests.Memory().Value()
		o.Size.Disk += c.Resources.Requests.StorageEphemeral().Value()
	}
	return o, true
}

// RemoveOwned implements sdk.OwnedLister. A pod that runs goes with its Job.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	o := r.Object
	at, ok := p.placeOf(o)
	if !ok || o.ID != kube.ObjectName(o.AttemptID) {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%s %q is no object of ours", o.Type, o.ID))
	}
	var is metav1.PartialObjectMetadata
	err := p.spend(ctx, opRemove, func() error { return p.session.Get(ctx, opRemove, at.Metadata(), nil, &is) })
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return sdk.RemoveOwnedResult{}, nil
	case err != nil:
		return sdk.RemoveOwnedResult{}, err
	}
	now, ok := kube.Owned(o.Type, is.ObjectMeta)
	if !ok || now.RunID != o.RunID || now.Owner != o.Owner || now.LedgerID != o.LedgerID {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("the %s %s no longer carries the labels that were listed", o.Type, o.ID))
	}
	err = p.spend(ctx, opRemove, func() error { return p.session.Delete(ctx, opRemove, at, string(is.UID)) })
	if err != nil && sdk.CodeOf(err) != sdk.NotFound {
		return sdk.RemoveOwnedResult{}, err
	}
	if o.Type != typeJob {
		return sdk.RemoveOwnedResult{}, nil
	}
	j := batchv1.Job{ObjectMeta: is.ObjectMeta}
	return sdk.RemoveOwnedResult{}, p.gone(ctx, opRemove, p.handle(&j))
}

func (p *provider) placeOf(o sdk.OwnedObject) (kube.Place, bool) {
	switch o.Type {
	case typeJob:
		return kube.Jobs(p.session.Namespace, o.ID), true
	case typeSecret:
		return kube.Secrets(p.session.Namespace, o.ID), true
	case typePolicy:
		return kube.Policies(p.session.Namespace, o.ID), true
	}
	return kube.Place{}, false
}

// RenewExpiry implements sdk.ExpiryRenewer: of the Job, and of what it has beside.
func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RenewExpiryResult{}, p.fail(sdk.CodeOf(err), opRenew, err)
	}
	h := r.Handle
	if err := p.checkHandle(opRenew, h); err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	labels := map[string]string{sdk.LabelExpires: strconv.FormatInt(r.Expires.Unix(), 10)}
	patch := func(at kube.Place, meta map[string]any) error {
		meta["labels"] = labels
		return p.spend(ctx, opRenew, func() error {
			return p.session.Patch(ctx, opRenew, at.Metadata(), map[string]any{"metadata": meta}, nil)
		})
	}
	if err := patch(kube.Jobs(p.session.Namespace, h.ID), map[string]any{"uid": h.Metadata[keyUID]}); err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	for _, at := range []kube.Place{kube.Secrets(p.session.Namespace, h.ID), kube.Policies(p.session.Namespace, h.ID)} {
		if err := patch(at, map[string]any{}); err != nil && sdk.CodeOf(err) != sdk.NotFound {
			return sdk.RenewExpiryResult{}, err
		}
	}
	return sdk.RenewExpiryResult{}, nil
}
