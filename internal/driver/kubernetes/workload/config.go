package workload

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

const opConfig = "configure workload"

// annotationConfig, of the pod's template, names the operation that made the settings.
const annotationConfig = "windlass.run/config"

// noSettings is the revision of a workload whose settings were never changed.
const noSettings = "none"

// settings are what a workload has of us. Each becomes a variable of the main
// container by reference, so that no value stands in the workload (F85).
type settings struct {
	config map[string]string
	secret map[string][]byte
	// refs are Secrets of the namespace that others keep.
	refs map[string]secretKey
}

// secretKey is a key of a Secret.
type secretKey struct{ name, key string }

// ApplyConfig implements sdk.Configurer. The values go into a ConfigMap and a Secret of
// the operation's own; the workload is pointed at them by one apply, which replaces its
// pods. A variable that the workload has of somebody else is refused: two sources would
// make it a matter of order.
func (w *Workloads) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	if err := w.failed(opConfig, append(sdk.ValidateConfig(r.Set, r.Secrets, r.Unset), names(r.Set, r.Secrets)...)); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	fresh, err := w.resolve(ctx, opConfig, r.Set, r.Secrets)
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	id := r.Op.OpID.String()
	res, o, err := w.change(ctx, change{op: opConfig, req: r.Op, replaces: true, edit: func(ctx context.Context, o *object, declared map[string]any) (*edited, error) {
		now, err := w.current(ctx, o, declared)
		if err != nil {
			return nil, err
		}
		if err := w.foreign(o, now, r); err != nil {
			return nil, err
		}
		next := now.with(fresh, r.Unset)
		if next.equal(now) {
			return nil, nil
		}
		if err := w.rolls(opConfig, o); err != nil {
			return nil, err
		}
		p := &parts{ref: o.ref, name: partName(o.ref, id), config: next.config, secret: next.secret, owner: ownedBy(o)}
		setEnv(declared, mainOf(o.template.Annotations, o.template.Spec.Containers).Name, next.env(p.name))
		at(declared, "spec", "template", "metadata", "annotations")[annotationConfig] = id
		return &edited{args: words(r), warnings: recreated(o), parts: p}, nil
	}})
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	out := sdk.ApplyConfigResult{Op: res, Revision: cmp.Or(o.template.Annotations[annotationConfig], noSettings)}
	if res.Changed && !r.Op.DryRun {
		out.Op.Warnings = append(out.Op.Warnings, w.prune(ctx, opConfig, o, partName(o.ref, id))...)
	}
	return out, nil
}

// words are a change of settings without its values.
func words(r sdk.ApplyConfigRequest) map[string]string {
	out := map[string]string{}
	for k := range r.Set {
		out["env."+k] = sdk.Redacted
	}
	for k := range r.Secrets {
		out["env."+k] = sdk.Redacted
	}
	for _, k := range r.Unset {
		out["env."+k] = ""
	}
	return out
}

// names refuses names that can't be a key of a ConfigMap or a Secret.
func names(set map[string]string, secrets map[string]sdk.SecretRef) []sdk.Problem {
	var out []sdk.Problem
	for _, k := range slices.Concat(slices.Sorted(maps.Keys(set)), slices.Sorted(maps.Keys(secrets))) {
		if msg := kube.CheckKey(k); msg != "" {
			out = append(out, sdk.Problem{Field: "config", Value: k, Message: msg, Code: sdk.InvalidArgument})
		}
	}
	return out
}

// resolve reads what new settings are. The values of references to the namespace's own
// Secrets aren't read.
func (w *Workloads) resolve(ctx context.Context, op string, set map[string]string, secrets map[string]sdk.SecretRef) (settings, error) {
	out := settings{config: maps.Clone(set), secret: map[string][]byte{}, refs: map[string]secretKey{}}
	sealed := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		ref, err := sdk.ParseSecretRef(string(secrets[name]))
		if err != nil {
			return out, err
		}
		refuse := func(code sdk.Code, format string, args ...any) error {
			e := w.fail(code, op, format, args...)
			e.Field = "secrets." + name
			return e
		}
		switch ref.Scheme {
		case podspec.SchemeKube:
			object, key, ok := strings.Cut(ref.Path, "/")
			if !ok || ref.Key != "" || ref.Version != "" || kube.CheckName(object) != "" || kube.CheckKey(key) != "" {
				return out, refuse(sdk.InvalidArgument, "%s: write secret://k8s/NAME/KEY, with the names of a Secret and of its key", secrets[name])
			}
			out.refs[name] = secretKey{object, key}
		case podspec.SchemeEnv, podspec.SchemeFile:
			sealed[name] = name
		default:
			return out, refuse(sdk.Unimplemented, "Kubernetes takes no secret of the scheme %s; it takes k8s, env and file", ref.Scheme)
		}
	}
	for name, v := range set {
		if !utf8.ValidString(v) {
			return out, w.fail(sdk.InvalidArgument, op, "the value of %s is not UTF-8", name)
		}
	}
	values, err := podspec.Reveal(ctx, op, w.c.Secrets, sealed, secrets)
	if err != nil {
		return out, err
	}
	maps.Copy(out.secret, values)
	return out, nil
}

// with returns the settings with new ones, and without some.
func (s settings) with(fresh settings, unset []string) settings {
	out := settings{maps.Clone(s.config), maps.Clone(s.secret), maps.Clone(s.refs)}
	drop := slices.Concat(unset, slices.Collect(maps.Keys(fresh.config)), slices.Collect(maps.Keys(fresh.secret)), slices.Collect(maps.Keys(fresh.refs)))
	for _, name := range drop {
		delete(out.config, name)
		delete(out.secret, name)
		delete(out.refs, name)
	}
	maps.Copy(out.config, fresh.config)
	maps.Copy(out.secret, fresh.secret)
	maps.Copy(out.refs, fresh.refs)
	return out
}

func (s settings) equal(o settings) bool {
	return maps.Equal(s.config, o.config) && maps.EqualFunc(s.secret, o.secret, bytes.Equal) && maps.Equal(s.refs, o.refs)
}

func (s settings) has(name string) bool {
	_, a := s.config[name]
	_, b := s.secret[name]
	_, c := s.refs[name]
	return a || b || c
}

// env are the variables, by reference to parts of a name.
func (s settings) env(part string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(s.config)) {
		out = append(out, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: part}, Key: name}}})
	}
	from := map[string]secretKey{}
	maps.Copy(from, s.refs)
	for name := range s.secret {
		from[name] = secretKey{part, name}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		out = append(out, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: from[name].name}, Key: from[name].key}}})
	}
	return out
}

// current reads the settings that a workload has of us: those of its variables that we
// declared by reference.
func (w *Workloads) current(ctx context.Context, o *object, declared map[string]any) (settings, error) {
	out := settings{config: map[string]string{}, secret: map[string][]byte{}, refs: map[string]secretKey{}}
	main := mainOf(o.template.Annotations, o.template.Spec.Containers)
	if main == nil {
		return out, w.fail(sdk.FailedPrecondition, opConfig, "the %s has no container", o.ref.object())
	}
	own := declaredEnv(declared, main.Name)
	configs, secrets := map[string]corev1.ConfigMap{}, map[string]corev1.Secret{}
	for _, e := range main.Env {
		if !own[e.Name] || e.ValueFrom == nil {
			continue
		}
		switch c, s := e.ValueFrom.ConfigMapKeyRef, e.ValueFrom.SecretKeyRef; {
		case c != nil:
			m, err := cached(ctx, w, configs, kube.ConfigMaps(o.ref.namespace, c.Name))
			if err != nil {
				return out, err
			}
			out.config[e.Name] = m.Data[c.Key]
		case s != nil && !isPart(o.ref, s.Name):
			out.refs[e.Name] = secretKey{s.Name, s.Key}
		case s != nil:
			m, err := cached(ctx, w, secrets, kube.Secrets(o.ref.namespace, s.Name))
			if err != nil {
				return out, err
			}
			out.secret[e.Name] = m.Data[s.Key]
		}
	}
	return out, nil
}

// cached reads an object once. One that somebody has deleted is an error: the settings
// that it had are lost, and the next rollout would be without them.
func cached[T any](ctx context.Context, w *Workloads, have map[string]T, at kube.Place) (T, error) {
	if v, ok := have[at.Name]; ok {
		return v, nil
	}
	var v T
	err := w.get(ctx, opConfig, at, &v)
	if sdk.CodeOf(err) == sdk.NotFound {
		e := w.fail(sdk.FailedPrecondition, opConfig, "the workload's settings are in %s %s, which somebody has deleted", at.Resource, at.Name)
		e.Remedy = "put it back, or take its variables out of the workload with kubectl, and set them again"
		return v, e
	}
	have[at.Name] = v
	return v, err
}

// foreign refuses to change a variable that isn't a setting of ours, and to take away
// one that somebody else has set too, such as by a rollback: it would stay.
func (w *Workloads) foreign(o *object, now settings, r sdk.ApplyConfigRequest) error {
	main := mainOf(o.template.Annotations, o.template.Spec.Containers)
	for _, name := range r.Unset {
		_, who := others(o.meta, "f:spec", "f:template", "f:spec", "f:containers", key(main.Name), "f:env", key(name))
		if now.has(name) && len(who) > 0 {
			err := w.fail(sdk.FailedPrecondition, opConfig, "%s of the %s was set by %s too, and would stay", name, o.ref.object(), strings.Join(who, ", "))
			err.Field, err.Remedy = "config", "set it to another value, which takes it over, and unset it then"
			return err
		}
	}
	for _, e := range main.Env {
		_, set := r.Set[e.Name]
		_, secret := r.Secrets[e.Name]
		if now.has(e.Name) || !set && !secret && !slices.Contains(r.Unset, e.Name) {
			continue
		}
		err := w.fail(sdk.FailedPrecondition, opConfig, "%s is a variable of the %s that isn't a setting of Windlass", e.Name, o.ref.object())
		err.Field, err.Remedy = "config", "change it where the workload is described, or take it out there first"
		return err
	}
	return nil
}

// key is how the managed fields write the item of a name.
func key(name string) string {
	text, _ := json.Marshal(map[string]string{"name": name}) //nolint:errchkjson // a name
	return "k:" + string(text)
}

// declaredEnv are the names of the variables of a container that we declared.
func declaredEnv(declared map[string]any, container string) map[string]bool {
	out := map[string]bool{}
	if c := declaredContainer(declared, container); c != nil {
		env, _ := c["env"].([]any)
		for _, e := range env {
			if m, ok := e.(map[string]any); ok {
				name, _ := m["name"].(string)
				out[name] = true
			}
		}
	}
	return out
}

func declaredContainer(declared map[string]any, name string) map[string]any {
	list, _ := at(declared, "spec", "template", "spec")["containers"].([]any)
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["name"] == name {
			return m
		}
	}
	return nil
}

// setEnv declares the settings of a container in place of those before. Plain
// variables that we declared, when we made the workload, stay.
func setEnv(declared map[string]any, container string, env []corev1.EnvVar) {
	c := declaredContainer(declared, container)
	if c == nil {
		c = map[string]any{"name": container}
		spec := at(declared, "spec", "template", "spec")
		list, _ := spec["containers"].([]any)
		spec["containers"] = append(list, c)
	}
	list := []any{}
	before, _ := c["env"].([]any)
	for _, e := range before {
		// One that somebody else has set since has neither.
		if m, ok := e.(map[string]any); ok && m["value"] != nil {
			list = append(list, m)
		}
	}
	for _, e := range env {
		list = append(list, e)
	}
	c["env"] = list
	if len(list) == 0 {
		delete(c, "env")
	}
}
