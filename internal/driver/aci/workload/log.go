package workload

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

const (
	// Azure shows the last 4 MB of a log, and there is no way to follow it.
	// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
	fullBytes = 4_000_000
	// tailLines is how many of the last lines a look asks for once it knows its place.
	tailLines = 1000
)

// TailLogs implements sdk.LogTailer. The whole log is one text that is read each
// time anew; lines are told from those that were given by their stamps, which have
// nanoseconds.
func (o *Operator) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		w, g, err := o.open(ctx, opLogs, r.Path)
		if err != nil {
			yield(sdk.WorkloadLogItem{}, err)
			return
		}
		var tails []*tail
		for _, c := range containersOf(g) {
			if r.Instance == "" || r.Instance == *c.Name {
				tails = append(tails, &tail{o: o, w: w, container: *c.Name, since: r.Since, first: r.Tail, follow: r.Follow})
			}
		}
		if len(tails) == 0 {
			yield(sdk.WorkloadLogItem{}, o.fail(sdk.NotFound, opLogs, fmt.Errorf("the container group %s has no container %q", w.path(), r.Instance)))
			return
		}
		for {
			for _, t := range tails {
				items, err := t.look(ctx)
				if err != nil {
					yield(sdk.WorkloadLogItem{}, err)
					return
				}
				for _, it := range items {
					if !yield(it, nil) {
						return
					}
				}
			}
			if !r.Follow {
				return
			}
			if err := sdk.SystemClock().Sleep(ctx, o.LogPoll); err != nil {
				yield(sdk.WorkloadLogItem{}, o.fail(sdk.CodeOf(ctx.Err()), opLogs, ctx.Err()))
				return
			}
		}
	}
}

// tail is a place in one container's log: behind the lines up to last, of which so
// many bear that very stamp.
type tail struct {
	o         *Operator
	w         at
	container string
	since     time.Time
	// first is how many of the last lines come first; nil is all.
	first  *int
	follow bool

	began bool
	last  time.Time
	equal int
}

// look returns what is new.
func (t *tail) look(ctx context.Context) ([]sdk.WorkloadLogItem, error) {
	n := 0
	switch {
	case t.began && !t.last.IsZero():
		n = tailLines
	case !t.began && t.first != nil:
		n = max(1, *t.first)
	}
	lines, whole, err := t.read(ctx, n)
	if err != nil {
		return nil, err
	}
	fresh := t.after(lines)
	if t.began && n > 0 && len(fresh) > 0 && len(fresh) == len(lines) && len(lines) >= n {
		// More came than was asked for.
		if lines, whole, err = t.read(ctx, 0); err != nil {
			return nil, err
		}
		fresh = t.after(lines)
	}
	var out []sdk.WorkloadLogItem
	if t.began && !whole && len(fresh) > 0 && len(fresh) == len(lines) && !t.last.IsZero() {
		out = append(out, sdk.WorkloadLogItem{Instance: t.container, Gap: &sdk.LogGap{From: t.last, To: fresh[0].At, Bytes: -1, Why: "more was written between two looks than Azure shows"}})
	}
	quiet := !t.began && t.first != nil && *t.first == 0
	for _, l := range fresh {
		if !l.At.Equal(t.last) {
			t.last, t.equal = l.At, 0
		}
		t.equal++
		if quiet || l.At.Before(t.since) {
			continue
		}
		entry := &sdk.LogChunk{Time: l.At, Stream: sdk.StreamCombined, Data: []byte(l.Data), LineEnd: sdk.LineEndKept}
		if strings.HasSuffix(l.Data, "\n") {
			entry.Data, entry.LineEnd = entry.Data[:len(entry.Data)-1], sdk.LineEndStripped
		}
		out = append(out, sdk.WorkloadLogItem{Instance: t.container, Entry: entry})
	}
	t.began = true
	return out, nil
}

// after leaves out the lines that were given, and, while the log goes on, a last one
// without its end.
func (t *tail) after(lines []Line) []Line {
	if n := len(lines); t.follow && n > 0 && !strings.HasSuffix(lines[n-1].Raw, "\n") {
		lines = lines[:n-1]
	}
	same := 0
	for i, l := range lines {
		if l.At.Equal(t.last) {
			same++
		}
		if l.At.After(t.last) || l.At.Equal(t.last) && same > t.equal {
			return lines[i:]
		}
	}
	return nil
}

// read reads a log, its last n lines where n isn't 0. Whole says that it is the log
// from its beginning, as far as can be told. A container that hasn't started, or
// whose group is between two states, has an empty one.
// https://learn.microsoft.com/en-us/rest/api/container-instances/containers/list-logs
func (t *tail) read(ctx context.Context, n int) (lines []Line, whole bool, _ error) {
	opt := &arm.ContainersClientListLogsOptions{Timestamps: to.Ptr(true)}
	if n > 0 {
		opt.Tail = to.Ptr(int32(min(n, 1<<30)))
	}
	res, err := turn.Call(ctx, t.o.Provider, t.o.Session, t.o.Reads, opLogs, func(ctx context.Context) (arm.ContainersClientListLogsResponse, error) {
		return t.o.containers.ListLogs(ctx, t.w.group, t.w.name, t.container, opt)
	})
	if code, _ := azure.CodeText(err); err != nil && strings.HasPrefix(code, "Container") && sdk.IsClear(err) && sdk.CodeOf(err) != sdk.PermissionDenied {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	text := deref(res.Content)
	return t.o.ParseLog(text), n == 0 && len(text) < fullBytes, nil
}
