package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opConfig = "configure service"

	// annotationConfig has the operation that last changed the settings, and a
	// digest of what they were then: whoever may read it may read them too.
	annotationConfig = "windlass.run/config"
)

// ApplyConfig implements sdk.Configurer. Settings are variables of the container
// that requests go to; secrets are references to Secret Manager, which Cloud Run
// follows when an instance starts. A new revision has them.
// https://cloud.google.com/run/docs/configuring/services/secrets
func (w *Workloads) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	p := &planning{ps: sdk.ValidateConfig(r.Set, r.Secrets, r.Unset)}
	if len(p.ps) == 0 {
		p.variables("config", nil, r.Set, r.Secrets)
	}
	if err := w.refused(opConfig, p.ps); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	res, v, err := w.apply(ctx, change{op: opConfig, req: r.Op, edit: func(v *runpb.Service, _ sdk.DeploymentStatus) (map[string]string, error) {
		c := main(v.Template)
		before := digest(c)
		c.Env = slices.DeleteFunc(c.Env, func(e *runpb.EnvVar) bool { return slices.Contains(r.Unset, e.GetName()) })
		p := &planning{}
		c.Env = p.variables("config", c.Env, r.Set, r.Secrets)
		if err := w.refused(opConfig, p.ps); err != nil {
			return nil, err
		}
		after := digest(c)
		if after == before {
			return nil, nil
		}
		if err := w.refusePinned(opConfig, v); err != nil {
			return nil, err
		}
		v.Annotations[annotationConfig] = r.Op.OpID.String() + " " + after
		return configArgs(r), nil
	}})
	if err != nil {
		return sdk.ApplyConfigResult{Op: res}, err
	}
	out := sdk.ApplyConfigResult{Op: res, Revision: revisionOf(v)}
	if r.Op.DryRun && res.Changed {
		out.Revision = r.Op.OpID.String()
	}
	return out, nil
}

// configArgs names what is set and unset, without values.
func configArgs(r sdk.ApplyConfigRequest) map[string]string {
	args := map[string]string{}
	for _, names := range [][]string{slices.Collect(maps.Keys(r.Set)), slices.Collect(maps.Keys(r.Secrets))} {
		for _, name := range names {
			args["env."+name] = sdk.Redacted
		}
	}
	for _, name := range r.Unset {
		args["env."+name] = ""
	}
	return args
}

// revisionOf names a service's settings: by the operation that made them, or, where
// somebody else changed them since, by the generation.
func revisionOf(v *runpb.Service) string {
	if op, sum, ok := strings.Cut(v.GetAnnotations()[annotationConfig], " "); ok && sum == digest(main(v.GetTemplate())) {
		return op
	}
	return "generation " + generation(v)
}

// digest is equal for equal settings, in whatever order.
func digest(c *runpb.Container) string {
	list := slices.SortedFunc(slices.Values(c.GetEnv()), func(a, b *runpb.EnvVar) int { return cmp.Compare(a.GetName(), b.GetName()) })
	h := sha256.New()
	for _, e := range list {
		ref := e.GetValueSource().GetSecretKeyRef()
		_, _ = fmt.Fprintf(h, "%q=%q %q %q\n", e.GetName(), e.GetValue(), ref.GetSecret(), ref.GetVersion()) // a hash takes all
	}
	return hex.EncodeToString(h.Sum(nil))
}

// variables puts variables over those of a list, whose order stays.
func (p *planning) variables(field string, list []*runpb.EnvVar, set map[string]string, secrets map[string]sdk.SecretRef) []*runpb.EnvVar {
	out := slices.Clone(list)
	put := func(e *runpb.EnvVar) {
		i := slices.IndexFunc(out, func(o *runpb.EnvVar) bool { return o.GetName() == e.GetName() })
		if i < 0 {
			out = append(out, e)
		} else if !proto.Equal(out[i], e) {
			out[i] = e
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		p.checkVariable(field, name, set[name])
		put(&runpb.EnvVar{Name: name, Values: &runpb.EnvVar_Value{Value: set[name]}})
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		p.checkVariable("secrets", name, "")
		if key := p.secret(name, string(secrets[name])); key != nil {
			put(&runpb.EnvVar{Name: name, Values: &runpb.EnvVar_ValueSource{ValueSource: &runpb.EnvVarSource{SecretKeyRef: key}}})
		}
	}
	if len(out) > maxVariables {
		p.bad(sdk.InvalidArgument, field, fmt.Sprint(len(out)), "Cloud Run gives a container at most %d variables, secrets among them", maxVariables)
	}
	return out
}

// secret reads a reference that Cloud Run can follow.
func (p *planning) secret(name, ref string) *runpb.SecretKeySelector {
	field := "secrets." + name
	parsed, err := sdk.ParseSecretRef(ref)
	if err != nil {
		return nil // sdk.ValidateDeployment and sdk.ValidateConfig say so
	}
	if parsed.Scheme != gcp.SchemeSecretManager {
		p.bad(sdk.Unimplemented, field, ref, "a service of Cloud Run would show it to whoever may see the service; put it into Secret Manager and write secret://%s/NAME", gcp.SchemeSecretManager)
		return nil
	}
	key, code, why := gcp.SecretKey(parsed)
	if key == nil {
		p.bad(code, field, ref, "%s", why)
	}
	return key
}
