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
	// TakeUp has another process drive the runs that nobody drives, which come
	// before all else. nil, or where it fails: this engine does.
	TakeUp func(context.Context) error
}

// ReapItem is one object with our labels.
type ReapItem struct {
	// Provider is the configured name, Kind its kind; the kind is empty where
	// the provider could not be opened.
	Provider, Kind string
	// Also names the other providers of the same identity that list the object.
	Also   []string
	Object sdk.OwnedObject
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

// Reap has the runs that nobody drives taken up, lists everything that carries our
// labels, and removes what nothing needs: for this ledger's objects the ledger decides; others' are removed only
// when expired, ended, and of the owner that the request names.
func (e *Engine) Reap(ctx context.Context, req ReapRequest) iter.Seq2[ReapItem, error] {
	return func(yield func(ReapItem, error) bool) {
		names := req.Providers
		if len(names) == 0 {
			names = e.o.Providers.Names()
		}
		var left []sdk.ID
		if !req.DryRun {
			err := e.sweepSpools(ctx)
			if err == nil {
				left, err = e.settle(ctx, names, req.TakeUp)
			}
			if err != nil {
				yield(ReapItem{}, err)
				return
			}
		}
		groups, more := e.reapGroups(ctx, names, yield)
		if !more {
			return
		}
		for _, g := range groups {
			r := &reaper{e: e, group: g, req: req, yield: yield}
			if !r.run(ctx) {
				return
			}
			if r.removed > 0 {
				e.awaitFinished(ctx, left)
			}
		}
	}
}

// listing is a provider that lists what there is.
type listing struct {
	back   Backend
	lister sdk.OwnedLister
}

// reapGroups opens providers, and puts those of one identity together: they may
// list the same objects. It reports whether the caller wants more.
func (e *Engine) reapGroups(ctx context.Context, names []string, yield func(ReapItem, error) bool) (groups [][]listing, more bool) {
	at := map[sdk.Identity]int{}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		back, err := e.o.Providers.Backend(ctx, name)
		l := listing{back: back}
		if err == nil {
			var ok bool
			if l.lister, ok = sdk.Of(back.Provider, sdk.Lister()); !ok {
				err = back.absent(sdk.Lister().String())
			}
		}
		if err != nil {
			if !yield(ReapItem{Provider: name, Err: err}, nil) {
				return nil, false
			}
			continue
		}
		id := back.Info().Identity
		if i, ok := at[id]; ok {
			groups[i] = append(groups[i], l)
			continue
		}
		at[id] = len(groups)
		groups = append(groups, []listing{l})
	}
	return groups, true
}

// reaper is one reap of the providers of one identity.
type reaper struct {
	e     *Engine
	group []listing
	req   ReapRequest
	yield func(ReapItem, error) bool

	gone gone
	// launching: runs are between their intent and their handle.
	launching bool
	// act is the row of the first removal and all others.
	act      *action
	removed  int
	firstErr error
}

// found is an object, and who lists it.
type found struct {
	sdk.OwnedObject
	by   listing
	also []string
}

// run reports whether the caller wants more.
func (r *reaper) run(ctx context.Context) bool {
	defer r.end(ctx)
	for _, l := range r.group {
		if err := r.look(ctx, l.back.Name); err != nil {
			r.yield(ReapItem{Provider: l.back.Name}, err)
			return false
		}
	}
	// All is listed before anything is removed: pages may count what is there.
	own, shared, failed := r.list(ctx)
	if !r.each(ctx, own) {
		return false
	}
	if r.removed > 0 && slices.ContainsFunc(shared, func(o found) bool { return o.Live }) && len(failed) == 0 {
		_, shared, failed = r.list(ctx) // what used them may have been removed just now
	}
	if !r.each(ctx, shared) {
		return false
	}
	for _, it := range failed {
		if !r.yield(it, nil) {
			return false
		}
	}
	return true
}

// list gives what there is, once each, and the errors that lists ended with.
func (r *reaper) list(ctx context.Context) (own, shared []found, failed []ReapItem) {
	var all []found
	at := map[[2]string]int{}
	for _, l := range r.group {
		for o, err := range l.lister.ListOwned(ctx, sdk.ListOwnedRequest{}) {
			if err != nil {
				failed = append(failed, ReapItem{Provider: l.back.Name, Err: err})
				break
			}
			key := [2]string{o.Type, o.ID}
			i, ok := at[key]
			if !ok {
				at[key] = len(all)
				all = append(all, found{OwnedObject: o, by: l})
			} else if all[i].by.back.Name != l.back.Name && !slices.Contains(all[i].also, l.back.Name) {
				all[i].also = append(all[i].also, l.back.Name)
			}
		}
	}
	for _, o := range all {
		if o.Shared {
			shared = append(shared, o)
		} else {
			own = append(own, o)
		}
	}
	return own, shared, failed
}

// each judges objects, and removes those where that is due.
func (r *reaper) each(ctx context.Context, objects []found) bool {
	for some := range slices.Chunk(objects, reapers) {
		items := make([]ReapItem, len(some))
		var wg sync.WaitGroup
		for i, f := range some {
			o, back := f.OwnedObject, f.by.back
			items[i] = ReapItem{Provider: back.Name, Kind: back.Info().Kind, Also: f.also, Object: o, At: r.e.clock.Now(), Age: r.e.age(o)}
			it := &items[i]
			var err error
			if it.Orphan, it.Why, err = r.orphan(ctx, o); err == nil && it.Orphan && !r.req.DryRun {
				err = r.open(ctx, back)
				if err == nil {
					wg.Go(func() { it.Removed, it.Err = r.e.removeOwned(ctx, back, f.by.lister, *r.act, o) })
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
func (r *reaper) open(ctx context.Context, back Backend) error {
	if r.act != nil {
		return nil
	}
	a, err := r.e.begin(ctx, r.req.Actor, "reap", back.Name, back)
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
