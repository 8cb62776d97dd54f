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
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

const (
	// defaultTTL is how long an ended Job stays if nobody cleans up.
	defaultTTL = 24 * time.Hour
	// startSlack is what the pod's deadline leaves for its start where no start
	// time-out is set.
	startSlack = 10 * time.Minute
	// farSlack is how far beyond the pod's deadline the Job's own lies, which
	// deletes the pod with its log: it is for a pod that no node ever took.
	farSlack = 24 * time.Hour
	// maxRequest is well within what etcd takes, 1.5 MiB.
	// https://etcd.io/docs/v3.6/dev-guide/limit/
	maxRequest = 1 << 20
)

// plan is a launch in the making.
type plan struct {
	p        *provider
	spec     sdk.JobSpec
	place    placement
	name     string
	sealed   map[string]string
	problems []sdk.Problem
	fitted   []sdk.Fitted
	warnings []string
}

func (l *plan) bad(code sdk.Code, field, value, format string, args ...any) {
	l.problems = append(l.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

func (l *plan) fit(field, value, why string) {
	l.fitted = append(l.fitted, sdk.Fitted{Field: field, Value: value, Why: why})
}

// PrepareJob implements sdk.JobRunner. It makes no call.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := sdk.Launch{V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: p.owner, LedgerID: p.ledgerID, Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}}
	w := &plan{p: p, spec: r.Spec, name: objectName(r.AttemptID), problems: sdk.ValidateSpec(r.Spec)}
	var o options
	if ps := optionsSchema().Validate("options", r.Spec.Options); len(ps) > 0 {
		w.problems = append(w.problems, ps...)
	} else if len(r.Spec.Options) > 0 {
		if err := json.Unmarshal(r.Spec.Options, &o); err != nil {
			return l, p.fail(sdk.InvalidArgument, opPrepare, err)
		}
	}
	w.place = p.cfg.placement.with(o.placement)
	for _, problem := range w.place.problems() {
		problem.Field = "options." + problem.Field
		w.problems = append(w.problems, problem)
	}
	w.refuseFields()
	w.fitProfile()
	req := request{Job: w.job(r)}
	req.Sealed = w.sealed
	if w.spec.Profile == sdk.ProfileStrict {
		req.Policy = w.policy(req.Job.ObjectMeta)
	}
	if d := req.Job.Spec.Template.Spec.ActiveDeadlineSeconds; d != nil {
		l.NativeDeadline = time.Duration(*d) * time.Second
	}
	if len(w.problems) == 0 {
		l.Names = map[string]string{"job": w.name}
		if len(req.Sealed) > 0 {
			l.Names["secret"] = w.name
		}
		if req.Policy != nil {
			l.Names["networkpolicy"] = w.name
		}
		var err error
		if l.Request, err = sdk.EncodeCanonical(req); err != nil {
			return l, p.fail(sdk.Internal, opPrepare, err)
		}
		if len(l.Request) > maxRequest {
			w.bad(sdk.InvalidArgument, "env", fmt.Sprintf("%d bytes", len(l.Request)), "the Job would have more than the %d bytes that a cluster surely takes: shorten env or args", maxRequest)
		}
	}
	l.Problems, l.Fitted, l.Warnings = w.problems, w.fitted, w.warnings
	if len(l.Problems) > 0 {
		l.Request, l.Names = nil, nil
	}
	return l, nil
}

// refuseFields refuses what a Job has no place for.
func (l *plan) refuseFields() {
	s := l.spec
	no := func(field, value, why string) { l.bad(sdk.Unimplemented, field, value, "%s", why) }
	if s.Image == "" {
		l.bad(sdk.InvalidArgument, "image", "", "Kubernetes runs images, and none is given")
	}
	if s.PIDs > 0 {
		no("pids", fmt.Sprint(s.PIDs), "the number of processes is bounded by the kubelet's configuration alone; leave it out")
	}
	if s.Network != "" {
		no("network", s.Network, "a pod has the cluster's network; leave it out, or deny all traffic by the profile strict")
	}
	for i, f := range s.Files {
		no(fmt.Sprintf("files[%d]", i), f.Path, "input files aren't offered on Kubernetes; put them into the image, or mount a volume")
	}
	if s.Stdin == sdk.StdinAttached || s.Stdin == sdk.StdinSpooled {
		no("stdin", string(s.Stdin), "a Job's pod has no input")
	}
	if g := s.Grace; g != nil && (*g < minGrace || *g > maxGrace || *g%time.Second != 0) {
		l.bad(sdk.InvalidArgument, "grace", g.String(), "Kubernetes gives whole seconds, from %s to %s", minGrace, maxGrace)
	}
	if s.Timeout > maxTimeout {
		l.bad(sdk.InvalidArgument, "timeout", s.Timeout.String(), "is more than %s", maxTimeout)
	}
	if s.TTL > maxTimeout {
		l.bad(sdk.InvalidArgument, "ttl", s.TTL.String(), "is more than %s", maxTimeout)
	}
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// job is the Job of the attempt: one pod that isn't started again, whatever ends
// it. Whether there is another attempt isn't for Kubernetes to decide.
// https://kubernetes.io/docs/concepts/workloads/controllers/job/
func (l *plan) job(r sdk.PrepareJobRequest) batchv1.Job {
	labels, annotations := l.labels(r)
	pod := l.pod()
	podNotes := maps.Clone(annotations)
	for k, v := range l.place.Annotations {
		if _, ours := podNotes[k]; !ours {
			podNotes[k] = v
		}
	}
	podLabels := maps.Clone(labels)
	// A pod's labels in the template can't change, and this one is renewed.
	delete(podLabels, sdk.LabelExpires)
	ttl := l.spec.TTL
	if ttl <= 0 {
		ttl = defaultTTL
		l.fit("ttl", ttl.String(), "Kubernetes deletes the ended Job then, if nobody did before")
	} else if ttl%time.Second != 0 {
		l.fit("ttl", (time.Duration(seconds(ttl)) * time.Second).String(), "Kubernetes counts whole seconds")
	}
	one, none, notSuspended := int32(1), int32(0), false
	keep := int32(seconds(ttl)) //nolint:gosec // refuseFields bounds it by a year
	mode, replace := batchv1.NonIndexedCompletion, batchv1.Failed
	main := mainContainer
	j := batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: l.p.session.Namespace, Labels: labels, Annotations: annotations},
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
		far := *d + seconds(farSlack)
		j.Spec.ActiveDeadlineSeconds = &far
	}
	return j
}

// pod is the spec of the only pod.
func (l *plan) pod() corev1.PodSpec {
	s := l.spec
	token := l.place.ServiceAccount != "" && s.Profile != sdk.ProfileStrict
	grace := seconds(defaultGrace)
	if s.Grace != nil {
		grace = seconds(*s.Grace)
	}
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &token, TerminationGracePeriodSeconds: &grace}
	if err := l.place.fill(&pod); err != nil {
		return pod // placement.problems has said so
	}
	if t := s.Timeout; t > 0 && t <= maxTimeout {
		start := startSlack
		if s.StartTimeout > 0 {
			start = min(s.StartTimeout, maxTimeout)
		}
		d := seconds(t + t/10 + start)
		pod.ActiveDeadlineSeconds = &d
	}
	c := l.container()
	l.mounts(&pod, &c)
	l.secure(&pod, &c)
	pod.Containers = []corev1.Container{c}
	out, err := patched(pod, l.place.Pod)
	if err != nil {
		return pod // placement.problems has said so
	}
	return out
}

// labels are ours and the user's. What a label can't hold as it is stands in an
// annotation in full.
func (l *plan) labels(r sdk.PrepareJobRequest) (labels, annotations map[string]string) {
	labels = map[string]string{
		sdk.LabelRun: r.RunID.String(), sdk.LabelAttempt: r.AttemptID.String(), sdk.LabelNumber: fmt.Sprint(r.Attempt),
		sdk.LabelOwner: kube.LabelValue(l.p.owner), sdk.LabelLedger: kube.LabelValue(l.p.ledgerID), sdk.LabelExpires: fmt.Sprint(r.Expires.Unix()),
	}
	annotations = map[string]string{sdk.LabelOwner: l.p.owner, sdk.LabelLedger: l.p.ledgerID}
	if l.spec.Name != "" {
		labels[labelName], annotations[labelName] = kube.LabelValue(l.spec.Name), l.spec.Name
	}
	for _, k := range slices.Sorted(maps.Keys(l.spec.Labels)) {
		if msg := kube.CheckLabel(k, l.spec.Labels[k]); msg != "" {
			l.bad(sdk.InvalidArgument, "labels."+k, l.spec.Labels[k], "%s", msg)
		}
		labels[k] = l.spec.Labels[k]
	}
	return labels, annotations
}
