package joblog

import (
	"slices"

	"github.com/windlass-run/windlass/sdk"
)

// arrange finds what to read after the current segment and reports whether
// there is anything to do: a segment to start, or more of this one.
func (r *reader) arrange(d folder, yield yielder) (bool, error) {
	r.capped = r.mark != nil && r.mark.Truncated
	if n := len(d.chain); n > 0 && d.chain[n-1].Truncated {
		r.capped = true
	}
	i := -1
	if r.cur != nil {
		i = slices.IndexFunc(d.chain, func(h *header) bool { return h.ID == r.cur.ID })
	}
	switch {
	case len(d.chain) == 0:
		if r.mark.final() {
			r.sealed, r.next = true, nil
			_, err := r.advance(yield)
			r.stop = true
			return true, err
		}
		return false, nil
	case i < 0:
		r.leave()
		i = max(seek(d.chain, &r.seen), r.first(d.chain), 0)
		if r.held = !r.passable(d.chain[i]); r.held {
			return true, nil
		}
		return true, r.enter(d.chain[i], d.limit(i, r.mark), yield)
	case i+1 < len(d.chain):
		r.sealed, r.scan.limit = true, d.limit(i, r.mark)
		r.next, r.nextLimit = d.chain[i+1], d.limit(i+1, r.mark)
		return true, nil
	case r.mark.final():
		r.sealed, r.scan.limit, r.next = true, d.limit(i, r.mark), nil
		return true, nil
	}
	return false, nil
}

// first returns the first segment that can hold anything recent enough.
func (r *reader) first(chain []*header) int {
	if !r.since.known() {
		return -1
	}
	for i := len(chain) - 1; i > 0; i-- {
		if st := &chain[i].Start; st.Newest.known() && st.Newest.before(r.since) && !st.Untimed {
			r.seen.raise(&chain[i].Start)
			return i
		}
	}
	return -1
}

// shown is the place up to which all was shown.
func (r *reader) shown() *state {
	if r.behind || r.cur == nil {
		return &r.seen
	}
	return &r.at
}

// advance leaves a segment that was read to its end. It reports whether the
// log is at its end.
func (r *reader) advance(yield yielder) (bool, error) {
	if r.next != nil {
		h := r.next
		if r.held = !r.passable(h); r.held {
			return false, nil
		}
		return r.stop, r.enter(h, r.nextLimit, yield)
	}
	end := r.mark.End
	why := whyDamaged
	if end.Lost > r.shown().Lost || end.Missed != 0 {
		why = whyFull
	}
	if !r.skip(end, end.Missed, why, unknownTime, yield) {
		return true, nil
	}
	r.stop = true
	yield(Item{End: &sdk.LogEnd{Verdict: r.mark.Verdict}, Pos: positionAt(r.k.Attempt, r.shown())}, nil)
	return true, nil
}

// passable reports whether to go on with a segment. Where bytes are missing
// before it that no checkpoint covers, a power failure took them, and the next
// holder captures them again.
func (r *reader) passable(h *header) bool {
	return r.shown().holds(&h.Start) || r.mark.final() || (r.mark != nil && r.mark.At.holds(&h.Start)) ||
		(r.capped && r.cur != nil && h.ID.Number != r.cur.ID.Number+1)
}

// enter starts reading a segment. What lies between the place shown and its
// start becomes a gap. Where it ends may not be known yet: -1.
func (r *reader) enter(h *header, limit int64, yield yielder) error {
	sc, err := r.s.scan(r.dir, h, limit)
	if isMissing(err) {
		r.leave() // dropped since we looked: look again
		return nil
	}
	if err != nil {
		return diskError(opRead, err)
	}
	why := whyDamaged
	if h.Truncated || (r.cur != nil && h.ID.Number > r.cur.ID.Number+1) {
		why = whyCapped
	}
	r.leave()
	r.scan = sc
	if !r.skip(&h.Start, 0, why, h.First, yield) {
		return nil
	}
	r.cur = h
	r.at.set(&h.Start)
	r.newest = h.Start.Newest
	r.behind = !r.at.holds(&r.seen)
	return nil
}

const (
	whyDamaged = "a part of the stored log is damaged or missing"
	whyCapped  = "the log outgrew its size cap, which keeps the head and the tail"
)

// leave closes the current segment; the place shown stays in seen.
func (r *reader) leave() {
	r.seen.set(r.shown())
	if r.scan != nil {
		_ = r.scan.close()
	}
	r.cur, r.scan, r.sealed, r.next, r.behind = nil, nil, false, nil, false
}

// skip moves the place shown to a place, and shows a gap if that leaves
// anything out, missed bytes of lost gaps among it. It reports whether to go on.
func (r *reader) skip(to *state, missed int64, why string, until stamp, yield yielder) bool {
	shown := r.shown()
	if shown.holds(to) {
		return true
	}
	bytes, lacks := addMissed(shown.missing(to, r.mask), missed), shown.lacks(to, r.mask)
	since := shown.Newest
	shown.raise(to)
	if !lacks {
		return true
	}
	r.gap = sdk.LogGap{From: since.time(), To: until.time(), Bytes: bytes, Why: why}
	return r.give(Item{Gap: &r.gap}, yield)
}

func (r *reader) give(it Item, yield yielder) bool {
	it.Pos = positionAt(r.k.Attempt, r.shown())
	if !yield(it, nil) {
		r.stop = true
	}
	return !r.stop
}
