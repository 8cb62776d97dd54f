package logs

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// filterTokenLife is how long a token of FilterLogEvents holds.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
const filterTokenLife = 24 * time.Hour

// place is where an event stands among those of several streams: FilterLogEvents
// sorts by time, by time of arrival and by the batch that brought them.
type place struct {
	At, Arrived int64
	Stream      string
	Seq         int64
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.At, o.At), cmp.Compare(p.Arrived, o.Arrived), cmp.Compare(p.Stream, o.Stream), cmp.Compare(p.Seq, o.Seq))
}

// filterToken is a place to read on from, behind the event that stands there.
type filterToken struct {
	place
	Given int64 // milliseconds
	// Empties counts the empty pages that the knob has given since the last
	// page with events.
	Empties int
}

func (t filterToken) String() (string, error) {
	data, err := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(data), err
}

func parseFilterToken(text string, now time.Time) (filterToken, error) {
	var t filterToken
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil || t.Given <= 0 || t.Empties < 0 || now.Sub(time.UnixMilli(t.Given)) > filterTokenLife {
		return filterToken{}, refuse(ruleFilterToken, "The specified nextToken is invalid.")
	}
	return t, nil
}

// id is an event's own, of 56 digits as the cloud's are.
func (e event) id(stream string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(stream)) // it never fails
	return fmt.Sprintf("%019d%019d%018d", e.At, h.Sum64()%1e18, e.Seq)
}

func (s *Service) filterLogEvents(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.FilterLogEventsInput) (*cloudwatchlogs.FilterLogEventsOutput, error) {
	name, err := s.groupName(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	if len(in.LogStreamNames) > 0 && in.LogStreamNamePrefix != nil {
		return nil, refuse(ruleFilterNames, "Only one of logStreamNames and logStreamNamePrefix may be specified.")
	}
	if in.FilterPattern != nil && strings.TrimSpace(*in.FilterPattern) != "" {
		return nil, refuse(ruleFilterPattern, "This server knows no filter patterns.")
	}
	var from *filterToken
	if in.NextToken != nil {
		t, err := parseFilterToken(*in.NextToken, s.now())
		if err != nil {
			return nil, err
		}
		from = &t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	streams, err := s.searched(name, in)
	if err != nil {
		return nil, err
	}
	limit := maxPageEvents
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if s.knobs.PageSize > 0 {
		limit = min(limit, s.knobs.PageSize)
	}
	out := &cloudwatchlogs.FilterLogEventsOutput{SearchedLogStreams: []types.SearchedLogStream{}}
	var next *filterToken
	if out.Events, next = s.matches(streams, from, limit, in.StartTime, in.EndTime); next != nil {
		next.Given = milliseconds(s.now())
		text, err := next.String()
		if err != nil {
			return nil, err
		}
		out.NextToken = &text
	}
	return out, nil
}

// searched returns the streams that a request is for. A single one that isn't
// there fails it. The lock is held.
func (s *Service) searched(groupName string, in *cloudwatchlogs.FilterLogEventsInput) ([]*stream, error) {
	g, ok := s.groups[groupName]
	if !ok {
		return nil, noGroup()
	}
	var streams []*stream
	if len(in.LogStreamNames) > 0 {
		for _, n := range slices.Compact(slices.Sorted(slices.Values(in.LogStreamNames))) {
			st, err := s.visible(groupName, n)
			if err != nil {
				return nil, err
			}
			streams = append(streams, st)
		}
		return streams, nil
	}
	now := milliseconds(s.now())
	for n, st := range g.Streams {
		if st.Seen <= now && (in.LogStreamNamePrefix == nil || strings.HasPrefix(n, *in.LogStreamNamePrefix)) {
			streams = append(streams, st)
		}
	}
	return streams, nil
}

// matches returns a page of the events of streams, and where the next begins,
// nil for nowhere. The lock is held.
func (s *Service) matches(streams []*stream, from *filterToken, limit int, start, end *int64) ([]types.FilteredLogEvent, *filterToken) {
	now := milliseconds(s.now())
	var m merge
	for _, st := range streams {
		c := cursor{stream: st}
		at := int64(0)
		if start != nil {
			at = *start
		}
		if from != nil {
			at = max(at, from.At)
		}
		c.next, _ = slices.BinarySearchFunc(st.Events, at, func(e event, at int64) int { return cmp.Compare(e.At, at) })
		if c.settle(now, end, from) {
			m = append(m, c)
		}
	}
	heap.Init(&m)
	page := []types.FilteredLogEvent{}
	given := filterToken{}
	if from != nil {
		given = *from
	}
	if len(m) > 0 && given.Empties < s.knobs.EmptyPages {
		given.Empties++
		return page, &given
	}
	last, size := place{}, 0
	for len(m) > 0 {
		c := &m[0]
		e := &c.stream.Events[c.next]
		size += len(e.Text) + overhead
		if len(page) == limit || size > maxPageBytes && len(page) > 0 {
			return page, &filterToken{place: last}
		}
		id := e.id(c.stream.Name)
		page = append(page, types.FilteredLogEvent{EventId: &id, IngestionTime: &e.Arrived, LogStreamName: &c.stream.Name, Message: &e.Text, Timestamp: &e.At})
		last = c.place()
		if c.next++; c.settle(now, end, from) {
			heap.Fix(&m, 0)
		} else {
			heap.Pop(&m)
		}
	}
	return page, nil
}

// cursor is where one stream is read.
type cursor struct {
	stream *stream
	next   int
}

func (c *cursor) place() place {
	e := c.stream.Events[c.next]
	return place{At: e.At, Arrived: e.Arrived, Stream: c.stream.Name, Seq: e.Seq}
}

// settle goes on to the next event that shows, and reports whether there is one.
func (c *cursor) settle(now int64, end *int64, from *filterToken) bool {
	for ; c.next < len(c.stream.Events); c.next++ {
		e := c.stream.Events[c.next]
		if end != nil && e.At > *end {
			return false
		}
		if e.Visible <= now && (from == nil || c.place().compare(from.place) > 0) {
			return true
		}
	}
	return false
}

// merge is a heap of cursors by the places of their events.
type merge []cursor

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].place().compare(m[j].place()) < 0 }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }

// Push implements heap.Interface; nothing is pushed.
func (m *merge) Push(any) {}

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := len(*m) - 1
	c := (*m)[last]
	*m = (*m)[:last]
	return c
}
