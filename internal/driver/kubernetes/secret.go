package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that are taken. The first is passed on; the values of
// the others go into a Secret that belongs to the Job.
const (
	schemeKube = "k8s"
	schemeEnv  = "env"
	schemeFile = "file"
)

// maxSecret is the most that a Secret holds.
// https://kubernetes.io/docs/concepts/configuration/secret/#restriction-data-size
const maxSecret = 1 << 20

// secrets adds a variable for each secret, by reference alone.
func (l *plan) secrets(c *corev1.Container) {
	for i, name := range slices.Sorted(maps.Keys(l.spec.Secrets)) {
		field, ref := "secrets."+name, string(l.spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		l.variable(name)
		object, key := l.name, fmt.Sprintf("s%d", i)
		switch parsed.Scheme {
		case schemeKube:
			var ok bool
			object, key, ok = strings.Cut(parsed.Path, "/")
			switch {
			case !ok || parsed.Key != "":
				l.bad(sdk.InvalidArgument, field, ref, "write secret://k8s/NAME/KEY, with the names of a Secret and of its key")
				continue
			case parsed.Version != "":
				l.bad(sdk.Unimplemented, field, ref, "a Secret has no versions")
				continue
			case kube.CheckName(object) != "":
				l.bad(sdk.InvalidArgument, field, ref, "is no Secret's name: %s", kube.CheckName(object))
				continue
			case kube.CheckKey(key) != "":
				l.bad(sdk.InvalidArgument, field, ref, "%s", kube.CheckKey(key))
				continue
			}
		case schemeEnv, schemeFile:
			if l.sealed == nil {
				l.sealed = map[string]string{}
			}
			l.sealed[key] = name
		default:
			l.bad(sdk.Unimplemented, field, ref, "Kubernetes takes no secret of the scheme %s; it takes k8s, env and file", parsed.Scheme)
			continue
		}
		must := false
		c.Env = append(c.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: &must}}})
	}
}

// reveal makes the launch's Secret, nil for none. A value that can't be a
// variable's is refused.
func (p *provider) reveal(ctx context.Context, l sdk.Launch, req *request) (*corev1.Secret, error) {
	if len(req.Sealed) == 0 {
		return nil, nil
	}
	if p.secrets == nil {
		return nil, p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("nothing resolves the launch's secrets"))
	}
	immutable, total := true, 0
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: *req.Job.ObjectMeta.DeepCopy(),
		Type: corev1.SecretTypeOpaque, Immutable: &immutable, Data: map[string][]byte{}}
	for _, key := range slices.Sorted(maps.Keys(req.Sealed)) {
		name := req.Sealed[key]
		v, err := p.secrets.ResolveSecret(ctx, l.Secrets[name])
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
			e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the secret %s %s", name, bad))
			e.Field, e.Reason = "secrets."+name, sdk.ReasonInvalidSpec
			return nil, e
		}
		s.Data[key] = data
	}
	return s, nil
}
