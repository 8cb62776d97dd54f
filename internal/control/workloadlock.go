package control

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"crypto/sha256"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// hold keeps others of this state folder from changing a target until release.
// The kernel frees it with the process, so that no crash leaves it held. A target
// that somebody changes is Aborted at once, and names who: waiting would change
// something that is no longer as it was looked at.
func (w *WorkloadRuntime) hold(ctx context.Context, back Backend, path sdk.WorkloadPath) (release func(), err error) {
	const op = "hold workload"
	dir := filepath.Join(w.e.o.StateDir, "targets")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &sdk.Error{Code: sdk.Internal, Op: op, Err: err}
	}
	id := back.Info().Identity
	sum := sha256.Sum256([]byte(id.String() + "\x00" + string(path)))
	// The file stays: to remove it while another process waits to open it would let
	// two hold it.
	lock := flock.New(filepath.Join(dir, hex.EncodeToString(sum[:16])+".lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, &sdk.Error{Code: sdk.Internal, Op: op, Err: fmt.Errorf("lock %s: %w", lock.Path(), err)}
	case !ok:
		return nil, w.busy(ctx, id, sdk.Target{Provider: back.Name, Path: path})
	}
	return func() { _ = lock.Close() }, nil
}

// busy says who changes a target at the moment.
func (w *WorkloadRuntime) busy(ctx context.Context, id sdk.Identity, t sdk.Target) error {
	e := &sdk.Error{Code: sdk.Aborted, Op: "change " + t.String(), ID: ErrWorkloadBusy, Retryable: true,
		Remedy: "repeat it when that is over, if it still makes sense", Err: errors.New("somebody else changes it at the moment")}
	rows, err := w.openRows(ctx, id, t.Path)
	if err != nil || len(rows) == 0 {
		return e
	}
	r := rows[len(rows)-1]
	e.Err = fmt.Errorf("%s changes it since %s (%s, %s)", r.Actor, r.RequestedAt.UTC().Format(time.RFC3339), r.Action, r.ID.Short())
	return e
}

// openRows are the rows about a workload without an outcome, oldest first; those
// of exec aside, which change nothing of it.
func (w *WorkloadRuntime) openRows(ctx context.Context, id sdk.Identity, path sdk.WorkloadPath) ([]ledger.Run, error) {
	var out []ledger.Run
	for run, err := range w.e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, OldestFirst: true}) {
		if err != nil {
			return nil, err
		}
		if sameWorkload(run, id, path) && run.Action != actionExec {
			out = append(out, run)
		}
	}
	return out, nil
}
