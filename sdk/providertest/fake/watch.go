package fake

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// change is when a job changes next.
type change struct {
	id string
	at time.Time
}

type changes []change

func (c changes) Len() int           { return len(c) }
func (c changes) Less(i, j int) bool { return c[i].at.Before(c[j].at) }
func (c changes) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *changes) Push(x any)        { *c = append(*c, x.(change)) }
func (c *changes) Pop() any {
	old := *c
	last := old[len(old)-1]
	*c = old[:len(old)-1]
	return last
}

// WatchJobs implements sdk.JobWatcher.
func (p *provider) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return func(yield func(sdk.WatchEvent, error) bool) {
		sub := p.cloud.hub.subscribe("")
		defer p.cloud.hub.unsubscribe(sub)
		in, err := p.cloud.enter(ctx, OpWatchJobs, nil)
		if err == nil {
			err = in.done()
		}
		if err != nil {
			yield(sdk.WatchEvent{}, err)
			return
		}
		w := watcher{p: p, owner: r.Owner, seen: map[string]sdk.JobState{}}
		if err := w.start(); err != nil {
			yield(sdk.WatchEvent{}, err)
			return
		}
		// What happened since the last event is not kept: any may have changed.
		if r.Resume != "" && !yield(sdk.WatchEvent{Resume: resumeNow}, nil) {
			return
		}
		for {
			events, err := w.look(sub.take())
			if err != nil {
				yield(sdk.WatchEvent{}, err)
				return
			}
			for _, id := range events {
				if !yield(sdk.WatchEvent{AttemptID: id, Resume: resumeNow}, nil) {
					return
				}
			}
			if err := p.cloud.wait(ctx, sub, w.next()); err != nil {
				yield(sdk.WatchEvent{}, ended(ctx, OpWatchJobs))
				return
			}
		}
	}
}

const resumeNow = "now"

// watcher knows the states that were told and when the next changes come.
type watcher struct {
	p     *provider
	owner string
	seen  map[string]sdk.JobState
	due   changes
}

func (w *watcher) start() error {
	all, err := w.p.cloud.store.all()
	if err != nil {
		return broken(OpWatchJobs, err)
	}
	for _, v := range all {
		w.note(v)
	}
	return nil
}

// note remembers a job's state and reports whether it is news.
func (w *watcher) note(v *view) bool {
	if w.owner != "" && v.rec.Owner != w.owner {
		return false
	}
	now := w.p.cloud.clock.Now()
	st := v.line.stateAt(now)
	if at := v.line.next(now); !at.IsZero() {
		heap.Push(&w.due, change{v.rec.ID, at})
	}
	old, known := w.seen[v.rec.ID]
	if known && old == st {
		return false
	}
	w.seen[v.rec.ID] = st
	return true
}

// look returns the attempts of jobs that changed.
func (w *watcher) look(ids []string) ([]sdk.ID, error) {
	now := w.p.cloud.clock.Now()
	for len(w.due) > 0 && !w.due[0].at.After(now) {
		ids = append(ids, heap.Pop(&w.due).(change).id)
	}
	var out []sdk.ID
	if w.p.cloud.store.poll() {
		all, err := w.p.cloud.store.all()
		if err != nil {
			return nil, broken(OpWatchJobs, err)
		}
		w.due = w.due[:0]
		for _, v := range all {
			if w.note(v) {
				out = append(out, v.rec.AttemptID)
			}
		}
		return out, nil
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		v, err := w.p.cloud.store.load(id)
		if err != nil {
			return nil, broken(OpWatchJobs, err)
		}
		if v == nil {
			if _, known := w.seen[id]; known {
				delete(w.seen, id)
				out = append(out, sdk.ID{})
			}
			continue
		}
		if w.note(v) {
			out = append(out, v.rec.AttemptID)
		}
	}
	return out, nil
}

func (w *watcher) next() time.Time {
	if len(w.due) == 0 {
		return time.Time{}
	}
	return w.due[0].at
}

// objectType is what the cloud calls a job.
const objectType = "job"

// ListOwned implements sdk.OwnedLister.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		call, cancel := p.limit(ctx)
		in, err := p.cloud.enter(call, OpListOwned, nil)
		cancel()
		if err == nil {
			err = in.done()
		}
		if err != nil {
			yield(sdk.OwnedObject{}, err)
			return
		}
		now := p.cloud.clock.Now()
		all, err := p.cloud.store.all()
		if err != nil {
			yield(sdk.OwnedObject{}, broken(OpListOwned, err))
			return
		}
		for _, v := range all {
			if r.Owner != "" && v.rec.Owner != r.Owner || !p.cloud.visible(v, now) {
				continue
			}
			if ctx.Err() != nil {
				yield(sdk.OwnedObject{}, ended(ctx, OpListOwned))
				return
			}
			if !yield(owned(v, now), nil) {
				return
			}
		}
	}
}

func owned(v *view, now time.Time) sdk.OwnedObject {
	st := v.line.stateAt(now)
	o := sdk.OwnedObject{Type: objectType, ID: v.rec.ID, Name: v.rec.Request.Name, RunID: v.rec.RunID, AttemptID: v.rec.AttemptID,
		Owner: v.rec.Owner, LedgerID: v.rec.LedgerID, CreatedAt: v.rec.Accepted, Expires: v.expires,
		Live: !st.Terminal(), State: strings.ToUpper(string(st))}
	if l := v.line; !l.started.IsZero() && !now.Before(l.started) {
		o.Started = l.started
	}
	if !o.Live {
		o.Ended = v.line.ended
	}
	return o
}

// RemoveOwned implements sdk.OwnedLister.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	var none sdk.RemoveOwnedResult
	if r.Object.Type != objectType {
		return none, sdk.Errorf(sdk.InvalidArgument, opName(OpRemoveOwned), "%q is no type of object here", r.Object.Type)
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpRemoveOwned, idBody{ID: r.Object.ID})
	if err != nil {
		return none, err
	}
	v, err := p.cloud.store.load(r.Object.ID)
	if err != nil {
		return none, broken(OpRemoveOwned, err)
	}
	if v == nil {
		return none, in.done()
	}
	o := r.Object
	if v.rec.RunID != o.RunID || v.rec.AttemptID != o.AttemptID || v.rec.Owner != o.Owner || v.rec.LedgerID != o.LedgerID {
		return none, &sdk.Error{Code: sdk.FailedPrecondition, Op: opName(OpRemoveOwned), Remedy: "list again",
			Err: fmt.Errorf("the labels of %s are no longer those that were listed", o.ID)}
	}
	if err := p.cloud.drop(v); err != nil {
		return none, broken(OpRemoveOwned, err)
	}
	return none, in.done()
}

// RenewExpiry implements sdk.ExpiryRenewer.
func (p *provider) RenewExpiry(ctx context.Context, r sdk.RenewExpiryRequest) (sdk.RenewExpiryResult, error) {
	var none sdk.RenewExpiryResult
	if err := p.checkHandle(OpRenewExpiry, r.Handle); err != nil {
		return none, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpRenewExpiry, idBody{ID: r.Handle.ID})
	if err != nil {
		return none, err
	}
	v, _, err := p.cloud.known(r.Handle.ID)
	if err != nil {
		return none, broken(OpRenewExpiry, err)
	}
	if v == nil {
		return none, absent(OpRenewExpiry, r.Handle.ID)
	}
	if err := p.cloud.store.expire(v.rec.ID, r.Expires); err != nil {
		return none, broken(OpRenewExpiry, err)
	}
	return none, in.done()
}
