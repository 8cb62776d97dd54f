package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

const (
	// defaultTTL is how long an ended Job stays if nobody cleans up.
	defaultTTL = 24 * time.Hour
	// farSlack is how far beyond the pod's deadline the Job's own lies, which
	// deletes the pod with its log: it is for a pod that no node ever took.
	farSlack = 24 * time.Hour
	// maxRequest is well within what etcd takes, 1.5 MiB.
	// https://etcd.io/docs/v3.6/dev-guide/limit/
	maxRequest = 1 << 20
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
	l := launch.For(r, sdk.SubmitByName, p.identity, p.owner, p.ledgerID)
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
	for _, problem := range w.Place.Problems() {
		problem.Field = "options." + problem.Field
		w.Problems = append(w.Problems, problem)
	}
	w.RefuseFields()
	w.FitProfile()
	if w.Spec.Profile == sdk.ProfileStrict {
		w.Warnings = append(w.Warnings, unseen)
	}
	req := request{Job: w.job(r)}
	req.Sealed = w.Sealed
	if w.Spec.Profile == sdk.ProfileStrict {
		req.Policy = w.policy(req.Job.ObjectMeta)
	}
	if d := req.Job.Spec.Template.Spec.ActiveDeadlineSeconds; d != nil {
		l.NativeDeadline = time.Duration(*d) * time.Second
	}
	if len(w.Problems) == 0 {
		l.Names = map[string]string{"job": w.Name}
		if len(req.Sealed) > 0 {
			l.Names["secret"] = w.Name
		}
		if req.Policy != nil {
			l.Names["networkpolicy"] = w.Name
		}
		var err error
		if l.Request, err = sdk.EncodeCanonical(req); err != nil {
			return l, p.fail(sdk.Internal, opPrepare, err)
		}
		if len(l.Request) > maxRequest {
			w.Bad(sdk.InvalidArgument, "env", fmt.Sprintf("%d bytes", len(l.Request)), "the Job would have more than the %d bytes that a cluster surely takes: shorten env or args", maxRequest)
		}
	}
	l.Problems, l.Fitted, l.Warnings = w.Problems, w.Fitted, w.Warnings
	if len(l.Problems) > 0 {
		l.Request, l.Names = nil, nil
	}
	return l, nil
}

// job is the Job of the attempt: one pod that isn't started again, whatever ends
// it. Whether there is another attempt isn't for Kubernetes to decide.
// https://kubernetes.io/docs/concepts/workloads/controllers/job/
func (l *plan) job(r sdk.PrepareJobRequest) batchv1.Job {
	labels, annotations := l.labels(r)
	pod := l.pod()
	podNotes := maps.Clone(annotations)
	for k, v := range l.Place.Annotations {
		if _, ours := podNotes[k]; !ours {
			podNotes[k] = v
		}
	}
	podLabels := maps.Clone(labels)
	// A pod's labels in the template can't change, and this one is renewed.
	delete(podLabels, sdk.LabelExpires)
	ttl := l.Spec.TTL
	if ttl <= 0 {
		ttl = defaultTTL
		l.Fit("ttl", ttl.String(), "Kubernetes deletes the ended Job then, if nobody did before")
	} else if ttl%time.Second != 0 {
		l.Fit("ttl", (time.Duration(podspec.Seconds(ttl)) * time.Second).String(), "Kubernetes counts whole seconds")
	}
	one, none, notSuspended := int32(1), int32(0), false
	keep := int32(podspec.Seconds(ttl)) //nolint:gosec // RefuseFields bounds it by a year
	mode, replace := batchv1.NonIndexedCompletion, batchv1.Failed
	main := podspec.Main
	j := batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.p.session.Namespace, Labels: labels, Annotations: annotations},
		Spec: batchv1.JobSpec{
			Parallelism: &one, Completions: &one, BackoffLimit: &none, CompletionMode: &mode, PodReplacementPolicy: &replace, Suspend: &notSuspended,
			TTLSecondsAfterFinished: &keep,
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{Action: batchv1.PodFailurePolicyActionFailJob, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
				{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: &main,
					Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{0}}},
			}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: podNotes}, Spec: pod},
		},
	}
	if d := pod.ActiveDeadlineSeconds; d != nil {
		far := *d + podspec.Seconds(farSlack)
		j.Spec.ActiveDeadlineSeconds = &far
	}
	return j
}

// pod is the spec of the only pod.
func (l *plan) pod() corev1.PodSpec {
	s := l.Spec
	token := l.Place.ServiceAccount != "" && s.Profile != sdk.ProfileStrict
	grace := podspec.Seconds(l.Grace())
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &token, TerminationGracePeriodSeconds: &grace}
	l.Place.Fill(&pod)
	pod.ActiveDeadlineSeconds = l.Deadline()
	c := l.Container()
	l.Mounts(&pod, &c)
	l.Secure(&pod, &c)
	pod.Containers = []corev1.Container{c}
	out, err := podspec.Patched(pod, l.Place.Pod)
	if err != nil {
		return pod // placement.problems has said so
	}
	return out
}

// labels are ours and the user's. What a label can't hold as it is stands in an
// annotation in full.
func (l *plan) labels(r sdk.PrepareJobRequest) (labels, annotations map[string]string) {
	labels, annotations = kube.OwnLabels(r, l.p.owner, l.p.ledgerID)
	for _, k := range slices.Sorted(maps.Keys(l.Spec.Labels)) {
		if msg := kube.CheckLabel(k, l.Spec.Labels[k]); msg != "" {
			l.Bad(sdk.InvalidArgument, "labels."+k, l.Spec.Labels[k], "%s", msg)
		}
		labels[k] = l.Spec.Labels[k]
	}
	return labels, annotations
}
