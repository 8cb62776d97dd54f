package cloudrun

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/run/apiv2/runpb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that are taken. The first is passed on; the others
// become variables that whoever may see the job can read.
const (
	schemeSecretManager = gcp.SchemeSecretManager
	schemeEnv           = "env"
	schemeFile          = "file"
)

// secrets adds a variable for each secret that Cloud Run fetches by itself, when
// it starts the task.
func (l *plan) secrets(c *runpb.Container) {
	for _, name := range slices.Sorted(maps.Keys(l.Spec.Secrets)) {
		field, ref := "secrets."+name, string(l.Spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		switch parsed.Scheme {
		case schemeSecretManager:
			key, code, why := gcp.SecretKey(parsed)
			if key == nil {
				l.Bad(code, field, ref, "%s", why)
				continue
			}
			c.Env = append(c.Env, &runpb.EnvVar{Name: name, Values: &runpb.EnvVar_ValueSource{ValueSource: &runpb.EnvVarSource{SecretKeyRef: key}}})
		case schemeEnv, schemeFile:
			if !l.Spec.AllowVisibleSecret {
				l.Bad(sdk.Unimplemented, field, ref, "on provider %s it would be a variable that anyone who may see the job can read; put it into Secret Manager and write secret://gcp-sm/NAME, or permit that with --allow-visible-secret", l.p.name)
				continue
			}
			l.visible = true
		default:
			l.Bad(sdk.Unimplemented, field, ref, "Cloud Run takes no secret of the scheme %s; it takes gcp-sm, env and file", parsed.Scheme)
		}
	}
}

// lookTime bounds a look at a secret: the launch doesn't depend on it.
const lookTime = 5 * time.Second

// missing refuses secrets that Cloud Run would not find. The version's metadata is
// read, never its value; where it can't be read, by rights or for another reason,
// Cloud Run's own check decides.
// https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/get
func (l *plan) missing(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(l.Spec.Secrets)) {
		field, ref := "secrets."+name, string(l.Spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		key, _, _ := gcp.SecretKey(parsed)
		if err != nil || parsed.Scheme != schemeSecretManager || l.Has(field) || key == nil {
			continue
		}
		secret := key.GetSecret()
		if !strings.HasPrefix(secret, "projects/") {
			secret = "projects/" + l.p.session.Project + "/secrets/" + secret
		}
		v, err := l.p.look(ctx, secret+"/versions/"+key.GetVersion())
		switch {
		case sdk.CodeOf(err) == sdk.NotFound:
			l.Bad(sdk.FailedPrecondition, field, ref, "Secret Manager doesn't have it: %s", gcp.Text(err))
		case err == nil && v.GetState() != secretmanagerpb.SecretVersion_ENABLED:
			l.Bad(sdk.FailedPrecondition, field, ref, "its version is %s in Secret Manager, and can't be read", strings.ToLower(v.GetState().String()))
		}
	}
}

// look reads the metadata of a secret's version.
func (p *provider) look(ctx context.Context, version string) (*secretmanagerpb.SecretVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var out *secretmanagerpb.SecretVersion
	err := p.session.Call(ctx, opPrepare, func(ctx context.Context) (err error) {
		out, err = p.vault.GetSecretVersion(ctx, &secretmanagerpb.GetSecretVersionRequest{Name: version})
		return err
	})
	return out, err
}

// reveal fetches the secrets that become visible variables. A value that is no
// text in UTF-8, or too long, is refused.
func (p *provider) reveal(ctx context.Context, refs map[string]sdk.SecretRef) ([]*runpb.EnvVar, error) {
	var out []*runpb.EnvVar
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		parsed, err := sdk.ParseSecretRef(string(refs[name]))
		if err != nil {
			return nil, err
		}
		if parsed.Scheme != schemeEnv && parsed.Scheme != schemeFile {
			continue
		}
		if p.secrets == nil {
			return nil, p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("nothing resolves the secret %s", name))
		}
		v, err := p.secrets.ResolveSecret(ctx, refs[name])
		if err != nil {
			return nil, err
		}
		text := string(v.Reveal())
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 || utf8.RuneCountInString(text) > maxVariable {
			e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the secret %s is not text in UTF-8 of up to %d characters, and a variable on Cloud Run can hold nothing else", name, maxVariable))
			e.Field, e.Reason = "secrets."+name, sdk.ReasonInvalidSpec
			return nil, e
		}
		out = append(out, &runpb.EnvVar{Name: name, Values: &runpb.EnvVar_Value{Value: text}})
	}
	return out, nil
}
