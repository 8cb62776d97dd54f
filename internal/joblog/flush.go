package joblog

import (
	"errors"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// schedule writes what is buffered when the last write is long past, else
// makes sure that it will be.
func (w *Writer) schedule() {
	if w.s.flushEvery <= 0 || (len(w.buf) == 0 && w.loss == nil) || w.err != nil {
		return
	}
	now := time.Now()
	due := w.flushed.Add(w.s.flushEvery)
	if due.Before(w.blocked) {
		due = w.blocked
	}
	if !now.Before(due) {
		_ = w.write(now)
		return
	}
	w.arm(due.Sub(now))
}

func (w *Writer) arm(d time.Duration) {
	if w.armed || w.closed {
		return
	}
	w.armed = true
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.onTimer)
	} else {
		w.timer.Reset(d)
	}
}

func (w *Writer) onTimer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if w.usable("flush log") != nil {
		return
	}
	switch err := w.write(time.Now()); {
	case err != nil && w.err == nil:
		w.arm(max(w.s.flushEvery, retryEvery))
	case cap(w.buf) > idleBuf:
		w.buf = nil // nothing much is coming: thousands may wait like this
	}
}

// Flush makes all that was appended visible to readers. Like Append it takes a
// failing disk as no error, and fails as Append does.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable("flush log"); err != nil {
		return err
	}
	_ = w.write(time.Now())
	return w.err
}

func (w *Writer) usable(op string) error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return sdk.Errorf(sdk.FailedPrecondition, op, "%s: the writer is closed", w.k)
	case w.ended || w.durable.final():
		return sdk.Errorf(sdk.FailedPrecondition, op, "%s: the log has ended", w.k)
	}
	return nil
}

// fail ends the writer: nothing of it is written any more.
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
		w.buf, w.loss = nil, nil
	}
	return w.err
}

func (w *Writer) fencedBy(epoch uint64) error {
	return &sdk.Error{Code: sdk.Aborted, ID: ErrIDFenced, Op: "write log",
		Err: fmt.Errorf("%s: the holder of epoch %d has taken over from %d", w.k, epoch, w.term.Epoch)}
}

// fence fails when another writer has taken over or the log is gone.
func (w *Writer) fence(now time.Time, force bool) error {
	if w.err != nil {
		return w.err
	}
	if !force && now.Sub(w.fenced) < fenceEvery {
		return nil
	}
	w.fenced = now
	entries, err := w.s.fs.ReadDir(w.dir)
	if isMissing(err) {
		err := w.s.expired("write log", w.k.Run)
		if err == nil {
			err = sdk.Errorf(sdk.NotFound, "write log", "%s: the log's folder is gone", w.k)
		}
		return w.fail(err)
	}
	for _, e := range entries {
		if t, ok := parseClaim(e.Name()); ok && t.compare(w.term) > 0 {
			return w.fail(w.fencedBy(t.Epoch))
		}
	}
	return nil // a folder that can't be listed fences nobody
}

// write puts the buffer into segments. Its error is the disk's, or w.err.
func (w *Writer) write(now time.Time) error {
	if len(w.buf) == 0 && w.loss == nil {
		return nil
	}
	if err := w.fence(now, false); err != nil {
		return err
	}
	for len(w.buf) > 0 || w.loss != nil {
		if err := w.writeBuf(now); err != nil {
			if isMissing(err) && w.fence(now, true) != nil {
				return w.err
			}
			if w.err == nil {
				w.diskErr = err
				w.blocked = now.Add(max(w.s.flushEvery, DefaultFlushEvery))
			}
			return err
		}
		w.settle()
	}
	w.flushed, w.diskErr = now, nil
	if cap(w.buf) > 2*w.s.flushAt {
		w.buf = nil
	}
	w.bell.ring()
	return nil
}

// settle turns a loss into a frame, for there is room again.
func (w *Writer) settle() {
	l := w.loss
	if l == nil {
		return
	}
	w.loss = nil
	body := lossBody{From: l.since, To: stampOf(w.s.clock.Now()), Gaps: w.at.Gaps, Missed: l.missed, Why: lossWhy(l.cause)}
	for i := range w.at.Marks {
		if from := l.from.get(&w.at.Marks[i]); from.Units < w.at.Marks[i].Units {
			body.End = append(body.End, w.at.Marks[i])
		}
	}
	w.at.Lost += l.from.missing(&w.at, allStreams)
	f, err := lossFrame(&body, l.last)
	if err != nil {
		// A mark encodes to plain numbers: it can't fail.
		_ = w.fail(sdk.Errorf(sdk.Internal, "append log", "%w", err))
		return
	}
	w.buf = appendFrame(w.buf, w.term.Epoch, &f)
	if w.late != nil {
		c := w.late
		w.late = nil
		w.setCursor(c)
	}
}

const whyFull = "the disk with the logs was full"

func lossWhy(cause error) string {
	if isFull(cause) {
		return whyFull
	}
	return "the disk with the logs failed"
}

// writeBuf writes the buffered frames, into as many segments as it takes.
func (w *Writer) writeBuf(now time.Time) error {
	for len(w.buf) > 0 {
		if w.seg == nil {
			if err := w.openSegment(now); err != nil {
				return err
			}
		}
		n := w.fit()
		if n == 0 {
			w.rotate()
			continue
		}
		done, err := w.seg.file.WriteAt(w.buf[:n], w.seg.size)
		if err == nil && done < n {
			err = errShortWrite
		}
		if err != nil {
			w.tornWrite(done)
			return err
		}
		w.wrote(n)
	}
	return nil
}

var errShortWrite = errors.New("short write")

// fit returns how much of the buffer the open segment takes.
func (w *Writer) fit() int {
	room := w.s.segBytes - w.seg.size
	if int64(len(w.buf)) <= room {
		return len(w.buf)
	}
	n := 0
	for n < len(w.buf) {
		size := frameSize(w.buf[n:])
		if int64(n+size) > room {
			break
		}
		n += size
	}
	if n == 0 && w.seg.size == w.seg.head {
		return frameSize(w.buf)
	}
	return n
}

// wrote takes the first n bytes, whole frames, off the buffer.
func (w *Writer) wrote(n int) {
	w.seg.size += int64(n)
	w.segs[len(w.segs)-1].size = w.seg.size
	w.last.Length = w.seg.size
	switch {
	case n < len(w.buf):
		var f frame
		for i := 0; i < n; {
			size, status := parseFrame(w.buf[i:], w.term.Epoch, &f)
			if status != frameOK || w.out.advance(&f) != nil {
				panic("joblog: the buffer holds a frame that can't be read")
			}
			i += size
		}
	case w.loss != nil:
		w.out.set(&w.loss.from)
	default:
		w.out.set(&w.at)
	}
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
}

// tornWrite keeps the whole frames of a write that failed after done bytes,
// and takes back the rest.
func (w *Writer) tornWrite(done int) {
	n := 0
	for n < done && n+frameSize(w.buf[n:]) <= done {
		n += frameSize(w.buf[n:])
	}
	if n > 0 {
		w.wrote(n)
	}
	if w.seg.file.Truncate(w.seg.size) != nil {
		// The next segment's header says how much of this one counts.
		w.rotate()
	}
}
