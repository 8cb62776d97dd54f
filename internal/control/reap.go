package control

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// reapMargin is how far past its expiry another ledger's object must be.
const reapMargin = time.Hour

// unknownMargin is how old an object of this ledger without a row must be: a
// row is written first, so only a ledger that was lost or pruned has none.
const unknownMargin = 10 * time.Minute

// reapers is how many objects are removed at once.
const reapers = 16

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
	// Provider is the configured name, Kind its kind; the kind is empty where
	// the provider could not be opened.
	Provider, Kind string
	Object         sdk.OwnedObject
	// Orphan: it may be removed. Why says why, or why not.
	Orphan bool
	Why    string
	// Age is how old it was At that time; 0 is unknown.
	Age     time.Duration
	At      time.Time
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
	r := &reaper{e: e, back: back, lister: lister, req: req, yield: yield}
	defer r.end(ctx)
	return r.run(ctx)
}

// reaper is one reap of one provider.
type reaper struct {
	e      *Engine
	back   Backend
	lister sdk.OwnedLister
	req    ReapRequest
	yield  func(ReapItem, error) bool

	gone gone
	// launching: runs are between their intent and their handle.
	launching bool
	// act is the row of the first removal and all others.
	act      *action
	removed  int
	firstErr error
}

// run reports whether the caller wants more.
func (r *reaper) run(ctx context.Context) bool {
	var due []sdk.ID
	var err error
	if !r.req.DryRun {
		if due, err = r.e.settle(ctx, r.back.Name); err != nil {
			r.yield(ReapItem{Provider: r.back.Name}, err)
			return false
		}
	}
	if err := r.look(ctx); err != nil {
		r.yield(ReapItem{Provider: r.back.Name}, err)
		return false
	}
	// All is listed before anything is removed: pages may count what is there.
	own, shared, listErr := r.list(ctx)
	if !r.each(ctx, own) {
		return false
	}
	if r.removed > 0 && slices.ContainsFunc(shared, func(o sdk.OwnedObject) bool { return o.Live }) && listErr == nil {
		_, shared, listErr = r.list(ctx) // what used them may have been removed just now
	}
	if !r.each(ctx, shared) {
		return false
	}
	if r.removed > 0 {
		r.e.awaitFinished(ctx, due)
	}
	return listErr == nil || r.yield(ReapItem{Provider: r.back.Name, Err: listErr}, nil)
}

// list gives what there is, and the error that the list ended with.
func (r *reaper) list(ctx context.Context) (own, shared []sdk.OwnedObject, err error) {
	for o, err := range r.lister.ListOwned(ctx, sdk.ListOwnedRequest{}) {
		switch {
		case err != nil:
			return own, shared, err
		case o.Shared:
			shared = append(shared, o)
		default:
			own = append(own, o)
		}
	}
	return own, shared, nil
}

// each judges objects, and removes those where that is due.
func (r *reaper) each(ctx context.Context, objects []sdk.OwnedObject) bool {
	for some := range slices.Chunk(objects, reapers) {
		items := make([]ReapItem, len(some))
		var wg sync.WaitGroup
		for i, o := range some {
			items[i] = ReapItem{Provider: r.back.Name, Kind: r.back.Provider.Info().Kind, Object: o, At: r.e.clock.Now(), Age: r.e.age(o)}
			it := &items[i]
			var err error
			if it.Orphan, it.Why, err = r.orphan(ctx, o); err == nil && it.Orphan && !r.req.DryRun {
				err = r.open(ctx)
				if err == nil {
					wg.Go(func() { it.Removed, it.Err = r.e.removeOwned(ctx, r.back, r.lister, *r.act, o) })
				}
			}
			if err != nil {
				wg.Wait()
				r.yield(*it, err)
				return false
			}
		}
		wg.Wait()
		if !r.tell(items) {
			return false
		}
	}
	return true
}

// tell counts and gives what became of objects.
func (r *reaper) tell(items []ReapItem) bool {
	more := true
	for _, it := range items {
		switch {
		case it.Removed:
			r.removed++
		case it.Err != nil && r.firstErr == nil:
			r.firstErr = it.Err
		}
		more = more && r.yield(it, nil)
	}
	return more
}

// open writes the row of this reap before its first removal.
func (r *reaper) open(ctx context.Context) error {
	if r.act != nil {
		return nil
	}
	a, err := r.e.begin(ctx, r.req.Actor, "reap", r.back.Name, r.back)
	if err == nil {
		r.act = &a
	}
	return err
}

// end records the outcome.
func (r *reaper) end(ctx context.Context) {
	if r.act == nil {
		return
	}
	if err := r.act.end(ctx, r.firstErr, map[string]string{"removed": fmt.Sprint(r.removed)}); err != nil && r.firstErr == nil {
		r.e.log.Warn("reap not recorded", "err", err)
	}
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
