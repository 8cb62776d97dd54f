package wire

import (
	"iter"
	"maps"

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

// SplitLogItem takes the first MaxLogData bytes off an item, where it has more. Only the
// rest has the cursor, and the newline that a backend took off. They share the item's
// bytes.
func SplitLogItem(i sdk.LogItem) (first, rest sdk.LogItem, more bool) {
	if i.Entry == nil || len(i.Entry.Data) <= MaxLogData {
		return i, sdk.LogItem{}, false
	}
	head, tail := *i.Entry, *i.Entry
	head.Data, tail.Data = head.Data[:MaxLogData], tail.Data[MaxLogData:]
	head.LineEnd = sdk.LineEndKept
	i.Entry = &tail
	return sdk.LogItem{Entry: &head}, i, true
}

// JobLogs gathers items for one message; the zero value is empty. Entries of one stream
// that follow each other are one item there, with the cursor of the last of them: a
// message arrives as a whole.
type JobLogs struct {
	m      *pb.JobLogsResponse
	chunks chunks
	size   int
}

// Size is about how many bytes the message has.
func (l *JobLogs) Size() int { return l.size }

// Message returns what was gathered; nil is nothing.
func (l *JobLogs) Message() *pb.JobLogsResponse { return l.m }

// Add adds an item of SplitLogItem, or nothing of one that can't be carried. It copies
// what it takes, unless it says that it shares the item's bytes: then they must stay as
// they are until the message was sent.
func (l *JobLogs) Add(i sdk.LogItem) (shares bool, err error) {
	c := coder{op: "encode JobLogs's item", code: sdk.Internal}
	cursor := c.behind(i.Cursor)
	item, set := (*pb.JobLogsItem)(nil), 0
	if i.Gap != nil {
		set++
		item = &pb.JobLogsItem{Item: &pb.JobLogsItem_Gap{Gap: c.logGap(i.Gap)}}
	}
	if i.End != nil {
		set++
		c.line("end.verdict", string(i.End.Verdict))
		item = &pb.JobLogsItem{Item: &pb.JobLogsItem_End{End: &pb.LogEnd{Verdict: string(i.End.Verdict)}}}
	}
	if i.Entry != nil && set > 0 || set > 1 {
		c.fail("item", "is several of entry, gap and end at once")
	}
	joins := false
	switch {
	case i.Entry != nil:
		l.size += len(i.Entry.Data)
		joins = cursor != nil || l.m != nil && l.m.Items[len(l.m.Items)-1].Cursor == nil
		var fresh *pb.LogChunks
		if fresh, shares = l.chunks.add(&c, i.Entry, joins); fresh != nil {
			item, joins = &pb.JobLogsItem{Item: &pb.JobLogsItem_Entries{Entries: fresh}}, false
		}
	case item == nil:
		item = &pb.JobLogsItem{}
		fallthrough
	default:
		l.chunks.end()
	}
	if c.err != nil {
		return false, c.err
	}
	l.size += itemSize
	if joins {
		item = l.m.Items[len(l.m.Items)-1]
	} else {
		if l.m == nil {
			l.m = &pb.JobLogsResponse{}
		}
		l.m.Items = append(l.m.Items, item)
	}
	item.Cursor = cursor
	return shares, nil
}

// behind is cursor for a message that is sent later: it shares nothing.
func (c *coder) behind(p *sdk.LogCursor) *pb.LogCursor {
	m := c.cursor(p)
	if m != nil {
		m.Position = maps.Clone(m.Position)
		c.text("cursor", m.ProtoReflect())
	}
	return m
}

func (c *coder) logGap(g *sdk.LogGap) *pb.LogGap {
	return &pb.LogGap{From: c.stamp("gap.from", g.From), To: c.stamp("gap.to", g.To), Bytes: g.Bytes, Why: plain(g.Why)}
}

// DecodeJobLogsResponse reads the items of one message, up to the first that can't be
// read. A verdict that the contract doesn't have is VerdictUnavailable, so it never counts
// as better than it is.
func DecodeJobLogsResponse(m *pb.JobLogsResponse) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		c := coder{op: "decode JobLogs's item", code: sdk.Internal}
		c.nothingElse("items", m)
		for _, it := range m.GetItems() {
			c.nothingElse("item", it)
			cursor := c.uncursor(it.GetCursor())
			i := sdk.LogItem{}
			// What is set in a oneof may still be nil, in a message that no wire brought.
			switch x := it.GetItem().(type) {
			case *pb.JobLogsItem_Entries:
				for e, last := range c.unlogChunks(x.Entries) {
					i.Entry = e
					if last {
						break
					}
					if !yield(i, nil) {
						return
					}
				}
			case *pb.JobLogsItem_Gap:
				i.Gap = c.unlogGap(x.Gap)
			case *pb.JobLogsItem_End:
				i.End = &sdk.LogEnd{Verdict: word(x.End.GetVerdict(), sdk.VerdictUnavailable, sdk.Verdicts()...)}
			}
			if i.Cursor = cursor; c.err != nil {
				break
			}
			if !yield(i, nil) {
				return
			}
		}
		if c.err != nil {
			yield(sdk.LogItem{}, c.err)
		}
	}
}

func (c *coder) unlogGap(g *pb.LogGap) *sdk.LogGap {
	return &sdk.LogGap{From: c.time("gap.from", g.GetFrom()), To: c.time("gap.to", g.GetTo()), Bytes: max(g.GetBytes(), -1), Why: g.GetWhy()}
}
