package wire_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

func collect[V any](t *testing.T, seq func(func(V, error) bool)) (out []V) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// TestLinesTogether puts lines into one message and wants them back one by one, each with
// its own stamp, and few items on the way.
func TestLinesTogether(t *testing.T) {
	at := time.Unix(1_700_000_000, 5).UTC()
	cursor := func(n string) *sdk.LogCursor {
		return &sdk.LogCursor{V: 1, Kind: "k", Position: map[string]string{"at": n}}
	}
	entry := func(s sdk.Stream, launch int, at time.Time, data string) *sdk.LogChunk {
		return &sdk.LogChunk{Stream: s, LineEnd: sdk.LineEndStripped, Launch: launch, Time: at, Data: []byte(data)}
	}
	want := []sdk.LogItem{
		{Entry: entry("stdout", 0, time.Time{}, "no stamp")},
		{Entry: entry("stdout", 0, at, "one")}, {Entry: entry("stdout", 0, time.Time{}, "")}, {Entry: entry("stdout", 0, at.Add(1), "\xff\x00")},
		{Entry: entry("stderr", 0, at, "other")},
		{Entry: entry("stdout", 0, at, "back")},
		{Entry: entry("stdout", 1, at, "launch")},
		{Entry: &sdk.LogChunk{Stream: "stdout", LineEnd: sdk.LineEndKept, Launch: 1, Data: []byte("kept\n")}, Cursor: cursor("1")},
		{Entry: &sdk.LogChunk{Stream: "stdout", LineEnd: sdk.LineEndKept, Launch: 1, Data: []byte("behind a cursor\n")}},
		{},
		{Entry: &sdk.LogChunk{Stream: "stdout", LineEnd: sdk.LineEndKept, Launch: 1, Data: []byte("behind a look\n")}},
		{Gap: &sdk.LogGap{Bytes: 5, Why: "lost"}},
		{Entry: &sdk.LogChunk{Stream: "stdout", LineEnd: sdk.LineEndKept, Launch: 1, Data: []byte("behind a gap\n")}},
		{Entry: &sdk.LogChunk{Stream: "stdout", LineEnd: sdk.LineEndKept, Launch: 1, Data: []byte(strings.Repeat("l", 100<<10))}},
		{Entry: &sdk.LogChunk{Stream: "stdout", LineEnd: sdk.LineEndKept, Launch: 1, Data: []byte("behind a long one\n")}},
		{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}, Cursor: cursor("2")},
	}
	m, err := jobLogs(want...)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.GetItems()); n != len(want)-3 {
		t.Errorf("%d items for %d", n, len(want))
	}
	got := collect(t, wire.DecodeJobLogsResponse(resend(t, m).(*pb.JobLogsResponse)))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("came back as\n%+v\nwas\n%+v", got, want)
	}

	// Of cursors that follow each other in one item the last is kept.
	m, err = jobLogs(sdk.LogItem{Entry: entry("stdout", 0, at, "a")}, sdk.LogItem{Entry: entry("stdout", 0, at, "b"), Cursor: cursor("b")}, sdk.LogItem{Entry: entry("stdout", 0, at, "c"), Cursor: cursor("c")})
	if err != nil {
		t.Fatal(err)
	}
	got = collect(t, wire.DecodeJobLogsResponse(resend(t, m).(*pb.JobLogsResponse)))
	if len(m.GetItems()) != 1 || len(got) != 3 || got[1].Cursor != nil || !reflect.DeepEqual(got[2].Cursor, cursor("c")) {
		t.Errorf("came back as %+v", got)
	}
}

// TestWorkloadLinesTogether is the same with several instances.
func TestWorkloadLinesTogether(t *testing.T) {
	entry := func(instance, data string) sdk.WorkloadLogItem {
		return sdk.WorkloadLogItem{Instance: instance, Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndStripped, Data: []byte(data)}}
	}
	want := []sdk.WorkloadLogItem{entry("a", "1"), entry("a", "2"), entry("b", "3"), entry("a", "4"), {Instance: "a", Gap: &sdk.LogGap{Bytes: -1}}, entry("a", "5")}
	m, err := tailLogs(want...)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.GetItems()); n != 5 {
		t.Errorf("%d items", n)
	}
	if got := collect(t, wire.DecodeTailLogsResponse(resend(t, m).(*pb.TailLogsResponse))); !reflect.DeepEqual(got, want) {
		t.Errorf("came back as\n%+v\nwas\n%+v", got, want)
	}
	long := entry("a", strings.Repeat("x", wire.MaxLogData+1))
	first, rest, more := wire.SplitWorkloadLogItem(long)
	if !more || first.Instance != "a" || rest.Instance != "a" || len(first.Entry.Data) != wire.MaxLogData || len(rest.Entry.Data) != 1 || first.Entry.LineEnd != sdk.LineEndKept {
		t.Errorf("split into %d and %d bytes", len(first.Entry.Data), len(rest.Entry.Data))
	}
	if _, err := tailLogs(sdk.WorkloadLogItem{Instance: "\xff"}); sdk.CodeOf(err) != sdk.Internal {
		t.Errorf("an instance that is no text: %v", err)
	}
}

// TestRefusedLinesLeaveTheOthers: an item that can't be carried changes nothing.
func TestRefusedLinesLeaveTheOthers(t *testing.T) {
	good := sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: []byte("good")}}
	for name, bad := range map[string]sdk.LogItem{
		"stream": {Entry: &sdk.LogChunk{Stream: "\xff"}}, "line end": {Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: "\xff"}},
		"time":    {Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Time: time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"cursor":  {Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept}, Cursor: &sdk.LogCursor{Kind: "\xff"}},
		"verdict": {End: &sdk.LogEnd{Verdict: "\xff"}},
	} {
		var l wire.JobLogs
		if _, err := l.Add(good); err != nil {
			t.Fatal(err)
		}
		before := proto.Clone(l.Message())
		if _, err := l.Add(bad); sdk.CodeOf(err) != sdk.Internal {
			t.Errorf("%s: %v", name, err)
		}
		if !proto.Equal(l.Message(), before) {
			t.Errorf("%s: the message is %v", name, l.Message())
		}
	}
}

// TestOddChunks: pieces that don't fit their bytes are refused, and take no more memory
// than they say in earnest.
func TestOddChunks(t *testing.T) {
	for name, c := range map[string]*pb.LogChunks{
		"nothing": nil, "no pieces": {}, "data without pieces": {Data: []byte("x")}, "too short": {Data: []byte("x"), Sizes: []uint32{2}},
		"too long": {Data: []byte("xyz"), Sizes: []uint32{1, 1}}, "overflow": {Sizes: []uint32{1 << 31, 1 << 31}},
		"stamps": {Data: []byte("xy"), Sizes: []uint32{1, 1}, Times: []int64{1}}, "launch": {Sizes: []uint32{0}, Launch: -1}, "newer": newer(&pb.LogChunks{Sizes: []uint32{0}}),
	} {
		for i, err := range wire.DecodeJobLogsResponse(&pb.JobLogsResponse{Items: []*pb.JobLogsItem{{Item: &pb.JobLogsItem_Entries{Entries: c}}}}) {
			if sdk.CodeOf(err) != sdk.Internal {
				t.Errorf("%s: %+v, %v", name, i, err)
			}
		}
		for i, err := range wire.DecodeTailLogsResponse(&pb.TailLogsResponse{Items: []*pb.TailLogsItem{{Item: &pb.TailLogsItem_Entries{Entries: c}}}}) {
			if sdk.CodeOf(err) != sdk.Internal {
				t.Errorf("%s: %+v, %v", name, i, err)
			}
		}
	}
	m := &pb.JobLogsResponse{Items: []*pb.JobLogsItem{{Item: &pb.JobLogsItem_Entries{Entries: &pb.LogChunks{Sizes: make([]uint32, 1<<20)}}}}}
	n := 0
	for _, err := range wire.DecodeJobLogsResponse(m) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1000 {
			break // whoever stops gets nothing more
		}
	}
}
