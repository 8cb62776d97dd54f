package argo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

const (
	// defaultTTL is how long an ended Workflow stays if nobody cleans up.
	defaultTTL = 24 * time.Hour
	// maxRequest is well within what etcd takes, 1.5 MiB.
	// https://etcd.io/docs/v3.6/dev-guide/limit/
	maxRequest = 1 << 20
	// maxArgs is what the arguments may have in JSON: above it Argo hands them over in a
	// file, in which Kubernetes expands nothing.
	// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/common/common.go
	maxArgs = 128 << 10
	// template names the only step, and the entry point.
	template = podspec.Main
)

// plan is a launch in the making.
type plan struct {
	podspec.Plan
	p *provider
}

// PrepareJob implements sdk.JobRunner. It makes no call.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := sdk.Launch{V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: p.owner, LedgerID: p.ledgerID, Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}}
	w := &plan{p: p, Plan: podspec.Plan{Spec: r.Spec, Name: kube.ObjectName(r.AttemptID), Problems: sdk.ValidateSpec(r.Spec)}}
	var o options
	if ps := optionsSchema().Validate("options", r.Spec.Options); len(ps) > 0 {
		w.Problems = append(w.Problems, ps...)
	} else if len(r.Spec.Options) > 0 {
		if err := json.Unmarshal(r.Spec.Options, &o); err != nil {
			return l, p.fail(sdk.InvalidArgument, opPrepare, err)
		}
	}
	w.Place = p.cfg.Placement.With(o.Placement)
	for _, problem := range p.cfg.problems(w.Place) {
		problem.Field = "options." + problem.Field
		w.Problems = append(w.Problems, problem)
	}
	w.refuse()
	w.FitProfile()
	req := request{Workflow: w.workflow(r)}
	req.Sealed = w.Sealed
	if d := req.Workflow.Spec.Templates[0].ActiveDeadlineSeconds; d != nil {
		l.NativeDeadline = time.Duration(*d) * time.Second
	}
	if len(w.Problems) == 0 {
		l.Names = map[string]string{"workflow": w.Name}
		if len(req.Sealed) > 0 {
			l.Names["secret"] = w.Name
		}
		var err error
		if l.Request, err = sdk.EncodeCanonical(req); err != nil {
			return l, p.fail(sdk.Internal, opPrepare, err)
		}
		if len(l.Request) > maxRequest {
			w.Bad(sdk.InvalidArgument, "env", fmt.Sprintf("%d bytes", len(l.Request)), "the Workflow would have more than the %d bytes that a cluster surely takes: shorten env or args", maxRequest)
		}
	}
	l.Problems, l.Fitted, l.Warnings = w.Problems, w.Fitted, w.Warnings
	if len(l.Problems) > 0 {
		l.Request, l.Names = nil, nil
	}
	return l, nil
}

// refuse refuses what a Workflow has no place for.
func (l *plan) refuse() {
	l.RefuseFields()
	s := l.Spec
	if s.Profile == sdk.ProfileStrict {
		l.Bad(sdk.Unimplemented, "profile", string(s.Profile), "Argo's own containers share the job's pod, and need its network and a token; use standard, or a provider of the kind kubernetes")
	}
	for field, text := range map[string]string{"image": s.Image, "workdir": s.Workdir} {
		if strings.Contains(text, tag) {
			l.Bad(sdk.Unimplemented, field, text, "%s", substituted)
		}
	}
	for i, m := range s.Mounts {
		if strings.Contains(m.Target, tag) {
			l.Bad(sdk.Unimplemented, fmt.Sprintf("mounts[%d].target", i), m.Target, "%s", substituted)
		}
	}
	for name := range s.Env {
		l.name("env", name)
	}
	for name, ref := range s.Secrets {
		l.name("secrets", name)
		if parsed, err := sdk.ParseSecretRef(string(ref)); err == nil && l.p.server != nil && (parsed.Scheme == podspec.SchemeEnv || parsed.Scheme == podspec.SchemeFile) {
			l.Bad(sdk.Unimplemented, "secrets."+name, string(ref), "Argo Server makes no Secret: use secret://k8s/NAME/KEY, or leave the provider's endpoint out")
		}
	}
}

// name refuses variables whose names Argo would substitute in, and the one that is
// ours.
func (l *plan) name(field, name string) {
	switch {
	case strings.Contains(name, tag):
		l.Bad(sdk.Unimplemented, field+"."+name, "", "%s", substituted)
	case name == emptyName:
		l.Bad(sdk.InvalidArgument, field+"."+name, "", "this variable keeps braces apart that Argo would take for its own; use another name")
	}
}

// workflow is the Workflow of the attempt: one pod that isn't started again, whatever
// ends it.
func (l *plan) workflow(r sdk.PrepareJobRequest) argo.Workflow {
	labels, annotations := l.labels(r)
	podLabels := maps.Clone(labels)
	delete(podLabels, argo.LabelInstance)
	delete(podLabels, sdk.LabelExpires)
	ttl := l.Spec.TTL
	if ttl <= 0 {
		ttl = defaultTTL
		l.Fit("ttl", ttl.String(), "Argo deletes the ended Workflow then, if nobody did before")
	} else if ttl%time.Second != 0 {
		l.Fit("ttl", (time.Duration(podspec.Seconds(ttl)) * time.Second).String(), "Argo counts whole seconds")
	}
	keep := int32(podspec.Seconds(ttl)) //nolint:gosec // RefuseFields bounds it by a year
	pod, c := l.pod()
	spec := argo.Spec{
		Entrypoint: template, Templates: []argo.Template{{Name: template, ActiveDeadlineSeconds: l.Deadline(), Container: &c}},
		ServiceAccountName: pod.ServiceAccountName, Volumes: pod.Volumes, NodeSelector: pod.NodeSelector, Affinity: pod.Affinity, Tolerations: pod.Tolerations,
		ImagePullSecrets: pod.ImagePullSecrets, PodPriorityClassName: pod.PriorityClassName, PodSpecPatch: patchOf(pod),
		PodMetadata: &argo.Metadata{Labels: podLabels, Annotations: l.Place.Annotations}, TTLStrategy: &argo.TTLStrategy{SecondsAfterCompletion: &keep},
	}
	if account := l.p.cfg.ExecutorAccount; account != "" {
		spec.Executor = &argo.Executor{ServiceAccountName: account}
		if l.Place.ServiceAccount == "" {
			no := false
			spec.AutomountServiceAccountToken = &no
		}
	} else if r.Spec.Profile == sdk.ProfileStandard {
		l.Warnings = append(l.Warnings, "the job's container has the token by which Argo's own containers report; executor_service_account keeps it out")
	}
	if l.p.cfg.ArchiveLogs {
		yes := true
		spec.ArchiveLogs = &yes
	}
	return argo.Workflow{
		TypeMeta:   metav1.TypeMeta{APIVersion: argo.Version, Kind: argo.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.p.session.Namespace, Labels: labels, Annotations: annotations},
		Spec:       spec,
	}
}

// pod has what a Workflow takes of a pod's spec, and the container.
func (l *plan) pod() (corev1.PodSpec, corev1.Container) {
	grace := podspec.Seconds(l.Grace())
	pod := corev1.PodSpec{TerminationGracePeriodSeconds: &grace}
	l.Place.Fill(&pod)
	// Argo's controller needs to know what is run: its own program starts it.
	if l.Spec.Entrypoint == nil && l.Spec.ImageEntrypoint != nil && len(l.Spec.Args) > 0 {
		l.Spec.Entrypoint = l.Spec.ImageEntrypoint
	}
	c := l.Container()
	if raw, err := json.Marshal(c.Args); err == nil && len(raw) > maxArgs {
		l.Bad(sdk.InvalidArgument, "args", fmt.Sprintf("%d bytes", len(raw)), "Argo takes at most %d bytes of arguments as they are", maxArgs)
	}
	if escape(&c) {
		l.Fit("env."+emptyName, "", "keeps braces apart that Argo would take for its own")
	}
	l.Mounts(&pod, &c)
	l.Secure(&pod, &c)
	return pod, c
}

// patchOf is what a Workflow has no field for.
// https://argo-workflows.readthedocs.io/en/latest/fields/#workflowspec
func patchOf(pod corev1.PodSpec) string {
	patch := map[string]any{"terminationGracePeriodSeconds": *pod.TerminationGracePeriodSeconds}
	if pod.RuntimeClassName != nil {
		patch["runtimeClassName"] = *pod.RuntimeClassName
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		panic("argo: " + err.Error()) // it has a number and a text
	}
	return string(raw)
}

// labels are ours and the user's. What a label can't hold as it is stands in an
// annotation in full.
func (l *plan) labels(r sdk.PrepareJobRequest) (labels, annotations map[string]string) {
	labels, annotations = kube.OwnLabels(r, l.p.owner, l.p.ledgerID)
	if id := l.p.cfg.InstanceID; id != "" {
		labels[argo.LabelInstance] = id
	}
	for _, k := range slices.Sorted(maps.Keys(l.Spec.Labels)) {
		msg := kube.CheckLabel(k, l.Spec.Labels[k])
		if strings.HasPrefix(k, "workflows.argoproj.io/") {
			msg = "labels of this prefix are Argo's own"
		}
		if msg != "" {
			l.Bad(sdk.InvalidArgument, "labels."+k, l.Spec.Labels[k], "%s", msg)
		}
		labels[k] = l.Spec.Labels[k]
	}
	return labels, annotations
}
