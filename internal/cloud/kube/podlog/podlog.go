// Package podlog reads what the containers of a job's pods have written, without
// losing or doubling a byte, from a stream that may be cut, rotated or silent at any
// time. The API marks each line with a stamp; a read is resumed from the last stamp
// and the count of its lines.
package podlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// A log that isn't there yet, or was cut, is asked for again after these.
	lookFirst = 50 * time.Millisecond
	lookLast  = 2 * time.Second
	// patience is for how long a followed log may fail without a success between.
	patience = 5 * time.Minute
)

// Container is the container of a pod whose output counts.
type Container struct {
	// UID is that of its pod, Pod the pod's name.
	UID, Pod string
	// Started: it has, or may have, written something. Ended: it writes no more.
	Started, Ended bool
}

// Sight is what there is of a job.
type Sight struct {
	// Containers are those of its pods, oldest first.
	Containers []Container
	// Over: no further container will come. Silent: none was ever started. Untold:
	// nothing tells that one was, so that a reader who saw it wait takes it for
	// silent. Kept: the whole output is also where Kept of the reader finds it.
	Over, Silent, Untold, Kept bool
}

// Source is where a job's containers and their logs are.
type Source interface {
	// Look tells what there is. Calls of one reader come one at a time.
	Look(ctx context.Context) (Sight, error)
	// Open opens a container's log from the second of since on, each line behind its
	// stamp; zero is from the beginning. Follow keeps it open while the container
	// runs. NotFound and InvalidArgument say that there is no log yet, or no more.
	Open(ctx context.Context, c Container, since time.Time, follow bool) (io.ReadCloser, error)
}

// Reader reads the output of one job.
type Reader struct {
	// Kind is that of the driver, Op and Provider what errors are made of.
	Kind, Op, Provider string
	Source             Source
	// Stall is after how long of silence a followed log is opened again.
	Stall time.Duration
	// Unproven has a source's words that a container ended, or that its log did, be no
	// proof that everything was read: the verdict is quiet at best.
	Unproven bool
	// Split tells what a line is made of, where not all of it is the job's; nil takes
	// each as one of the job's.
	Split func(line sdk.LogChunk) []sdk.LogChunk
	// Kept opens the whole output, without stamps, where a sight says that it is kept.
	// A read that had nothing before it is read from there.
	Kept func(ctx context.Context) (io.ReadCloser, error)
}

func (r Reader) fail(code sdk.Code, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: r.Op, Provider: r.Provider, Err: err}
}

// Read gives the output from a cursor on, nil for the beginning. It reads the logs of
// the pods one behind the other. A stream's end means nothing: while the container
// runs it is opened again, and once it has ended a last read that isn't followed
// proves that nothing more is there.
func (r Reader) Read(ctx context.Context, cursor *sdk.LogCursor, follow bool) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		pos, err := readPosition(r.Kind, cursor)
		if err != nil {
			yield(sdk.LogItem{}, r.fail(sdk.InvalidArgument, err))
			return
		}
		t := &tail{r: r, pos: pos, follow: follow, wait: lookFirst, verdict: sdk.VerdictComplete, healthy: time.Now()}
		t.yield = func(it sdk.LogItem) bool {
			t.left = t.left || !yield(it, nil)
			return !t.left
		}
		if err := t.run(ctx); err != nil && !t.left {
			yield(sdk.LogItem{}, err)
		}
	}
}

// tail is one read of a job's output.
type tail struct {
	r       Reader
	pos     position
	follow  bool
	verdict sdk.Verdict
	yield   func(sdk.LogItem) bool
	// left: the reader has gone.
	left bool
	// begun: the container of the position was seen to have started.
	begun bool
	// given counts the items with bytes. met: what is lost at the end was told.
	given int
	met   bool
	// held is a last line without an end as the read before had it.
	held piece
	// wait is the time until the next look; healthy is when one last succeeded.
	wait    time.Duration
	healthy time.Time
}

func (t *tail) run(ctx context.Context) error {
	for !t.left {
		done, err := t.look(ctx)
		switch {
		case ctx.Err() != nil:
			return t.r.fail(sdk.CodeOf(ctx.Err()), ctx.Err())
		case done || t.left:
			return nil
		case err != nil && (!t.follow || !sdk.IsRetryable(err) || time.Since(t.healthy) > patience):
			return err
		case err == nil:
			t.healthy = time.Now()
		}
		if !t.yield(sdk.LogItem{}) { // a look that found nothing new
			return nil
		}
		if err := sdk.SystemClock().Sleep(ctx, max(t.wait, sdk.RetryAfter(err))); err != nil {
			return t.r.fail(sdk.CodeOf(err), err)
		}
		t.wait = min(2*t.wait, lookLast)
	}
	return nil
}

// look reads as far as there is something to read. done: End was given.
func (t *tail) look(ctx context.Context) (done bool, err error) {
	s, err := t.r.Source.Look(ctx)
	if err != nil {
		return false, err
	}
	if s.Kept && s.Over && (t.pos.kept || t.pos.stamp.IsZero()) {
		return t.kept(ctx)
	}
	if len(s.Containers) == 0 && s.Over && t.pos.uid == "" {
		if !s.Silent {
			t.yield(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: "the pod was deleted before its output was read"}})
			t.verdict = sdk.VerdictUnavailable
		}
		t.end()
		return true, nil
	}
	rest := t.rest(s.Containers)
	if t.pos.uid != "" && !slices.ContainsFunc(s.Containers, func(c Container) bool { return c.UID == t.pos.uid }) {
		// What was still to come of this pod is lost; another may follow. One that was
		// deleted while it waited to start had nothing to come, as far as can be told.
		waited := !t.begun && t.pos.stamp.IsZero() && s.Over
		switch {
		case waited && s.Silent:
		case waited && s.Untold:
			t.verdict = t.verdict.Worse(sdk.VerdictQuiet)
		case !t.gap("the pod was deleted before its output was read to the end"):
			return false, nil
		}
		t.pos, t.begun = position{launch: t.pos.launch + 1}, false
		if len(rest) == 0 && s.Over {
			t.end()
			return true, nil
		}
	}
	for _, c := range rest {
		if c.UID != t.pos.uid {
			if t.pos.uid != "" {
				t.pos = position{launch: t.pos.launch + 1}
			}
			t.pos.uid, t.begun = c.UID, false
		}
		t.begun = t.begun || c.Started
		whole, err := t.container(ctx, c)
		if err != nil || t.left || !whole {
			if !t.follow && err == nil && !t.left {
				t.verdict = t.verdict.Worse(sdk.VerdictQuiet)
				t.end()
				return true, nil
			}
			return false, err
		}
	}
	if s.Over || !t.follow {
		if !s.Over {
			t.verdict = t.verdict.Worse(sdk.VerdictQuiet)
		}
		t.end()
		return true, nil
	}
	return false, nil
}

// rest are the containers from the one on that the position is in.
func (t *tail) rest(all []Container) []Container {
	if t.pos.uid == "" {
		return all
	}
	i := slices.IndexFunc(all, func(c Container) bool { return c.UID == t.pos.uid })
	return all[max(i, 0):]
}

// container reads a container's log from the position on. whole: it is proven to be
// all.
func (t *tail) container(ctx context.Context, c Container) (whole bool, err error) {
	switch {
	case !c.Started:
		return c.Ended, nil // there never was, or isn't yet, any output
	case !c.Ended:
		_, err := t.read(ctx, c, t.follow)
		return false, err
	}
	// All that comes from here on was written before the look that saw the end. A
	// stream that was cut on its way may look like one that came to its end, so that
	// only a read that brings nothing new is the proof.
	for !t.left {
		before := t.given
		clean, err := t.read(ctx, c, false)
		if err != nil || !clean || t.given == before {
			if clean && t.r.Unproven {
				t.verdict = t.verdict.Worse(sdk.VerdictQuiet)
			}
			return clean, err
		}
	}
	return false, nil
}

// read gives what one stream has. clean: it was read to an end that the server made,
// behind a whole line or at the end of one that was never ended.
func (t *tail) read(ctx context.Context, c Container, follow bool) (clean bool, err error) {
	body, err := t.r.Source.Open(ctx, c, t.pos.since(), follow)
	switch sdk.CodeOf(err) {
	case 0:
	case sdk.NotFound, sdk.InvalidArgument:
		if !c.Ended {
			return false, nil // the pod has gone, or its container hasn't come: the next look tells
		}
		return false, t.absent(fmt.Errorf("the log of an ended container: %w", err))
	default:
		return false, err
	}
	// A stream that falls silent may be dead, or follow a file that was rotated. The
	// time that the caller takes over what it gets is not the stream's silence.
	stall := time.AfterFunc(t.r.Stall, func() { _ = body.Close() })
	defer stall.Stop()
	defer body.Close() //nolint:errcheck // it was only read
	lines := splitter{resumed: !t.pos.since().IsZero()}
	old := newSieve(t.pos)
	absent := func() error {
		return t.absent(errors.New("the node has no log of the container: " + lines.words()))
	}
	take := func(q piece) bool { return t.take(old, q) }
	buf := make([]byte, 32<<10)
	for {
		stall.Reset(t.r.Stall)
		n, rerr := body.Read(buf)
		stall.Stop()
		if n > 0 {
			more, ok := lines.write(buf[:n], take)
			if !more {
				return false, nil
			}
			if !ok {
				return false, absent()
			}
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return false, nil // cut; the next look tells whether there is more
		}
	}
	if len(lines.strayed) > 0 {
		return false, absent() // the line that was reached would be there
	}
	if follow {
		return false, nil
	}
	last, partial := lines.rest()
	switch {
	case !c.Ended:
		return true, nil
	case partial && t.r.Split != nil && !t.seen(last):
		// A part of a line would be split as if it were one.
		t.given++
		return true, nil
	case partial && !t.take(old, last), !partial && len(lines.buf) > 0:
		return false, nil
	case !old.met && !t.met:
		// What was read of it is no longer there, and so perhaps what came behind.
		t.met = true
		t.gap("the node rotated the log before it was read to the end")
	}
	return true, nil
}

// seen reports whether the read before ended in the same part of a line.
func (t *tail) seen(last piece) bool {
	same := t.held.stamp.Equal(last.stamp) && bytes.Equal(t.held.data, last.data)
	t.held = piece{stamp: last.stamp, data: bytes.Clone(last.data)}
	return same
}

func (t *tail) absent(err error) error {
	e := t.r.fail(sdk.Unavailable, err)
	e.Retryable = true
	return e
}

// take gives what is new of a piece.
func (t *tail) take(old *sieve, q piece) bool {
	fresh, isNew, gap := old.pass(q)
	if gap && !t.gap("the node rotated the log before it was read") {
		return false
	}
	if gap {
		t.pos = old.there // what is gone can't be counted again
	}
	if !isNew {
		return true
	}
	t.pos = t.pos.advance(q, fresh)
	t.given++
	t.wait, t.healthy = lookFirst, time.Now()
	c := sdk.LogChunk{Time: q.stamp, Stream: sdk.StreamCombined, Data: fresh, LineEnd: sdk.LineEndKept, Launch: t.pos.launch}
	if q.whole {
		c.LineEnd = sdk.LineEndStripped
	}
	if t.r.Split == nil {
		return t.yield(sdk.LogItem{Entry: &c, Cursor: t.pos.cursor(t.r.Kind)})
	}
	parts := t.r.Split(c)
	for i := range parts {
		it := sdk.LogItem{Entry: &parts[i]}
		if i == len(parts)-1 {
			it.Cursor = t.pos.cursor(t.r.Kind) // a read from within a line would give parts of it again
		}
		if !t.yield(it) {
			return false
		}
	}
	return true
}

func (t *tail) gap(why string) bool {
	t.verdict = t.verdict.Worse(sdk.VerdictGap)
	return t.yield(sdk.LogItem{Gap: &sdk.LogGap{From: t.pos.stamp, Bytes: -1, Why: why}})
}

func (t *tail) end() {
	t.yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: t.verdict}, Cursor: t.pos.cursor(t.r.Kind)})
}
