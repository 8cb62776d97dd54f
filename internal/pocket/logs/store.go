package logs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Account, Region string
	// Now is the cloud's clock.
	Now func() time.Time
}

// Service is CloudWatch Logs of one account and region.
type Service struct {
	account, region string
	now             func() time.Time
	api             awsjson.Service

	mu     sync.Mutex
	knobs  Knobs
	groups map[string]*group
}

// group is a log group.
type group struct {
	Name      string
	Created   int64 // milliseconds
	Retention *int32
	Class     types.LogGroupClass // empty is standard
	Tags      map[string]string
	Streams   map[string]*stream
}

// stream is a log stream. Its events are sorted by position.
type stream struct {
	Name    string
	Created int64 // milliseconds
	Seen    int64 // milliseconds; reads don't find it before
	Seq     int64
	Last    int64 // ingestion, milliseconds
	Events  []event
}

// event is a stored event.
type event struct {
	At      int64 // its timestamp, milliseconds
	Seq     int64 // the order of arrival within the stream
	Arrived int64 // milliseconds
	Visible int64 // milliseconds
	Text    string
}

// position is where an event stands in its stream.
type position struct{ at, seq int64 }

func (e event) position() position { return position{e.At, e.Seq} }

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.at, o.at), cmp.Compare(p.seq, o.seq))
}

// overhead is what an event counts beyond its text, in every limit on bytes.
const overhead = 26

func milliseconds(t time.Time) int64 { return t.UnixMilli() }

func noGroup() error {
	return refuse(ruleGroup, "The specified log group does not exist.")
}

func noStream() error {
	return refuse(ruleStream, "The specified log stream does not exist.")
}

// groupARN is a group's name for the world. With streams in it, :* is appended.
func (s *Service) groupARN(name string) string {
	return fmt.Sprintf("arn:aws:logs:%s:%s:log-group:%s", s.region, s.account, name)
}

// CreateGroup makes a log group, which may exist.
func (s *Service) CreateGroup(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.groups[name]; !ok {
		s.groups[name] = &group{Name: name, Created: milliseconds(s.now()), Streams: map[string]*stream{}}
	}
}

// open returns a stream that is made when it isn't there. The lock is held.
func (g *group) open(name string, now time.Time, k Knobs) *stream {
	st, ok := g.Streams[name]
	if !ok {
		st = &stream{Name: name, Created: milliseconds(now), Seen: milliseconds(now.Add(k.StreamDelay))}
		g.Streams[name] = st
	}
	return st
}

// visible returns a stream that reads may see. The lock is held.
func (s *Service) visible(groupName, streamName string) (*stream, error) {
	g, ok := s.groups[groupName]
	if !ok {
		return nil, noGroup()
	}
	st, ok := g.Streams[streamName]
	if !ok || st.Seen > milliseconds(s.now()) {
		return nil, noStream()
	}
	return st, nil
}

// add stores an event at its place. The lock is held.
func (st *stream) add(at, now time.Time, text string, k Knobs) {
	if k.Tick > 0 {
		at = at.Truncate(k.Tick)
	}
	st.Seq++
	e := event{At: milliseconds(at), Seq: st.Seq, Arrived: milliseconds(now), Text: text}
	delay := k.EventDelay
	if k.LateEvery > 0 && st.Seq%int64(k.LateEvery) == 0 {
		delay += k.LateBy
	}
	e.Visible = milliseconds(now.Add(delay))
	st.Last = e.Arrived
	st.insert(e)
	if k.DoubleEvery > 0 && st.Seq%int64(k.DoubleEvery) == 0 {
		st.Seq++
		e.Seq = st.Seq
		st.insert(e)
	}
}

func (st *stream) insert(e event) {
	if n := len(st.Events); n == 0 || st.Events[n-1].position().compare(e.position()) < 0 {
		st.Events = append(st.Events, e)
		return
	}
	i, _ := slices.BinarySearchFunc(st.Events, e, func(a, b event) int { return a.position().compare(b.position()) })
	st.Events = slices.Insert(st.Events, i, e)
}

// names returns a map's keys in order.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
