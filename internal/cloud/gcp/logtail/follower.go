package logtail

import (
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
)

// follower is one who follows the output of a source. Entries wait here until
// those that were written before them have had time to arrive.
type follower struct {
	source source
	late   time.Duration
	// round is the last round that was for this follower; the reader's lock
	// holds it.
	round int64
	// wake has a value when something has come, or a round has passed.
	wake chan struct{}

	mu sync.Mutex
	// from is the least timestamp where nothing was given yet.
	from  time.Time
	given position
	// held are the entries that wait, in order.
	held []held
	// looks counts rounds that are over; settled is when the last of them began.
	looks   int64
	settled time.Time
}

type held struct {
	entry *loggingpb.LogEntry
	at    position
	// seen is when it came.
	seen time.Time
}

// since is the least timestamp that is of interest.
func (f *follower) since() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.given.at.IsZero() {
		return f.from
	}
	return f.given.at
}

// add takes entries, and reports whether one of them is new. An entry comes
// again with every round until it was given, and may be stored twice under one
// insert ID.
func (f *follower) add(entries []*loggingpb.LogEntry) (news bool) {
	if len(entries) == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, e := range entries {
		at := positionOf(e)
		if at.compare(f.given) <= 0 {
			continue
		}
		i, found := slices.BinarySearchFunc(f.held, at, func(h held, p position) int { return h.at.compare(p) })
		if found {
			continue
		}
		f.held = slices.Insert(f.held, i, held{e, at, now})
		news = true
	}
	if news {
		f.nudge()
	}
	return news
}

// looked notes that a round is over that began then.
func (f *follower) looked(begun time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks, f.settled = f.looks+1, begun
	f.nudge()
}

// nudge wakes the follower. The lock is held.
func (f *follower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the entries whose time has come, and how many wait. What was
// written before an entry arrives within late of it, so an entry may be given once
// a round has ended that began so long after it was seen; all before it go along.
func (f *follower) take() (ready []*loggingpb.LogEntry, waiting int, looks int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for i, h := range f.held {
		if !h.seen.Add(f.late).After(f.settled) {
			n = i + 1
		}
	}
	if n > 0 {
		for _, h := range f.held[:n] {
			ready = append(ready, h.entry)
			f.given = h.at
		}
		f.held = append([]held(nil), f.held[n:]...)
	}
	return ready, len(f.held), f.looks
}
