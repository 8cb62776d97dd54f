package cli

import (
	"context"
	"errors"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// missingSecrets are the secrets of a job that aren't here: variables and files of
// this machine are this command's to find, on whatever provider the job runs. Each
// names its field.
func (f *Factory) missingSecrets(ctx context.Context, spec sdk.JobSpec) []*sdk.Error {
	local := secret.Local(f.Env.Lookup, f.Dir)
	var missing []*sdk.Error
	for _, name := range sortedKeys(spec.Secrets) {
		ref, err := sdk.ParseSecretRef(string(spec.Secrets[name]))
		if err != nil {
			continue // the spec's own check tells
		}
		resolve, ok := local[ref.Scheme]
		if !ok {
			continue
		}
		if _, err := resolve(ctx, ref); err != nil {
			cause := &sdk.Error{Code: sdk.CodeOf(err), Err: err}
			errors.As(err, &cause)
			e := *cause
			e.Op, e.Field = "run", "secrets."+name
			missing = append(missing, &e)
		}
	}
	return missing
}

// checkSecrets refuses a job whose secrets aren't here, before there is a run.
// Several are a *control.ProblemsError.
func (f *Factory) checkSecrets(ctx context.Context, provider string, spec sdk.JobSpec) error {
	missing := f.missingSecrets(ctx, spec)
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return missing[0]
	}
	all := &control.ProblemsError{Provider: provider}
	for _, e := range missing {
		message := e.Err.Error()
		if e.Remedy != "" {
			message += "; " + e.Remedy
		}
		all.Problems = append(all.Problems, sdk.Problem{Field: e.Field, Message: message, Code: e.Code})
	}
	return all
}
