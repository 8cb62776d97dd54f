package wire

import (
	"iter"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// MaxLogData is the most bytes of output in one message. gRPC refuses messages of
// more than 4 MiB.
const MaxLogData = 1 << 20

// EncodeJobLogsRequest returns r as a message.
func EncodeJobLogsRequest(r sdk.JobLogsRequest) (*pb.JobLogsRequest, error) {
	c := request("encode JobLogs")
	return encoded(c, &pb.JobLogsRequest{Handle: c.handle(r.Handle), Cursor: c.cursor(r.Cursor), Follow: r.Follow})
}

// DecodeJobLogsRequest reads what EncodeJobLogsRequest wrote.
func DecodeJobLogsRequest(m *pb.JobLogsRequest) (sdk.JobLogsRequest, error) {
	c := request("decode JobLogs")
	c.known("", m)
	return decoded(c, sdk.JobLogsRequest{Handle: c.unhandle(m.GetHandle()), Cursor: c.uncursor(m.GetCursor()), Follow: m.GetFollow()})
}

// EncodeLogItem returns an item as messages: several where it has more than
// MaxLogData bytes. Only the last of them has the cursor, and the newline that a
// backend took off.
func EncodeLogItem(i sdk.LogItem) iter.Seq2[*pb.JobLogsResponse, error] {
	return func(yield func(*pb.JobLogsResponse, error) bool) {
		for i.Entry != nil && len(i.Entry.Data) > MaxLogData {
			first, rest := *i.Entry, *i.Entry
			first.Data, rest.Data = first.Data[:MaxLogData], rest.Data[MaxLogData:]
			first.LineEnd = sdk.LineEndKept
			m, err := encodeLogItem(sdk.LogItem{Entry: &first})
			if !yield(m, err) || err != nil {
				return
			}
			i.Entry = &rest
		}
		yield(encodeLogItem(i))
	}
}

func encodeLogItem(i sdk.LogItem) (*pb.JobLogsResponse, error) {
	c := reply("encode JobLogs's item")
	m := &pb.JobLogsResponse{Cursor: c.cursor(i.Cursor)}
	set := 0
	if e := i.Entry; e != nil {
		set++
		m.Item = &pb.JobLogsResponse_Entry{Entry: &pb.LogChunk{Time: c.stamp("entry.time", e.Time), Stream: string(e.Stream), Data: e.Data,
			LineEnd: string(e.LineEnd), Launch: c.int32("entry.launch", e.Launch)}}
	}
	if g := i.Gap; g != nil {
		set++
		m.Item = &pb.JobLogsResponse_Gap{Gap: &pb.LogGap{From: c.stamp("gap.from", g.From), To: c.stamp("gap.to", g.To), Bytes: g.Bytes, Why: plain(g.Why)}}
	}
	if e := i.End; e != nil {
		set++
		m.Item = &pb.JobLogsResponse_End{End: &pb.LogEnd{Verdict: string(e.Verdict)}}
	}
	if set > 1 {
		c.fail("item", "is several of entry, gap and end at once")
	}
	return encoded(c, m)
}

// DecodeLogItem reads one message of EncodeLogItem. A verdict that the contract
// doesn't have is VerdictUnavailable, so it never counts as better than it is.
func DecodeLogItem(m *pb.JobLogsResponse) (sdk.LogItem, error) {
	c := reply("decode JobLogs's item")
	i := sdk.LogItem{Cursor: c.uncursor(m.GetCursor())}
	if len(m.ProtoReflect().GetUnknown()) > 0 {
		c.fail("item", "is of a kind that this program doesn't know")
	}
	// What is set in a oneof may still be nil, in a message that no wire brought.
	switch it := m.GetItem().(type) {
	case *pb.JobLogsResponse_Entry:
		e := it.Entry
		i.Entry = &sdk.LogChunk{Time: c.time("entry.time", e.GetTime()), Data: e.GetData(), Launch: c.count("entry.launch", e.GetLaunch()),
			Stream:  word(e.GetStream(), sdk.StreamCombined, sdk.StreamStdout, sdk.StreamStderr, sdk.StreamSystem),
			LineEnd: word(e.GetLineEnd(), sdk.LineEndKept, sdk.LineEndStripped)}
	case *pb.JobLogsResponse_Gap:
		g := it.Gap
		i.Gap = &sdk.LogGap{From: c.time("gap.from", g.GetFrom()), To: c.time("gap.to", g.GetTo()), Bytes: max(g.GetBytes(), -1), Why: g.GetWhy()}
	case *pb.JobLogsResponse_End:
		i.End = &sdk.LogEnd{Verdict: word(it.End.GetVerdict(), sdk.VerdictUnavailable, sdk.Verdicts()...)}
	}
	return decoded(c, i)
}
