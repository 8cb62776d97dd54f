package workload

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// labelWorkload, on a ConfigMap or Secret, says whose it is. The pods of a workload
// that we made have it too.
const labelWorkload = "windlass.run/workload"

// parts are the ConfigMap and the Secret that one change of settings makes, under the
// name of its operation: a pod that is made meanwhile from an older template still
// finds what that was made with. Nil is none.
type parts struct {
	ref    ref
	name   string
	config map[string]string
	secret map[string][]byte
	owner  []metav1.OwnerReference
}

func labelOf(r ref) string { return kube.LabelValue(string(r.kind) + "." + r.name) }

// maxName is what a ConfigMap's or a Secret's name may have.
const maxName = 253

// partName is the name of what an operation makes for a workload.
func partName(r ref, op string) string {
	suffix := "-windlass-" + strings.ToLower(op)
	rule := sdk.NameRule{Max: maxName - len(suffix), Lower: true, AlnumEnds: true, Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.'
	}}
	return rule.Fit(r.name) + suffix
}

// isPart reports whether a name is that of a part of a workload.
func isPart(r ref, name string) bool {
	op := sdk.ID{1}.String()
	return strings.HasPrefix(name, strings.TrimSuffix(partName(r, op), op))
}

// ownedBy makes a part go with its workload.
func ownedBy(o *object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: o.ref.kind.word(), Name: o.ref.name, UID: o.meta.UID}}
}

func (p *parts) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: p.name, Namespace: p.ref.namespace, OwnerReferences: p.owner,
		Labels: map[string]string{labelWorkload: labelOf(p.ref), "app.kubernetes.io/managed-by": manager}}
}

// part is one object of them.
type part struct {
	at     kube.Place
	object any
	keys   []string
}

func (p *parts) all() []part {
	if p == nil {
		return nil
	}
	var out []part
	if len(p.config) > 0 {
		out = append(out, part{kube.ConfigMaps(p.ref.namespace, p.name), &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: p.meta(), Data: p.config}, slices.Sorted(maps.Keys(p.config))})
	}
	if len(p.secret) > 0 {
		out = append(out, part{kube.Secrets(p.ref.namespace, p.name), &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: p.meta(), Data: p.secret}, slices.Sorted(maps.Keys(p.secret))})
	}
	return out
}

// calls are those of a dry run, without values.
func (p *parts) calls() []sdk.PlannedCall {
	var out []sdk.PlannedCall
	for _, x := range p.all() {
		args := map[string]string{}
		for _, k := range x.keys {
			args[k] = sdk.Redacted
		}
		out = append(out, sdk.PlannedCall{Name: "v1:Apply", Object: strings.TrimSuffix(x.at.Resource, "s") + " " + p.ref.namespace + "/" + p.name, Args: args})
	}
	return out
}

// prepare declares the parts. What an earlier try of the operation declared is
// replaced. Nothing uses them yet, so that an error has changed nothing.
func (w *Workloads) prepare(ctx context.Context, op string, p *parts) error {
	for _, x := range p.all() {
		err := w.c.Spend(ctx, op, func() error {
			_, err := w.c.Session.Apply(ctx, op, x.at, manager, true, x.object, nil)
			return err
		})
		if err != nil {
			return w.undo(ctx, op, p, err)
		}
	}
	return nil
}

// undo takes the parts away whose workload was refused, and returns why that was. What
// it can't take away belongs to the workload, and goes with the next change of settings.
func (w *Workloads) undo(ctx context.Context, op string, p *parts, why error) error {
	if !sdk.IsClear(why) || sdk.CodeOf(why) == sdk.Aborted {
		return why // it may be there after all, or is tried again
	}
	for _, x := range p.all() {
		_ = w.remove(ctx, op, x.at) // the refusal is what counts
	}
	return why
}

func (w *Workloads) remove(ctx context.Context, op string, at kube.Place) error {
	var is metav1.PartialObjectMetadata
	if err := w.get(ctx, op, at.Metadata(), &is); err != nil {
		return err
	}
	return w.c.Spend(ctx, op, func() error { return w.c.Session.Delete(ctx, op, at, string(is.UID)) })
}

// prune takes away the parts of older changes, but for as many as the cluster keeps old
// templates, so that a rollback finds what it needs. It returns what to tell.
func (w *Workloads) prune(ctx context.Context, op string, o *object, using string) []string {
	for _, at := range []kube.Place{kube.ConfigMaps(o.ref.namespace, ""), kube.Secrets(o.ref.namespace, "")} {
		metas, err := listed[metav1.PartialObjectMetadata](ctx, w, op, at.Metadata(), labelWorkload+"="+labelOf(o.ref))
		if err == nil {
			err = w.pruneOf(ctx, op, o, at, using, metas)
		}
		if err != nil {
			return []string{"older " + at.Resource + " of the workload weren't taken away, the next change of settings tries again: " + err.Error()}
		}
	}
	return nil
}

func (w *Workloads) pruneOf(ctx context.Context, op string, o *object, at kube.Place, using string, all []metav1.PartialObjectMetadata) error {
	old := slices.DeleteFunc(all, func(m metav1.PartialObjectMetadata) bool {
		return m.Name == using || !slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == o.meta.UID })
	})
	// Operations' IDs begin with their time.
	slices.SortFunc(old, func(a, b metav1.PartialObjectMetadata) int { return cmp.Compare(b.Name, a.Name) })
	for _, m := range old[min(o.history, len(old)):] {
		at.Name = m.Name
		err := w.c.Spend(ctx, op, func() error { return w.c.Session.Delete(ctx, op, at, string(m.UID)) })
		if err != nil && sdk.CodeOf(err) != sdk.NotFound {
			return err
		}
	}
	return nil
}
