package joblog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Writer opens the log of an attempt for the holder with this epoch, which is
// the ledger's fencing token. It finds the last durable cursor; what was
// captured behind it stays readable until the first new item arrives, and is
// replaced then.
//
// It fails with Aborted (ErrIDFenced) when a holder with a higher epoch has
// been here, FailedPrecondition when this store has an open writer of the same
// epoch, and NotFound (ErrIDExpired) when retention removed the log. A log
// that has ended opens too: Finish returns its verdict again.
//
// Nothing is synced yet; a log that nobody syncs is not durable.
func (s *Store) Writer(k Key, epoch uint64) (*Writer, error) {
	const op = "open log writer"
	if err := k.check(op); err != nil {
		return nil, err
	}
	if err := s.expired(op, k.Run); err != nil {
		return nil, err
	}
	w := &Writer{s: s, k: k, dir: s.attemptDir(k), term: term{Epoch: epoch}, parents: true, dirDirty: true}
	if err := w.register(op); err != nil {
		return nil, err
	}
	if err := w.open(op); err != nil {
		w.unregister()
		if w.mark != nil {
			_ = w.mark.Close()
			_ = s.fs.Remove(filepath.Join(w.dir, w.term.name())) // it says nothing yet
		}
		return nil, err
	}
	return w, nil
}

// register makes w this store's writer of its log and ends an older one.
func (w *Writer) register(op string) error {
	s := w.s
	s.mu.Lock()
	old := s.writers[w.k]
	if old != nil && old.term.Epoch >= w.term.Epoch {
		s.mu.Unlock()
		if old.term.Epoch > w.term.Epoch {
			return w.fencedBy(old.term.Epoch)
		}
		return sdk.Errorf(sdk.FailedPrecondition, op, "%s is already being captured by epoch %d", w.k, w.term.Epoch)
	}
	s.writers[w.k] = w
	s.mu.Unlock()
	w.bell = s.bell(w.k)
	if old != nil {
		old.mu.Lock()
		_ = old.fail(old.fencedBy(w.term.Epoch))
		old.mu.Unlock()
	}
	return nil
}

func (w *Writer) unregister() {
	w.s.mu.Lock()
	if w.s.writers[w.k] == w {
		delete(w.s.writers, w.k)
	}
	w.s.mu.Unlock()
	w.s.dropBell(w.k)
}

func (w *Writer) open(op string) error {
	s := w.s
	if err := s.fs.MkdirAll(w.dir, 0o700); err != nil {
		return diskError(op, err)
	}
	known := headers{}
	d, err := s.look(w.dir, known)
	if err != nil {
		return diskError(op, err)
	}
	if err := w.claim(op, d); err != nil {
		return err
	}
	// Only now, for until it sees the claim the last holder goes on.
	if d, err = s.look(w.dir, known); err != nil {
		return diskError(op, err)
	}
	if d.top.compare(w.term) > 0 {
		return w.fencedBy(d.top.Epoch)
	}
	w.fenced = time.Now()
	// Our own file says nothing yet. Without another there is none to remove.
	others := slices.DeleteFunc(d.claims, func(t term) bool { return t == w.term })
	w.swept = len(others) == 0
	base, err := s.newest(w.dir, others)
	if err != nil {
		return diskError(op, err)
	}
	w.second = slices.ContainsFunc(others, func(t term) bool { return t.Epoch == w.term.Epoch })
	if base == nil {
		base = &checkpoint{At: newState()}
	}
	if len(base.Cursor) > 0 {
		c, err := sdk.DecodeCursor(base.Cursor)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", op, w.k, err)
		}
		w.cursor = &c
	}
	w.durable = *base
	w.durable.Term, w.durable.Seq = w.term, base.Seq+1
	w.truncated = base.Truncated
	w.at, w.cursorAt = base.At.clone(), base.At.clone()
	// On a full disk the older term's checkpoint stays the one that counts.
	if err := w.writeMark(&w.durable); err != nil && !isFull(err) {
		return diskError(op, err)
	}
	if w.durable.final() {
		w.at = base.End.clone()
		return nil
	}
	t, err := s.survey(w.dir, d, &w.at)
	for tries := 0; isMissing(err) && tries < 5; tries++ {
		// The last holder, not aware of us yet, dropped a segment.
		if d, err = s.look(w.dir, known); err == nil {
			t, err = s.survey(w.dir, d, &w.at)
		}
	}
	if err != nil {
		return diskError(op, err)
	}
	w.takeover = t
	if t.tail == 0 && t.endAt.equals(&w.at) {
		w.resolve(false)
	}
	return nil
}

// claim takes a term that is higher than all others, or fails.
func (w *Writer) claim(op string, d folder) error {
	switch {
	case d.top.Epoch > w.term.Epoch:
		return w.fencedBy(d.top.Epoch)
	case d.top.Epoch == w.term.Epoch:
		w.term.Gen = d.top.Gen + 1
	}
	for {
		f, err := w.s.files.openFile(filepath.Join(w.dir, w.term.name()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			w.term.Gen++
			continue
		}
		if err != nil {
			return diskError(op, err)
		}
		w.mark = f
		return nil
	}
}

// writeMark writes a checkpoint into the next slot. After a failure the same
// slot is used again, for the other one holds what is durable.
func (w *Writer) writeMark(c *checkpoint) error {
	b, err := c.encode()
	if err != nil {
		return err
	}
	n, err := w.mark.WriteAt(b, int64(w.slot)*slotSize)
	if err == nil && n < len(b) {
		err = errShortWrite
	}
	if err != nil {
		return err
	}
	if !w.roomy {
		// Take the room for the other slot while there is some.
		if _, err := w.mark.WriteAt(make([]byte, slotBlock), slotSize); err != nil {
			return err
		}
		w.roomy = true
	}
	w.slot = (w.slot + 1) % slots
	return nil
}

// takeover is what a new writer finds behind the last checkpoint: bytes that
// another writer captured, and that are captured again now.
type takeover struct {
	d folder
	// sizes are the sizes of the chain's files.
	sizes []int64
	// at is the checkpoint's place, from the index of its segment, -1 when
	// there is none, and cut where it lies there. If the segment ends before,
	// short counts the bytes that are missing.
	at    state
	from  int
	cut   link
	short int64
	// end is where the captured bytes end, endAt their place, and tail the
	// number of bytes from the checkpoint to there.
	end   link
	endAt state
	tail  int64
	// hole: a part of the tail is missing. gap: it starts with a gap that the
	// backend told of.
	hole, gap bool
}

// survey reads what lies around and behind the place of a checkpoint.
func (s *Store) survey(dir string, d folder, at *state) (*takeover, error) {
	t := &takeover{d: d, at: at.clone(), from: seek(d.chain, at)}
	for _, h := range d.chain {
		info, err := s.fs.Stat(filepath.Join(dir, h.ID.name()))
		if err != nil {
			return nil, err
		}
		t.sizes = append(t.sizes, info.Size())
	}
	t.endAt = at.clone()
	// A segment that starts right here holds nothing that counts, and may not
	// even be durable.
	for t.from >= 0 && d.chain[t.from].Start.equals(at) {
		t.from--
	}
	reached := false
	if t.from < 0 {
		t.short = (&state{}).missing(at, allStreams)
		if len(d.chain) == 0 || !d.chain[0].Start.equals(at) {
			return t, nil
		}
		reached = true
	}
	first := max(t.from, 0)
	place := d.chain[first].Start.clone()
	for i := first; i < len(d.chain); i++ {
		h := d.chain[i]
		if i > first && !place.equals(&h.Start) {
			if !reached {
				break
			}
			t.hole = true
			place.set(&h.Start)
		}
		if err := t.walk(s, dir, i, &place, &reached); err != nil {
			return nil, err
		}
		t.end = link{segID: h.ID, Length: t.end.Length}
	}
	if !reached {
		t.short = place.missing(at, allStreams)
		return t, nil
	}
	t.endAt = place
	t.tail = at.missing(&place, allStreams)
	return t, nil
}

// walk moves place to the end of the segment i.
func (t *takeover) walk(s *Store, dir string, i int, place *state, reached *bool) error {
	h := t.d.chain[i]
	c, err := s.scan(dir, h, lengthOf(t.d.chain, i))
	if err != nil {
		return err
	}
	var f frame
	for {
		if !*reached {
			t.cut = link{segID: h.ID, Length: c.off}
			*reached = place.equals(&t.at)
		}
		status, err := c.next(&f)
		if err != nil {
			return errors.Join(err, c.close())
		}
		if status == frameOK && *reached && f.kind == kindGap && place.equals(&t.at) {
			t.gap = true
		}
		if status != frameOK || place.advance(&f) != nil {
			break
		}
	}
	t.end.Length = c.off
	return c.close()
}

// covers decides what a gap means that is the first item after a takeover:
// whether to keep the tail, for the backend doesn't have it any more, and how
// many bytes are missing behind it. Where the tail starts with a gap it is the
// same one again. A gap that is smaller than the tail is taken as it is, and
// the tail goes.
func (t *takeover) covers(bytes int64) (keep bool, missing int64) {
	switch {
	case t.tail == 0 || t.hole || t.gap:
		return false, bytes
	case bytes < 0:
		return true, bytes
	case t.tail <= bytes:
		return true, bytes - t.tail
	}
	return false, bytes
}

// resolve ends the takeover: the log goes on at the checkpoint, or behind the
// tail.
func (w *Writer) resolve(keep bool) {
	t := w.takeover
	w.takeover = nil
	keep = keep && !t.endAt.equals(&t.at)
	if n := len(t.d.chain); n > 0 {
		w.lineage = t.d.chain[n-1].Lineage
	}
	used := t.from + 1
	w.last = t.cut
	if keep {
		used = len(t.d.chain)
		w.last = t.end
		w.at.set(&t.endAt)
		for _, h := range t.d.chain[max(t.from, 0):] {
			w.dirty = append(w.dirty, h.ID)
		}
	}
	// What the cap dropped may lie behind the place where the log goes on now,
	// and what is missing may not be what the cap dropped.
	capped := w.truncated || len(t.d.chain) > 0 && t.d.chain[len(t.d.chain)-1].Truncated
	w.truncated = used > 0 && t.d.chain[used-1].Truncated
	if broken(t.d.chain[:used]) || t.short > 0 || (keep && t.hole) {
		if capped {
			w.truncated = true
		} else {
			w.at.Lost = max(w.at.Lost+t.short, 1)
		}
	}
	w.out.set(&w.at)
	for i, h := range t.d.chain {
		if i < used {
			w.segs = append(w.segs, extent{id: h.ID, size: t.sizes[i]})
		} else {
			w.garbage = append(w.garbage, h.ID)
		}
	}
	w.garbage = append(w.garbage, t.d.stray...)
}

// broken reports whether a segment is missing before or between these.
func broken(chain []*header) bool {
	start := newState()
	for i, h := range chain {
		if h.ID.Number != chain[0].ID.Number+uint64(i) {
			return true
		}
	}
	return len(chain) > 0 && !chain[0].Start.equals(&start)
}
