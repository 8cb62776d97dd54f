package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opExec = "run a command in a workload"

// ExecWorkload implements sdk.Execer. Nothing of it stays on the cluster, so that a
// session whose end was lost can't be looked up.
func (w *Workloads) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	at, err := w.parse(opExec, r.Op.Path)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	if len(r.Command) == 0 || r.Command[0] == "" {
		e := w.fail(sdk.InvalidArgument, opExec, "there is no command")
		e.Field = "command"
		return sdk.ExecWorkloadResult{}, e
	}
	o, err := w.read(ctx, opExec, at)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	if err := w.expect(opExec, r.Op.Expect, o); err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	pods, _, err := w.pods(ctx, opExec, o)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	pod, container, err := w.place(o, pods, r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	res := sdk.ExecWorkloadResult{Instance: pod.Name}
	if r.Op.DryRun {
		res.Calls = []sdk.PlannedCall{{Name: "v1:PodExec", Object: "pod " + at.namespace + "/" + pod.Name,
			Args: map[string]string{"container": container, "words": fmt.Sprint(len(r.Command))}}}
		return res, nil
	}
	var end kube.ExecEnd
	err = w.c.Spend(ctx, opExec, func() (err error) {
		end, err = w.c.Session.Exec(ctx, opExec, kube.ExecRequest{Namespace: at.namespace, Pod: pod.Name, Container: container, Command: r.Command,
			Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Terminal: r.Terminal, Resize: r.Resize})
		return err
	})
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	res.ExitCode, res.Why = end.Code, end.Why
	return res, nil
}

// place chooses pod and container.
func (w *Workloads) place(o *object, pods []corev1.Pod, r sdk.ExecWorkloadRequest) (corev1.Pod, string, error) {
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return r.Instance != "" && p.Name != r.Instance })
	if r.Instance != "" && len(pods) == 0 {
		e := w.fail(sdk.NotFound, opExec, "the %s has no pod %s", o.ref.object(), r.Instance)
		e.Remedy = "`windlass svc status` lists them"
		return corev1.Pod{}, "", e
	}
	if r.Instance == "" {
		pods = ready(pods)
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { c := mainStatus(&p); return c != nil && c.State.Running != nil })
	if i < 0 {
		e := w.fail(sdk.FailedPrecondition, opExec, "the %s has no pod that is ready", o.ref.object())
		if r.Instance != "" {
			e = w.fail(sdk.FailedPrecondition, opExec, "the pod %s doesn't run", r.Instance)
		}
		e.Remedy = "`windlass svc status` shows why"
		return corev1.Pod{}, "", e
	}
	pod := pods[i]
	if r.Container == "" {
		return pod, mainOf(pod.Annotations, pod.Spec.Containers).Name, nil
	}
	names := make([]string, len(pod.Spec.Containers))
	for i, c := range pod.Spec.Containers {
		names[i] = c.Name
	}
	if !slices.Contains(names, r.Container) {
		e := w.fail(sdk.NotFound, opExec, "the pod %s has no container %q; it has %s", pod.Name, r.Container, strings.Join(names, ", "))
		e.Field = "container"
		return corev1.Pod{}, "", e
	}
	return pod, r.Container, nil
}
