package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read workload"

// WorkloadStatus implements sdk.WorkloadStatuser.
func (w *Workloads) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	at, err := w.parse(opStatus, r.Path)
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	if r.Brief && r.OpID.IsZero() {
		return w.brief(ctx, at, r.Rollout)
	}
	o, err := w.read(ctx, opStatus, at)
	if sdk.CodeOf(err) == sdk.NotFound && !r.OpID.IsZero() {
		return sdk.WorkloadStatusResult{Status: sdk.DeploymentStatus{Path: r.Path, Rollout: sdk.RolloutUnknown}, Op: w.absent(r.OpID)}, nil
	}
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	var scaler *sdk.Autoscaler
	var beside error
	var wg sync.WaitGroup
	wg.Go(func() { scaler, beside = w.scaler(ctx, opStatus, o.ref) })
	pods, newest, err := w.pods(ctx, opStatus, o)
	wg.Wait()
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	w.keep(o, scaler, beside)
	res := sdk.WorkloadStatusResult{Status: judge(o, pods, newest)}
	if err := scaled(&res.Status, scaler, beside); err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	if r.Rollout != "" && r.Rollout != o.rollout() {
		res.Status.Rollout, res.Status.RolloutID = sdk.RolloutUnknown, r.Rollout
	}
	if !r.OpID.IsZero() {
		res.Op = w.trace(o, r.OpID, r.Before)
	}
	return res, nil
}

// brief tells what the record of a change keeps, without a look at pods, in the time of
// one call. How far the newest change has come the pods tell.
func (w *Workloads) brief(ctx context.Context, at ref, rollout string) (sdk.WorkloadStatusResult, error) {
	o, err := w.readBeside(ctx, opStatus, at)
	if err != nil {
		return sdk.WorkloadStatusResult{}, err
	}
	w.keep(o, o.scaler, o.unseen)
	st := judge(o, nil, "")
	delete(st.Raw, "revision")
	if st.Rollout != sdk.RolloutFailed {
		st.Rollout = sdk.RolloutUnknown
	}
	if rollout != "" && rollout != o.rollout() {
		st.Rollout, st.RolloutID = sdk.RolloutUnknown, rollout
	}
	err = scaled(&st, o.scaler, o.unseen)
	return sdk.WorkloadStatusResult{Status: st}, err
}

// keep keeps an object as it was just read, for the decision of a change.
func (w *Workloads) keep(o *object, scaler *sdk.Autoscaler, unseen error) {
	own := *o
	own.scaler, own.unseen = scaler, unseen
	w.seen.Put(o.ref, &own, w.c.Clock.Now())
}

// scaled adds the autoscaler to a status, or that it can't be told.
func scaled(st *sdk.DeploymentStatus, scaler *sdk.Autoscaler, unseen error) error {
	st.Autoscaler = scaler
	if sdk.CodeOf(unseen) != sdk.PermissionDenied {
		return unseen
	}
	st.Warnings = append([]string{"whether an autoscaler owns the count can't be told: " + missingRight}, st.Warnings...)
	return nil
}

// mayArrive is for how long a call whose connection was cut may still be carried out:
// the API server gives up on one after a minute.
// https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
const mayArrive = time.Minute

// trace tells what became of an operation. An ID begins with the time at which it was
// made, which is before it was sent.
func (w *Workloads) trace(o *object, id sdk.ID, before string) *sdk.OpTrace {
	switch last := o.meta.Annotations[annotationOp]; {
	case last == id.String():
		t := &sdk.OpTrace{State: sdk.OpAccepted, Evidence: traceOf(o.ref)}
		if o.rollout() == last {
			t.Rollout = last
		}
		return t
	case before == "" || before != o.generation():
		return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "the " + o.ref.object() + " was changed since, and has the last operation alone"}
	}
	return w.absent(id)
}

// absent is the trace of an operation that isn't there.
func (w *Workloads) absent(id sdk.ID) *sdk.OpTrace {
	if w.c.Clock.Now().Sub(id.Time()) <= mayArrive {
		return &sdk.OpTrace{State: sdk.OpUnknown, Evidence: "it isn't there, and may still arrive: the API server works on a call for up to " + mayArrive.String()}
	}
	return &sdk.OpTrace{State: sdk.OpAbsent, Evidence: "it isn't there, and no call is worked on for so long"}
}

func traceOf(r ref) string { return "annotation " + annotationOp + " of " + r.object() }

// judge tells how a workload is. Counts are the controller's; whether all that is old
// has gone the pods tell, since it doesn't count those that are being deleted (F94).
func judge(o *object, pods []corev1.Pod, newest string) sdk.DeploymentStatus {
	st := sdk.DeploymentStatus{Path: o.ref.path(), Image: o.image(), Desired: &o.desired, Ready: &o.ready, Updated: &o.updated,
		Generation: o.generation(), GenerationSeen: version(o.observed, o.meta.UID), RolloutID: o.rollout(), Stopped: o.stopped(), Raw: map[string]string{}}
	if st.Stopped {
		st.Restores = o.restores()
	}
	left, alive := 0, 0
	for i := range pods {
		p := &pods[i]
		st.Instances = append(st.Instances, instance(p))
		if gone(p) {
			continue
		}
		alive++
		if podRevision(p) != newest {
			left++
		}
	}
	st.Failure = failure(o, pods, newest)
	seen := o.observed >= o.meta.Generation
	switch {
	case !seen:
		st.Rollout = sdk.RolloutProgressing
	case o.failed != nil:
		st.Rollout = sdk.RolloutFailed
		st.Raw["progressing"] = o.failed.Message
	case o.updated == o.desired && o.ready == o.desired && o.total == o.desired && alive == o.desired && left == 0:
		st.Rollout = sdk.RolloutComplete
	default:
		st.Rollout = sdk.RolloutProgressing
	}
	if o.manual != "" && left > 0 {
		st.Warnings = append(st.Warnings, fmt.Sprintf("%d pods are of an older template: %s", left, o.manual))
	}
	if o.refusal != nil {
		st.Raw["replica_failure"] = o.refusal.Message
	}
	st.Raw["revision"] = newest
	return st
}

// failure is the last thing that went wrong: of the newest pods first, what keeps them
// from serving; then the controller's own words; then ends that were got over.
func failure(o *object, pods []corev1.Pod, newest string) *sdk.WorkloadFailure {
	var now, past *sdk.WorkloadFailure
	for i := range pods {
		p := &pods[i]
		if f := podFailure(p); f != nil && !podReady(p) && !gone(p) && podRevision(p) == newest {
			now = later(now, f)
		}
		if f := lastFailure(p); f != nil {
			past = later(past, f)
		}
	}
	switch {
	case now != nil:
		return now
	case o.refusal != nil:
		f := &sdk.WorkloadFailure{Reason: sdk.ReasonFailedToStart, Message: oneLine(o.refusal.Message), At: o.refusal.LastTransitionTime.UTC()}
		if strings.Contains(f.Message, "exceeded quota") {
			f.Reason = sdk.ReasonQuota
		}
		return f
	case o.failed != nil:
		return &sdk.WorkloadFailure{Reason: sdk.ReasonStartTimeout, Message: oneLine(o.failed.Message), At: o.failed.LastTransitionTime.UTC()}
	}
	return past
}

func later(a, b *sdk.WorkloadFailure) *sdk.WorkloadFailure {
	if a != nil && !b.At.After(a.At) {
		return a
	}
	return b
}

// ready are the pods in which something can be run, by name.
func ready(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !podReady(&p) })
}
