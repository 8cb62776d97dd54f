// Package workload operates the Deployments, StatefulSets and DaemonSets of a
// cluster for the driver kubernetes.
//
// Every change of a workload is one server-side apply of all that Windlass ever
// declared of it and that still holds, read from its managed fields, with the change
// made to it. It carries the resourceVersion of the read on which it was decided, so
// that nothing can come between, and the operation's ID as an annotation.
package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/internal/driver/glance"
	"github.com/windlass-run/windlass/sdk"
)

// Annotations that are left on what is changed.
const (
	// annotationOp has the last operation's ID.
	annotationOp = "windlass.run/op"
	// annotationRestores is how many replicas a start brings back.
	annotationRestores = "windlass.run/restores"
	// annotationRollout, of the pod's template, names the change that replaces pods.
	annotationRollout = "windlass.run/rollout"
	// annotationRestarted is kubectl's, so that either tool shows the other's restarts.
	// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-k8s-io-restart-at
	annotationRestarted = "kubectl.kubernetes.io/restartedAt"
)

// manager is the name under which fields are declared.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers
const manager = "windlass"

// Cluster is what the workloads are on.
type Cluster struct {
	// Kind and Provider are what errors are of.
	Kind, Provider string
	Session        *kube.Session
	// Spend makes a call when the budget allows.
	Spend   func(ctx context.Context, op string, call func() error) error
	Clock   sdk.Clock
	Secrets sdk.SecretResolver
	// Placement is what the config gives for the pods of all workloads.
	Placement podspec.Placement
	// Stall is after how long of silence a followed log is opened again.
	Stall time.Duration
}

// Workloads has the capabilities of live workloads. It is safe for concurrent use.
type Workloads struct {
	c Cluster
	// seen are objects as a status has just read them.
	seen glance.Glances[ref, *object]
}

var (
	_ sdk.WorkloadLister   = (*Workloads)(nil)
	_ sdk.WorkloadStatuser = (*Workloads)(nil)
	_ sdk.Starter          = (*Workloads)(nil)
	_ sdk.Stopper          = (*Workloads)(nil)
	_ sdk.Scaler           = (*Workloads)(nil)
	_ sdk.Restarter        = (*Workloads)(nil)
	_ sdk.Configurer       = (*Workloads)(nil)
	_ sdk.Execer           = (*Workloads)(nil)
	_ sdk.LogTailer        = (*Workloads)(nil)
	_ sdk.MetricStreamer   = (*Workloads)(nil)
)

// On returns the workloads of a cluster.
func On(c Cluster) *Workloads { return &Workloads{c: c} }

// warms is for how long a new pod may have no measurements: the kubelet takes one
// every 15 s, and metrics-server asks as often and needs two.
// https://github.com/kubernetes-sigs/metrics-server/blob/master/FAQ.md
const warms = 90 * time.Second

// Guarantees is what live workloads on Kubernetes give.
func Guarantees() sdk.WorkloadGuarantees {
	return sdk.WorkloadGuarantees{
		// Reads come from a quorum, so that a change is seen at once.
		Ops:      sdk.OpGuarantee{By: sdk.OpOnObject},
		Compares: true,
		Restart:  sdk.RestartRolling,
		Stop:     sdk.StopZero,
		Failures: true,
		Exec:     sdk.ExecGuarantee{ExitCode: true, Argv: sdk.ArgvExact, Stdin: true, Terminal: true, Apart: true},
		Warms:    warms,
	}
}

func (w *Workloads) fail(code sdk.Code, op string, format string, args ...any) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: w.c.Provider, Err: fmt.Errorf(format, args...)}
}

// ended is the error of a call under a context that has ended, nil while it hasn't.
func (w *Workloads) ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &sdk.Error{Code: sdk.CodeOf(err), Op: op, Provider: w.c.Provider, Err: err}
	}
	return nil
}

func (w *Workloads) get(ctx context.Context, op string, at kube.Place, out any) error {
	return w.c.Spend(ctx, op, func() error { return w.c.Session.Get(ctx, op, at, nil, out) })
}

// failed makes problems one error, nil where there are none.
func (w *Workloads) failed(op string, ps []sdk.Problem) error {
	if len(ps) == 0 {
		return nil
	}
	return &sdk.Error{Code: ps[0].Code, Op: op, Provider: w.c.Provider, Field: ps[0].Field, Err: errors.New(sdk.JoinProblems(ps))}
}
