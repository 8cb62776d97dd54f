package control

import (
	"context"
	"encoding/hex"
	"encoding/json"
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

// holding is who holds a target. It is written as soon as the target is held, for
// those whom it keeps out: the row may not be there yet.
type holding struct {
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
	Run    sdk.ID    `json:"run"`
	// Lock is free once the process has ended: a holding that a crash left behind
	// tells of nobody.
	Lock string `json:"lock"`
}

// nameWait is how long the name of a holder is waited for, which writes it in the
// instant after it has the target.
const (
	nameWait = time.Second
	nameLook = 10 * time.Millisecond
)

// hold keeps others of this state folder from changing a target until release, for
// the action of a row. The kernel frees it with the process, so that no crash leaves
// it held. A target that somebody changes is Aborted at once, and names who: waiting
// would change something that is no longer as it was looked at.
func (w *WorkloadRuntime) hold(ctx context.Context, back Backend, path sdk.WorkloadPath, actor, action string, run sdk.ID) (release func(), err error) {
	const op = "hold workload"
	if err := w.e.join(ctx); err != nil {
		return nil, err
	}
	fail := func(err error) (func(), error) {
		return nil, &sdk.Error{Code: sdk.Internal, Op: op, Err: err}
	}
	dir := filepath.Join(w.e.o.StateDir, "targets")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(err)
	}
	sum := sha256.Sum256([]byte(back.Info().Identity.String() + "\x00" + string(path)))
	name := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	// The file stays: to remove it while another process waits to open it would let
	// two hold it.
	lock := flock.New(name+".lock", flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	switch {
	case err != nil:
		return fail(fmt.Errorf("lock %s: %w", lock.Path(), err))
	case !ok:
		return nil, w.busy(ctx, name+".holder", sdk.Target{Provider: back.Name, Path: path})
	}
	h := holding{Actor: actor, Action: action, PID: os.Getpid(), Since: w.e.clock.Now().UTC(), Run: run, Lock: w.e.self.LockFile}
	if err := h.write(name + ".holder"); err != nil {
		_ = lock.Close()
		return fail(err)
	}
	return func() {
		_ = os.Remove(name + ".holder")
		_ = lock.Close()
	}, nil
}

// write puts a holding in place whole.
func (h holding) write(file string) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	next := file + ".new" // whoever writes has the lock
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// busy says who changes a target at the moment.
func (w *WorkloadRuntime) busy(ctx context.Context, file string, t sdk.Target) error {
	e := &sdk.Error{Code: sdk.Aborted, Op: "change " + t.String(), ID: ErrWorkloadBusy, Retryable: true,
		Remedy: "repeat it when that is over, if it still makes sense", Err: errors.New("somebody else changes it at the moment")}
	for range nameWait / nameLook {
		var h holding
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &h) == nil && !lockFree(h.Lock) {
			e.Err = fmt.Errorf("%s (process %d) changes it since %s: %s, run %s", h.Actor, h.PID, h.Since.Format(time.RFC3339), h.Action, h.Run.Short())
			return e
		}
		if w.e.clock.Sleep(ctx, nameLook) != nil {
			return e
		}
	}
	return e
}

// openRows are the rows about a workload of which it isn't known whether the backend
// has the change, oldest first; those of exec aside, which change nothing of it.
func (w *WorkloadRuntime) openRows(ctx context.Context, id sdk.Identity, path sdk.WorkloadPath) ([]ledger.Run, error) {
	var out []ledger.Run
	for run, err := range w.e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, OldestFirst: true}) {
		if err != nil {
			return nil, err
		}
		if sameWorkload(run, id, path) && run.Action != actionExec && !accepted(run) {
			out = append(out, run)
		}
	}
	return out, nil
}
