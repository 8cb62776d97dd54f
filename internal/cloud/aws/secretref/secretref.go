// Package secretref turns references to secrets into what ECS, and a service
// that runs its jobs as tasks of ECS, fetches them from.
package secretref

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// The schemes of references that are taken. The first two are passed on; the
// others become variables that whoever may describe the job can read.
const (
	SecretsManager = "aws-sm"
	ParameterStore = "aws-ssm"
	Env            = "env"
	File           = "file"
)

// Schemes returns all schemes that are taken.
func Schemes() []string { return []string{SecretsManager, ParameterStore, Env, File} }

// Visible returns the schemes whose values become visible variables.
func Visible() []string { return []string{Env, File} }

// Source is where references are looked up for one provider.
type Source struct {
	Session *aws.Session
	Vault   *secretsmanager.Client
	// Resolver fetches what becomes a visible variable; it may be nil.
	Resolver sdk.SecretResolver
	// Provider is the configured name, Service the service's, for errors.
	Provider, Service string
	// Describes says who can read a visible variable: "anyone who may describe
	// tasks".
	Describes string
}

// Plan is what becomes of a spec's secrets.
type Plan struct {
	// From maps variables to what is given as valueFrom.
	From map[string]string
	// Visible: there are variables that Reveal resolves.
	Visible bool
}

// ProblemFunc notes a reason not to launch.
type ProblemFunc func(code sdk.Code, field, value, format string, args ...any)

const opPrepare = "prepare job"

// Plan works out where each secret is fetched from. A secret of Secrets Manager
// is looked up, since only its full ARN will do, and so that one that doesn't
// exist is refused before launch. A parameter isn't: it would take a further
// client, and rights on all parameters.
func (p *Source) Plan(ctx context.Context, s sdk.JobSpec, bad ProblemFunc) (Plan, error) {
	out := Plan{From: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		field, ref := "secrets."+name, string(s.Secrets[name])
		parsed, err := sdk.ParseSecretRef(ref)
		if err != nil {
			continue // sdk.ValidateSpec has said so
		}
		switch parsed.Scheme {
		case SecretsManager:
			from, msg, err := p.secretARN(ctx, parsed)
			if err != nil {
				return out, of(field, ref, err)
			}
			if msg != "" {
				bad(sdk.FailedPrecondition, field, ref, "%s", msg)
				continue
			}
			out.From[name] = from
		case ParameterStore:
			from, msg := p.parameterARN(parsed)
			if msg != "" {
				bad(sdk.InvalidArgument, field, ref, "%s", msg)
				continue
			}
			out.From[name] = from
		case Env, File:
			out.Visible = true
			if !s.AllowVisibleSecret {
				bad(sdk.Unimplemented, field, ref, "on provider %s it would be a variable that %s can read; put it into Secrets Manager and write secret://aws-sm/NAME, or permit that with --allow-visible-secret", p.Provider, p.Describes)
			}
		default:
			bad(sdk.Unimplemented, field, ref, "%s takes no secret of the scheme %s; it takes aws-sm, aws-ssm, env and file", p.Service, parsed.Scheme)
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
func (p *Source) secretARN(ctx context.Context, ref sdk.ParsedSecretRef) (from, problem string, err error) {
	if strings.Contains(ref.Key, ":") || strings.Contains(ref.Version, ":") {
		return "", p.Service + " can't take a key or version with a colon", nil
	}
	arn := ref.Path
	if a, ok := aws.ParseARN(arn); ok && a.Service == "secretsmanager" {
		// No look-up is needed: what it finds out is a gain, and else the launch
		// will tell. Of another account or region it would tell nothing.
		if a.Account == p.Session.Account && a.Region == p.Session.Region {
			looking, cancel := context.WithTimeout(ctx, lookTime)
			defer cancel()
			if _, msg, err := p.describe(looking, ref); err == nil && msg != "" {
				return "", msg, nil
			}
		}
	} else {
		if strings.Contains(arn, ":") {
			return "", "is neither a secret's name nor its ARN", nil
		}
		if arn, problem, err = p.describe(ctx, ref); err != nil || problem != "" {
			return "", problem, err
		}
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

// lookTime bounds a look-up that the launch doesn't depend on.
const lookTime = 5 * time.Second

// describe looks a secret up, without its value, and returns its ARN, or why it
// can't be fetched.
// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_DescribeSecret.html
func (p *Source) describe(ctx context.Context, ref sdk.ParsedSecretRef) (arn, problem string, err error) {
	var out *secretsmanager.DescribeSecretOutput
	err = p.Session.Call(ctx, opPrepare, func(ctx context.Context) (err error) {
		out, err = p.Vault.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &ref.Path})
		return err
	})
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return "", fmt.Sprintf("Secrets Manager of %s in %s has no secret %q", p.Session.Account, p.Session.Region, ref.Path), nil
	case err != nil:
		return "", "", err
	case out.DeletedDate != nil:
		return "", fmt.Sprintf("the secret %q is to be deleted", ref.Path), nil
	case awssdk.ToString(out.ARN) == "":
		return "", "", p.fail(sdk.Unavailable, opPrepare, fmt.Errorf("the answer on the secret %q has no ARN", ref.Path))
	case ref.Version != "" && !versionID.MatchString(ref.Version) && !hasStage(out.VersionIdsToStages, ref.Version):
		return "", fmt.Sprintf("the secret has no version of the stage %q", ref.Version), nil
	}
	return *out.ARN, "", nil
}

// hasStage reports whether a version has a stage. Versions without one aren't
// listed, so that an ID that isn't proves nothing.
func hasStage(all map[string][]string, stage string) bool {
	for _, stages := range all {
		if slices.Contains(stages, stage) {
			return true
		}
	}
	return false
}

// of names the reference that an error is about.
func of(field, ref string, err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Field, out.Err = field, fmt.Errorf("look up %s: %w", ref, e.Err)
	if out.Code == sdk.PermissionDenied {
		out.Remedy = "let the credentials do secretsmanager:DescribeSecret, or write the secret's full ARN, which needs no look-up"
	}
	return &out
}

// parameterARN returns the ARN of a parameter. ECS proves that it exists, when
// it starts the task.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/secrets-envvar-ssm-paramstore.html
func (p *Source) parameterARN(ref sdk.ParsedSecretRef) (from, problem string) {
	switch {
	case ref.Key != "":
		return "", "a parameter has no keys; leave #" + ref.Key + " out"
	case ref.Version != "":
		return "", p.Service + " takes a parameter's newest version only; leave ?version= out"
	}
	if a, ok := aws.ParseARN(ref.Path); ok && a.Service == "ssm" {
		return ref.Path, ""
	}
	if strings.Contains(ref.Path, ":") {
		return "", "is neither a parameter's name nor its ARN"
	}
	return p.Session.ARN("ssm", "parameter/"+strings.TrimPrefix(ref.Path, "/")).String(), ""
}

// Reveal fetches the secrets that become visible variables, for the call op. A
// value that is no text in UTF-8 is refused.
func (p *Source) Reveal(ctx context.Context, op string, refs map[string]sdk.SecretRef) (map[string]string, error) {
	var out map[string]string
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		parsed, err := sdk.ParseSecretRef(string(refs[name]))
		if err != nil {
			return nil, err
		}
		if parsed.Scheme != Env && parsed.Scheme != File {
			continue
		}
		if p.Resolver == nil {
			return nil, p.fail(sdk.FailedPrecondition, op, fmt.Errorf("nothing resolves the secret %s", name))
		}
		v, err := p.Resolver.ResolveSecret(ctx, refs[name])
		if err != nil {
			return nil, err
		}
		b := v.Reveal()
		if !utf8.Valid(b) || strings.IndexByte(string(b), 0) >= 0 {
			e := p.fail(sdk.InvalidArgument, op, fmt.Errorf("the secret %s is not text in UTF-8, and a variable on %s can hold nothing else", name, p.Service))
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

func (p *Source) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.Provider, Err: err}
}
