package wire

import (
	"iter"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

// SplitWorkloadLogItem is SplitLogItem for the output of a workload.
func SplitWorkloadLogItem(i sdk.WorkloadLogItem) (first, rest sdk.WorkloadLogItem, more bool) {
	head, tail, more := SplitLogItem(sdk.LogItem{Entry: i.Entry})
	if !more {
		return i, sdk.WorkloadLogItem{}, false
	}
	first, rest = i, i
	first.Entry, rest.Entry = head.Entry, tail.Entry
	first.Gap = nil
	return first, rest, true
}

// TailLogs gathers items of workloads' output for one message, as JobLogs does those of
// jobs: entries of one stream of one instance are one item.
type TailLogs struct {
	m      *pb.TailLogsResponse
	chunks chunks
	size   int
}

// Size is about how many bytes the message has.
func (l *TailLogs) Size() int { return l.size }

// Message returns what was gathered; nil is nothing.
func (l *TailLogs) Message() *pb.TailLogsResponse { return l.m }

// Add adds an item of SplitWorkloadLogItem as JobLogs.Add does.
func (l *TailLogs) Add(i sdk.WorkloadLogItem) (shares bool, err error) {
	c := coder{op: "encode TailLogs's item", code: sdk.Internal}
	c.line("instance", i.Instance)
	var item *pb.TailLogsItem // in which i is, unless that is the last one
	switch {
	case i.Entry != nil && i.Gap != nil:
		c.fail("item", "is both entry and gap")
	case i.Entry != nil:
		l.size += len(i.Entry.Data)
		joins := l.m != nil && l.m.Items[len(l.m.Items)-1].Instance == i.Instance
		var fresh *pb.LogChunks
		if fresh, shares = l.chunks.add(&c, i.Entry, joins); fresh != nil {
			item = &pb.TailLogsItem{Item: &pb.TailLogsItem_Entries{Entries: fresh}}
		}
	default:
		l.chunks.end()
		item = &pb.TailLogsItem{}
		if i.Gap != nil {
			item.Item = &pb.TailLogsItem_Gap{Gap: c.logGap(i.Gap)}
		}
	}
	if c.err != nil {
		return false, c.err
	}
	l.size += itemSize
	if item != nil {
		if l.m == nil {
			l.m = &pb.TailLogsResponse{}
		}
		item.Instance = i.Instance
		l.m.Items = append(l.m.Items, item)
	}
	return shares, nil
}

// DecodeTailLogsResponse reads the items of one message, up to the first that can't be
// read.
func DecodeTailLogsResponse(m *pb.TailLogsResponse) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		c := coder{op: "decode TailLogs's item", code: sdk.Internal}
		c.nothingElse("items", m)
		for _, it := range m.GetItems() {
			c.nothingElse("item", it)
			switch x := it.GetItem().(type) {
			case *pb.TailLogsItem_Entries:
				for e := range c.unlogChunks(x.Entries) {
					if !yield(sdk.WorkloadLogItem{Instance: it.GetInstance(), Entry: e}, nil) {
						return
					}
				}
			default:
				i := sdk.WorkloadLogItem{Instance: it.GetInstance()}
				if gap, ok := x.(*pb.TailLogsItem_Gap); ok {
					i.Gap = c.unlogGap(gap.Gap)
				}
				if c.err == nil && !yield(i, nil) {
					return
				}
			}
			if c.err != nil {
				break
			}
		}
		if c.err != nil {
			yield(sdk.WorkloadLogItem{}, c.err)
		}
	}
}
