package iac

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

const (
	opLogs  = "job logs"
	rpcLogs = "IaCProviderRunner.JobLogs"
	// maxChunk bounds one message of a log in bytes: plugins are known to send the whole
	// output in one, beyond the 4 MiB that a client takes by itself.
	maxChunk = 16 << 20
	// maxData bounds the bytes of one entry.
	maxData = 1 << 20
	// cursorBytes and cursorTime are how much may come until a cursor is due.
	cursorBytes = 64 << 10
	cursorTime  = time.Second
	// firstPatience is how many quiet windows a stream has for its first chunk.
	firstPatience = 5
	// breaksMost is how often in a row a log may break without bringing anything new
	// until that is the caller's to know.
	breaksMost = 5
	// slowRead bounds the wait between two readings.
	slowRead = 30 * time.Second
)

// errLeft says that the reader has gone.
var errLeft = errors.New("the reader has gone")

// JobLogs implements sdk.JobLogger. A stream begins with the log's beginning, and may be
// live, or hold what there is and end. Its end proves nothing: what comes late is in the
// next one. So the log is read again and again, and what was given before is passed over.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := p.follow(ctx, r, yield); err != nil && !errors.Is(err, errLeft) {
			yield(sdk.LogItem{}, named(err, p.info.Name))
		}
	}
}

// reader reads one log for one caller.
type reader struct {
	p     *provider
	h     *pb.JobHandle
	quiet time.Duration
	only  bool // what is there now, without what comes
	at    position
	yield func(sdk.LogItem, error) bool

	// since a cursor was given
	bytes int
	given time.Time
}

func (p *provider) follow(ctx context.Context, r sdk.JobLogsRequest, yield func(sdk.LogItem, error) bool) error {
	if err := p.absent(sdk.Logger().String()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &sdk.Error{Code: sdk.CodeOf(err), Op: opLogs, Err: err}
	}
	h, err := p.theirs(opLogs, r.Handle)
	if err != nil {
		return err
	}
	at, err := readCursor(r.Cursor, p.info.Kind)
	if err != nil {
		return err
	}
	f := &reader{p: p, h: h, quiet: time.Duration(p.cfg.LogQuiet), only: !r.Follow, at: at, yield: yield, given: time.Now()}
	for breaks := 0; ; {
		began, before := time.Now(), f.at.total()
		end, err := f.once(ctx)
		switch {
		case errors.Is(err, errLeft):
			return err
		case sdk.CodeOf(err) == sdk.NotFound, sdk.CodeOf(err) == sdk.FailedPrecondition:
			// It isn't there yet, or not any more: the job's state tells. A log that was
			// there and stays away has gone.
			if breaks++; before > 0 && breaks > breaksMost {
				return err
			}
		case err != nil:
			if breaks++; f.at.total() > before {
				breaks = 1
			}
			if f.only || !sdk.IsRetryable(err) || breaks > breaksMost {
				return err
			}
		case end == tooMuch:
			return f.cut()
		case end == whole && f.at.total() == before:
			breaks = 0
			if err := f.give(sdk.LogItem{}); err != nil && !f.only {
				return err
			}
		default:
			breaks = 0
		}
		if f.only {
			return f.give(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictQuiet}, Cursor: f.at.cursor(p.info.Kind)})
		}
		if err := f.settle(); err != nil {
			return err
		}
		wait := max(f.quiet/2, min(2*time.Since(began), slowRead), sdk.RetryAfter(err))
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return &sdk.Error{Code: sdk.CodeOf(err), Op: opLogs, Err: err}
		}
	}
}

// How a reading came to its end.
type ending int

const (
	// whole: the plugin said so, and the log had all that was there before.
	whole ending = iota
	// partial: it was silent, or shorter than before.
	partial
	// tooMuch: there is a message that is too long to be taken.
	tooMuch
)

// over is how a reading came to its end where the plugin says that it has.
func over(seen *replay) ending {
	if seen.whole() {
		return whole
	}
	return partial
}

// received is a chunk, or why there is none.
type received struct {
	chunk *pb.LogChunk
	err   error
}

// once reads the log from its beginning and gives what lies behind the position.
func (f *reader) once(ctx context.Context) (ending, error) {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	stream, err := pb.NewIaCProviderRunnerClient(f.p.conn.grpc).JobLogs(ctx, f.h, grpc.MaxCallRecvMsgSize(maxChunk))
	if err != nil {
		cancel()
		return partial, fail(outer, opLogs, rpcLogs, err, trace{})
	}
	// Nothing is received ahead of who reads, so that a slow one slows the plugin.
	in, gone := make(chan received), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			c, err := stream.Recv()
			select {
			case in <- received{c, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		cancel()
		<-gone
	}()
	seen := newReplay(f.at)
	silence := time.NewTimer(firstPatience * f.quiet)
	defer silence.Stop()
	for {
		select {
		case r := <-in:
			switch {
			case errors.Is(r.err, io.EOF):
				return over(seen), nil
			case tooLong(r.err):
				return tooMuch, nil
			case r.err != nil:
				return partial, fail(outer, opLogs, rpcLogs, r.err, trace{})
			}
			if err := f.take(seen, r.chunk); err != nil {
				return partial, err
			}
			if r.chunk.GetEof() {
				return over(seen), nil
			}
			silence.Reset(f.quiet)
		case <-ctx.Done():
			return partial, fail(outer, opLogs, rpcLogs, ctx.Err(), trace{})
		case <-silence.C:
			if f.only {
				return partial, nil
			}
			// The stream is open, and gave nothing: a look, if it was past what was read before.
			if err := f.settle(); err != nil {
				return partial, err
			}
			if seen.whole() {
				if err := f.give(sdk.LogItem{}); err != nil {
					return partial, err
				}
			}
			silence.Reset(f.quiet)
		}
	}
}

// take gives what is new of a chunk.
func (f *reader) take(seen *replay, c *pb.LogChunk) error {
	s := streamOf(c.GetSource())
	data, changed := seen.pass(s, c.GetData())
	if changed {
		if err := f.give(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: "the plugin's log no longer begins as it did, so that a part may be missing"}}); err != nil {
			return err
		}
	}
	for len(data) > 0 {
		part := data[:min(len(data), maxData)]
		data = data[len(part):]
		seen.add(s, part)
		it := sdk.LogItem{Entry: &sdk.LogChunk{Stream: s, Data: part, LineEnd: sdk.LineEndKept}}
		if f.bytes += len(part); f.bytes >= cursorBytes || time.Since(f.given) >= cursorTime {
			f.due(&it)
		}
		if err := f.give(it); err != nil {
			return err
		}
	}
	return nil
}

// due puts the cursor on an item.
func (f *reader) due(it *sdk.LogItem) {
	it.Cursor = f.at.cursor(f.p.info.Kind)
	f.bytes, f.given = 0, time.Now()
}

// settle gives the cursor that is due since the last one.
func (f *reader) settle() error {
	if f.bytes == 0 {
		return nil
	}
	var it sdk.LogItem
	f.due(&it)
	return f.give(it)
}

// cut ends a log that can't be read on.
func (f *reader) cut() error {
	it := sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: "the plugin sends a message of more than 16 MiB; neither it nor what is behind it can be read"}}
	if err := f.give(it); err != nil {
		return err
	}
	return f.give(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictGap}, Cursor: f.at.cursor(f.p.info.Kind)})
}

func (f *reader) give(it sdk.LogItem) error {
	if !f.yield(it, nil) {
		return errLeft
	}
	return nil
}

// streamOf reads a chunk's source as the ecosystem's own host does, which looks for a
// part of the word; one that says neither is of both streams.
func streamOf(source string) sdk.Stream {
	s := strings.ToLower(source)
	switch {
	case strings.Contains(s, "stderr"):
		return sdk.StreamStderr
	case strings.Contains(s, "stdout"):
		return sdk.StreamStdout
	}
	return sdk.StreamCombined
}
