package kubernetes

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// sight is what the cluster has of an attempt.
type sight struct {
	job  *batchv1.Job // nil when it isn't there
	pods []corev1.Pod // oldest first
	now  time.Time    // by the cluster's clock
}

// look reads an attempt's Job, and then its pods: what the Job says of their end
// they say themselves by then.
func (p *provider) look(ctx context.Context, op string, h sdk.JobHandle) (sight, error) {
	var s sight
	j, err := p.getJob(ctx, op, h.ID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
	case err != nil:
		return s, err
	case string(j.UID) == h.Metadata[keyUID]:
		s.job = &j
	}
	id, _ := kube.AttemptOf(h.ID)
	pods, err := p.podsOf(ctx, op, sdk.LabelAttempt+"="+id.String())
	if err != nil {
		return s, err
	}
	s.pods, s.now = owned(pods, h), p.session.Now()
	return s, nil
}

// sights looks at several attempts, in their order, by two lists: of the Jobs, and then
// of the pods.
func (p *provider) sights(ctx context.Context, op string, handles []sdk.JobHandle) ([]sight, error) {
	jobs, err := p.jobsOf(ctx, op, attempts(handles))
	if err != nil {
		return nil, err
	}
	pods, err := p.podsOf(ctx, op, attempts(handles))
	if err != nil {
		return nil, err
	}
	byUID := map[string]*batchv1.Job{}
	for i := range jobs {
		byUID[string(jobs[i].UID)] = &jobs[i]
	}
	out := make([]sight, len(handles))
	for i, h := range handles {
		out[i] = sight{job: byUID[h.Metadata[keyUID]], pods: owned(pods, h), now: p.session.Now()}
	}
	return out, nil
}

// owned keeps the pods that the handle's own Job has made, oldest first.
func owned(pods []corev1.Pod, h sdk.JobHandle) []corev1.Pod {
	var out []corev1.Pod
	for _, pod := range pods {
		if slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return string(r.UID) == h.Metadata[keyUID] }) {
			out = append(out, pod)
		}
	}
	slices.SortFunc(out, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (p *provider) podsOf(ctx context.Context, op, selector string) ([]corev1.Pod, error) {
	return list(ctx, p, op, kube.Pods(p.session.Namespace, ""), selector, func(l *corev1.PodList) ([]corev1.Pod, string) { return l.Items, l.Continue })
}

func (p *provider) jobsOf(ctx context.Context, op, selector string) ([]batchv1.Job, error) {
	return list(ctx, p, op, kube.Jobs(p.session.Namespace, ""), selector, func(l *batchv1.JobList) ([]batchv1.Job, string) { return l.Items, l.Continue })
}

// list reads all pages of a list.
func list[L, T any](ctx context.Context, p *provider, op string, at kube.Place, selector string, of func(*L) ([]T, string)) ([]T, error) {
	return kube.List(selector, func(query url.Values, page *L) error {
		return p.spend(ctx, op, func() error { return p.session.Get(ctx, op, at, query, page) })
	}, of)
}

// attempts is a selector of the pods and Jobs of several handles.
func attempts(handles []sdk.JobHandle) string {
	ids := make([]string, 0, len(handles))
	for _, h := range handles {
		if id, ok := kube.AttemptOf(h.ID); ok {
			ids = append(ids, id.String())
		}
	}
	return sdk.LabelAttempt + " in (" + strings.Join(ids, ",") + ")"
}
