package logs

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// The bounds of a page of GetLogEvents:
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
const (
	maxPageEvents = 10_000
	maxPageBytes  = 1 << 20
)

// token is a place in a stream to read on from. Forward ones point behind the
// last event that was returned, backward ones before the first.
type token struct {
	forward bool
	position
	// empties counts the empty pages that the knob has given since the last
	// page with events.
	empties int
}

// The real tokens are 56 digits between a letter and /s, and opaque.
func (t token) String() string {
	letter := "b"
	if t.forward {
		letter = "f"
	}
	return fmt.Sprintf("%s/%019d%019d%018d/s", letter, t.at, t.seq, t.empties)
}

func parseToken(text string) (token, error) {
	bad := refuse(ruleToken, "The specified nextToken is invalid.")
	if len(text) != 60 || text[1] != '/' || text[58:] != "/s" || text[0] != 'f' && text[0] != 'b' {
		return token{}, bad
	}
	t := token{forward: text[0] == 'f'}
	var n [3]int64
	for i, part := range []string{text[2:21], text[21:40], text[40:58]} {
		v, err := strconv.ParseInt(part, 10, 64)
		if err != nil || v < 0 {
			return token{}, bad
		}
		n[i] = v
	}
	t.at, t.seq, t.empties = n[0], n[1], int(n[2])
	return t, nil
}

func (s *Service) getLogEvents(_ context.Context, _ awsjson.Call, in *cloudwatchlogs.GetLogEventsInput) (*cloudwatchlogs.GetLogEventsOutput, error) {
	name, err := s.groupName(in.LogGroupName, in.LogGroupIdentifier)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.visible(name, *in.LogStreamName)
	if err != nil {
		return nil, err
	}
	head := in.StartFromHead != nil && *in.StartFromHead
	var from *token
	if in.NextToken != nil {
		t, err := parseToken(*in.NextToken)
		if err != nil {
			return nil, err
		}
		if t.forward && !head {
			return nil, refuse(ruleForward, "The nextForwardToken can be used only when startFromHead is true.")
		}
		from = &t
	}
	limit := maxPageEvents
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if s.knobs.PageSize > 0 {
		limit = min(limit, s.knobs.PageSize)
	}
	page := s.page(st, from, head, limit, in.StartTime, in.EndTime)
	out := &cloudwatchlogs.GetLogEventsOutput{Events: make([]types.OutputLogEvent, 0, len(page.events))}
	for _, e := range page.events {
		out.Events = append(out.Events, types.OutputLogEvent{IngestionTime: &e.Arrived, Message: &e.Text, Timestamp: &e.At})
	}
	forward, backward := page.after.String(), page.before.String()
	out.NextForwardToken, out.NextBackwardToken = &forward, &backward
	return out, nil
}

type page struct {
	events        []event
	after, before token
}

// page reads one page. At an end the token of that direction is the one that
// was given. The lock is held.
func (s *Service) page(st *stream, from *token, head bool, limit int, start, end *int64) page {
	now := milliseconds(s.now())
	shows := func(e event) bool {
		return e.Visible <= now && (start == nil || e.At >= *start) && (end == nil || e.At < *end)
	}
	forward := head
	i := 0 // where the reading starts: forward from i, backward from i-1
	if !forward {
		i = len(st.Events)
	}
	origin := position{}
	if from != nil {
		forward = from.forward
		origin = from.position
		found := false
		i, found = slices.BinarySearchFunc(st.Events, from.position, func(e event, p position) int { return e.position().compare(p) })
		if found && forward {
			i++
		}
	}
	var events []event
	size := 0
	step := func(e event) (more bool) {
		if !shows(e) {
			return true
		}
		size += len(e.Text) + overhead
		if len(events) == limit || size > maxPageBytes && len(events) > 0 {
			return false
		}
		events = append(events, e)
		return true
	}
	if forward {
		for ; i < len(st.Events) && step(st.Events[i]); i++ {
		}
	} else {
		for i--; i >= 0 && step(st.Events[i]); i-- {
		}
		slices.Reverse(events)
	}
	p := page{events: events, after: token{forward: true, position: origin}, before: token{position: origin}}
	given := token{}
	if from != nil {
		given = *from
	}
	if len(events) > 0 && given.empties < s.knobs.EmptyPages {
		p.events = nil
		p.after.empties, p.before.empties = given.empties+1, given.empties+1
		if from == nil && !head {
			// Backward reading starts behind the last event.
			p.before.position = position{at: events[len(events)-1].At, seq: events[len(events)-1].Seq + 1}
		}
		return p
	}
	if len(events) == 0 {
		if from != nil && from.forward {
			p.after = *from
		} else if from != nil {
			p.before = *from
		}
		return p
	}
	p.after.position, p.before.position = events[len(events)-1].position(), events[0].position()
	return p
}
