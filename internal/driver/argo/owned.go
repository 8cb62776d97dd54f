package argo

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"

	typeWorkflow = "workflow"
	typeSecret   = "secret"
)

// ListOwned implements sdk.OwnedLister: Workflows, and Secrets, which live as long as
// their attempt's Workflow does. Pods go with their Workflow. Of Secrets the cluster is
// asked for the metadata alone.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		// An owner is any text; what a label can't hold was fitted to it.
		selector := sdk.LabelOwner
		if r.Owner != "" {
			selector += "=" + kube.LabelValue(r.Owner)
		}
		all, err := p.client.List(ctx, opList, selector)
		if err != nil {
			yield(sdk.OwnedObject{}, err)
			return
		}
		live := map[sdk.ID]bool{}
		for i := range all {
			o, ok := ownedWorkflow(&all[i])
			if !ok || all[i].Archived() || r.Owner != "" && o.Owner != r.Owner {
				continue
			}
			live[o.AttemptID] = o.Live
			if !yield(o, nil) {
				return
			}
		}
		if p.server != nil {
			return // Argo Server makes no Secrets, and so has none of ours
		}
		at := kube.Secrets(p.session.Namespace, "").Metadata()
		secrets, err := kube.List(selector, page[metav1.PartialObjectMetadataList](ctx, p, opList, at), metas)
		if err != nil {
			yield(sdk.OwnedObject{}, err)
			return
		}
		for _, m := range secrets {
			o, ok := kube.Owned(typeSecret, m.ObjectMeta)
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

func metas(l *metav1.PartialObjectMetadataList) ([]metav1.PartialObjectMetadata, string) {
	return l.Items, l.Continue
}

// page reads a page of a list of the API server's.
func page[L any](ctx context.Context, p *provider, op string, at kube.Place) func(query url.Values, page *L) error {
	return func(query url.Values, page *L) error {
		return p.spend(ctx, op, func() error { return p.session.Get(ctx, op, at, query, page) })
	}
}

func ownedWorkflow(w *argo.Workflow) (sdk.OwnedObject, bool) {
	o, ok := kube.Owned(typeWorkflow, w.ObjectMeta)
	if !ok {
		return o, false
	}
	o.Live = !w.Status.Done() && w.DeletionTimestamp == nil
	o.State = cmp.Or(w.Status.Phase, argo.Pending)
	if t := w.Status.StartedAt; !t.IsZero() {
		o.Started = t.UTC()
	}
	if t := w.Status.FinishedAt; !t.IsZero() {
		o.Ended = t.UTC()
	}
	for _, t := range w.Spec.Templates {
		if t.Container != nil {
			r := t.Container.Resources.Requests
			o.Size.CPU += r.Cpu().MilliValue()
			o.Size.Memory += r.Memory().Value()
			o.Size.Disk += r.StorageEphemeral().Value()
		}
	}
	return o, true
}

// RemoveOwned implements sdk.OwnedLister. A pod that runs goes with its Workflow.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	o := r.Object
	known := o.Type == typeWorkflow || o.Type == typeSecret && p.server == nil
	if !known || o.ID != kube.ObjectName(o.AttemptID) {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%s %q is no object of ours", o.Type, o.ID))
	}
	is, err := p.metaOf(ctx, o)
	if sdk.CodeOf(err) == sdk.NotFound {
		return sdk.RemoveOwnedResult{}, nil
	}
	if err != nil {
		return sdk.RemoveOwnedResult{}, err
	}
	now, ok := kube.Owned(o.Type, is)
	if !ok || now.RunID != o.RunID || now.Owner != o.Owner || now.LedgerID != o.LedgerID {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("the %s %s no longer carries the labels that were listed", o.Type, o.ID))
	}
	if o.Type == typeSecret {
		_, err := p.removeSecret(ctx, opRemove, o.ID)
		return sdk.RemoveOwnedResult{}, err
	}
	if _, err := p.remove(ctx, opRemove, o.ID, string(is.UID)); err != nil {
		return sdk.RemoveOwnedResult{}, err
	}
	return sdk.RemoveOwnedResult{}, p.gone(ctx, opRemove, p.handle(&argo.Workflow{ObjectMeta: is}))
}

// metaOf reads an object's metadata.
func (p *provider) metaOf(ctx context.Context, o sdk.OwnedObject) (metav1.ObjectMeta, error) {
	if o.Type == typeWorkflow {
		w, err := p.client.Get(ctx, opRemove, o.ID)
		switch {
		case err != nil:
			return metav1.ObjectMeta{}, err
		case w.Archived():
			return metav1.ObjectMeta{}, p.fail(sdk.NotFound, opRemove, fmt.Errorf("the Workflow %s is in the archive alone", o.ID))
		}
		return w.ObjectMeta, nil
	}
	var is metav1.PartialObjectMetadata
	at := kube.Secrets(p.session.Namespace, o.ID).Metadata()
	err := p.spend(ctx, opRemove, func() error { return p.session.Get(ctx, opRemove, at, nil, &is) })
	return is.ObjectMeta, err
}
