package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// ErrNothingKept is a row that left nothing which could be removed.
const ErrNothingKept = "row.nothing-kept"

// keptRemedy says what may have been meant with the removal of a row that is no run.
func keptRemedy(run ledger.Run) string {
	if strings.HasPrefix(run.Action, resourceVerb) {
		return "`windlass resource delete -f FILE " + run.Name + "` deletes the resource itself; `windlass ledger prune` cuts old records"
	}
	return "`windlass ledger prune` cuts old records"
}

// Remove removes what a finished run left: kept objects on the backend, and
// captured output. Its rows stay: they are the audit.
func (e *Engine) Remove(ctx context.Context, id sdk.ID, actor string) error {
	run, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.Open() {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "remove run", ID: "run.open", Remedy: "`windlass cancel` ends it first",
			Err: fmt.Errorf("run %s is %s", id.Short(), run.State)}
	}
	if run.Attempt == 0 && !isRecorded(run) {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "remove run", ID: ErrNothingKept, Remedy: keptRemedy(run),
			Err: fmt.Errorf("row %s is the record of %s of %s, and has no output: the record stays, it is the audit", id.Short(), run.Action, run.Target)}
	}
	attempts, err := e.o.Store.Attempts(ctx, id)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if a.Phase != ledger.PhaseKept || a.Handle == nil {
			continue
		}
		if err := e.removeKept(ctx, run, a, actor); err != nil {
			return err
		}
	}
	e.removeSpool(id)
	return e.o.Logs.Remove(id)
}

func (e *Engine) removeKept(ctx context.Context, run ledger.Run, a ledger.Attempt, actor string) error {
	back, err := e.o.Providers.BackendFor(ctx, run)
	if err != nil {
		return err
	}
	jc, ok := sdk.Of(back.Provider, sdk.Cleaner())
	if !ok {
		return back.absent(sdk.Cleaner().String())
	}
	h, err := sdk.DecodeHandle(a.Handle)
	if err != nil {
		return err
	}
	act, err := e.begin(ctx, actor, "rm", run.ID.String(), back)
	if err != nil {
		return err
	}
	_, err = call(ctx, back.callTimeout(), "clean", func(ctx context.Context) (sdk.CleanupJobResult, error) {
		return jc.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h})
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		err = nil
	}
	return act.end(ctx, err, map[string]string{"attempt": a.ID.String()})
}
