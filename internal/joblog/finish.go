package joblog

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Finish ends the log with the driver's verdict, made worse by what happened
// here: VerdictTruncatedByUs when the cap dropped something, VerdictGap when a
// part is missing. It returns the verdict that it made durable, and the same
// again when it is called again, also by later writers. If the disk is still
// full, what it didn't take is lost, and the end is written into room that was
// taken before. After an error the end is not durable and Finish may be called
// again.
func (w *Writer) Finish(v sdk.Verdict) (sdk.Verdict, error) {
	const op = "finish log"
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	if w.durable.final() {
		v := w.durable.Verdict
		w.mu.Unlock()
		return v, nil
	}
	p, err := w.end(op, v)
	w.mu.Unlock()
	if err != nil {
		return "", err
	}
	c, err := w.checkpoint(p)
	if err != nil {
		w.done(p, err)
		return "", sdk.Errorf(sdk.InvalidArgument, op, "%s: the driver's cursor: %w", w.k, err)
	}
	c.Verdict = w.verdict(v)
	w.mu.Lock()
	end, last := w.at.clone(), w.last
	w.mu.Unlock()
	c.End = &end
	if last.Number != 0 {
		c.Last = &last
	}
	if err = w.files(p); err == nil {
		err = w.commit(c)
	}
	w.done(p, err)
	if err != nil {
		return "", w.failure(op, err)
	}
	w.mu.Lock()
	if w.seg != nil {
		w.rotate()
	}
	w.mu.Unlock()
	w.bell.ring()
	return c.Verdict, nil
}

// end takes the writer to its last place.
func (w *Writer) end(op string, v sdk.Verdict) (*plan, error) {
	if !slices.Contains(sdk.Verdicts(), v) {
		return nil, sdk.Errorf(sdk.InvalidArgument, op, "verdict %q is unknown", v)
	}
	if w.err != nil {
		return nil, w.err
	}
	if w.closed {
		return nil, sdk.Errorf(sdk.FailedPrecondition, op, "%s: the writer is closed", w.k)
	}
	w.ended = true
	if w.takeover != nil {
		w.resolve(true)
	}
	now := time.Now()
	if err := w.fence(now, true); err != nil {
		return nil, err
	}
	if err := w.write(now); err != nil {
		if w.err != nil {
			return nil, w.err
		}
		w.at.Lost = w.out.Lost + w.out.missing(&w.at, allStreams)
		w.at.Missed = w.unwrittenGaps()
		w.buf, w.loss = nil, nil
	}
	if slices.ContainsFunc(w.segs, func(e extent) bool { return e.id.term != w.term }) {
		w.missed()
	}
	p, err := w.plan()
	return p, diskError(op, err)
}

// unwrittenGaps counts what the gaps tell of that never got to the disk.
func (w *Writer) unwrittenGaps() (n int64) {
	if w.loss != nil {
		n = w.loss.missed
	}
	var f frame
	for buf := w.buf; len(buf) > 0; {
		size, status := parseFrame(buf, w.term.Epoch, &f)
		if status != frameOK {
			return -1
		}
		if f.kind == kindGap {
			if g, err := f.gap(); err == nil {
				n = addMissed(n, g.Bytes)
			}
		}
		if f.kind == kindLoss {
			if b, err := f.loss(); err == nil {
				n = addMissed(n, b.Missed)
			}
		}
		buf = buf[size:]
	}
	return n
}

// missed notes segments that an older holder's cap has dropped: it was faster
// than the fence. It can't have dropped any that it never saw.
func (w *Writer) missed() {
	d, err := w.s.look(w.dir, headers{})
	if err != nil {
		return
	}
	for _, e := range w.segs {
		if !slices.ContainsFunc(d.chain, func(h *header) bool { return h.ID == e.id }) {
			w.truncated = true
		}
	}
}

// verdict is v, made worse by what happened here.
func (w *Writer) verdict(v sdk.Verdict) sdk.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at.Gaps > 0 && (v == sdk.VerdictComplete || v == sdk.VerdictQuiet) {
		v = sdk.VerdictGap
	}
	if w.at.Lost > 0 {
		v = v.Worse(sdk.VerdictGap)
	}
	if w.truncated {
		v = v.Worse(sdk.VerdictTruncatedByUs)
	}
	return v
}

// Close syncs and gives the log up without ending it: the next holder goes on
// at the last cursor. It returns Sync's error, but for a writer that has ended
// or was replaced. It is idempotent.
func (w *Writer) Close() error {
	var err error
	w.mu.Lock()
	live := w.usable("close log") == nil
	w.mu.Unlock()
	if live {
		err = w.Sync()
	}
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.seg != nil {
		w.rotate()
	}
	_ = w.mark.Close() // what counts of it is synced
	if n := len(w.lineage); w.second && !w.swept && (n == 0 || w.lineage[n-1].term != w.term) {
		// It wrote nothing, and the checkpoint before says it all: a holder that
		// tries again and again leaves no heap of files.
		_ = w.s.fs.Remove(filepath.Join(w.dir, w.term.name()))
	}
	w.unregister()
	return err
}
