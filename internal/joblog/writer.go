package joblog

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// flushAt is how much is buffered before it is written.
	flushAt = 256 << 10
	// keepAtMost is how much is kept while the disk refuses it; what comes
	// after is lost, and counted.
	keepAtMost = 1 << 20
	// pieceBytes is the most data of one frame; longer chunks are continued.
	pieceBytes = 128 << 10
	// idleBuf is how much of a buffer is kept when output slows down.
	idleBuf = 16 << 10
	// fenceEvery is how often a busy writer looks for a newer holder.
	fenceEvery = 50 * time.Millisecond
	// retryEvery is how often a full disk is tried again without being asked.
	retryEvery = 250 * time.Millisecond
)

// Writer captures the output of one attempt on behalf of its holder. It is
// safe for concurrent use; Append is never held up by a Sync.
type Writer struct {
	s    *Store
	k    Key
	dir  string
	term term
	bell *bell

	// syncMu serialises what waits for the disk; it is taken before mu.
	syncMu  sync.Mutex
	mark    *held
	slot    int
	roomy   bool // there is room for both slots
	swept   bool // no older term's checkpoints are left
	second  bool // an earlier writer of the same epoch left a checkpoint
	parents bool // the folders above may not be durable

	mu     sync.Mutex
	err    error // why nothing more can be written
	closed bool
	ended  bool // Finish was called
	// at is the place behind the last item, out behind the last frame in a
	// file. Between the two lie buf and then the loss.
	at, out state
	buf     []byte
	loss    *loss
	seg     *segment
	// segs are the segments of the log, oldest first, the open one included.
	segs      []extent
	last      link
	lineage   []reign
	dirty     []segID
	dirDirty  bool
	rewrite   bool
	truncated bool
	// takeover is set until the first item decides what becomes of the bytes
	// behind the checkpoint.
	takeover *takeover
	garbage  []segID

	cursor   *sdk.LogCursor
	cursorAt state
	cursorNo int64 // counts changes
	late     *sdk.LogCursor
	durable  checkpoint
	savedNo  int64

	timer   *time.Timer
	armed   bool
	flushed time.Time
	fenced  time.Time
	blocked time.Time // no new try before it
	diskErr error     // the last write's failure
}

// segment is the file that is being written.
type segment struct {
	id   segID
	file *held
	// head is the header's size, size that of what counts.
	head, size int64
	synced     int64
	// pinned: a Sync uses the file; orphan: that Sync has to close it.
	pinned, orphan bool
}

type extent struct {
	id   segID
	size int64
}

// loss is the time in which the disk took nothing.
type loss struct {
	from        state
	since, last stamp
	bytes       int64
	// missed is what gaps told of that came meanwhile; -1 is unknown.
	missed int64
	cause  error
}

// Cursor returns the durable cursor: where the driver must resume after the
// writer was opened. It is nil when that is the start. The caller owns it.
func (w *Writer) Cursor() *sdk.LogCursor {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.durable.Cursor) == 0 {
		return nil
	}
	c, err := sdk.DecodeCursor(w.durable.Cursor)
	if err != nil {
		return nil // checked when the writer was opened, and when it was written
	}
	return &c
}

// Stats says what was captured so far.
type Stats struct {
	// Bytes counts the data of all items, lost and dropped bytes included.
	Bytes int64
	// Lost counts the bytes that the disk didn't take.
	Lost int64
	// Truncated: the size cap has dropped something.
	Truncated bool
	// Disk is the failure of the last write, nil when it succeeded.
	Disk error
}

// Stats returns what was captured so far.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := Stats{Lost: w.at.Lost, Truncated: w.truncated, Disk: diskError("write log", w.diskErr)}
	for i := range w.at.Marks {
		st.Bytes += w.at.Marks[i].data()
	}
	if w.loss != nil {
		st.Lost += w.loss.bytes
	}
	return st
}

// Append adds an item: an entry or a gap, a cursor with either or alone. It
// copies what it keeps. An End only brings its cursor; Finish ends the log.
//
// A disk that is full or fails is no error here: what it doesn't take is
// counted and becomes a gap, and Sync reports it. Append fails with Aborted
// (ErrIDFenced) once another holder has taken over, NotFound (ErrIDExpired)
// when the log was removed, InvalidArgument for an item that makes no sense,
// and FailedPrecondition after Finish or Close.
func (w *Writer) Append(it sdk.LogItem) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable("append log"); err != nil {
		return err
	}
	switch {
	case it.Entry != nil && it.Gap != nil:
		return sdk.Errorf(sdk.InvalidArgument, "append log", "an item is an entry or a gap, not both")
	case it.Entry != nil:
		if err := w.entry(it.Entry); err != nil {
			return err
		}
	case it.Gap != nil:
		if err := w.gap(it.Gap); err != nil {
			return err
		}
	}
	if it.Cursor != nil {
		w.setCursor(it.Cursor)
	}
	w.schedule()
	return w.err
}

func (w *Writer) entry(c *sdk.LogChunk) error {
	stream, ok := streamNumber(c.Stream)
	if !ok {
		return sdk.Errorf(sdk.InvalidArgument, "append log", "stream %q is unknown", c.Stream)
	}
	if c.Launch < 0 || int64(c.Launch) > math.MaxUint32 {
		return sdk.Errorf(sdk.InvalidArgument, "append log", "launch %d is out of range", c.Launch)
	}
	f := frame{kind: kindEntry, stream: stream, launch: uint32(c.Launch), at: stampOf(c.Time)}
	var last uint8
	switch c.LineEnd {
	case sdk.LineEndKept:
	case sdk.LineEndStripped:
		last = flagStripped
	default:
		return sdk.Errorf(sdk.InvalidArgument, "append log", "line end %q is unknown", c.LineEnd)
	}
	if len(c.Data) == 0 && last == 0 {
		return nil // nothing to show, and no place behind it
	}
	if w.takeover != nil {
		w.resolve(false)
	}
	piece := int(min(pieceBytes, w.s.segBytes/4))
	data := c.Data
	for len(data) > piece {
		f.data, f.flags = data[:piece], flagContinued
		w.put(&f)
		data = data[piece:]
	}
	f.data, f.flags = data, last
	w.put(&f)
	return nil
}

func (w *Writer) gap(g *sdk.LogGap) error {
	missing := max(g.Bytes, -1)
	if w.takeover != nil {
		var keep bool
		if keep, missing = w.takeover.covers(missing); keep {
			w.resolve(true)
		} else {
			w.resolve(false)
		}
		if missing == 0 && keep && g.Bytes > 0 {
			return nil // what the backend lost is what we still had
		}
	}
	f, err := gapFrame(g, missing)
	if err != nil {
		return sdk.Errorf(sdk.Internal, "append log", "%w", err)
	}
	w.put(&f)
	return nil
}

// put adds a frame, or counts it as lost while the disk takes nothing.
func (w *Writer) put(f *frame) {
	size := frameHead + len(f.data)
	if len(w.buf)+size > w.s.flushAt || w.loss != nil {
		if now := time.Now(); !now.Before(w.blocked) {
			_ = w.write(now)
		}
	}
	if w.err != nil {
		return
	}
	if w.loss == nil && w.diskErr != nil && len(w.buf)+size > w.s.keepAtMost {
		w.loss = &loss{from: w.at.clone(), since: stampOf(w.s.clock.Now()), cause: w.diskErr}
	}
	if w.loss != nil {
		w.late = nil
		w.loss.bytes += int64(len(f.data))
		if f.kind != kindEntry {
			w.loss.bytes -= int64(len(f.data))
			if g, err := f.gap(); f.kind == kindGap && err == nil {
				w.loss.missed = addMissed(w.loss.missed, g.Bytes)
			}
		}
		w.loss.last = f.at
	} else {
		w.buf = appendFrame(w.buf, w.term.Epoch, f)
	}
	switch f.kind {
	case kindEntry:
		w.at.entry(f)
	case kindGap:
		w.at.Gaps++
	}
}

func (w *Writer) setCursor(c *sdk.LogCursor) {
	if w.loss != nil {
		// Good only if nothing else is lost behind it.
		w.late = copyCursor(w.late, c)
		return
	}
	w.cursor = copyCursor(w.cursor, c)
	w.cursorAt.set(&w.at)
	w.cursorNo++
}

func copyCursor(dst, src *sdk.LogCursor) *sdk.LogCursor {
	if dst == nil {
		dst = &sdk.LogCursor{}
	}
	dst.V, dst.Kind = src.V, src.Kind
	if src.Position == nil {
		dst.Position = nil
		return dst
	}
	if dst.Position == nil {
		dst.Position = make(map[string]string, len(src.Position))
	}
	clear(dst.Position)
	maps.Copy(dst.Position, src.Position)
	return dst
}
