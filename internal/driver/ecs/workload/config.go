package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws/parameter"
	"github.com/windlass-run/windlass/sdk"
)

const opConfig = "configure service"

// ApplyConfig implements sdk.Configurer. A setting is a parameter of Parameter
// Store that ECS hands to the container when it starts it. A parameter is written
// once, under the operation's ID, and the revision of the task definition names it:
// until the service is moved to the new revision nothing has changed, and a rollback
// brings back the old settings.
func (s *Services) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	if err := s.checkConfig(r); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	made := ""
	res, v, err := s.mutate(ctx, change{op: opConfig, req: r.Op, plan: func(ctx context.Context, v *types.Service) (*update, error) {
		return s.configure(ctx, r, v, &made)
	}})
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	if made == "" {
		made = lastPart(str(v.TaskDefinition))
	}
	return sdk.ApplyConfigResult{Op: res, Revision: made}, nil
}

// checkConfig refuses what no parameter can hold.
func (s *Services) checkConfig(r sdk.ApplyConfigRequest) error {
	ps := append(sdk.ValidateConfig(r.Set, r.Secrets, r.Unset), parameterProblems(r.Set)...)
	if len(ps) == 0 {
		return nil
	}
	return &sdk.Error{Code: ps[0].Code, Op: opConfig, Provider: s.o.Provider, Field: ps[0].Field, Err: fmt.Errorf("%s", sdk.JoinProblems(ps))}
}

// parameterProblems are the settings that Parameter Store can't hold.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html
func parameterProblems(set map[string]string) []sdk.Problem {
	var ps []sdk.Problem
	for _, k := range slices.Sorted(maps.Keys(set)) {
		bad := func(format string, args ...any) {
			ps = append(ps, sdk.Problem{Field: "config." + k, Message: fmt.Sprintf(format, args...), Code: sdk.InvalidArgument})
		}
		switch v := set[k]; {
		case len(v) > parameter.MaxValue:
			bad("has %d bytes, and a parameter has at most %d", len(v), parameter.MaxValue)
		case strings.Contains(v, "{{") && strings.Contains(v, "}}"):
			bad("has {{}}, which Parameter Store takes for a reference")
		}
	}
	return ps
}

// configure works out the revision that has the settings, and what makes it.
func (s *Services) configure(ctx context.Context, r sdk.ApplyConfigRequest, v *types.Service, made *string) (*update, error) {
	old, err := s.definition(ctx, opConfig, str(v.TaskDefinition))
	if err != nil {
		return nil, err
	}
	from, err := s.references(ctx, opConfig, r.Secrets)
	if err != nil {
		return nil, err
	}
	next := clone(old)
	c := &next.ContainerDefinitions[old.main()]
	have, err := s.settings(ctx, c, r.Set)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, k := range r.Unset {
		changed = drop(c, k) || changed
	}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		if reference(c, k) != from[k] {
			drop(c, k)
			c.Secrets = append(c.Secrets, types.Secret{Name: &k, ValueFrom: new(from[k])})
			changed = true
		}
	}
	u := &update{args: map[string]string{}}
	folder := s.folder(r.Op.Path)
	for _, k := range slices.Sorted(maps.Keys(r.Set)) {
		value := r.Set[k]
		if now, ok := have[k]; ok && now == value {
			continue
		}
		changed = true
		drop(c, k)
		if value == "" { // a parameter is never empty
			c.Environment = append(c.Environment, types.KeyValuePair{Name: &k, Value: &value})
			continue
		}
		name := folder + "/" + k + "/" + r.Op.OpID.String()
		c.Secrets = append(c.Secrets, types.Secret{Name: &k, ValueFrom: new(s.arnOf(name))})
		u.before = append(u.before, s.put(name, value))
	}
	if !changed {
		return nil, nil
	}
	if len(c.Secrets) > 0 && next.ExecutionRoleArn == nil {
		place, err := s.o.Place(nil)
		if err != nil {
			return nil, err
		}
		next.ExecutionRoleArn = optional(place.ExecutionRole)
	}
	u.args["taskDefinition"] = "the new revision of " + str(next.Family)
	u.before = append(u.before, step{
		planned: sdk.PlannedCall{Name: "ecs:RegisterTaskDefinition", Object: "task definition " + str(next.Family), Args: map[string]string{"settings": strings.Join(names(r), ", ")}},
		do: func(ctx context.Context, u *update) error {
			arn, err := s.register(ctx, opConfig, next)
			if err != nil {
				return err
			}
			u.want, u.in.TaskDefinition, *made = wantDefined+revision(arn), &arn, lastPart(arn)
			return nil
		}})
	u.after = func(ctx context.Context) []string {
		return s.tidy(ctx, folder, r.Op.OpID, c, &old.ContainerDefinitions[old.main()])
	}
	return u, nil
}

// names are the settings that a request changes.
func names(r sdk.ApplyConfigRequest) []string {
	var out []string
	out = slices.AppendSeq(out, maps.Keys(r.Set))
	out = slices.AppendSeq(out, maps.Keys(r.Secrets))
	out = append(out, r.Unset...)
	slices.Sort(out)
	return out
}

// references returns what ECS fetches secrets from. Values aren't taken: they would
// stand in the task definition for everybody to see.
func (s *Services) references(ctx context.Context, op string, refs map[string]sdk.SecretRef) (map[string]string, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var ps []sdk.Problem
	bad := func(code sdk.Code, field, value, format string, args ...any) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
	}
	for _, k := range slices.Sorted(maps.Keys(refs)) {
		if p, err := sdk.ParseSecretRef(string(refs[k])); err == nil && p.Scheme != "aws-sm" && p.Scheme != "aws-ssm" {
			bad(sdk.Unimplemented, "secrets."+k, string(refs[k]), "ECS fetches secrets of the schemes aws-sm and aws-ssm alone; put it there, and write secret://aws-sm/NAME")
		}
	}
	var from map[string]string
	if len(ps) == 0 {
		var err error
		if from, err = s.o.Secrets(ctx, refs, bad); err != nil {
			return nil, err
		}
	}
	if len(ps) > 0 {
		return nil, &sdk.Error{Code: ps[0].Code, Op: op, Provider: s.o.Provider, Field: ps[0].Field, Err: fmt.Errorf("%s", sdk.JoinProblems(ps))}
	}
	return from, nil
}

// folder is where the parameters of a service are.
func (s *Services) folder(path sdk.WorkloadPath) string {
	return s.o.ConfigPrefix + "/" + string(path)
}

func (s *Services) arnOf(name string) string {
	return s.o.Session.ARN("ssm", "parameter"+name).String()
}

// put is the step that writes a parameter.
func (s *Services) put(name, value string) step {
	tags := map[string]string{sdk.LabelOwner: s.o.Owner, sdk.LabelLedger: s.o.LedgerID}
	return step{planned: sdk.PlannedCall{Name: "ssm:PutParameter", Object: "parameter " + name},
		do: func(ctx context.Context, _ *update) error { return s.parameters.Put(ctx, opConfig, name, value, tags) }}
}

// settings reads what a container has under some names: plain values, and the
// values of parameters that are ours.
func (s *Services) settings(ctx context.Context, c *types.ContainerDefinition, wanted map[string]string) (map[string]string, error) {
	have := map[string]string{}
	var ours []string
	byARN := map[string]string{}
	for _, e := range c.Environment {
		if _, ok := wanted[str(e.Name)]; ok {
			have[str(e.Name)] = str(e.Value)
		}
	}
	prefix := s.arnOf(s.o.ConfigPrefix + "/")
	for _, e := range c.Secrets {
		if _, ok := wanted[str(e.Name)]; ok && strings.HasPrefix(str(e.ValueFrom), prefix) {
			name := s.o.ConfigPrefix + "/" + strings.TrimPrefix(str(e.ValueFrom), prefix)
			ours = append(ours, name)
			byARN[str(e.Name)] = name
		}
	}
	if len(ours) == 0 {
		return have, nil
	}
	values, err := s.parameters.Get(ctx, opConfig, ours)
	if err != nil {
		return nil, err
	}
	for k, name := range byARN {
		if v, ok := values[name]; ok {
			have[k] = v
		}
	}
	return have, nil
}

// drop takes a variable out of a container, and reports whether it was there.
func drop(c *types.ContainerDefinition, name string) bool {
	n := len(c.Environment) + len(c.Secrets)
	c.Environment = slices.DeleteFunc(c.Environment, func(e types.KeyValuePair) bool { return str(e.Name) == name })
	c.Secrets = slices.DeleteFunc(c.Secrets, func(e types.Secret) bool { return str(e.Name) == name })
	return len(c.Environment)+len(c.Secrets) < n
}

// reference is what a container's variable is fetched from, or nothing.
func reference(c *types.ContainerDefinition, name string) string {
	for _, e := range c.Secrets {
		if str(e.Name) == name {
			return str(e.ValueFrom)
		}
	}
	return ""
}

// clone is the request that registers a definition again. Its lists may be changed.
func clone(d *definition) *ecs.RegisterTaskDefinitionInput {
	in := &ecs.RegisterTaskDefinitionInput{Family: d.Family, ContainerDefinitions: slices.Clone(d.ContainerDefinitions), Cpu: d.Cpu, Memory: d.Memory,
		EnableFaultInjection: d.EnableFaultInjection, EphemeralStorage: d.EphemeralStorage, ExecutionRoleArn: d.ExecutionRoleArn,
		IpcMode: d.IpcMode, NetworkMode: d.NetworkMode, PidMode: d.PidMode,
		PlacementConstraints: d.PlacementConstraints, ProxyConfiguration: d.ProxyConfiguration, RequiresCompatibilities: d.RequiresCompatibilities,
		RuntimePlatform: d.RuntimePlatform, TaskRoleArn: d.TaskRoleArn, Volumes: d.Volumes,
		TrustedExecutionConfiguration: d.TrustedExecutionConfiguration}
	for _, t := range d.tags {
		if !strings.HasPrefix(strings.ToLower(str(t.Key)), "aws:") { // AWS's own can't be set
			in.Tags = append(in.Tags, t)
		}
	}
	c := &in.ContainerDefinitions[d.main()]
	c.Environment, c.Secrets = slices.Clone(c.Environment), slices.Clone(c.Secrets)
	return in
}

// register registers a definition and returns its ARN.
func (s *Services) register(ctx context.Context, op string, in *ecs.RegisterTaskDefinitionInput) (string, error) {
	var out *ecs.RegisterTaskDefinitionOutput
	err := s.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = s.o.ECS.RegisterTaskDefinition(ctx, in)
		return err
	})
	if err != nil {
		return "", err
	}
	if out.TaskDefinition == nil || str(out.TaskDefinition.TaskDefinitionArn) == "" {
		return "", s.fail(sdk.Unavailable, op, fmt.Errorf("the answer holds no definition"))
	}
	return *out.TaskDefinition.TaskDefinitionArn, nil
}

// settled is how old a parameter is before it counts as left over: a change by
// another ledger may be about to use a younger one.
const settled = time.Hour

// tidy removes the parameters of a service that neither its revision nor the one of
// before names.
func (s *Services) tidy(ctx context.Context, folder string, op sdk.ID, keep ...*types.ContainerDefinition) []string {
	all, err := s.parameters.Below(ctx, opConfig, folder)
	if err != nil {
		return []string{"settings of before may be left in Parameter Store below " + folder + ": " + err.Error()}
	}
	used := map[string]bool{}
	for _, c := range keep {
		for _, e := range c.Secrets {
			used[str(e.ValueFrom)] = true
		}
	}
	var old []string
	for _, name := range all {
		id, err := sdk.ParseID(lastPart(name))
		if err == nil && !used[s.arnOf(name)] && op.Time().Sub(id.Time()) > settled {
			old = append(old, name)
		}
	}
	if err := s.parameters.Delete(ctx, opConfig, old); err != nil {
		return []string{fmt.Sprintf("%d settings of before are left in Parameter Store below %s: %v", len(old), folder, err)}
	}
	return nil
}
