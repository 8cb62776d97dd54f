package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/windlass-run/windlass/internal/ledger"
)

// Verify checks the whole ledger as it is at one moment: the file's structure
// (damage there is DataLoss), the chain, and every row against its events.
func (s *Store) Verify(ctx context.Context, known *ledger.Head) (rep ledger.Report, err error) {
	err = s.snapshot(ctx, "verify ledger", func(c *conn) error {
		rep, err = verify(ctx, c, known)
		return err
	})
	return rep, err
}

func verify(ctx context.Context, c *conn, known *ledger.Head) (rep ledger.Report, err error) {
	if err := integrity(ctx, c); err != nil {
		return rep, err
	}
	if rep.Head, err = readHead(ctx, c); err != nil {
		return rep, err
	}
	add := func(f ...ledger.Fault) {
		rep.Faults = append(rep.Faults, f[:min(len(f), ledger.MaxFaults-len(rep.Faults))]...)
	}
	newest, err := c.number(ctx, "SELECT checkpoint FROM meta")
	if err != nil {
		return rep, err
	}
	point, at, err := readCheckpoint(ctx, c)
	if err != nil {
		add(ledger.Fault{Seq: newest, What: ledger.FaultRemoved, Detail: "the checkpoint is not there or not readable: " + err.Error()})
	}
	chain := ledger.NewChainCheck(rep.Head.LedgerID, point.Gaps, known)
	err = c.query(ctx, "SELECT "+eventColumns+" FROM run_events ORDER BY seq", nil, func(r row) (bool, error) {
		ev, err := readEvent(r)
		if err != nil {
			return false, err
		}
		if ev.Kind == ledger.KindCheckpoint && ev.Seq > at {
			add(ledger.Fault{Seq: ev.Seq, What: ledger.FaultBadHead, Detail: fmt.Sprintf("it is the newest checkpoint, the ledger's own head says %d", at)})
		}
		chain.Add(ev)
		return true, nil
	})
	if err != nil {
		return rep, err
	}
	events, faults := chain.Finish(rep.Head)
	rep.Events = events
	add(faults...)
	if err := verifyRows(ctx, c, &rep, add); err != nil {
		return rep, err
	}
	return rep, orphans(ctx, c, add)
}

func integrity(ctx context.Context, c *conn) error {
	return c.query(ctx, "PRAGMA integrity_check(1)", nil, func(r row) (bool, error) {
		if msg := r.text(0); msg != "ok" {
			return false, damaged("integrity check: %s", msg)
		}
		return true, nil
	})
}

func verifyRows(ctx context.Context, c *conn, rep *ledger.Report, add func(...ledger.Fault)) error {
	return c.query(ctx, "SELECT "+runColumns+" FROM workload_runs ORDER BY num", nil, func(r row) (bool, error) {
		run, _, err := readRun(r)
		if err != nil {
			return false, err
		}
		rep.Runs++
		attempts, _, err := readAttempts(ctx, c, run.ID)
		if err != nil {
			return false, err
		}
		var events []ledger.Event
		if err := c.query(ctx, "SELECT "+eventColumns+" FROM run_events WHERE run=? ORDER BY seq", []driver.Value{run.ID.String()}, func(r row) (bool, error) {
			ev, err := readEvent(r)
			events = append(events, ev)
			return true, err
		}); err != nil {
			return false, err
		}
		add(ledger.RowCheck(run.ID, &run, attempts, events)...)
		return true, nil
	})
}

// orphans finds events and attempts whose run has no row.
func orphans(ctx context.Context, c *conn, add func(...ledger.Fault)) error {
	for _, q := range []struct{ text, what string }{
		{"SELECT run, min(seq), count(*) FROM run_events WHERE run<>'' AND run NOT IN (SELECT id FROM workload_runs) GROUP BY run", "events"},
		{"SELECT run, 0, count(*) FROM run_attempts WHERE run NOT IN (SELECT id FROM workload_runs) GROUP BY run", "attempts"},
	} {
		if err := c.query(ctx, q.text, nil, func(r row) (bool, error) {
			id, err := r.id(0)
			add(ledger.Fault{Seq: r.int(1), Run: id, What: ledger.FaultRowDiffers, Detail: fmt.Sprintf("there is no row for its %d %s", r.int(2), q.what)})
			return true, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// readCheckpoint returns the newest checkpoint and its place, zero when the
// ledger was never pruned.
func readCheckpoint(ctx context.Context, c *conn) (p ledger.Checkpoint, seq int64, err error) {
	if seq, err = c.number(ctx, "SELECT checkpoint FROM meta"); err != nil || seq == 0 {
		return p, 0, err
	}
	found, err := c.one(ctx, "SELECT "+eventColumns+" FROM run_events WHERE seq=?", []driver.Value{seq}, func(r row) error {
		ev, err := readEvent(r)
		if err == nil {
			p, err = ledger.DecodeCheckpoint(ev)
		}
		return err
	})
	if err == nil && !found {
		err = damaged("event %d, the newest checkpoint, is missing", seq)
	}
	return p, seq, err
}
