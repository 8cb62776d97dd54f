package kubernetes

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opWatch = "watch jobs"

const (
	// watchFor is how long the server keeps a watch open; then another follows.
	watchFor   = "290"
	watchFirst = 50 * time.Millisecond
	watchLast  = 10 * time.Second
)

// change is an event of a watch.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
type change struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// WatchJobs implements sdk.JobWatcher. It watches the pods of an owner. A watch
// that ends is opened again where it was; where that place is forgotten, a list
// gives a new one, and any job may have changed.
func (p *provider) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return func(yield func(sdk.WatchEvent, error) bool) {
		at, wait := r.Resume, watchFirst
		selector := sdk.LabelOwner + "=" + kube.LabelValue(r.Owner)
		for {
			var err error
			told := false
			if at == "" {
				if at, err = p.place(ctx, selector); err == nil && !yield(sdk.WatchEvent{Resume: at}, nil) {
					return
				}
			}
			if err == nil {
				left := false
				at, told, err = p.watch(ctx, selector, at, func(e sdk.WatchEvent) bool {
					left = !yield(e, nil)
					return !left
				})
				if left {
					return
				}
			}
			switch {
			case ctx.Err() != nil:
				yield(sdk.WatchEvent{}, p.fail(sdk.CodeOf(ctx.Err()), opWatch, ctx.Err()))
				return
			case kube.Expired(err):
				at = ""
			case err != nil && !sdk.IsRetryable(err):
				yield(sdk.WatchEvent{}, err)
				return
			}
			if told {
				wait = watchFirst
			}
			pause := max(wait, sdk.RetryAfter(err))
			if err := sdk.SystemClock().Sleep(ctx, pause); err != nil {
				yield(sdk.WatchEvent{}, p.fail(sdk.CodeOf(err), opWatch, err))
				return
			}
			wait = min(2*wait, watchLast)
		}
	}
}

// place is where a watch may begin.
func (p *provider) place(ctx context.Context, selector string) (string, error) {
	var l metav1.PartialObjectMetadataList
	err := p.spend(ctx, opWatch, func() error {
		return p.session.Get(ctx, opWatch, kube.Pods(p.session.Namespace, "").Metadata(), url.Values{"labelSelector": {selector}, "limit": {"1"}}, &l)
	})
	return l.ResourceVersion, err
}

// watch gives the events of one watch, and returns the place behind the last. told
// reports whether there was any. The stream's end is no error.
func (p *provider) watch(ctx context.Context, selector, at string, yield func(sdk.WatchEvent) bool) (next string, told bool, err error) {
	if err := p.budget.Wait(ctx); err != nil {
		return at, false, p.fail(sdk.CodeOf(err), opWatch, err)
	}
	body, err := p.session.Stream(ctx, opWatch, kube.Pods(p.session.Namespace, ""), url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"labelSelector": {selector}, "resourceVersion": {at}, "timeoutSeconds": {watchFor}})
	if err != nil {
		return at, false, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	d := json.NewDecoder(body)
	for {
		var c change
		if d.Decode(&c) != nil {
			return at, told, nil // closed or cut, which means nothing
		}
		if c.Type == "ERROR" {
			var st metav1.Status
			if json.Unmarshal(c.Object, &st) != nil {
				return at, told, nil
			}
			return at, told, p.session.Failed(opWatch, st)
		}
		var m metav1.PartialObjectMetadata
		if json.Unmarshal(c.Object, &m) != nil {
			return at, told, nil
		}
		if m.ResourceVersion != "" {
			at = m.ResourceVersion
		}
		told = true
		if c.Type == "BOOKMARK" {
			continue
		}
		if id, err := sdk.ParseID(m.Labels[sdk.LabelAttempt]); err == nil && !yield(sdk.WatchEvent{AttemptID: id, Resume: at}) {
			return at, told, nil
		}
	}
}
