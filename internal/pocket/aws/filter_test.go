package aws

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/pocket/logs"
)

// filter reads all pages of the group "jobs", and counts them.
func (c *cloud) filter(t testing.TB, change func(*cloudwatchlogs.FilterLogEventsInput)) (events []types.FilteredLogEvent, pages int) {
	t.Helper()
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: sdk.String("jobs")}
	if change != nil {
		change(in)
	}
	for {
		out, err := c.logs.FilterLogEvents(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if out.SearchedLogStreams == nil || len(out.SearchedLogStreams) > 0 {
			t.Errorf("searched streams %v: the list is empty since 2020", out.SearchedLogStreams)
		}
		events, pages = append(events, out.Events...), pages+1
		if in.NextToken = out.NextToken; out.NextToken == nil {
			return events, pages
		}
	}
}

// said is what events say, each with its stream.
func said(events []types.FilteredLogEvent) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s%s ", *e.LogStreamName, *e.Message)
	}
	return b.String()
}

// TestFilterLogEvents reads several streams at once: in the order of time, each
// event once over pages of any size, with IDs that stay.
func TestFilterLogEvents(t *testing.T) {
	c := newCloud(t, Options{})
	c.stream(t, "a", 3)
	c.stream(t, "b", 2)
	c.stream(t, "other", 2)
	names := func(s ...string) func(*cloudwatchlogs.FilterLogEventsInput) {
		return func(in *cloudwatchlogs.FilterLogEventsInput) { in.LogStreamNames = s }
	}
	ab, _ := c.filter(t, names("a", "b"))
	if got := said(ab); got != "a0 b0 a1 b1 a2 " {
		t.Errorf("two streams: %s", got)
	}
	all, _ := c.filter(t, nil)
	if got := said(all); got != "a0 b0 other0 a1 b1 other1 a2 " {
		t.Errorf("the group: %s", got)
	}
	ids := map[string]bool{}
	for _, e := range all {
		ids[*e.EventId] = true
	}
	for _, e := range ab {
		if !ids[*e.EventId] {
			t.Errorf("%s%s has another ID the second time", *e.LogStreamName, *e.Message)
		}
	}
	if len(ids) != len(all) {
		t.Errorf("%d IDs of %d events", len(ids), len(all))
	}
	if got, _ := c.filter(t, func(in *cloudwatchlogs.FilterLogEventsInput) { in.LogStreamNamePrefix = sdk.String("o") }); said(got) != "other0 other1 " {
		t.Errorf("by prefix: %s", said(got))
	}
	if got, _ := c.filter(t, func(in *cloudwatchlogs.FilterLogEventsInput) {
		in.StartTime, in.EndTime = ab[2].Timestamp, ab[2].Timestamp
	}); said(got) != "a1 b1 other1 " {
		t.Errorf("within one moment, of which the end is part: %s", said(got))
	}
	c.Logs().SetKnobs(logs.Knobs{EmptyPages: 2})
	for limit := range int32(9) {
		got, pages := c.filter(t, func(in *cloudwatchlogs.FilterLogEventsInput) { in.Limit = sdk.Int32(limit + 1) })
		if said(got) != said(all) || pages < 3 {
			t.Errorf("%d a page, %d pages: %s", limit+1, pages, said(got))
		}
	}
	for name, in := range map[string]*cloudwatchlogs.FilterLogEventsInput{
		"one of two streams": {LogGroupName: sdk.String("jobs"), LogStreamNames: []string{"a", "nosuch"}},
		"the group":          {LogGroupName: sdk.String("nosuch")},
	} {
		if _, err := c.logs.FilterLogEvents(t.Context(), in); code(err) != "ResourceNotFoundException" {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestFilterKnobs: late and doubled events show in time's order whenever they
// come, and a token has an end.
func TestFilterKnobs(t *testing.T) {
	now := &clock{}
	c := newCloud(t, Options{Now: now.Now, AnyClock: true})
	c.Logs().SetKnobs(logs.Knobs{LateEvery: 2, LateBy: time.Minute, DoubleEvery: 4})
	c.stream(t, "s", 4)
	if got, _ := c.filter(t, nil); said(got) != "s0 s2 " {
		t.Errorf("at first: %s", said(got))
	}
	now.Add(time.Minute)
	got, _ := c.filter(t, nil)
	ids := map[string]bool{}
	for _, e := range got {
		ids[*e.EventId] = true
	}
	if said(got) != "s0 s1 s2 s3 s3 " || len(ids) != 5 {
		t.Errorf("a minute later: %s, %d IDs", said(got), len(ids))
	}
	out, err := c.logs.FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: sdk.String("jobs"), Limit: sdk.Int32(1)})
	if err != nil || out.NextToken == nil {
		t.Fatal(out, err)
	}
	now.Add(25 * time.Hour)
	if _, err := c.logs.FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: sdk.String("jobs"), NextToken: out.NextToken}); code(err) != "InvalidParameterException" {
		t.Errorf("a token of yesterday: %v", err)
	}
}
