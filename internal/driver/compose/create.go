package compose

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/windlass-run/windlass/sdk"
)

// create makes a service that the project's files don't have, in a file of its
// own among the settings.
func (p *provider) create(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	name, err := p.serviceName(opStart, r.Op.Path)
	if err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	if err := p.acceptable(name, *r.Spec); err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	m, err := p.resolve(ctx, opStart)
	if err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	if _, there := m.Services[name]; there {
		return p.createdBefore(ctx, name, r.Op)
	}
	if err := r.Op.Expect.Check(opStart, sdk.DeploymentStatus{Path: r.Op.Path, Desired: new(int)}); err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	l := layer{config: maps.Clone(r.Spec.Config), secrets: map[string]secretFile{}, service: definition(*r.Spec)}
	values, err := p.resolveSecrets(ctx, opStart, name, r.Op.OpID, r.Spec.Secrets, &l)
	if err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	data, err := l.encode(name, p.folder(name))
	if err != nil {
		return sdk.StartWorkloadResult{}, p.fail(sdk.Internal, opStart, "write the service: %w", err)
	}
	n := 1
	if r.Spec.Replicas != nil {
		n = *r.Spec.Replicas
	}
	s := &scene{name: name, model: m, dry: r.Op.DryRun}
	pl := &plan{args: upArgs(name, n), want: n, revision: l.revision(), writes: p.layerPath(name), shown: map[string]string{"image": r.Spec.Image}}
	pl.files, err = p.tried(ctx, opStart, name, data, func(m model) error {
		pl.pulls, err = p.creatable(ctx, opStart, s, m, m.Services[name], n)
		return err
	})
	if err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	pl.write = func() error { return p.writeLayer(opStart, name, data, values, l) }
	if s.dry {
		return sdk.StartWorkloadResult{Op: sdk.OpResult{Changed: true, Calls: p.calls(name, pl)}}, nil
	}
	lock, err := p.hold(ctx, opStart, name)
	if err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	if _, err := os.Stat(p.layerPath(name)); err == nil {
		lock.release()
		return sdk.StartWorkloadResult{}, p.there(name)
	}
	if s.journal, err = p.readJournal(opStart, name); err != nil {
		lock.release()
		return sdk.StartWorkloadResult{}, err
	}
	res, err := p.carryOut(ctx, opStart, r.Op, verbStart, s, pl, lock)
	return sdk.StartWorkloadResult{Op: res}, err
}

func (p *provider) there(name string) error {
	return p.fail(sdk.AlreadyExists, opStart, "project %s has a service %s already", p.cfg.Project, name)
}

// createdBefore answers where the service is there: success only for the
// operation that made it.
func (p *provider) createdBefore(ctx context.Context, name string, r sdk.OpRequest) (sdk.StartWorkloadResult, error) {
	s, err := p.see(ctx, opStart, name, true)
	if err != nil {
		return sdk.StartWorkloadResult{}, err
	}
	e := s.journal.find(r.OpID)
	if e == nil {
		return sdk.StartWorkloadResult{}, p.there(name)
	}
	res, err := p.again(opStart, s, *e)
	return sdk.StartWorkloadResult{Op: res}, err
}

// acceptable refuses what a Compose service can't be.
func (p *provider) acceptable(name string, d sdk.DeploymentSpec) error {
	ps := sdk.ValidateDeployment(d)
	bad := func(field, value, message string) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Message: message, Code: sdk.InvalidArgument})
	}
	if d.Name != name {
		bad("name", d.Name, "isn't the last part of the target, "+name)
	}
	if len(d.Options) > 0 && string(d.Options) != "{}" {
		bad("options", string(d.Options), "kind compose has none: what else a service needs stands in the project's files")
	}
	if h := d.Health; h != nil && h.Command == nil {
		bad("health", "", "the engine checks by a command in the container alone: set health.command")
	}
	if len(d.Secrets) > 0 && !p.local {
		return p.noSecrets(opStart)
	}
	if len(ps) == 0 {
		return nil
	}
	e := p.fail(sdk.InvalidArgument, opStart, "%s", sdk.JoinProblems(ps))
	e.Field = ps[0].Field
	return e
}

// definition is a service as Compose reads it. Ports are those that other
// services reach; none is published on the machine.
// https://docs.docker.com/reference/compose-file/services/
func definition(d sdk.DeploymentSpec) map[string]any {
	s := map[string]any{"image": d.Image, "restart": "unless-stopped"}
	if d.Command != nil {
		s["entrypoint"], s["command"] = words(d.Command), []any{}
	}
	if len(d.Env) > 0 {
		env := map[string]any{}
		for k, v := range d.Env {
			env[k] = v
		}
		s["environment"] = env
	}
	var expose []any
	for _, x := range d.Ports {
		proto := x.Protocol
		if proto == "" {
			proto = sdk.ProtocolTCP
		}
		expose = append(expose, fmt.Sprintf("%d/%s", x.Port, proto))
	}
	if len(expose) > 0 {
		s["expose"] = expose
	}
	if d.Replicas != nil {
		s["deploy"] = map[string]any{"replicas": *d.Replicas}
	}
	if n := d.Resources.CPU; n > 0 {
		s["cpus"] = strconv.FormatFloat(float64(n)/1000, 'f', 3, 64)
	}
	if n := d.Resources.Memory; n > 0 {
		s["mem_limit"] = strconv.FormatInt(n, 10)
	}
	if h := d.Health; h != nil {
		s["healthcheck"] = health(*h)
	}
	return s
}

func health(h sdk.HealthCheck) map[string]any {
	out := map[string]any{"test": words(slices.Concat([]string{"CMD"}, []string(h.Command)))}
	for key, d := range map[string]string{"interval": h.Interval.String(), "timeout": h.Timeout.String(), "start_period": h.StartPeriod.String()} {
		if d != "0s" {
			out[key] = d
		}
	}
	if h.Failures > 0 {
		out["retries"] = h.Failures
	}
	return out
}

func words(list []string) []any {
	out := make([]any, len(list))
	for i, w := range list {
		out[i] = w
	}
	return out
}
