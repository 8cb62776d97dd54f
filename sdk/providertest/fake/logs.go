package fake

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// place is a position in a log: a byte of an event.
type place struct{ event, offset int }

// before reports whether p stands in front of q.
func (p place) before(q place) bool {
	return p.event < q.event || p.event == q.event && p.offset < q.offset
}

// event is a piece of a log as the cloud sends it, from a place on.
type event struct {
	at    place
	chunk chunk
	// whole: the event is at its end.
	whole bool
}

// next is the place behind.
func (e event) next() place {
	if e.whole {
		return place{event: e.at.event + 1}
	}
	return place{e.at.event, e.at.offset + len(e.chunk.data)}
}

// page is an answer to one read of a log.
type page struct {
	events []event
	// end: there is nothing behind.
	end bool
	// next is when there may be more; zero is not known.
	next time.Time
	// gone: the log was forgotten.
	gone bool
	// cut: the connection broke.
	cut bool
}

// pageEvents bounds a page.
const pageEvents = 256

// readLogs answers one read.
func (c *Cloud) readLogs(ctx context.Context, id string, from place) (page, error) {
	in, err := c.enter(ctx, OpJobLogs, idBody{ID: id})
	if err != nil {
		return page{}, err
	}
	v, now, err := c.known(id)
	if err != nil {
		return page{}, broken(OpJobLogs, err)
	}
	if v == nil {
		return page{}, absent(OpJobLogs, id)
	}
	k, l := c.knobs.Load(), v.line
	late := time.Duration(k.LateLogs)
	var out page
	if f := time.Duration(k.ForgetLogs); f > 0 && !l.ended.IsZero() && now.Sub(l.ended) >= f {
		out.gone = true
		return out, in.done()
	}
	left := k.LogCut
	if k.DuplicateLogs && from.event > 0 && from.event <= len(l.chunks) {
		out.events = append(out.events, event{place{event: from.event - 1}, l.chunks[from.event-1], true})
	}
	i := from.event
	for ; i < len(l.chunks); i++ {
		ch := l.chunks[i]
		if due := ch.at.Add(late); now.Before(due) {
			out.next = due
			break
		}
		if len(out.events) >= pageEvents {
			out.next = now
			break
		}
		offset := 0
		if i == from.event {
			offset = min(from.offset, len(ch.data))
		}
		ch.data = ch.data[offset:]
		if len(ch.data) == 0 && offset > 0 {
			continue
		}
		// A stored line is sent whole or not at all.
		if k.LogCut > 0 && (left <= 0 || !ch.stripped && len(ch.data) > left) {
			out.cut = true
			if left > 0 {
				ch.data = ch.data[:left]
				out.events = append(out.events, event{place{i, offset}, ch, false})
			}
			return out, in.done()
		}
		left -= len(ch.data) + 1
		if !ch.stripped {
			left++
		}
		out.events = append(out.events, event{place{i, offset}, ch, true})
	}
	if i == len(l.chunks) {
		switch {
		case l.ended.IsZero():
		case now.Before(l.ended.Add(late)):
			out.next = l.ended.Add(late)
		default:
			out.end = true
		}
	}
	return out, in.done()
}

func (p *provider) cursor(at place) *sdk.LogCursor {
	return &sdk.LogCursor{V: sdk.CursorVersion, Kind: p.self.Kind, Position: map[string]string{
		"event": strconv.Itoa(at.event), "offset": strconv.Itoa(at.offset)}}
}

func (p *provider) readCursor(c *sdk.LogCursor) (place, error) {
	var at place
	if c == nil {
		return at, nil
	}
	if c.V > sdk.CursorVersion {
		return at, &sdk.Error{Code: sdk.FailedPrecondition, Op: opName(OpJobLogs), Remedy: "use a newer windlass",
			Err: fmt.Errorf("cursor of version %d, this program reads up to %d", c.V, sdk.CursorVersion)}
	}
	var err1, err2 error
	at.event, err1 = strconv.Atoi(c.Position["event"])
	at.offset, err2 = strconv.Atoi(c.Position["offset"])
	if c.Kind != p.self.Kind || err1 != nil || err2 != nil || at.event < 0 || at.offset < 0 {
		return at, sdk.Errorf(sdk.InvalidArgument, opName(OpJobLogs), "the cursor is not one of this backend's logs")
	}
	return at, nil
}

// JobLogs implements sdk.JobLogger.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := p.checkHandle(OpJobLogs, r.Handle); err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		at, err := p.readCursor(r.Cursor)
		if err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		sub := p.cloud.hub.subscribe(r.Handle.ID)
		defer p.cloud.hub.unsubscribe(sub)
		failed := 0
		for {
			pg, err := p.readPage(ctx, r.Handle.ID, at)
			if err != nil {
				failed++
				if failed > logRetries || !sdk.IsRetryable(err) || !r.Follow {
					yield(sdk.LogItem{}, err)
					return
				}
				pause := max(sdk.RetryAfter(err), time.Duration(failed)*50*time.Millisecond)
				if p.cloud.clock.Sleep(ctx, pause) != nil {
					yield(sdk.LogItem{}, ended(ctx, OpJobLogs))
					return
				}
				continue
			}
			failed = 0
			if pg.gone {
				p.yieldGone(at, yield)
				return
			}
			for _, e := range pg.events {
				if e.at.before(at) {
					// The cloud sent it again.
					continue
				}
				at = e.next()
				if !yield(p.entry(e.chunk, at), nil) {
					return
				}
			}
			if pg.cut || p.due(pg) {
				continue
			}
			if !r.Follow || pg.end && p.g.Logs.EndProven {
				verdict := sdk.VerdictQuiet
				if pg.end && p.g.Logs.EndProven {
					verdict = sdk.VerdictComplete
				}
				yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: verdict}, Cursor: p.cursor(at)}, nil)
				return
			}
			if p.g.Logs.Looks && !yield(sdk.LogItem{}, nil) {
				return
			}
			if err := p.cloud.wait(ctx, sub, pg.next); err != nil {
				yield(sdk.LogItem{}, ended(ctx, OpJobLogs))
				return
			}
		}
	}
}

// logRetries bounds the errors in a row that following a log bears.
const logRetries = 5

// due reports whether the cloud has more already.
func (p *provider) due(pg page) bool {
	return !pg.next.IsZero() && !pg.next.After(p.cloud.clock.Now())
}

func (p *provider) readPage(ctx context.Context, id string, at place) (page, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	return p.cloud.readLogs(ctx, id, at)
}

func (p *provider) entry(c chunk, next place) sdk.LogItem {
	end := sdk.LineEndKept
	if c.stripped {
		end = sdk.LineEndStripped
	}
	return sdk.LogItem{Entry: &sdk.LogChunk{Time: c.at, Stream: c.stream, Data: c.data, LineEnd: end}, Cursor: p.cursor(next)}
}

// yieldGone ends a log that the cloud has forgotten.
func (p *provider) yieldGone(at place, yield func(sdk.LogItem, error) bool) {
	verdict := sdk.VerdictGap
	if at == (place{}) {
		verdict = sdk.VerdictUnavailable
	}
	gap := sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: "the backend no longer has the log"}, Cursor: p.cursor(at)}
	if yield(gap, nil) {
		yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: verdict}, Cursor: p.cursor(at)}, nil)
	}
}
