package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/pocket/logs"
)

// reader reads one stream of group "jobs".
type reader struct {
	*cloud
	stream string
}

func (r reader) page(t testing.TB, head bool, token *string, change func(*cloudwatchlogs.GetLogEventsInput)) ([]string, *cloudwatchlogs.GetLogEventsOutput) {
	t.Helper()
	in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: &r.stream, NextToken: token, StartFromHead: &head}
	if change != nil {
		change(in)
	}
	out, err := r.logs.GetLogEvents(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	messages := []string{}
	for _, e := range out.Events {
		messages = append(messages, *e.Message)
	}
	return messages, out
}

// all reads forward until the token repeats, and counts the empty pages.
func (r reader) all(t testing.TB) (messages []string, empty int) {
	t.Helper()
	var token *string
	for {
		page, out := r.page(t, true, token, nil)
		messages = append(messages, page...)
		if token != nil && *token == *out.NextForwardToken {
			return messages, empty
		}
		if len(page) == 0 {
			empty++
		}
		token = out.NextForwardToken
	}
}

// stream makes a stream with numbered events, one a second from a minute ago.
func (c *cloud) stream(t testing.TB, name string, n int) reader {
	t.Helper()
	if _, err := c.logs.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: sdk.String("jobs"), LogStreamName: &name}); err != nil {
		t.Fatal(err)
	}
	c.put(t, name, 0, n)
	return reader{c, name}
}

func (c *cloud) put(t testing.TB, name string, from, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	start := c.o.Now().Add(-4 * time.Hour).Truncate(time.Second)
	in := &cloudwatchlogs.PutLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: &name}
	for i := from; i < from+n; i++ {
		in.LogEvents = append(in.LogEvents, types.InputLogEvent{Message: sdk.String(fmt.Sprint(i)), Timestamp: sdk.Int64(start.Add(time.Duration(i) * time.Second).UnixMilli())})
	}
	if _, err := c.logs.PutLogEvents(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

// TestGetLogEvents pages through a stream both ways.
func TestGetLogEvents(t *testing.T) {
	c := newCloud(t, Options{})
	r := c.stream(t, "paged", 25)
	limit := func(n int32) func(*cloudwatchlogs.GetLogEventsInput) {
		return func(in *cloudwatchlogs.GetLogEventsInput) { in.Limit = &n }
	}
	got, first := r.page(t, true, nil, limit(10))
	if !slices.Equal(got, numbers(0, 10)) {
		t.Errorf("first page %v", got)
	}
	got, second := r.page(t, true, first.NextForwardToken, limit(10))
	if !slices.Equal(got, numbers(10, 20)) {
		t.Errorf("second page %v", got)
	}
	if got, _ = r.page(t, true, second.NextBackwardToken, limit(4)); !slices.Equal(got, numbers(6, 10)) {
		t.Errorf("backward from the second page %v", got)
	}
	got, tail := r.page(t, false, nil, limit(10))
	if !slices.Equal(got, numbers(15, 25)) {
		t.Errorf("the tail is %v", got)
	}
	got, end := r.page(t, true, tail.NextForwardToken, nil)
	if len(got) != 0 || *end.NextForwardToken != *tail.NextForwardToken {
		t.Errorf("past the end: %v, token %s after %s", got, *end.NextForwardToken, *tail.NextForwardToken)
	}
	c.put(t, "paged", 25, 2)
	if got, _ = r.page(t, true, end.NextForwardToken, nil); !slices.Equal(got, numbers(25, 27)) {
		t.Errorf("the same token later: %v", got)
	}
	at := func(i int) *int64 { return first.Events[i].Timestamp }
	if got, _ = r.page(t, true, nil, func(in *cloudwatchlogs.GetLogEventsInput) { in.StartTime, in.EndTime = at(3), at(6) }); !slices.Equal(got, numbers(3, 6)) {
		t.Errorf("between two times: %v", got)
	}
	for name, change := range map[string]func(*cloudwatchlogs.GetLogEventsInput){
		"bad token": func(in *cloudwatchlogs.GetLogEventsInput) { in.NextToken = sdk.String("f/1/s") },
		"forward from the tail": func(in *cloudwatchlogs.GetLogEventsInput) {
			in.NextToken, in.StartFromHead = first.NextForwardToken, nil
		},
		"both names": func(in *cloudwatchlogs.GetLogEventsInput) { in.LogGroupIdentifier = sdk.String("jobs") },
	} {
		in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: &r.stream, StartFromHead: sdk.Bool(true)}
		change(in)
		if _, err := c.logs.GetLogEvents(t.Context(), in); code(err) != "InvalidParameterException" {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := c.stream(t, "empty", 0)
	got, out := empty.page(t, true, nil, nil)
	if len(got) != 0 || out.NextForwardToken == nil || out.NextBackwardToken == nil {
		t.Errorf("an empty stream: %v, %v", got, out)
	}
	c.put(t, "empty", 0, 1)
	if got, _ = empty.page(t, true, out.NextForwardToken, nil); !slices.Equal(got, numbers(0, 1)) {
		t.Errorf("from the first token of an empty stream: %v", got)
	}
}

// TestPageSize keeps a page within 1 MB and 10,000 events.
func TestPageSize(t *testing.T) {
	c := newCloud(t, Options{})
	r := c.stream(t, "many", 0)
	for i := range 2 {
		c.put(t, "many", i*6000, 6000)
	}
	if got, _ := r.page(t, true, nil, nil); len(got) != 10_000 {
		t.Errorf("a page has %d events", len(got))
	}
	big := c.stream(t, "big", 0)
	now := c.o.Now().UnixMilli()
	for i := range 6 {
		if _, err := c.logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: sdk.String("big"),
			LogEvents: []types.InputLogEvent{{Message: sdk.String(strings.Repeat("x", 250_000)), Timestamp: sdk.Int64(now + int64(i))}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := big.page(t, true, nil, nil); len(got) != 4 {
		t.Errorf("a page has %d events of 250 kB", len(got))
	}
	if got, _ := big.all(t); len(got) != 6 {
		t.Errorf("all pages have %d events", len(got))
	}
}

// TestF51LogKnobs reads through empty pages, bursts in one millisecond, doubled
// and late events.
func TestF51LogKnobs(t *testing.T) {
	now := &clock{}
	c := newCloud(t, Options{Now: now.Now, AnyClock: true})
	c.Logs().SetKnobs(logs.Knobs{EmptyPages: 2, PageSize: 7})
	got, empty := c.stream(t, "empties", 20).all(t)
	if !slices.Equal(got, numbers(0, 20)) || empty != 6 {
		t.Errorf("through %d empty pages: %v", empty, got)
	}
	c.Logs().SetKnobs(logs.Knobs{Tick: 24 * time.Hour, PageSize: 7})
	burst := c.stream(t, "burst", 500)
	if got, _ = burst.all(t); !slices.Equal(got, numbers(0, 500)) {
		t.Errorf("500 events in one millisecond: %d", len(got))
	}
	c.Logs().SetKnobs(logs.Knobs{DoubleEvery: 3})
	if got, _ = c.stream(t, "double", 4).all(t); !slices.Equal(got, []string{"0", "1", "2", "2", "3"}) {
		t.Errorf("doubled: %v", got)
	}
	c.Logs().SetKnobs(logs.Knobs{EventDelay: time.Minute})
	delayed := c.stream(t, "delayed", 3)
	if got, _ = delayed.all(t); len(got) != 0 {
		t.Errorf("events before their time: %v", got)
	}
	now.Add(time.Minute)
	if got, _ = delayed.all(t); !slices.Equal(got, numbers(0, 3)) {
		t.Errorf("events after their delay: %v", got)
	}
	c.Logs().SetKnobs(logs.Knobs{LateEvery: 2, LateBy: time.Minute})
	late := c.stream(t, "late", 4)
	got, out := late.page(t, true, nil, nil)
	if !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("before the late ones: %v", got)
	}
	now.Add(time.Minute)
	// The token stands behind event 2: what comes late before it isn't seen.
	if got, _ = late.page(t, true, out.NextForwardToken, nil); !slices.Equal(got, []string{"3"}) {
		t.Errorf("from the old token: %v", got)
	}
	if got, _ = late.all(t); !slices.Equal(got, numbers(0, 4)) {
		t.Errorf("anew: %v", got)
	}
}

// TestF48StreamDelay hides a new stream for a while.
func TestF48StreamDelay(t *testing.T) {
	now := &clock{}
	c := newCloud(t, Options{Now: now.Now, AnyClock: true})
	c.Logs().SetKnobs(logs.Knobs{StreamDelay: 8 * time.Second})
	r := c.stream(t, "soon", 1)
	in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: &r.stream}
	if _, err := c.logs.GetLogEvents(t.Context(), in); code(err) != "ResourceNotFoundException" {
		t.Errorf("a new stream: %v", err)
	}
	now.Add(8 * time.Second)
	if got, _ := r.page(t, true, nil, nil); len(got) != 1 {
		t.Errorf("later: %v", got)
	}
}

// TestAwslogs writes as the log driver does.
func TestAwslogs(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		writes []string
		want   []string
	}{
		"lines":          {[]string{"a\nb\n"}, []string{"a", "b"}},
		"cut anywhere":   {[]string{"a", "b\nc", "\n"}, []string{"ab", "c"}},
		"no last \\n":    {[]string{"a\nrest"}, []string{"a", "rest"}},
		"empty lines":    {[]string{"\n\na\n\n"}, []string{"a"}},
		"carriage":       {[]string{"a\r\n"}, []string{"a\r"}},
		"cut rune":       {[]string{"\xc3", "\xa9\n"}, []string{"é"}},
		"no UTF-8":       {[]string{"a\xff\xfeb\n"}, []string{"a\ufffd\ufffdb"}},
		"NUL":            {[]string{"a\x00b\n"}, []string{"a\x00b"}},
		"long":           {[]string{strings.Repeat("x", 262_118*2+5) + "\n"}, []string{strings.Repeat("x", 262_118), strings.Repeat("x", 262_118), "xxxxx"}},
		"long, of runes": {[]string{strings.Repeat("é", 131_059) + "é\n"}, []string{strings.Repeat("é", 131_059), "é"}},
	} {
		driver, err := c.Logs().OpenDriver("jobs", strings.ReplaceAll(name, "\\", ""), false)
		if err != nil {
			t.Fatal(err)
		}
		w := driver.Writer()
		for _, s := range k.writes {
			if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
				t.Fatal(n, err)
			}
		}
		driver.Close()
		if got, _ := (reader{c, strings.ReplaceAll(name, "\\", "")}).all(t); !slices.Equal(got, k.want) {
			t.Errorf("%s: %.100q, want %.100q", name, got, k.want)
		}
	}
	if _, err := c.Logs().OpenDriver("nosuch", "s", false); err == nil {
		t.Error("a driver opens without its group")
	}
	if _, err := c.Logs().OpenDriver("made", "s", true); err != nil {
		t.Error(err)
	}
}

// TestLogGroups makes, lists and deletes groups and streams.
func TestLogGroups(t *testing.T) {
	c := newCloud(t, Options{LogGroups: []string{"jobs", "other"}})
	for i := range 60 {
		c.stream(t, fmt.Sprintf("s%02d", i), i%2)
	}
	var streams []string
	in := &cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: sdk.String("jobs"), LogStreamNamePrefix: sdk.String("s")}
	for {
		out, err := c.logs.DescribeLogStreams(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range out.LogStreams {
			streams = append(streams, *s.LogStreamName)
			if (s.FirstEventTimestamp != nil) != ((*s.LogStreamName)[2]%2 == 1) {
				t.Errorf("stream %s begins at %v", *s.LogStreamName, s.FirstEventTimestamp)
			}
		}
		if out.NextToken == nil {
			break
		}
		in.NextToken = out.NextToken
	}
	if len(streams) != 60 || !slices.IsSorted(streams) {
		t.Errorf("listed %v", streams)
	}
	if _, err := c.logs.PutRetentionPolicy(t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: sdk.String("jobs"), RetentionInDays: sdk.Int32(2)}); code(err) != "InvalidParameterException" {
		t.Errorf("two days of retention: %v", err)
	}
	if _, err := c.logs.PutRetentionPolicy(t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: sdk.String("jobs"), RetentionInDays: sdk.Int32(3)}); err != nil {
		t.Error(err)
	}
	out, err := c.logs.DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: sdk.String("j")})
	if err != nil || len(out.LogGroups) != 1 || *out.LogGroups[0].RetentionInDays != 3 || *out.LogGroups[0].StoredBytes == 0 {
		t.Errorf("groups %v, %v", out, err)
	}
	if _, err := c.logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: sdk.String("jobs")}); code(err) != "ResourceAlreadyExistsException" {
		t.Errorf("made again: %v", err)
	}
	for _, want := range []string{"", "ResourceNotFoundException"} {
		if _, err := c.logs.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: sdk.String("jobs")}); code(err) != want {
			t.Errorf("deleted: %v, want %s", err, want)
		}
	}
}

// TestLogGroupTags: tags come with a group, change and go with it.
func TestLogGroupTags(t *testing.T) {
	c := newCloud(t, Options{})
	arn := groupARN("tagged")
	if _, err := c.logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: sdk.String("tagged"), Tags: map[string]string{"a": "1", "b": "2"},
		LogGroupClass: types.LogGroupClassInfrequentAccess}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.logs.TagResource(t.Context(), &cloudwatchlogs.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{"b": "3", "c": "4"}}); err != nil {
		t.Error(err)
	}
	if _, err := c.logs.UntagResource(t.Context(), &cloudwatchlogs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"a", "none"}}); err != nil {
		t.Error(err)
	}
	got, err := c.logs.ListTagsForResource(t.Context(), &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})
	if err != nil || !maps.Equal(got.Tags, map[string]string{"b": "3", "c": "4"}) {
		t.Errorf("tags %v, %v", got, err)
	}
	for _, days := range []*int32{sdk.Int32(7), nil} {
		if days != nil {
			_, err = c.logs.PutRetentionPolicy(t.Context(), &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: sdk.String("tagged"), RetentionInDays: days})
		} else {
			_, err = c.logs.DeleteRetentionPolicy(t.Context(), &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: sdk.String("tagged")})
		}
		if err != nil {
			t.Error(err)
		}
		out, err := c.logs.DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: sdk.String("tagged")})
		if err != nil || len(out.LogGroups) != 1 || out.LogGroups[0].LogGroupClass != types.LogGroupClassInfrequentAccess ||
			sdk.ToInt32(out.LogGroups[0].RetentionInDays) != sdk.ToInt32(days) {
			t.Errorf("groups %v, %v", out, err)
		}
	}
	if _, err := c.logs.DeleteRetentionPolicy(t.Context(), &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: sdk.String("none")}); code(err) != "ResourceNotFoundException" {
		t.Errorf("retention of no group: %v", err)
	}
}

// TestPutLogEvents refuses what the service refuses.
func TestPutLogEvents(t *testing.T) {
	c := newCloud(t, Options{})
	c.stream(t, "put", 0)
	now := c.o.Now().UnixMilli()
	event := func(at int64, message string) types.InputLogEvent {
		return types.InputLogEvent{Timestamp: &at, Message: &message}
	}
	const day = 24 * 60 * 60 * 1000
	for name, events := range map[string][]types.InputLogEvent{
		"out of order": {event(now, "a"), event(now-1, "b")},
		"two days":     {event(now-2*day, "a"), event(now, "b")},
		"too much":     slices.Repeat([]types.InputLogEvent{event(now, strings.Repeat("x", 250_000))}, 5),
	} {
		if _, err := c.logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: sdk.String("put"), LogEvents: events}); code(err) != "InvalidParameterException" {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := c.logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: sdk.String("jobs"), LogStreamName: sdk.String("put"),
		LogEvents: []types.InputLogEvent{event(now, "a"), event(now+3*60*60*1000, "future")}})
	if err != nil || out.RejectedLogEventsInfo == nil || *out.RejectedLogEventsInfo.TooNewLogEventStartIndex != 1 {
		t.Errorf("an event of the future: %v, %v", out, err)
	}
}
