package joblog

import (
	"context"
	"fmt"

	"github.com/windlass-run/windlass/sdk"
)

// drain shows what there is of the current segment.
func (r *reader) drain(ctx context.Context, yield yielder) error {
	var f frame
	for n := 0; ; n++ {
		if n&255 == 0 && ctx.Err() != nil {
			return fmt.Errorf("%s: %w", opRead, context.Cause(ctx))
		}
		status, err := r.scan.next(&f)
		if err != nil {
			return diskError(opRead, err)
		}
		if status != frameOK {
			return nil
		}
		r.pause = 0
		switch f.kind {
		case kindEntry:
			r.showEntry(&f, yield)
		case kindGap:
			err = r.showGap(&f, yield)
		case kindLoss:
			err = r.showLoss(&f, yield)
		}
		if err != nil || r.stop {
			return err
		}
	}
}

// showEntry shows what of an entry was not shown before.
func (r *reader) showEntry(f *frame, yield yielder) {
	fresh := f.units()
	if r.behind {
		fresh = r.catchUp(f)
	} else {
		r.at.entry(f)
	}
	stamp := f.at
	if !stamp.known() {
		stamp = r.newest
	} else if r.newest.before(stamp) {
		r.newest = stamp
	}
	if fresh == 0 || !r.mask.has(f.stream) {
		return
	}
	if r.since.known() && stamp.known() && stamp.before(r.since) {
		return
	}
	r.entry = sdk.LogChunk{Time: f.at.time(), Stream: streams[f.stream], LineEnd: sdk.LineEndKept, Launch: int(f.launch)}
	if f.stripped() {
		r.entry.LineEnd = sdk.LineEndStripped
	}
	r.entry.Data = f.data[f.units()-fresh:]
	r.give(Item{Entry: &r.entry, Continued: f.flags&flagContinued != 0}, yield)
}

// catchUp moves over an entry while something was shown that lies ahead, and
// returns how many of its units were not.
func (r *reader) catchUp(f *frame) int64 {
	m := *r.at.entry(f)
	shown := r.seen.get(&m)
	fresh := min(f.units(), max(0, m.Units-shown.Units))
	if fresh > 0 {
		r.seen.raiseMark(&m)
		if r.at.holdsBytes(&r.seen) {
			// The log has gone on without the gaps that were shown: the next ones
			// are others.
			r.seen.Gaps = min(r.seen.Gaps, r.at.Gaps)
		}
	}
	r.behind = !r.at.holds(&r.seen)
	return fresh
}

// showGap shows a gap that the backend told of, unless it was shown. When the
// reader has shown bytes that lie behind a gap that it has not, a holder lost
// them after it had captured them, and the gap covers them.
func (r *reader) showGap(f *frame, yield yielder) error {
	b, err := f.gap()
	if err != nil {
		return sdk.Errorf(sdk.DataLoss, opRead, "%s: %w", r.k, err)
	}
	r.at.Gaps++
	if r.behind {
		if r.at.Gaps <= r.seen.Gaps {
			r.behind = !r.at.holds(&r.seen)
			return nil
		}
		ahead := r.at.missing(&r.seen, allStreams)
		if b.Bytes >= 0 && ahead > 0 && !r.covered(ahead, &b) {
			return nil
		}
		r.seen.set(&r.at)
		r.behind = false
	}
	r.gap = sdk.LogGap{From: b.From.time(), To: b.To.time(), Bytes: b.Bytes, Why: b.Why}
	r.give(Item{Gap: &r.gap}, yield)
	return nil
}

// covered takes off a gap what was shown of it, and reports whether anything
// of it is left to show.
func (r *reader) covered(ahead int64, b *gapBody) bool {
	if b.Bytes > ahead {
		b.Bytes -= ahead
		return true
	}
	var only *mark
	for i := range r.seen.Marks {
		m := &r.seen.Marks[i]
		at := r.at.get(m)
		if m.Units <= at.Units {
			continue
		}
		if only != nil {
			return true // whose bytes they are is not known
		}
		only = m
	}
	left := ahead - b.Bytes
	at := r.at.get(only)
	r.seen.set(&r.at)
	r.seen.raiseMark(&mark{Stream: at.Stream, Launch: at.Launch, Units: at.Units + left, Ends: at.Ends, Line: at.Units})
	r.behind = left > 0
	return false
}

// showLoss shows what we had to let go ourselves.
func (r *reader) showLoss(f *frame, yield yielder) error {
	b, err := f.loss()
	if err != nil {
		return sdk.Errorf(sdk.DataLoss, opRead, "%s: %w", r.k, err)
	}
	to := state{Marks: b.End, Gaps: b.Gaps, Newest: unknownTime}
	shown := r.shown()
	bytes, lacks := shown.missing(&to, r.mask), shown.lacks(&to, r.mask)
	r.at.jump(&b)
	if r.behind {
		r.seen.raise(&to)
		r.behind = !r.at.holds(&r.seen)
	}
	if !lacks {
		return nil
	}
	r.gap = sdk.LogGap{From: b.From.time(), To: b.To.time(), Bytes: addMissed(bytes, b.Missed), Why: b.Why}
	r.give(Item{Gap: &r.gap}, yield)
	return nil
}
