package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
)

// pruneRuns is how many runs one transaction removes, so that writers beside
// it wait for moments only.
const pruneRuns = 1000

// Prune removes the runs that finished before a time, oldest first, in
// transactions of some runs each. Every one of them ends with a checkpoint that
// holds for the whole chain before it, so an interrupted pruning leaves a sound
// ledger. The space is given back to the file system afterwards.
func (s *Store) Prune(ctx context.Context, before time.Time, actor string) (int, error) {
	total := 0
	for {
		n := 0
		err := s.w.do(ctx, "prune ledger", false, func(t *tx) (err error) {
			n, err = t.prune(before, actor)
			return err
		})
		total += n
		if err == nil && n < s.opts.pruneRuns && total > 0 {
			err = s.giveBack(ctx)
		}
		if err != nil || n < s.opts.pruneRuns {
			return total, err
		}
	}
}

func (t *tx) prune(before time.Time, actor string) (int, error) {
	ctx := context.Background()
	var ids []string
	if err := t.w.c.query(ctx, "SELECT id FROM workload_runs WHERE finished_at<? ORDER BY num LIMIT ?",
		[]driver.Value{timeValue(before), int64(t.w.s.opts.pruneRuns)}, func(r row) (bool, error) {
			ids = append(ids, r.text(0))
			return true, nil
		}); err != nil || len(ids) == 0 {
		return 0, err
	}
	point, at, err := readCheckpoint(ctx, t.w.c)
	if err != nil {
		return 0, err
	}
	// The checkpoint before this one is superseded, and goes too.
	gaps := point.Gaps
	if at > 0 {
		if gaps, err = t.gapsOf(gaps, "seq=?", at); err != nil {
			return 0, err
		}
		if _, err := t.exec("DELETE FROM run_events WHERE seq=?", at); err != nil {
			return 0, err
		}
	}
	for _, id := range ids {
		if gaps, err = t.gapsOf(gaps, "run=?", id); err != nil {
			return 0, err
		}
		for _, text := range []string{"DELETE FROM run_events WHERE run=?", "DELETE FROM run_attempts WHERE run=?", "DELETE FROM workload_runs WHERE id=?"} {
			if _, err := t.exec(text, id); err != nil {
				return 0, err
			}
		}
	}
	t.forget()
	next := ledger.Checkpoint{Before: before.UTC().Round(0), Runs: int64(len(ids)), Gaps: joinGaps(gaps)}
	for _, g := range next.Gaps {
		next.Events += g.To - g.From + 1
	}
	return len(ids), t.checkpoint(next, actor)
}

// gapsOf appends the events that a condition chooses, each as a gap of its own.
func (t *tx) gapsOf(gaps []ledger.Gap, where string, arg driver.Value) ([]ledger.Gap, error) {
	err := t.w.c.query(context.Background(), "SELECT seq,hash FROM run_events WHERE "+where, []driver.Value{arg}, func(r row) (bool, error) {
		gaps = append(gaps, ledger.Gap{From: r.int(0), To: r.int(0), Hash: r.hash(1)})
		return true, nil
	})
	return gaps, err
}

// joinGaps sorts gaps and makes one of those that touch.
func joinGaps(gaps []ledger.Gap) []ledger.Gap {
	slices.SortFunc(gaps, func(a, b ledger.Gap) int { return int(a.From - b.From) })
	var out []ledger.Gap
	for _, g := range gaps {
		if n := len(out); n > 0 && out[n-1].To+1 == g.From {
			out[n-1].To, out[n-1].Hash = g.To, g.Hash
			continue
		}
		out = append(out, g)
	}
	return out
}

func (t *tx) checkpoint(p ledger.Checkpoint, actor string) error {
	_, encoded, err := ledger.EncodeChange(ledger.Change{Checkpoint: &p})
	if err != nil {
		return err
	}
	ev := ledger.Event{Seq: t.head.Count + 1, At: t.w.s.opts.Clock.Now().UTC().Round(0), Kind: ledger.KindCheckpoint, Actor: actor, Change: encoded, Prev: t.head.Hash}
	ev.Hash = ledger.HashEvent(ev)
	if err := t.insertEvent(&ev); err != nil {
		return err
	}
	t.head.Count, t.head.Hash = ev.Seq, ev.Hash
	return t.update("UPDATE meta SET checkpoint=?", ev.Seq)
}
