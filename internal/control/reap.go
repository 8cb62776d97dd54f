package control

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// reapMargin is how far past its expiry another ledger's object must be.
const reapMargin = time.Hour

// unknownMargin is how old an object of this ledger without a row must be: a
// row is written first, so only a ledger that was lost or pruned has none.
const unknownMargin = 10 * time.Minute

// ReapRequest asks what was left behind.
type ReapRequest struct {
	// Providers by name; empty is all that are configured.
	Providers []string
	DryRun    bool
	// Owner, when set, also removes expired objects of other ledgers that this
	// owner made.
	Owner string
	Actor string
}

// ReapItem is one object with our labels.
type ReapItem struct {
	Provider string
	Object   sdk.OwnedObject
	// Orphan: it may be removed. Why says why, or why not.
	Orphan  bool
	Why     string
	Age     time.Duration
	Removed bool
	// Err is the failure of looking at the provider, or of the removal.
	Err error
}

// Reap lists everything that carries our labels, and removes what nothing
// needs: for this ledger's objects the ledger decides; others' are removed only
// when expired, ended, and of the owner that the request names.
func (e *Engine) Reap(ctx context.Context, req ReapRequest) iter.Seq2[ReapItem, error] {
	return func(yield func(ReapItem, error) bool) {
		if !req.DryRun {
			if err := e.sweepSpools(ctx); err != nil {
				yield(ReapItem{}, err)
				return
			}
		}
		names := req.Providers
		if len(names) == 0 {
			names = e.o.Providers.Names()
		}
		for _, name := range names {
			back, err := e.o.Providers.Backend(ctx, name)
			if err != nil {
				if !yield(ReapItem{Provider: name, Err: err}, nil) {
					return
				}
				continue
			}
			if !e.reapProvider(ctx, back, req, yield) {
				return
			}
		}
	}
}

func (e *Engine) reapProvider(ctx context.Context, back Backend, req ReapRequest, yield func(ReapItem, error) bool) bool {
	lister, ok := sdk.Of(back.Provider, sdk.Lister())
	if !ok {
		return yield(ReapItem{Provider: back.Name, Err: sdk.Absent(back.Name, "OwnedLister")}, nil)
	}
	var act *action
	removed := 0
	var firstErr error
	defer func() {
		if act != nil {
			if err := act.end(ctx, firstErr, map[string]string{"removed": fmt.Sprint(removed)}); err != nil && firstErr == nil {
				e.log.Warn("reap not recorded", "err", err)
			}
		}
	}()
	for obj, err := range lister.ListOwned(ctx, sdk.ListOwnedRequest{}) {
		if err != nil {
			return yield(ReapItem{Provider: back.Name, Err: err}, nil)
		}
		it := ReapItem{Provider: back.Name, Object: obj, Age: e.age(obj)}
		if it.Orphan, it.Why, err = e.orphan(ctx, obj, req.Owner); err != nil {
			yield(it, err)
			return false
		}
		if it.Orphan && !req.DryRun {
			if act == nil {
				a, err := e.begin(ctx, req.Actor, "reap", back.Name, back)
				if err != nil {
					yield(it, err)
					return false
				}
				act = &a
			}
			it.Removed, it.Err = e.removeOwned(ctx, back, lister, *act, obj)
			if it.Removed {
				removed++
			} else if firstErr == nil {
				firstErr = it.Err
			}
		}
		if !yield(it, nil) {
			return false
		}
	}
	return true
}

func (e *Engine) removeOwned(ctx context.Context, back Backend, lister sdk.OwnedLister, act action, obj sdk.OwnedObject) (bool, error) {
	detail := map[string]string{"type": obj.Type, "id": obj.ID, "name": obj.Name, "owner": obj.Owner, "ledger": obj.LedgerID}
	if !obj.RunID.IsZero() {
		detail["run"] = obj.RunID.String()
	}
	if err := act.note(ctx, ledger.KindNote, detail); err != nil {
		return false, err
	}
	_, err := call(ctx, back.callTimeout(), "clean", func(ctx context.Context) (sdk.RemoveOwnedResult, error) {
		return lister.RemoveOwned(ctx, sdk.RemoveOwnedRequest{Object: obj})
	})
	if err != nil && sdk.CodeOf(err) != sdk.NotFound {
		return false, err
	}
	return true, act.note(ctx, ledger.KindRemoved, detail)
}

func (e *Engine) age(obj sdk.OwnedObject) time.Duration {
	switch {
	case !obj.CreatedAt.IsZero():
		return e.clock.Now().Sub(obj.CreatedAt)
	case !obj.RunID.IsZero():
		return e.clock.Now().Sub(obj.RunID.Time())
	}
	return 0
}

// orphan decides whether an object may go, and says why.
func (e *Engine) orphan(ctx context.Context, obj sdk.OwnedObject, owner string) (bool, string, error) {
	if obj.LedgerID != e.o.Store.ID() {
		switch {
		case obj.Live:
			return false, "belongs to another ledger and is in use", nil
		case obj.Expires.IsZero():
			return false, "belongs to another ledger and has no expiry", nil
		case e.clock.Now().Before(obj.Expires.Add(reapMargin)):
			return false, "belongs to another ledger and has not expired", nil
		case owner == "" || obj.Owner != owner:
			return false, fmt.Sprintf("belongs to another ledger and expired; --owner %s removes it", obj.Owner), nil
		}
		return true, "belongs to another ledger of this owner, ended and expired", nil
	}
	if obj.Shared {
		if obj.Live {
			return false, "shared and in use", nil
		}
		return true, "shared, and nothing uses it", nil
	}
	run, err := e.o.Store.Run(ctx, obj.RunID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		if e.age(obj) < unknownMargin {
			return false, "the ledger has no row of its run; too young to judge", nil
		}
		return true, "the ledger has no row of its run", nil
	case err != nil:
		return false, "", err
	case run.Open():
		return false, fmt.Sprintf("its run is %s", run.State), nil
	case run.State == sdk.StateLost && obj.Live:
		return true, "its run was given up as lost, and it still runs", nil
	}
	attempts, err := e.o.Store.Attempts(ctx, run.ID)
	if err != nil {
		return false, "", err
	}
	for _, a := range attempts {
		if a.ID == obj.AttemptID && a.Phase == ledger.PhaseKept {
			return false, "kept on request; `windlass rm` removes it", nil
		}
	}
	return true, fmt.Sprintf("its run ended %s and was cleaned up", run.State), nil
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
		return sdk.Absent(back.Name, "JobCleaner")
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
