package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-run/windlass/sdk"
)

// The actions of rows about live workloads.
const (
	actionStart   = actionPrefix + "start"
	actionStop    = actionPrefix + "stop"
	actionScale   = actionPrefix + "scale"
	actionRestart = actionPrefix + "restart"
	actionConfig  = actionPrefix + "config"
	actionExec    = actionPrefix + "exec"
)

// StartChange asks for a start.
type StartChange struct {
	ChangeRequest
	// Spec, when not nil, makes the workload; nil resumes one that was stopped.
	Spec *sdk.DeploymentSpec
	// Replicas, when not nil, is how many to resume with.
	Replicas *int
}

// Start makes a workload or resumes one. A spec that no backend would take is a
// *ProblemsError, and leaves no row.
func (w *WorkloadRuntime) Start(ctx context.Context, r StartChange) (Change, error) {
	args := map[string]any{}
	if r.Replicas != nil {
		args["replicas"] = *r.Replicas
	}
	if r.Spec != nil {
		spec := *r.Spec
		if spec.V == 0 {
			spec.V = sdk.DeploymentVersion
		}
		r.Spec = &spec
		ps := sdk.ValidateDeployment(spec)
		if spec.Name != r.Target.Path.Name() {
			ps = append(ps, sdk.Problem{Field: "name", Value: spec.Name, Message: "isn't the last part of the target " + r.Target.String(), Code: sdk.InvalidArgument})
		}
		if len(ps) > 0 {
			return Change{Target: r.Target}, problemsError(r.Target.Provider, ps)
		}
		raw, err := withoutConfig(spec)
		if err != nil {
			return Change{Target: r.Target}, err
		}
		args["deployment"] = raw
	}
	return w.change(ctx, r.ChangeRequest, verb{action: actionStart, need: sdk.WorkloadStarts().String(), args: args, creates: r.Spec != nil,
		send: func(ctx context.Context, back Backend, op sdk.OpRequest, c *Change) error {
			s, err := able(back, sdk.WorkloadStarts())
			if err != nil {
				return err
			}
			res, err := s.StartWorkload(ctx, sdk.StartWorkloadRequest{Op: op, Spec: r.Spec, Replicas: r.Replicas})
			c.Op = res.Op
			return err
		}})
}

// withoutConfig is a deployment as a row keeps it: plain settings hashed.
// Variables stay, as those of jobs do, and are redacted where they are shown.
func withoutConfig(spec sdk.DeploymentSpec) (json.RawMessage, error) {
	spec.Config = hashed(spec.Config)
	return spec.Encode()
}

// hashed replaces values by their SHA-256, which tells whether two are equal.
func hashed(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range m {
		out[k] = "sha256:" + sdk.HashCanonical([]byte(v))
	}
	return out
}

// Stop ends all instances of a workload, and keeps it.
func (w *WorkloadRuntime) Stop(ctx context.Context, r ChangeRequest) (Change, error) {
	return w.change(ctx, r, verb{action: actionStop, need: sdk.WorkloadStops().String(), args: map[string]any{},
		send: func(ctx context.Context, back Backend, op sdk.OpRequest, c *Change) error {
			s, err := able(back, sdk.WorkloadStops())
			if err != nil {
				return err
			}
			res, err := s.StopWorkload(ctx, sdk.StopWorkloadRequest{Op: op})
			c.Op, c.Restores = res.Op, res.Restores
			return err
		}})
}

// Scale asks for a number of replicas.
func (w *WorkloadRuntime) Scale(ctx context.Context, r ChangeRequest, replicas int) (Change, error) {
	if replicas < 0 || replicas > sdk.MaxReplicas {
		return Change{Target: r.Target}, &sdk.Error{Code: sdk.InvalidArgument, Op: actionScale, Field: "replicas", Err: fmt.Errorf("%d: it is 0 to %d", replicas, sdk.MaxReplicas)}
	}
	return w.change(ctx, r, verb{action: actionScale, need: sdk.WorkloadScales().String(), args: map[string]any{"replicas": replicas},
		send: func(ctx context.Context, back Backend, op sdk.OpRequest, c *Change) error {
			s, err := able(back, sdk.WorkloadScales())
			if err != nil {
				return err
			}
			res, err := s.ScaleWorkload(ctx, sdk.ScaleWorkloadRequest{Op: op, Replicas: replicas})
			c.Op, c.Scaled = res.Op, &replicas
			return err
		}})
}

// Restart replaces or restarts every instance, as the provider's guarantees say.
func (w *WorkloadRuntime) Restart(ctx context.Context, r ChangeRequest) (Change, error) {
	return w.change(ctx, r, verb{action: actionRestart, need: sdk.WorkloadRestarts().String(), args: map[string]any{},
		send: func(ctx context.Context, back Backend, op sdk.OpRequest, c *Change) error {
			s, err := able(back, sdk.WorkloadRestarts())
			if err != nil {
				return err
			}
			res, err := s.RestartWorkload(ctx, sdk.RestartWorkloadRequest{Op: op})
			c.Op = res.Op
			return err
		}})
}

// ConfigChange asks for other settings.
type ConfigChange struct {
	ChangeRequest
	// Set, Secrets and Unset are as in sdk.ApplyConfigRequest. The row keeps the
	// names, the references, and the hashes of plain values.
	Set     map[string]string
	Secrets map[string]sdk.SecretRef
	Unset   []string
}

// Configure changes settings. What no backend would take is a *ProblemsError.
func (w *WorkloadRuntime) Configure(ctx context.Context, r ConfigChange) (Change, error) {
	if ps := sdk.ValidateConfig(r.Set, r.Secrets, r.Unset); len(ps) > 0 {
		return Change{Target: r.Target}, problemsError(r.Target.Provider, ps)
	}
	unset := slices.Sorted(slices.Values(r.Unset))
	args := map[string]any{"set": hashed(maps.Clone(r.Set)), "secrets": r.Secrets, "unset": unset}
	return w.change(ctx, r.ChangeRequest, verb{action: actionConfig, need: sdk.WorkloadConfigs().String(), args: args,
		send: func(ctx context.Context, back Backend, op sdk.OpRequest, c *Change) error {
			s, err := able(back, sdk.WorkloadConfigs())
			if err != nil {
				return err
			}
			res, err := s.ApplyConfig(ctx, sdk.ApplyConfigRequest{Op: op, Set: r.Set, Secrets: r.Secrets, Unset: r.Unset})
			c.Op, c.Revision = res.Op, res.Revision
			return err
		}})
}
