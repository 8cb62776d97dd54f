package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/windlass-run/windlass/sdk"
)

// A run's spool is a folder of mode 0700 that holds what must survive the
// submitting process and may stand in no ledger: a local job's inherited
// environment and a spooled standard input. Clean-up removes it.

func (e *Engine) spoolDir(run sdk.ID) string {
	return filepath.Join(e.o.StateDir, "spool", run.String())
}

// spoolInputs writes what the request brings, and notes it in set.
func (e *Engine) spoolInputs(run sdk.ID, req SubmitRequest, set *settings) error {
	dir := e.spoolDir(run)
	needDir := req.Ambient != nil || req.Spec.Stdin == sdk.StdinSpooled
	if !needDir {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return spoolError(err)
	}
	// Tells a sweeper that somebody is at work here before there is a row.
	if err := os.WriteFile(filepath.Join(dir, spoolHolder), []byte(e.self.LockFile), 0o600); err != nil {
		return spoolError(err)
	}
	if req.Ambient != nil {
		b, err := json.Marshal(req.Ambient)
		if err != nil {
			return fmt.Errorf("spool inputs: %w", err)
		}
		if err := writeSynced(filepath.Join(dir, "ambient.json"), func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
			return err
		}
		set.Ambient = true
	}
	if req.Spec.Stdin == sdk.StdinSpooled {
		h := sha256.New()
		err := writeSynced(filepath.Join(dir, "stdin"), func(w io.Writer) error {
			if req.Stdin == nil {
				return nil
			}
			_, err := io.Copy(io.MultiWriter(w, h), req.Stdin)
			return err
		})
		if err != nil {
			return err
		}
		set.StdinHash = hex.EncodeToString(h.Sum(nil))
	}
	return nil
}

// spoolError says what to do about a full disk.
func spoolError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &sdk.Error{Code: sdk.ResourceExhausted, Op: "spool inputs", ID: "ledger.full", Remedy: "free space in the state folder, or set WINDLASS_STATE",
			Err: fmt.Errorf("the disk is full: %w", err)}
	}
	return fmt.Errorf("spool inputs: %w", err)
}

func writeSynced(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return spoolError(err)
	}
	if err := errors.Join(fill(f), f.Sync(), f.Close()); err != nil {
		return spoolError(err)
	}
	return nil
}

// inputs opens what the launch's call needs. The closer, when not nil, is the
// caller's.
func (r *runner) inputs(req *sdk.RunJobRequest) (io.Closer, error) {
	amb, err := r.ambient()
	if err != nil {
		return nil, err
	}
	req.Ambient = amb
	switch r.launch.Stdin {
	case sdk.StdinAttached:
		req.Stdin = r.req.Stdin // nil once the attached command is gone: the end of input
	case sdk.StdinSpooled:
		f, err := os.Open(filepath.Join(r.e.spoolDir(r.id), "stdin"))
		if err != nil {
			return nil, sdk.Errorf(sdk.DataLoss, "read spool", "the input of run %s is gone: %w", r.id.Short(), err)
		}
		req.Stdin = f
		return f, nil
	}
	return nil, nil
}

// ambient is what the job inherits, from memory or from the spool; nil on
// backends without.
func (r *runner) ambient() (*sdk.Ambient, error) {
	if !r.set.Ambient || r.req.Ambient != nil {
		return r.req.Ambient, nil
	}
	b, err := os.ReadFile(filepath.Join(r.e.spoolDir(r.id), "ambient.json"))
	if err != nil {
		return nil, sdk.Errorf(sdk.DataLoss, "read spool", "the inherited environment of run %s is gone: %w", r.id.Short(), err)
	}
	amb := &sdk.Ambient{}
	if err := json.Unmarshal(b, amb); err != nil {
		return nil, sdk.Errorf(sdk.DataLoss, "read spool", "%w", err)
	}
	return amb, nil
}

// spoolHolder names the lock of the process that made a spool.
const spoolHolder = "holder"

// sweepSpools removes the spools of submitters that died before their run had
// a row, and of runs that are over.
func (e *Engine) sweepSpools(ctx context.Context) error {
	root := filepath.Join(e.o.StateDir, "spool")
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep spools: %w", err)
	}
	for _, ent := range entries {
		id, err := sdk.ParseID(ent.Name())
		if err != nil {
			continue // not ours
		}
		run, err := e.o.Store.Run(ctx, id)
		switch {
		case err == nil && run.Open():
			continue
		case err != nil && sdk.CodeOf(err) != sdk.NotFound:
			return err
		case err != nil:
			lock, err := os.ReadFile(filepath.Join(root, ent.Name(), spoolHolder))
			if err != nil || len(lock) == 0 || !lockFree(string(lock)) {
				continue
			}
		}
		e.removeSpool(id)
	}
	return nil
}

func (e *Engine) removeSpool(run sdk.ID) {
	if err := os.RemoveAll(e.spoolDir(run)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.log.Warn("spool not removed", "run", run, "err", err)
	}
}

// removeSpool removes what the run spooled, if it did.
func (r *runner) removeSpool() {
	if r.set.Ambient || r.set.StdinHash != "" {
		r.e.removeSpool(r.id)
	}
}
