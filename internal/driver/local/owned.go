//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/sdk"
)

// The types of what an attempt leaves on this machine.
const (
	typeProcess = "process"
	typeFolder  = "folder"
)

// ListOwned gives the attempts in the state folder, and the folders whose
// removal was cut short.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	const op = "list owned"
	return func(yield func(sdk.OwnedObject, error) bool) {
		ids, err := attempt.List(p.state)
		if err != nil {
			yield(sdk.OwnedObject{}, p.fail(op, err))
			return
		}
		for _, id := range ids {
			if ctx.Err() != nil {
				yield(sdk.OwnedObject{}, p.fail(op, context.Cause(ctx)))
				return
			}
			o, ok, err := p.owned(id)
			if err != nil {
				yield(sdk.OwnedObject{}, p.fail(op, err))
				return
			}
			if ok && (r.Owner == "" || o.Owner == r.Owner) && !yield(o, nil) {
				return
			}
		}
		rest, err := attempt.Leftovers(p.state, sdk.ID{})
		if err != nil {
			yield(sdk.OwnedObject{}, p.fail(op, err))
			return
		}
		for _, path := range rest {
			o := p.leftover(path)
			if (r.Owner == "" || o.Owner == r.Owner) && !yield(o, nil) {
				return
			}
		}
	}
}

// owned describes an attempt. One whose launch was not written yet belongs to
// whom the state folder belongs.
func (p *provider) owned(id sdk.ID) (sdk.OwnedObject, bool, error) {
	f := attempt.In(p.state, id)
	v, err := p.look(f)
	if errors.Is(err, sdk.DataLoss) {
		// A record that can't be read hides no other object. The state folder
		// is this owner's alone.
		held, herr := f.Held()
		return sdk.OwnedObject{Type: typeProcess, ID: id.String(), AttemptID: id, Owner: p.owner, LedgerID: p.ledgerID,
			CreatedAt: modified(string(f)), Live: held, State: "damaged"}, true, herr
	}
	if err != nil || v.stage == stageAbsent {
		return sdk.OwnedObject{}, false, err
	}
	o := sdk.OwnedObject{Type: typeProcess, ID: id.String(), Name: v.launch.Name, RunID: v.launch.RunID, AttemptID: id,
		Owner: v.launch.Owner, LedgerID: v.launch.LedgerID, CreatedAt: v.launch.CreatedAt, Expires: v.launch.Expires,
		Live: v.stage == stageStarting || v.stage == stageHeld, State: v.stage.String()}
	if v.launch.V == 0 {
		o.Owner, o.LedgerID, o.CreatedAt = p.owner, p.ledgerID, modified(string(f))
	}
	x, err := attempt.Read[attempt.Expiry](f, attempt.ExpiresFile)
	if err == nil {
		o.Expires = x.Expires
	} else if !errors.Is(err, attempt.ErrNone) {
		return o, false, err
	}
	return o, true, nil
}

func (p *provider) leftover(path string) sdk.OwnedObject {
	return sdk.OwnedObject{Type: typeFolder, ID: filepath.Base(path), Name: filepath.Base(path), AttemptID: attempt.LeftoverOf(path),
		Owner: p.owner, LedgerID: p.ledgerID, CreatedAt: modified(path), State: "half removed"}
}

func modified(path string) time.Time {
	st, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// RemoveOwned removes an attempt, and kills what runs of it.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	const op = "remove owned"
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(op, context.Cause(ctx))
	}
	var err error
	switch o := r.Object; o.Type {
	case typeProcess:
		err = p.removeAttempt(ctx, o)
	case typeFolder:
		if filepath.Base(o.ID) != o.ID || attempt.LeftoverOf(o.ID).IsZero() || !strings.HasPrefix(o.ID, ".") {
			return sdk.RemoveOwnedResult{}, p.failf(sdk.InvalidArgument, op, "%q is no folder of ours", o.ID)
		}
		err = os.RemoveAll(filepath.Join(p.state, o.ID))
	default:
		return sdk.RemoveOwnedResult{}, p.failf(sdk.InvalidArgument, op, "nothing here is of type %q", o.Type)
	}
	if err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(op, err)
	}
	return sdk.RemoveOwnedResult{}, nil
}

func (p *provider) removeAttempt(ctx context.Context, o sdk.OwnedObject) error {
	id, err := sdk.ParseID(o.ID)
	if err != nil {
		return err
	}
	now, ok, err := p.owned(id)
	if err != nil {
		return err
	}
	f := attempt.In(p.state, id)
	if ok {
		if now.RunID != o.RunID || now.AttemptID != o.AttemptID || now.Owner != o.Owner || now.LedgerID != o.LedgerID {
			return sdk.Errorf(sdk.FailedPrecondition, "compare labels", "attempt %s is no longer what was listed", id)
		}
		if err := p.kill(ctx, f, id); err != nil {
			return err
		}
	}
	_, err = p.cleanUp(ctx, f, id)
	return err
}

// kill ends an attempt at once and waits for that.
func (p *provider) kill(ctx context.Context, f attempt.Folder, id sdk.ID) error {
	c := attempt.Cancel{V: attempt.Version, At: p.clock.Now(), Grace: new(time.Duration), Why: "removed"}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		res, err := p.cancel(ctx, f, id, c)
		if errors.Is(err, sdk.DataLoss) {
			return nil // clean-up holds it, and ends what is left
		}
		if err != nil || res.Gone {
			return err
		}
		if err := p.clock.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("wait for the end: %s: %w", res.Evidence, err)
		}
	}
}

// RenewExpiry writes the attempt's expiry.
func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	const op = "renew expiry"
	if err := ctx.Err(); err != nil {
		return sdk.RenewExpiryResult{}, p.fail(op, context.Cause(ctx))
	}
	f, id, err := p.attempt(op, r.Handle)
	if err != nil {
		return sdk.RenewExpiryResult{}, err
	}
	there, err := f.Exists()
	if err != nil {
		return sdk.RenewExpiryResult{}, p.fail(op, err)
	}
	if !there {
		return sdk.RenewExpiryResult{}, p.absent(op, id)
	}
	if err := attempt.Write(f, attempt.ExpiresFile, attempt.Expiry{V: attempt.Version, Expires: r.Expires}, attempt.Visible); err != nil {
		return sdk.RenewExpiryResult{}, p.fail(op, err)
	}
	return sdk.RenewExpiryResult{}, nil
}
