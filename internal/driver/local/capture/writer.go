package capture

import (
	"hash/crc32"
	"os"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// File is what a Writer writes to; an *os.File is one.
type File interface {
	WriteAt(b []byte, off int64) (int, error)
	Truncate(size int64) error
	Sync() error
}

// Writer appends frames. It never fails and never waits for room: what can't
// be written is counted, and stands in the file as a gap as soon as there is
// room for that. It is safe for concurrent use.
type Writer struct {
	f     File
	max   int64
	table *crc32.Table

	mu      sync.Mutex
	off     int64
	flushed int64
	// pending are losses that no gap stands for yet.
	pending map[loss]*Gap
	order   []loss
	totals  Totals
	full    bool
}

type loss struct {
	stream sdk.Stream
	why    Why
}

// Totals is what became of the output.
type Totals struct {
	// Size is that of the file, Written how many bytes of output are in it.
	Size, Written int64
	// Lost bytes could not be written, Capped bytes were over the cap.
	Lost, Capped int64
	// Untold are those of the lost bytes for which no gap found room either.
	Untold int64
}

// NewWriter returns a writer to an empty file, that keeps at most max bytes of
// output and headers; what comes behind that is counted.
func NewWriter(f File, max int64) *Writer {
	return &Writer{f: f, max: max, table: castagnoli(), pending: map[loss]*Gap{}}
}

// Write appends a piece of output, which begins at HeaderSize of frame: the
// bytes before are overwritten.
func (w *Writer) Write(s sdk.Stream, t time.Time, frame []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := int64(len(frame) - HeaderSize)
	if n <= 0 {
		return
	}
	if room := w.max - w.off - HeaderSize; !w.full && n > room {
		// The head is kept to the byte, and nothing comes behind a hole.
		w.full = true
		if room > 0 {
			w.append(s, t, frame[:HeaderSize+room])
			n -= room
		}
	} else if !w.full {
		w.append(s, t, frame)
		return
	}
	w.totals.Capped += n
	w.lose(s, WhyCap, n, t)
}

func (w *Writer) append(s sdk.Stream, t time.Time, frame []byte) {
	seal(frame, kindOutput, s, t, w.table)
	n := int64(len(frame) - HeaderSize)
	if w.settle() && w.put(frame) {
		w.totals.Written += n
		return
	}
	w.totals.Lost += n
	w.lose(s, WhyDisk, n, t)
}

func (w *Writer) lose(s sdk.Stream, why Why, n int64, t time.Time) {
	k := loss{s, why}
	g := w.pending[k]
	if g == nil {
		g = &Gap{From: t, Why: why}
		w.pending[k], w.order = g, append(w.order, k)
	}
	g.Bytes, g.To = g.Bytes+n, t
}

// settle writes the pending gaps, and reports whether none is left.
func (w *Writer) settle() bool {
	for len(w.order) > 0 {
		k := w.order[0]
		g := w.pending[k]
		var frame [HeaderSize + gapSize]byte
		putGap(frame[HeaderSize:], *g)
		seal(frame[:], kindGap, k.stream, g.To, w.table)
		if !w.put(frame[:]) {
			return false
		}
		delete(w.pending, k)
		w.order = w.order[1:]
	}
	return true
}

// flushEvery is how much output may be unwritten before the kernel is asked to
// begin, so that the sync at the end has little to do.
const flushEvery = 8 << 20

func (w *Writer) put(frame []byte) bool {
	n, err := w.f.WriteAt(frame, w.off)
	if err != nil {
		// A part may be there, whatever n says, and a reader would wait for the
		// rest of it.
		_ = w.f.Truncate(w.off)
		return false
	}
	w.off += int64(n)
	if w.off-w.flushed >= flushEvery {
		if f, ok := w.f.(*os.File); ok {
			startFlush(f, w.flushed, w.off-w.flushed)
		}
		w.flushed = w.off
	}
	return true
}

// Finish writes what is pending and makes the file durable. It returns the
// totals in any case, and may be called again.
func (w *Writer) Finish() (Totals, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle()
	w.totals.Size, w.totals.Untold = w.off, 0
	for k, g := range w.pending {
		if k.why == WhyDisk {
			w.totals.Untold += g.Bytes
		}
	}
	if w.off == 0 {
		return w.totals, nil
	}
	return w.totals, w.f.Sync()
}
