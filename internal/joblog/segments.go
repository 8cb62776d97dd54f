package joblog

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// openSegment starts a new segment where the last one ends.
func (w *Writer) openSegment(now time.Time) error {
	if err := w.fence(now, true); err != nil {
		return err
	}
	drop := w.surplus()
	number := uint64(1)
	if w.last.Number != 0 {
		number = w.last.Number + 1
	}
	h := header{ID: segID{Number: number, term: w.term}, Prev: w.last, Start: w.out, First: unknownTime, Truncated: w.truncated || len(drop) > 0}
	h.Lineage = w.lineage
	if n := len(h.Lineage); n == 0 || h.Lineage[n-1].term != w.term {
		h.Lineage = extend(w.lineage, w.term, number, w.last.Length)
	}
	var f frame
	if _, status := parseFrame(w.buf, w.term.Epoch, &f); status == frameOK {
		h.First = f.at
	}
	b, err := h.encode()
	if err != nil {
		return err
	}
	name := filepath.Join(w.dir, h.ID.name())
	file, err := w.s.files.openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := file.WriteAt(b, 0)
	if err == nil && n < len(b) {
		err = errShortWrite
	}
	if err != nil {
		_ = file.Close()
		_ = w.s.fs.Remove(name) // without a whole header it doesn't count anyway
		return err
	}
	w.lineage = h.Lineage
	w.seg = &segment{id: h.ID, file: file, head: int64(len(b)), size: int64(len(b))}
	w.segs = append(w.segs, extent{id: h.ID, size: w.seg.size})
	w.last = link{segID: h.ID, Length: w.seg.size}
	w.dirDirty = true
	for _, id := range w.garbage {
		_ = w.s.fs.Remove(filepath.Join(w.dir, id.name())) // it doesn't count
	}
	w.garbage = nil
	w.drop(drop) // only now, for now the header says why they are missing
	return nil
}

// rotate closes the open segment; its size stays in w.last and w.segs.
func (w *Writer) rotate() {
	g := w.seg
	w.seg = nil
	if g.synced < g.size {
		w.dirty = append(w.dirty, g.id)
	}
	if g.pinned {
		g.orphan = true
		return
	}
	_ = g.file.Close() // Sync opens it again, and reports what the disk says
}

// surplus returns the oldest segments behind the head that have to go so that
// another one fits under the cap.
func (w *Writer) surplus() []segID {
	total := w.s.segBytes
	for _, e := range w.segs {
		total += e.size
	}
	head, i := int64(0), 0
	for i < len(w.segs) && (i == 0 || head+w.segs[i].size <= w.s.maxBytes/4) {
		head += w.segs[i].size
		i++
	}
	var out []segID
	for ; total > w.s.maxBytes && i < len(w.segs); i++ {
		total -= w.segs[i].size
		out = append(out, w.segs[i].id)
	}
	return out
}

// drop removes segments.
func (w *Writer) drop(ids []segID) {
	for _, id := range ids {
		w.truncated = true
		w.cursorNo++ // the next checkpoint has to say so
		if err := w.s.fs.Remove(filepath.Join(w.dir, id.name())); err != nil && !isMissing(err) {
			continue // where open files can't be removed, the next time
		}
		w.segs = slices.DeleteFunc(w.segs, func(e extent) bool { return e.id == id })
		w.dirty = slices.DeleteFunc(w.dirty, func(d segID) bool { return d == id })
	}
}
