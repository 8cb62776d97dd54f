package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// mutation is one change of a workload, as its verb describes it.
type mutation struct {
	op  Op
	req sdk.OpRequest
	// body is what the call sends.
	body any
	// count: it changes the number of replicas.
	count bool
	// plan is the call in words, for a dry run.
	plan sdk.PlannedCall
	// edit changes the next version, or returns false where there is nothing to
	// change. old is nil where the workload isn't there; then d is the first one.
	edit func(old, d *deployment, k Knobs) (bool, error)
}

// mutate carries a change out: at most one version for an OpID.
func (p *provider) mutate(ctx context.Context, ch mutation) (sdk.OpResult, *deployment, error) {
	if err := ch.req.Path.Check(); err != nil {
		return sdk.OpResult{}, nil, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	if ch.req.DryRun {
		return p.dry(ctx, ch)
	}
	in, err := p.cloud.enter(ctx, ch.op, ch.body)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	for {
		old, d, changed, err := p.revise(ch)
		if err != nil {
			return sdk.OpResult{}, nil, err
		}
		if changed {
			stored, err := p.cloud.store.putWorkload(d)
			if err != nil {
				return sdk.OpResult{}, nil, broken(ch.op, err)
			}
			if !stored {
				continue // another change came between: look again
			}
			p.cloud.liveHub.publish(string(d.Path))
		}
		res := sdk.OpResult{Changed: changed, Generation: generation(d.Version), Trace: p.traceWords(d.Path)}
		if op, ok := old.accepted(ch.req.OpID); ok {
			res.Changed, res.Generation = op.Changed, generation(op.Version)
		}
		if res.Changed {
			res.Rollout = "rollout-" + res.Generation
		}
		if d.Autoscale != nil && ch.count {
			res.Warnings = append(res.Warnings, "the autoscaler "+d.Autoscale.Name+" will change the count again")
		}
		return res, d, in.done()
	}
}

func (p *provider) traceWords(path sdk.WorkloadPath) string {
	switch p.g.Workload.Ops.By {
	case sdk.OpNowhere:
		return ""
	case sdk.OpOnObject:
		return "last operation of workload " + string(path)
	}
	return "operations of workload " + string(path)
}

// accepted finds an operation among those of a workload, which may be nil.
func (d *deployment) accepted(id sdk.ID) (operation, bool) {
	if d == nil {
		return operation{}, false
	}
	i := slices.IndexFunc(d.Ops, func(o operation) bool { return o.ID == id })
	if i < 0 {
		return operation{}, false
	}
	return d.Ops[i], true
}

// revise reads the workload and works out its next version. changed is false
// where there is nothing to do, d then is what is there.
func (p *provider) revise(ch mutation) (old, d *deployment, changed bool, err error) {
	old, err = p.cloud.store.workload(ch.req.Path)
	if err != nil {
		return nil, nil, false, broken(ch.op, err)
	}
	if _, ok := old.accepted(ch.req.OpID); ok {
		return old, old, false, nil
	}
	now, k := p.cloud.clock.Now(), p.cloud.Knobs()
	if old == nil {
		d = &deployment{Path: ch.req.Path, Version: 1, At: now, Delay: k.RolloutDelay, Lag: k.ObserveLag}
	} else {
		st := old.status(now)
		if err := ch.req.Expect.Check(opName(ch.op), st); err != nil {
			return nil, nil, false, err
		}
		if a := old.Autoscale; a != nil && ch.count && !ch.req.AgainstAutoscaler {
			return nil, nil, false, &sdk.Error{Code: sdk.FailedPrecondition, Op: opName(ch.op), ID: sdk.ErrAutoscaler,
				Remedy: "change the autoscaler's bounds, or repeat the command with --against-autoscaler",
				Err:    fmt.Errorf("%s is scaled by %s between %d and %d, which would undo it", old.Path, a.Name, a.Min, a.Max)}
		}
		d = old.next(now, k)
	}
	changed, err = ch.edit(old, d, k)
	if err != nil {
		return nil, nil, false, err
	}
	if !changed {
		return old, old, false, nil
	}
	d.settle(ch.req.OpID)
	return old, d, true, nil
}

// dry reads what a change would read, and refuses what it would.
func (p *provider) dry(ctx context.Context, ch mutation) (sdk.OpResult, *deployment, error) {
	if _, err := p.read(ctx, OpWorkloadStatus, ch.req.Path); err != nil && sdk.CodeOf(err) != sdk.NotFound {
		return sdk.OpResult{}, nil, err
	}
	_, d, changed, err := p.revise(ch)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	res := sdk.OpResult{Changed: changed}
	if changed {
		res.Calls = []sdk.PlannedCall{ch.plan}
	}
	return res, d, nil
}

func plan(op Op, path sdk.WorkloadPath, args map[string]string) sdk.PlannedCall {
	return sdk.PlannedCall{Name: "fake:" + string(op), Object: "workload " + string(path), Args: args}
}

func precondition(op Op, format string, args ...any) error {
	return sdk.Errorf(sdk.FailedPrecondition, opName(op), format, args...)
}

// StartWorkload implements sdk.Starter.
func (p *provider) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if r.Spec != nil {
		res, err := p.create(ctx, r.Op, *r.Spec)
		return sdk.StartWorkloadResult{Op: res}, err
	}
	args := map[string]string{}
	if r.Replicas != nil {
		args["replicas"] = fmt.Sprint(*r.Replicas)
	}
	res, _, err := p.mutate(ctx, mutation{op: OpStartWorkload, req: r.Op, body: r, count: true, plan: plan(OpStartWorkload, r.Op.Path, args),
		edit: func(old, d *deployment, k Knobs) (bool, error) {
			if old == nil {
				return false, noWorkload(OpStartWorkload, r.Op.Path)
			}
			if !old.Stopped {
				return false, nil
			}
			d.Stopped, d.Replicas, d.Restores = false, old.Restores, 0
			if r.Replicas != nil {
				d.Replicas = *r.Replicas
			}
			d.replace(k)
			return true, nil
		}})
	return sdk.StartWorkloadResult{Op: res}, err
}

// create makes a workload of a spec.
func (p *provider) create(ctx context.Context, req sdk.OpRequest, s sdk.DeploymentSpec) (sdk.OpResult, error) {
	if ps := p.refused(req, s); len(ps) > 0 {
		return sdk.OpResult{}, &sdk.Error{Code: ps[0].Code, Op: opName(OpStartWorkload), Field: ps[0].Field, Err: fmt.Errorf("%s", sdk.JoinProblems(ps))}
	}
	hashes, err := p.hashes(ctx, OpStartWorkload, s.Secrets)
	if err != nil {
		return sdk.OpResult{}, err
	}
	body := map[string]any{"op": req, "name": s.Name, "image": s.Image, "secrets": hashes}
	res, _, err := p.mutate(ctx, mutation{op: OpStartWorkload, req: req, body: body,
		plan: plan(OpStartWorkload, req.Path, map[string]string{"image": s.Image}),
		edit: func(old, d *deployment, k Knobs) (bool, error) {
			if old != nil {
				return false, &sdk.Error{Code: sdk.AlreadyExists, Op: opName(OpStartWorkload), Err: fmt.Errorf("workload %s: %w", req.Path, &APIError{409, "Exists"})}
			}
			d.Image, d.Command, d.Env, d.Config, d.Secrets, d.Replicas = s.Image, s.Command, s.Env, s.Config, hashes, 1
			if s.Replicas != nil {
				d.Replicas = *s.Replicas
			}
			d.replace(k)
			return true, nil
		}})
	return res, err
}

// refused lists what the cloud can't do for a spec.
func (p *provider) refused(req sdk.OpRequest, s sdk.DeploymentSpec) []sdk.Problem {
	ps := sdk.ValidateDeployment(s)
	bad := func(field, value, msg string, code sdk.Code) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Message: msg, Code: code})
	}
	if s.Name != req.Path.Name() {
		bad("name", s.Name, fmt.Sprintf("isn't that of the target %s", req.Path), sdk.InvalidArgument)
	}
	if s.Health != nil {
		bad("health", "", "the fake cloud checks nothing", sdk.Unimplemented)
	}
	if len(s.Options) > 0 && string(s.Options) != "{}" {
		bad("options", "", "the fake cloud has none for workloads", sdk.Unimplemented)
	}
	return ps
}

// hashes resolves secrets; the cloud gets what can't be turned back.
func (p *provider) hashes(ctx context.Context, op Op, refs map[string]sdk.SecretRef) (map[string]string, error) {
	out := map[string]string{}
	for name, ref := range refs {
		if p.open.Secrets == nil {
			return nil, precondition(op, "%s: there is no resolver of secrets", name)
		}
		v, err := p.open.Secrets.ResolveSecret(ctx, ref)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(v.Reveal())
		out[name] = hex.EncodeToString(sum[:])
	}
	return out, nil
}

// StopWorkload implements sdk.Stopper.
func (p *provider) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	res, d, err := p.mutate(ctx, mutation{op: OpStopWorkload, req: r.Op, body: r, count: true, plan: plan(OpStopWorkload, r.Op.Path, nil),
		edit: func(old, d *deployment, _ Knobs) (bool, error) {
			if old == nil {
				return false, noWorkload(OpStopWorkload, r.Op.Path)
			}
			d.Stopped, d.Restores, d.Replicas = true, old.Replicas, 0
			return !old.Stopped, nil
		}})
	out := sdk.StopWorkloadResult{Op: res}
	if err == nil && d != nil {
		n := d.Restores
		out.Restores = &n
	}
	return out, err
}

// ScaleWorkload implements sdk.Scaler.
func (p *provider) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	if r.Replicas < 0 {
		return sdk.ScaleWorkloadResult{}, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(OpScaleWorkload), Field: "replicas", Err: fmt.Errorf("%d is negative", r.Replicas)}
	}
	res, _, err := p.mutate(ctx, mutation{op: OpScaleWorkload, req: r.Op, body: r, count: true,
		plan: plan(OpScaleWorkload, r.Op.Path, map[string]string{"replicas": fmt.Sprint(r.Replicas)}),
		edit: func(old, d *deployment, _ Knobs) (bool, error) {
			switch {
			case old == nil:
				return false, noWorkload(OpScaleWorkload, r.Op.Path)
			case old.Stopped:
				return false, precondition(OpScaleWorkload, "%s is stopped; start it with a number of replicas", r.Op.Path)
			}
			d.Replicas = r.Replicas
			return old.Replicas != r.Replicas, nil
		}})
	return sdk.ScaleWorkloadResult{Op: res}, err
}

// RestartWorkload implements sdk.Restarter.
func (p *provider) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	res, _, err := p.mutate(ctx, mutation{op: OpRestartWorkload, req: r.Op, body: r, plan: plan(OpRestartWorkload, r.Op.Path, nil),
		edit: func(old, d *deployment, k Knobs) (bool, error) {
			switch {
			case old == nil:
				return false, noWorkload(OpRestartWorkload, r.Op.Path)
			case old.Stopped:
				return false, precondition(OpRestartWorkload, "%s is stopped", r.Op.Path)
			}
			d.replace(k)
			return true, nil
		}})
	return sdk.RestartWorkloadResult{Op: res}, err
}

// ApplyConfig implements sdk.Configurer.
func (p *provider) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	if ps := sdk.ValidateConfig(r.Set, r.Secrets, r.Unset); len(ps) > 0 {
		return sdk.ApplyConfigResult{}, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(OpApplyConfig), Field: ps[0].Field, Err: fmt.Errorf("%s", sdk.JoinProblems(ps))}
	}
	hashes, err := p.hashes(ctx, OpApplyConfig, r.Secrets)
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	args := map[string]string{}
	for name := range r.Set {
		args[name] = sdk.Redacted
	}
	for name := range r.Secrets {
		args[name] = sdk.Redacted
	}
	for _, name := range r.Unset {
		args[name] = ""
	}
	body := map[string]any{"op": r.Op, "set": r.Set, "secrets": hashes, "unset": r.Unset}
	res, d, err := p.mutate(ctx, mutation{op: OpApplyConfig, req: r.Op, body: body, plan: plan(OpApplyConfig, r.Op.Path, args),
		edit: func(old, d *deployment, k Knobs) (bool, error) {
			if old == nil {
				return false, noWorkload(OpApplyConfig, r.Op.Path)
			}
			for _, name := range append(slices.Collect(maps.Keys(r.Set)), append(slices.Collect(maps.Keys(hashes)), r.Unset...)...) {
				delete(d.Config, name)
				delete(d.Secrets, name)
			}
			maps.Copy(d.Config, r.Set)
			maps.Copy(d.Secrets, hashes)
			if maps.Equal(d.Config, old.Config) && maps.Equal(d.Secrets, old.Secrets) {
				return false, nil
			}
			d.replace(k)
			return true, nil
		}})
	out := sdk.ApplyConfigResult{Op: res}
	if err == nil && d != nil {
		out.Revision = d.settings()
	}
	return out, err
}

// settings names what the settings are: their hash.
func (d *deployment) settings() string {
	var lines []string
	for k, v := range d.Config {
		lines = append(lines, fmt.Sprintf("config %q %q\n", k, v))
	}
	for k, v := range d.Secrets {
		lines = append(lines, fmt.Sprintf("secret %q %q\n", k, v))
	}
	sort.Strings(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:8])
}
