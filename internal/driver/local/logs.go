//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/capture"
	"github.com/windlass-run/windlass/sdk"
)

// The keys of a cursor's position.
const (
	keyAttempt = "attempt"
	keyOffset  = "offset"
	keyTold    = "told"
)

// JobLogs reads the file that the supervisor writes. The end is proven by the
// record of the end, which is made when nothing of the job lives any more and
// all of its output is in the file.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	const op = "read job logs"
	return func(yield func(sdk.LogItem, error) bool) {
		fail := func(err error) { yield(sdk.LogItem{}, p.fail(op, err)) }
		if ctx.Err() != nil {
			fail(context.Cause(ctx))
			return
		}
		f, id, err := p.attempt(op, r.Handle)
		if err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		offset, err := position(id, r.Cursor)
		if err != nil {
			fail(err)
			return
		}
		l := &logReader{p: p, folder: f, id: id, yield: yield, offset: offset, shown: time.Now(),
			told: r.Cursor != nil && r.Cursor.Position[keyTold] != ""}
		defer l.close()
		if err := l.run(ctx, r.Follow); err != nil {
			fail(err)
		}
	}
}

func position(id sdk.ID, c *sdk.LogCursor) (int64, error) {
	if c == nil {
		return 0, nil
	}
	if c.V > sdk.CursorVersion {
		return 0, sdk.Errorf(sdk.FailedPrecondition, "read cursor", "version %d, this program reads up to %d", c.V, sdk.CursorVersion)
	}
	if c.Kind != Kind || c.Position[keyAttempt] != id.String() {
		return 0, sdk.Errorf(sdk.InvalidArgument, "read cursor", "it belongs to another log")
	}
	n, err := strconv.ParseInt(c.Position[keyOffset], 10, 64)
	if err != nil || n < 0 {
		return 0, sdk.Errorf(sdk.InvalidArgument, "read cursor", "%q is no offset", c.Position[keyOffset])
	}
	return n, nil
}

// logReader is one stream of items.
type logReader struct {
	p      *provider
	folder attempt.Folder
	id     sdk.ID
	yield  func(sdk.LogItem, error) bool
	offset int64
	file   *os.File
	reader *capture.Reader
	worst  sdk.Verdict
	told   bool      // the gap that is in the record of the end alone was given
	shown  time.Time // of the last cursor
}

// errBroken ends a stream whose reader has left.
var errBroken = errors.New("the reader has left")

func (l *logReader) close() {
	if l.file != nil {
		_ = l.file.Close()
	}
}

func (l *logReader) run(ctx context.Context, follow bool) error {
	n := l.p.watcher.notifier()
	defer n.close()
	if follow {
		n.names(string(l.folder))
	}
	tick := time.NewTicker(n.every())
	defer tick.Stop()
	for {
		// While it grows, nothing else needs to be known of it.
		before := l.cursorOffset()
		if follow {
			if err := l.read(ctx, false); err != nil {
				return stopped(err)
			}
			if l.cursorOffset() > before {
				if err := l.p.clock.Sleep(ctx, pace); err != nil {
					return err
				}
				continue
			}
			n.next(l.folder.Path(attempt.OutputFile))
		}
		// How it stands is asked first: what was written before that is read.
		v, err := l.p.look(l.folder)
		if err != nil {
			return err
		}
		if v.stage == stageAbsent {
			return l.p.absent("read job logs", l.id)
		}
		final := v.stage >= stageEnded || v.stage == stageUnsent && l.folder.Has(attempt.CancelFile)
		if err := l.read(ctx, final); err != nil {
			return stopped(err)
		}
		if final {
			l.end(v)
			return nil
		}
		if !follow {
			l.yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: l.worst.Worse(sdk.VerdictQuiet)}, Cursor: l.cursor()}, nil)
			return nil
		}
		if l.cursorOffset() > before {
			continue
		}
		select {
		case <-n.c:
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func stopped(err error) error {
	if errors.Is(err, errBroken) {
		return nil
	}
	return err
}

// pace is the time between two looks at a log that grows, so that a job that
// writes all the time is not read a line at a time.
const pace = 2 * time.Millisecond

// end says how much of the output there was.
func (l *logReader) end(v view) {
	verdict := l.worst.Worse(sdk.VerdictComplete)
	switch {
	case v.stage == stageLost || v.stage == stageRebooted:
		// What was in the pipes went with the supervisor.
		gap := &sdk.LogGap{From: v.started.At, Bytes: -1, Why: "the supervisor died; what it had not written yet is lost"}
		if !l.yield(sdk.LogItem{Gap: gap, Cursor: l.cursor()}, nil) {
			return
		}
		verdict = verdict.Worse(sdk.VerdictGap)
	case v.end.Lost > 0:
		if n := v.end.Untold; n > 0 && !l.told {
			// The disk had no room for the gap either.
			l.told = true
			gap := &sdk.LogGap{From: v.end.Started, To: v.end.Ended, Bytes: n, Why: fmt.Sprintf("%d bytes could not be written: the disk was full or failed", n)}
			if !l.yield(sdk.LogItem{Gap: gap, Cursor: l.cursor()}, nil) {
				return
			}
		}
		verdict = verdict.Worse(sdk.VerdictGap)
	case v.end.Capped > 0:
		verdict = verdict.Worse(sdk.VerdictTruncatedByUs)
	}
	l.yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: verdict}, Cursor: l.cursor()}, nil)
}

// read gives all that is there.
func (l *logReader) read(ctx context.Context, final bool) error {
	if l.reader == nil {
		f, err := os.Open(l.folder.Path(attempt.OutputFile))
		if errors.Is(err, attempt.ErrNone) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("open output: %w", err)
		}
		l.file, l.reader = f, capture.NewReader(f, l.offset)
		if st, err := f.Stat(); err == nil && st.Size() < l.offset {
			return sdk.Errorf(sdk.OutOfRange, "read cursor", "offset %d is behind the end", l.offset)
		}
	}
	for {
		frame, err := l.reader.Next(final)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read output: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		item := sdk.LogItem{}
		if frame.Gap != nil {
			item.Gap = l.gap(frame)
		} else {
			item.Entry = &sdk.LogChunk{Time: frame.Time, Stream: frame.Stream, Data: frame.Data, LineEnd: sdk.LineEndKept}
		}
		if now := time.Now(); now.Sub(l.shown) > time.Second || !l.reader.Buffered() {
			l.shown, item.Cursor = now, l.cursor()
		}
		if !l.yield(item, nil) {
			return errBroken
		}
	}
}

func (l *logReader) gap(f capture.Frame) *sdk.LogGap {
	g := &sdk.LogGap{From: f.Gap.From, To: f.Gap.To, Bytes: f.Gap.Bytes}
	switch f.Gap.Why {
	case capture.WhyDisk:
		g.Why = fmt.Sprintf("%d bytes of %s could not be written: the disk was full or failed", g.Bytes, f.Stream)
		l.worst = l.worst.Worse(sdk.VerdictGap)
	case capture.WhyCap:
		g.Why = fmt.Sprintf("%d bytes of %s came behind max_output, the most that is kept of a job", g.Bytes, f.Stream)
		l.worst = l.worst.Worse(sdk.VerdictTruncatedByUs)
	default:
		g.Why = "a part of the file is damaged"
		l.worst = l.worst.Worse(sdk.VerdictGap)
	}
	return g
}

func (l *logReader) cursorOffset() int64 {
	if l.reader != nil {
		return l.reader.Offset()
	}
	return l.offset
}

func (l *logReader) cursor() *sdk.LogCursor {
	at := map[string]string{keyAttempt: l.id.String(), keyOffset: strconv.FormatInt(l.cursorOffset(), 10)}
	if l.told {
		at[keyTold] = "true"
	}
	return &sdk.LogCursor{V: sdk.CursorVersion, Kind: Kind, Position: at}
}
