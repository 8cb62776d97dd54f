package workload

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opList = "list workloads"

// page is a page of a list of any kind.
type page struct {
	Metadata metav1.ListMeta   `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// list reads all pages of a list.
func (w *Workloads) list(ctx context.Context, op string, at kube.Place, selector string) ([]json.RawMessage, error) {
	return kube.List(selector, func(query url.Values, p *page) error {
		return w.c.Spend(ctx, op, func() error { return w.c.Session.Get(ctx, op, at, query, p) })
	}, func(p *page) ([]json.RawMessage, string) { return p.Items, p.Metadata.Continue })
}

// ListWorkloads implements sdk.WorkloadLister: all namespaces, or the provider's own
// where the credentials don't show the others.
func (w *Workloads) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(yield func(sdk.WorkloadItem, error) bool) {
		namespace := ""
		for _, k := range kinds() {
			items, err := w.list(ctx, opList, kube.Apps(k.plural(), namespace, ""), "")
			if sdk.CodeOf(err) == sdk.PermissionDenied && namespace == "" {
				namespace = w.c.Session.Namespace
				items, err = w.list(ctx, opList, kube.Apps(k.plural(), namespace, ""), "")
			}
			if sdk.CodeOf(err) == sdk.NotFound || kube.Unserved(err) {
				continue // an API server that doesn't serve the kind has none of it
			}
			if err != nil {
				yield(sdk.WorkloadItem{}, err)
				return
			}
			for _, raw := range items {
				o, err := decode(k, raw)
				if err != nil {
					yield(sdk.WorkloadItem{}, w.fail(sdk.Internal, opList, "read a %s: %w", k.word(), err))
					return
				}
				if r.Name != "" && o.ref.name != r.Name {
					continue
				}
				if err := w.ended(ctx, opList); err != nil {
					yield(sdk.WorkloadItem{}, err)
					return
				}
				desired, ready := o.desired, o.ready
				if !yield(sdk.WorkloadItem{Path: o.ref.path(), Image: o.image(), Desired: &desired, Ready: &ready, Stopped: o.stopped()}, nil) {
					return
				}
			}
		}
	}
}
