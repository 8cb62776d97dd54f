package docker

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opLogs = "read job logs"

	// cursorEvery is how many records may come without a cursor.
	cursorEvery = 256

	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	// maxTries bounds how often a log that the engine can't read is tried.
	maxTries = 5

	waitFirst = 50 * time.Millisecond
	waitMost  = 500 * time.Millisecond
	pollMost  = 2 * time.Second

	// A silent stream is doubted: is the container still there, and does the
	// engine still follow its log?
	idleFirst   = time.Second
	idleMost    = 15 * time.Second
	reopenFirst = 30 * time.Second
	reopenMost  = 5 * time.Minute

	// fixedNewline is the API of the engines whose log driver local no longer
	// loses the newline of a line that it stored in pieces.
	fixedNewline = "1.42"
)

// JobLogs implements sdk.JobLogger. The end of a log is proven when the
// container had ended before the log was read to its end. While it runs the log
// is followed, over cut connections and silent streams alike.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		err := r.Handle.Check(opLogs, p.identity)
		var pos position
		if err == nil {
			pos, err = parseCursor(r.Cursor)
		}
		if err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		t := &tail{p: p, handle: r.Handle, follow: r.Follow, pos: pos, yield: yield, reopen: reopenFirst}
		if err := t.run(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(sdk.LogItem{}, err)
		}
	}
}

// What ends a pass besides the end of the stream: the consumer broke out of its
// loop, or the stream was silent for so long that it is opened anew.
var (
	errStopped = errors.New("the consumer stopped")
	errReopen  = errors.New("the stream is opened anew")
)

// tail is one reading of a log.
type tail struct {
	p      *provider
	handle sdk.JobHandle
	follow bool
	pos    position
	yield  func(sdk.LogItem, error) bool

	// lost: records were dropped by the engine before they could be read.
	lost bool
	// fresh is how many records the current pass gave, plain how many were
	// given since the last cursor.
	fresh, plain int
	// tries counts failures without a record in between.
	tries               int
	retry, wait, reopen time.Duration
}

func (t *tail) run(ctx context.Context) error {
	t.calm()
	t.wait, t.reopen = waitFirst, reopenFirst
	for first := true; ; first = false {
		c, err := t.p.inspect(ctx, opLogs, t.handle.ID)
		if err != nil {
			if err := t.failed(ctx, err); err != nil {
				return err
			}
			continue
		}
		st, bound := readState(c), logBound(c)
		if first && bound > 0 && t.pos == (position{}) && !st.startable() {
			if err := t.doubtHead(ctx, bound); err != nil {
				return err
			}
		}
		live := t.follow && st.running && bound == 0
		if t.fresh = 0; !st.startable() {
			err = t.pass(ctx, live)
		}
		if t.fresh > 0 {
			t.calm()
			t.wait, t.reopen = waitFirst, reopenFirst
		}
		switch {
		case errors.Is(err, errReopen):
			t.reopen = min(2*t.reopen, reopenMost)
			continue
		case err != nil:
			if err := t.failed(ctx, err); err != nil {
				return err
			}
			continue
		case st.ended:
			return t.end(sdk.VerdictComplete, c)
		case !t.follow:
			return t.end(sdk.VerdictQuiet, c)
		case live && t.fresh > 0:
			continue // the stream ended, with the container or without: look
		}
		most := waitMost
		if bound > 0 {
			most = pollMost
		}
		if err := t.sleep(ctx, &t.wait, most); err != nil {
			return err
		}
	}
}

// calm forgets earlier failures.
func (t *tail) calm() { t.tries, t.retry = 0, retryFirst }

func (t *tail) sleep(ctx context.Context, d *time.Duration, most time.Duration) error {
	if err := t.p.clock.Sleep(ctx, *d); err != nil {
		return t.p.fail(sdk.CodeOf(ctx.Err()), opLogs, err)
	}
	*d = min(2**d, most)
	return nil
}

// failed decides whether reading goes on after an error, and waits if so. While
// following, an engine that can't be reached is waited for; a log that the
// engine can't read is tried a few times.
func (t *tail) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errStopped) || ctx.Err() != nil:
		return err
	case errors.Is(err, sdk.NotFound):
		return t.p.absent(ctx, opLogs, t.handle.Metadata[keyEngine], err)
	case !sdk.IsRetryable(err) && !errors.Is(err, sdk.DataLoss):
		return err
	}
	if t.tries++; t.tries >= maxTries && (!t.follow || errors.Is(err, sdk.DataLoss)) {
		return err
	}
	t.p.log.Debug("log stream broke", "container", t.handle.ID, "err", err)
	return t.sleep(ctx, &t.retry, retryMost)
}

// end gives what the end of the log still owes, and the verdict.
func (t *tail) end(v sdk.Verdict, c container.InspectResponse) error {
	if v == sdk.VerdictComplete && losesNewlines(c) && !t.p.client.AtLeast(fixedNewline) {
		// Whether the log's very last line ended with a newline can't be told
		// there, for lines of more than one piece; nearly all do.
		for _, s := range []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr} {
			if l := t.pos.of(s); l.owed {
				l.owed = false
				if !t.yield(sdk.LogItem{Entry: &sdk.LogChunk{Time: time.Unix(0, l.stamp).UTC(), Stream: s, Data: []byte{'\n'}, LineEnd: sdk.LineEndKept}}, nil) {
					return errStopped
				}
			}
		}
	}
	if t.lost {
		v = sdk.VerdictTruncatedByProvider
	}
	if !t.yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: v}, Cursor: t.pos.cursor()}, nil) {
		return errStopped
	}
	return nil
}

func losesNewlines(c container.InspectResponse) bool {
	return c.HostConfig != nil && c.HostConfig.LogConfig.Type == logLocal
}

// logBound is how many bytes a bounded log keeps for sure; 0 is no bound.
func logBound(c container.InspectResponse) int64 {
	if c.HostConfig == nil {
		return 0
	}
	cfg := c.HostConfig.LogConfig.Config
	size, err := strconv.ParseInt(cfg["max-size"], 10, 64)
	if err != nil || cfg["max-file"] != strconv.Itoa(logFiles) {
		return 0
	}
	return size
}

// open asks for the log from a stamp on.
func (t *tail) open(ctx context.Context, follow bool, since int64) (io.ReadCloser, context.CancelFunc, error) {
	var body io.ReadCloser
	opt := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: follow}
	if since > 0 {
		opt.Since = engineStamp(time.Unix(0, since))
	}
	release, err := t.p.client.Stream(ctx, opLogs, func(ctx context.Context, api *client.Client) (err error) {
		body, err = api.ContainerLogs(ctx, t.handle.ID, opt)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return body, func() {
		_ = body.Close()
		release()
	}, nil
}

// pass reads the log once, from the position on, to the end of the stream. A nil
// error means that the engine ended it properly.
func (t *tail) pass(ctx context.Context, live bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	skip := newSeek(t.pos)
	body, release, err := t.open(ctx, live, skip.since)
	if err != nil {
		return err
	}
	defer release()
	in := newFrames(body)
	reading := new(activity)
	if live {
		done := make(chan struct{})
		go func() {
			defer close(done)
			t.doubt(ctx, reading, cancel)
		}()
		defer func() {
			cancel(nil)
			<-done
		}()
	}
	for {
		reading.begin()
		rec, err := in.next()
		reading.end()
		switch {
		case errors.Is(err, io.EOF):
			if skip.lostAtEnd() && !live {
				return t.gap(skip, record{})
			}
			return nil
		case err != nil && errors.Is(context.Cause(ctx), errReopen):
			return errReopen
		case err != nil:
			return t.readError(ctx, err)
		}
		fresh, lost := skip.pass(rec)
		if lost {
			if err := t.gap(skip, rec); err != nil {
				return err
			}
		}
		if fresh {
			if err := t.give(rec, in.drained()); err != nil {
				return err
			}
		}
	}
}

func (t *tail) readError(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) && errors.Is(err, errUnreadable) {
		return t.p.fail(sdk.DataLoss, opLogs, err)
	}
	return t.p.streamError(ctx, opLogs, err)
}

// give passes a record on. A line's newline that the engine lost comes with the
// stream's next record: there is one, so the line had ended.
func (t *tail) give(rec record, drained bool) error {
	data := rec.data
	if t.pos.of(rec.stream).owed {
		data = rec.room
		data[0] = '\n'
	}
	t.pos.took(rec)
	t.fresh++
	t.plain++
	item := sdk.LogItem{}
	if len(data) > 0 {
		item.Entry = &sdk.LogChunk{Time: time.Unix(0, rec.stamp).UTC(), Stream: rec.stream, Data: data, LineEnd: sdk.LineEndKept}
	}
	if drained || t.plain >= cursorEvery {
		t.plain = 0
		item.Cursor = t.pos.cursor()
	}
	if item.Entry == nil && item.Cursor == nil {
		return nil
	}
	if !t.yield(item, nil) {
		return errStopped
	}
	return nil
}

// gap tells that records which were given are gone from the log, so that
// younger ones may be as well.
func (t *tail) gap(skip *seek, next record) error {
	g := &sdk.LogGap{Bytes: -1, Why: "the engine dropped output before it was read"}
	if newest := max(skip.to.out.stamp, skip.to.err.stamp); newest > 0 {
		g.From = time.Unix(0, newest).UTC()
	}
	if next.stamp > 0 {
		g.To = time.Unix(0, next.stamp).UTC()
	}
	t.lost = true
	if next.stamp == 0 {
		skip.settle(&t.pos)
	}
	if !t.yield(sdk.LogItem{Gap: g}, nil) {
		return errStopped
	}
	return nil
}

// doubtHead looks whether the beginning of a bounded log may have been dropped
// before anybody read it: no file of it is dropped before a second one is full.
func (t *tail) doubtHead(ctx context.Context, bound int64) error {
	body, release, err := t.open(ctx, false, 0)
	if err != nil {
		return t.failed(ctx, err)
	}
	defer release()
	in := newFrames(body)
	for kept := int64(0); ; {
		rec, err := in.next()
		if err != nil {
			return nil // the pass that follows tells of errors
		}
		if kept += int64(len(rec.data)); kept >= bound {
			return t.gap(newSeek(position{}), rec)
		}
	}
}

// activity tells whether a reader waits for the engine, and since when: one
// that waits for its consumer isn't idle.
type activity struct {
	reading atomic.Bool
	count   atomic.Int64
}

func (a *activity) begin() { a.count.Add(1); a.reading.Store(true) }
func (a *activity) end()   { a.reading.Store(false) }

// doubt watches over a followed stream. Where nothing comes, the container may
// have ended without the engine ending the stream, or the engine may have lost
// the log's file when it was rotated; then the stream is opened anew.
func (t *tail) doubt(ctx context.Context, a *activity, cancel context.CancelCauseFunc) {
	seen, every, idle := int64(-1), idleFirst, time.Duration(0)
	for {
		if t.p.clock.Sleep(ctx, every) != nil {
			return
		}
		if n := a.count.Load(); n != seen || !a.reading.Load() {
			seen, every, idle = n, idleFirst, 0
			continue
		}
		idle += every
		every = min(2*every, idleMost)
		c, err := t.p.inspect(ctx, opLogs, t.handle.ID)
		if ctx.Err() != nil {
			return
		}
		if err != nil || !readState(c).running || idle >= t.reopen {
			cancel(errReopen)
			return
		}
	}
}
