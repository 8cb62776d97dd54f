package aci

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that are taken beside Key Vault's.
const (
	schemeEnv  = "env"
	schemeFile = "file"
)

// checkRef returns why a reference can't be taken, or nothing.
func checkRef(ref sdk.ParsedSecretRef) string {
	switch ref.Scheme {
	case azure.SchemeKeyVault:
		return azure.CheckVaultRef(ref)
	case schemeEnv, schemeFile:
		return ""
	}
	return "Container Instances takes no secret of the scheme " + ref.Scheme + "; it takes azure-kv, env and file"
}

// checkSecrets refuses secrets that can't be taken.
func (l *plan) checkSecrets() {
	for _, name := range sortedKeys(l.Spec.Secrets) {
		ref := string(l.Spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		if msg := checkRef(parsed); msg != "" {
			l.Bad(sdk.Unimplemented, "secrets."+name, ref, "%s", msg)
		}
	}
}

// lookTime bounds a look at a secret: the launch reads it anyway.
const lookTime = 5 * time.Second

// missing refuses secrets that Key Vault doesn't have. Where it can't be asked, by
// rights or for another reason, the launch will tell.
func (l *plan) missing(ctx context.Context) {
	for _, name := range sortedKeys(l.Spec.Secrets) {
		field, ref := "secrets."+name, string(l.Spec.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil || parsed.Scheme != azure.SchemeKeyVault || l.Has(field) {
			continue
		}
		looking, cancel := context.WithTimeout(ctx, lookTime)
		there, err := l.p.session.HasSecret(looking, opPrepare, parsed)
		cancel()
		if err == nil && !there || sdk.CodeOf(err) == sdk.NotFound {
			l.Bad(sdk.FailedPrecondition, field, ref, "the vault doesn't have it")
		}
	}
}

// seal puts the values of secrets into a request: variables that no read of the
// group shows, and passwords of registries.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-environment-variables#secure-values
func (p *provider) seal(ctx context.Context, req request, refs map[string]sdk.SecretRef) error {
	c := req.Group.Properties.Containers[0].Properties
	for _, name := range sortedKeys(refs) {
		v, err := p.resolve(ctx, opRun, refs[name])
		if err != nil {
			return err
		}
		text := string(v.Reveal())
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the secret %s is not text in UTF-8, and a variable on Container Instances can hold nothing else", name))
			e.Field, e.Reason = "secrets."+name, sdk.ReasonInvalidSpec
			return e
		}
		c.EnvironmentVariables = append(c.EnvironmentVariables, &arm.EnvironmentVariable{Name: to.Ptr(name), SecureValue: to.Ptr(text)})
	}
	for _, reg := range req.Group.Properties.ImageRegistryCredentials {
		ref, ok := req.Passwords[*reg.Server]
		if !ok {
			continue
		}
		v, err := p.resolve(ctx, opRun, ref)
		if err != nil {
			return err
		}
		reg.Password = to.Ptr(string(v.Reveal()))
	}
	return nil
}

// resolve reads a secret. Nothing was sent to Container Instances then, so every
// error is a clear one; what may pass can be tried again.
func (p *provider) resolve(ctx context.Context, op string, ref sdk.SecretRef) (sdk.SecretValue, error) {
	parsed, err := sdk.ParseSecretRef(string(ref))
	if err != nil {
		return sdk.SecretValue{}, err
	}
	var v sdk.SecretValue
	switch {
	case parsed.Scheme == azure.SchemeKeyVault:
		v, err = p.session.Secret(ctx, op, parsed)
	case p.secrets == nil:
		return v, p.fail(sdk.FailedPrecondition, op, fmt.Errorf("nothing resolves the secret %s", ref))
	default:
		v, err = p.secrets.ResolveSecret(ctx, ref)
	}
	if err == nil {
		return v, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return sdk.SecretValue{}, p.fail(sdk.CodeOf(ctx.Err()), op, errors.Join(ctx.Err(), err))
	}
	e := p.fail(sdk.CodeOf(err), op, fmt.Errorf("read %s: %w", ref, err))
	e.Retryable, e.Unreached = sdk.IsUnreached(err), sdk.IsUnreached(err)
	switch e.Code {
	case sdk.PermissionDenied:
		e.Reason, e.Remedy = sdk.ReasonPermissionDenied, "give whoever runs Windlass the role Key Vault Secrets User on the vault"
	case sdk.ResourceExhausted:
		// The vault's limit is no want of room: nothing was refused but a read.
		e.Code, e.Retryable = sdk.Aborted, true
	default:
		if !sdk.IsClear(err) {
			e.Code, e.Retryable = sdk.Aborted, true
		}
	}
	e.RetryAfter = sdk.RetryAfter(err)
	return sdk.SecretValue{}, e
}
