package podspec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that are taken. The first is passed on; the values of
// the others go into a Secret that belongs to the job.
const (
	SchemeKube = "k8s"
	SchemeEnv  = "env"
	SchemeFile = "file"
)

// maxSecret is the most that a Secret holds.
// https://kubernetes.io/docs/concepts/configuration/secret/#restriction-data-size
const maxSecret = 1 << 20

// secrets adds a variable for each secret, by reference alone.
func (l *Plan) secrets(c *corev1.Container) {
	for i, name := range slices.Sorted(maps.Keys(l.Spec.Secrets)) {
		field, ref := "secrets."+name, string(l.Spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		l.variable(name)
		object, key := l.Name, fmt.Sprintf("s%d", i)
		switch parsed.Scheme {
		case SchemeKube:
			var ok bool
			object, key, ok = strings.Cut(parsed.Path, "/")
			switch {
			case !ok || parsed.Key != "":
				l.Bad(sdk.InvalidArgument, field, ref, "write secret://k8s/NAME/KEY, with the names of a Secret and of its key")
				continue
			case parsed.Version != "":
				l.Bad(sdk.Unimplemented, field, ref, "a Secret has no versions")
				continue
			case kube.CheckName(object) != "":
				l.Bad(sdk.InvalidArgument, field, ref, "is no Secret's name: %s", kube.CheckName(object))
				continue
			case kube.CheckKey(key) != "":
				l.Bad(sdk.InvalidArgument, field, ref, "%s", kube.CheckKey(key))
				continue
			}
		case SchemeEnv, SchemeFile:
			if l.Sealed == nil {
				l.Sealed = map[string]string{}
			}
			l.Sealed[key] = name
		default:
			l.Bad(sdk.Unimplemented, field, ref, "Kubernetes takes no secret of the scheme %s; it takes k8s, env and file", parsed.Scheme)
			continue
		}
		must := false
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: &must}}})
	}
}

// Reveal resolves what a launch's Secret holds: keys of the Secret by names of the
// launch's secrets. It returns nil where there are none. A value that can't be a
// variable's is refused. The caller gives errors their provider.
func Reveal(ctx context.Context, op string, from sdk.SecretResolver, sealed map[string]string, refs map[string]sdk.SecretRef) (map[string][]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	if from == nil {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Err: fmt.Errorf("nothing resolves the launch's secrets")}
	}
	out, total := map[string][]byte{}, 0
	for _, key := range slices.Sorted(maps.Keys(sealed)) {
		name := sealed[key]
		v, err := from.ResolveSecret(ctx, refs[name])
		if err != nil {
			return nil, err
		}
		data := v.Reveal()
		total += len(data)
		bad := ""
		switch {
		case !utf8.Valid(data) || slices.Contains(data, 0):
			bad = "is not text in UTF-8, and a variable can hold nothing else"
		case total > maxSecret:
			bad = fmt.Sprintf("makes the job's secrets more than the %d bytes that a Secret holds", maxSecret)
		}
		if bad != "" {
			return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Field: "secrets." + name, Reason: sdk.ReasonInvalidSpec, Err: fmt.Errorf("the secret %s %s", name, bad)}
		}
		out[key] = data
	}
	return out, nil
}
