package appplatform

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that are taken. Their values are fetched here, and
// encrypted by the platform when it is given them.
const (
	schemeEnv  = "env"
	schemeFile = "file"
)

// sealed begins a value that the platform has encrypted, and would decrypt.
// https://docs.digitalocean.com/products/app-platform/how-to/use-environment-variables/
const sealed = "EV["

// checkSecrets refuses what can't be sealed.
func (l *plan) checkSecrets() {
	for _, name := range slices.Sorted(maps.Keys(l.Spec.Secrets)) {
		field, ref := "secrets."+name, string(l.Spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		if parsed.Scheme != schemeEnv && parsed.Scheme != schemeFile {
			l.Bad(sdk.Unimplemented, field, ref, "App Platform takes no secret of the scheme %s; it takes env and file", parsed.Scheme)
		}
		if slices.Contains(reserved(), name) {
			l.Bad(sdk.InvalidArgument, field, ref, "the app has a variable of this name")
		}
	}
}

// unseal fetches the secrets, as variables that the platform seals.
func (p *provider) unseal(ctx context.Context, refs map[string]sdk.SecretRef) ([]*godo.AppVariableDefinition, error) {
	var out []*godo.AppVariableDefinition
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		text, err := p.resolve(ctx, "secrets."+name, refs[name])
		if err != nil {
			return nil, err
		}
		out = append(out, &godo.AppVariableDefinition{Key: name, Value: text, Scope: godo.AppVariableScope_RunTime, Type: godo.AppVariableType_Secret})
	}
	return out, nil
}

// resolve fetches a value that a spec can hold. No error has it.
func (p *provider) resolve(ctx context.Context, field string, ref sdk.SecretRef) (string, error) {
	if p.secrets == nil {
		return "", p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("nothing resolves %s", field))
	}
	v, err := p.secrets.ResolveSecret(ctx, ref)
	if err != nil {
		return "", err
	}
	text, why := string(v.Reveal()), ""
	switch {
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		why = "is not text in UTF-8, and App Platform takes nothing else"
	case strings.Contains(text, "${"):
		why = "has ${, for which App Platform puts in variables of its own"
	case strings.HasPrefix(text, sealed):
		why = "begins with " + sealed + ", as what App Platform itself has encrypted does"
	default:
		return text, nil
	}
	e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the value %s", why))
	e.Field, e.Reason = field, sdk.ReasonInvalidSpec
	return "", e
}
