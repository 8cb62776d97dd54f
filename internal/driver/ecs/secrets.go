package ecs

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that the driver takes.
const (
	schemeSecretsManager = "aws-sm"
	schemeParameterStore = "aws-ssm"
	schemeEnv            = "env"
	schemeFile           = "file"
)

// secretPlan is what becomes of a spec's secrets.
type secretPlan struct {
	// from maps variables to what ECS fetches them from.
	from map[string]string
	// visible are the variables that RunJob resolves itself.
	visible bool
}

// planSecrets works out where ECS fetches each secret from. A secret of Secrets
// Manager is looked up, since only its full ARN will do, and so that one that
// doesn't exist is refused before launch.
func (p *provider) planSecrets(ctx context.Context, s sdk.JobSpec, bad problemFunc) (secretPlan, error) {
	out := secretPlan{from: map[string]string{}}
	for _, name := range sortedKeys(s.Secrets) {
		field, ref := "secrets."+name, string(s.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		switch parsed.Scheme {
		case schemeSecretsManager:
			from, msg, err := p.secretARN(ctx, parsed)
			if err != nil {
				return out, err
			}
			if msg != "" {
				bad(sdk.FailedPrecondition, field, ref, "%s", msg)
				continue
			}
			out.from[name] = from
		case schemeParameterStore:
			from, msg := p.parameterARN(parsed)
			if msg != "" {
				bad(sdk.InvalidArgument, field, ref, "%s", msg)
				continue
			}
			out.from[name] = from
		case schemeEnv, schemeFile:
			out.visible = true
			if !s.AllowVisibleSecret {
				bad(sdk.Unimplemented, field, ref, "on provider %s it would be a variable that anyone who may describe tasks can read; put it into Secrets Manager and write secret://aws-sm/NAME, or permit that with --allow-visible-secret", p.name)
			}
		default:
			bad(sdk.Unimplemented, field, ref, "ECS takes no secret of the scheme %s; it takes aws-sm, aws-ssm, env and file", parsed.Scheme)
		}
	}
	return out, nil
}

// versionID is the form of a version's ID; anything else is a stage, such as
// AWSPREVIOUS.
var versionID = regexp.MustCompile(`^[0-9A-Za-z]{8}-[0-9A-Za-z]{4}-[0-9A-Za-z]{4}-[0-9A-Za-z]{4}-[0-9A-Za-z]{12}$`)

// secretARN returns what ECS fetches a secret of Secrets Manager from:
// ARN[:KEY:STAGE:VERSION].
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-secrets-manager.html
func (p *provider) secretARN(ctx context.Context, ref sdk.ParsedSecretRef) (from, problem string, err error) {
	if strings.Contains(ref.Key, ":") || strings.Contains(ref.Version, ":") {
		return "", "ECS can't take a key or version with a colon", nil
	}
	arn := ref.Path
	if a, ok := aws.ParseARN(arn); !ok || a.Service != "secretsmanager" {
		if strings.Contains(arn, ":") {
			return "", "is neither a secret's name nor its ARN", nil
		}
		var out *secretsmanager.DescribeSecretOutput
		err := p.session.Call(ctx, opPrepare, func(ctx context.Context) (err error) {
			out, err = p.vault.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &ref.Path})
			return err
		})
		switch sdk.CodeOf(err) {
		case 0:
		case sdk.NotFound:
			return "", fmt.Sprintf("Secrets Manager of %s in %s has no secret %q", p.session.Account, p.session.Region, ref.Path), nil
		default:
			return "", "", err
		}
		if out.DeletedDate != nil {
			return "", fmt.Sprintf("the secret %q is to be deleted", ref.Path), nil
		}
		arn = str(out.ARN)
	}
	if ref.Key == "" && ref.Version == "" {
		return arn, "", nil
	}
	stage, id := ref.Version, ""
	if versionID.MatchString(ref.Version) {
		stage, id = "", ref.Version
	}
	return strings.Join([]string{arn, ref.Key, stage, id}, ":"), "", nil
}

// parameterARN returns the ARN of a parameter. ECS proves that it exists, when
// it starts the task.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-ssm-paramstore.html
func (p *provider) parameterARN(ref sdk.ParsedSecretRef) (from, problem string) {
	switch {
	case ref.Key != "":
		return "", "a parameter has no keys; leave #" + ref.Key + " out"
	case ref.Version != "":
		return "", "ECS takes a parameter's newest version only; leave ?version= out"
	}
	if a, ok := aws.ParseARN(ref.Path); ok && a.Service == "ssm" {
		return ref.Path, ""
	}
	if strings.Contains(ref.Path, ":") {
		return "", "is neither a parameter's name nor its ARN"
	}
	return p.session.ARN("ssm", "parameter/"+strings.TrimPrefix(ref.Path, "/")).String(), ""
}

// resolveVisible fetches the secrets that become visible variables.
func (p *provider) resolveVisible(ctx context.Context, refs map[string]sdk.SecretRef) (map[string]string, error) {
	var out map[string]string
	for _, name := range sortedKeys(refs) {
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
		b := v.Reveal()
		if !utf8.Valid(b) || strings.IndexByte(string(b), 0) >= 0 {
			e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the secret %s is not text in UTF-8, and a variable on ECS can hold nothing else", name))
			e.Field = "secrets." + name
			return nil, e
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = string(b)
	}
	return out, nil
}
