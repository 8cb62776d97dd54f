package logtail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

// follower is one who follows a stream. While it waits the reader's lock holds
// all of it; otherwise it is its own.
type follower struct {
	stream string
	// overlap is how far back it reads again what it has, for what comes late.
	overlap time.Duration
	// refused: its provider may not read several streams at once.
	refused *atomic.Bool
	// wake has a value when it was served.
	wake chan struct{}

	// due is when it wants the next look.
	due  time.Time
	seen seen
	served
}

// served is what a follower was given.
type served struct {
	// events are new.
	events []types.OutputLogEvent
	// looked: there are no others. missing: the stream isn't there. alone: it
	// does better to read for itself.
	looked, missing, alone bool
}

// keepMost is how many events a stream is known by that were given.
const keepMost = 100

// seen knows the events of a stream that were given, back to some time.
type seen struct {
	// last is the time of the newest that was given, in milliseconds.
	last int64
	// complete is the time from which on all that were given are in list.
	complete int64
	// skip is how many of the time from were given before, whose IDs aren't
	// known: they come first again.
	from, skip int64
	// list is sorted.
	list []known
	// older counts events of a round that are older than complete.
	older int
}

type known struct {
	at int64
	id string
}

func (k known) compare(o known) int {
	return cmp.Or(cmp.Compare(k.at, o.at), strings.Compare(k.id, o.id))
}

// seenAt is what is known at a place that was reached in another way.
func seenAt(at position) seen {
	return seen{last: at.millis, complete: at.millis, from: at.millis, skip: at.same}
}

// since is the time from which on a stream is read.
func (s *seen) since(overlap time.Duration) int64 {
	return max(s.complete, s.last-overlap.Milliseconds())
}

// again returns how many events come again from since on, as far as that can be
// known: of what is older than complete, as many as there were the last time.
func (s *seen) again(since int64) int {
	i, _ := slices.BinarySearchFunc(s.list, known{at: since}, known.compare)
	n := len(s.list) - i
	if since < s.complete {
		n += s.older
	}
	return n
}

// take notes an event, and reports whether it is new.
func (s *seen) take(e types.FilteredLogEvent) bool {
	k := known{awssdk.ToInt64(e.Timestamp), awssdk.ToString(e.EventId)}
	if k.id == "" {
		k.id = fmt.Sprint(awssdk.ToInt64(e.IngestionTime), awssdk.ToString(e.Message))
	}
	i, found := slices.BinarySearchFunc(s.list, k, known.compare)
	if k.at < s.complete {
		s.older++
		return false
	}
	if found {
		return false
	}
	s.list = slices.Insert(s.list, i, k)
	if k.at == s.from && s.skip > 0 {
		s.skip--
		return false
	}
	s.last = max(s.last, k.at)
	s.trim()
	return true
}

// trim forgets the oldest, but none of the newest's time: by their IDs alone they
// are told from those that have yet to come.
func (s *seen) trim() {
	if len(s.list) <= 2*keepMost {
		return
	}
	n := len(s.list) - keepMost
	for n > 0 && s.list[n-1].at >= s.last {
		n--
	}
	if n > 0 {
		s.complete = s.list[n-1].at + 1
		s.list = slices.Clone(s.list[n:])
	}
}

// add takes an event of the follower's stream.
func (f *follower) add(e types.FilteredLogEvent) {
	if f.seen.take(e) {
		f.events = append(f.events, types.OutputLogEvent{Message: e.Message, Timestamp: e.Timestamp, IngestionTime: e.IngestionTime})
	}
}
