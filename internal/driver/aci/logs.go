package aci

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

const (
	// A log is read whole; once it has more lines than this, the last ones, and at
	// least so many.
	tailLeast = 500

	// Azure shows the last 4 MB of a log, and the last 16 KB or 1,000 lines of one
	// whose instance was stopped. Of a log that is as long as that, the beginning
	// may be missing.
	// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
	fullBytes  = 4_000_000
	smallFrom  = 16_000
	smallBytes = 16 << 10
	smallLines = 1000
)

// JobLogs implements sdk.JobLogger. Azure shows the end of the log as one text,
// each time anew, so each read looks for the place where the last one ended.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := p.checkHandle(opLogs, r.Handle); err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		at, err := positionOf(r.Cursor)
		if err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		l := &reader{p: p, h: r.Handle, at: at, verdict: sdk.VerdictQuiet}
		for {
			if ctx.Err() != nil {
				yield(sdk.LogItem{}, p.fail(sdk.CodeOf(ctx.Err()), opLogs, ctx.Err()))
				return
			}
			items, err := l.look(ctx)
			if err != nil {
				yield(sdk.LogItem{}, err)
				return
			}
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
			if !r.Follow {
				yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: l.verdict}, Cursor: l.at.cursor()}, nil)
				return
			}
			if len(items) == 0 && !yield(sdk.LogItem{}, nil) {
				return
			}
			if err := sdk.SystemClock().Sleep(ctx, time.Duration(p.cfg.LogPoll)); err != nil {
				yield(sdk.LogItem{}, p.fail(sdk.CodeOf(ctx.Err()), opLogs, ctx.Err()))
				return
			}
		}
	}
}

// reader reads one log.
type reader struct {
	p       *provider
	h       sdk.JobHandle
	at      position
	verdict sdk.Verdict
	// tail is how many lines the next look asks for, 0 for all.
	tail int
}

// page is what a look at the log has found.
type page struct {
	lines []line
	// whole says that it is the log from its beginning, as far as can be told.
	whole bool
	// gap is the index of a line before which others are missing, -1 for none.
	gap int
	// kept says that it begins with what was kept before a stop.
	kept bool
}

// look returns what is new.
func (l *reader) look(ctx context.Context) ([]sdk.LogItem, error) {
	g, err := l.read(ctx, l.tail)
	if err != nil {
		return nil, err
	}
	if len(g.lines) == 0 {
		return nil, nil // none yet, or none shown: that proves nothing
	}
	next, ok := l.at.find(g.lines, g.whole)
	if !ok && l.tail > 0 {
		// More came than was asked for.
		if g, err = l.read(ctx, 0); err != nil || len(g.lines) == 0 {
			return nil, err
		}
		next, ok = l.at.find(g.lines, g.whole)
	}
	var out []sdk.LogItem
	switch {
	case ok:
	case g.kept && l.at.begun() && !l.at.last.Before(g.lines[len(g.lines)-1].at):
		return nil, nil // what was read lately was read before the stop, and isn't shown any more
	default:
		out = l.missing(g)
	}
	fresh, err := l.finished(ctx, g.lines[next:])
	if err != nil {
		return nil, err
	}
	for i, x := range fresh {
		if next+i == g.gap && next+i > 0 {
			l.verdict = l.verdict.Worse(sdk.VerdictTruncatedByProvider)
			out = append(out, sdk.LogItem{Gap: &sdk.LogGap{From: g.lines[g.gap-1].at, To: x.at, Bytes: -1, Why: "Azure shows the end alone of the log of a container that was stopped"}})
			l.at.count = -1
		}
		entry := &sdk.LogChunk{Time: x.at, Stream: sdk.StreamCombined, Data: []byte(x.data), LineEnd: sdk.LineEndKept, Launch: l.at.launch}
		if x.whole() {
			entry.Data, entry.LineEnd = entry.Data[:len(entry.Data)-1], sdk.LineEndStripped
		}
		out = append(out, sdk.LogItem{Entry: entry})
	}
	if l.at = l.at.after(fresh); len(out) > 0 {
		out[len(out)-1].Cursor = l.at.cursor()
	}
	l.aim(len(fresh))
	return out, nil
}

// missing tells of lines that are gone: the log has grown out of what Azure shows,
// or begun anew with its container.
func (l *reader) missing(g page) []sdk.LogItem {
	gap := &sdk.LogGap{From: l.at.last, To: g.lines[0].at, Bytes: -1}
	switch {
	case !l.at.begun():
		gap.Why = "Azure shows the end alone of a long log; what came before may be missing"
		l.verdict = l.verdict.Worse(sdk.VerdictTruncatedByProvider)
		l.at.count = -1
	case g.whole:
		gap.Why = "the container was run again, and its log began anew; what came last before may be missing"
		l.verdict = l.verdict.Worse(sdk.VerdictGap)
		l.at = position{launch: l.at.launch + 1}
	default:
		gap.Why = "more was written between two looks than Azure shows"
		l.verdict = l.verdict.Worse(sdk.VerdictTruncatedByProvider)
		l.at.count = -1
	}
	return []sdk.LogItem{{Gap: gap}}
}

// finished leaves out a last line that has no end yet, unless the job has ended:
// nothing will be added to it then.
func (l *reader) finished(ctx context.Context, lines []line) ([]line, error) {
	if len(lines) == 0 || lines[len(lines)-1].whole() || l.p.seen.Get(l.h.ID).ended {
		return lines, nil
	}
	g, err := l.p.getGroup(ctx, opLogs, l.h.ID)
	switch {
	case absent(err):
		return lines, nil
	case err != nil:
		return nil, err
	case l.p.result(l.h, g).State.Terminal():
		return lines, nil
	}
	return lines[:len(lines)-1], nil
}

// aim chooses how much the next look reads: of a long log the last lines, some
// times more than came last.
func (l *reader) aim(fresh int) {
	if l.tail = 0; l.at.count < 0 || l.at.count > tailLeast {
		l.tail = max(tailLeast, 4*fresh)
	}
}

// read reads the log, its last lines where tail isn't 0. Of a group that was
// stopped, what was kept before the stop comes first.
func (l *reader) read(ctx context.Context, tail int) (page, error) {
	kept, err := l.p.spool.read(l.h.ID)
	if err != nil {
		return page{}, l.p.fail(sdk.Internal, opLogs, err)
	}
	if kept != "" {
		tail = 0
	}
	text, err := l.p.fetch(ctx, l.h, tail)
	if absent(err) && kept != "" {
		text, err = "", nil
	}
	if err != nil {
		return page{}, err
	}
	g := page{gap: -1}
	var cut bool
	g.lines, cut = parseLog(text)
	g.whole = tail == 0 && !cut && len(text) < fullBytes
	if kept != "" {
		return join(kept, g), nil
	}
	if g.whole && !l.at.begun() && (len(g.lines) == smallLines || len(text) >= smallFrom && len(text) <= smallBytes) {
		// It is just as long as what is left of the log of an instance that was
		// stopped.
		now, err := l.p.getGroup(ctx, opLogs, l.h.ID)
		if err != nil {
			return page{}, err
		}
		g.whole = !judge(viewOf(now)).state.Terminal()
	}
	return g, nil
}

// join puts what was kept of a log before what is shown of it now.
func join(kept string, now page) page {
	lines, cut := parseLog(kept)
	out := page{lines: lines, whole: !cut && len(kept) < fullBytes, gap: -1, kept: true}
	if len(lines) == 0 {
		return now
	}
	next, ok := position{}.after(lines).find(now.lines, now.whole)
	if !ok && len(now.lines) > 0 {
		if !now.lines[0].at.After(lines[len(lines)-1].at) {
			return out
		}
		next, out.gap = 0, len(lines)
	}
	out.lines = append(out.lines, now.lines[next:]...)
	return out
}

// fetch reads a log as Azure has it. A container that hasn't started has an empty
// one, whatever the answer says about it.
// https://learn.microsoft.com/en-us/rest/api/container-instances/containers/list-logs
func (p *provider) fetch(ctx context.Context, h sdk.JobHandle, tail int) (string, error) {
	o := &arm.ContainersClientListLogsOptions{Timestamps: to.Ptr(true)}
	if tail > 0 {
		o.Tail = to.Ptr(int32(min(tail, 1<<30)))
	}
	res, err := call(ctx, p, p.reads, opLogs, func(ctx context.Context) (arm.ContainersClientListLogsResponse, error) {
		return p.containers.ListLogs(ctx, p.cfg.ResourceGroup, h.ID, container, o)
	})
	if err == nil {
		return deref(res.Content), nil
	}
	code, _ := azure.CodeText(err)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound && strings.HasPrefix(code, "Resource") && p.young(h):
		return "", nil
	case strings.HasPrefix(code, "Container") && sdk.IsClear(err) && sdk.CodeOf(err) != sdk.PermissionDenied:
		// ContainerGroupTransitioning, ContainerLogNotAvailable, ContainerGroupStopped
		// and the like are of the container, not of the call.
		return "", nil
	}
	return "", err
}
