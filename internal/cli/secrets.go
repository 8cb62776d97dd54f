package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// checkSecrets refuses a job whose secrets aren't here, before there is a run:
// variables and files of this machine are this command's to find, on whatever
// provider the job runs.
func (f *Factory) checkSecrets(ctx context.Context, spec sdk.JobSpec) error {
	local := secret.Local(f.Env.Lookup, f.Dir)
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
			var e *sdk.Error
			if errors.As(err, &e) {
				c := *e
				c.Op, c.Field = "run", "secrets."+name
				return &c
			}
			return fmt.Errorf("run: secret %s: %w", name, err)
		}
	}
	return nil
}
