package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// PutHolder makes or renews a holder's lease.
func (s *Store) PutHolder(ctx context.Context, h ledger.Holder) error {
	op := "write holder"
	if h.ID.IsZero() {
		return sdk.Errorf(sdk.InvalidArgument, op, "a holder needs an id")
	}
	return s.w.do(ctx, op, false, func(t *tx) error {
		_, err := t.exec("INSERT OR REPLACE INTO holders ("+holderColumns+") VALUES ("+placeholders(columnCount(holderColumns))+")", appendHolder(nil, h)...)
		return err
	})
}

// RemoveHolder ends a lease and leaves its runs without a holder.
func (s *Store) RemoveHolder(ctx context.Context, id sdk.ID) error {
	return s.w.do(ctx, "remove holder", false, func(t *tx) error {
		if _, err := t.exec("DELETE FROM holders WHERE id=?", id.String()); err != nil {
			return err
		}
		n, err := t.exec("UPDATE workload_runs SET holder=NULL, fence=fence+1 WHERE holder=?", textOrNull(id.String()))
		if n > 0 {
			t.forget()
		}
		return err
	})
}

// Claim makes holder the holder of a run whose fence is expected.
func (s *Store) Claim(ctx context.Context, run, holder sdk.ID, expected int64) (fence int64, err error) {
	op := "claim run"
	if holder.IsZero() {
		return 0, sdk.Errorf(sdk.InvalidArgument, op, "a claim needs a holder")
	}
	err = s.w.do(ctx, op, false, func(t *tx) error {
		e, err := t.load(run)
		if err != nil {
			return err
		}
		if e == nil {
			return notFound(op, "there is no run %s", run)
		}
		if e.run.Fence != expected {
			return lostFence(op, e.run, holder, expected)
		}
		fence = expected + 1
		return t.setHolder(e, holder, fence)
	})
	if err != nil {
		return 0, err
	}
	return fence, nil
}

// Release leaves a run without a holder.
func (s *Store) Release(ctx context.Context, run, holder sdk.ID, fence int64) error {
	op := "release run"
	return s.w.do(ctx, op, false, func(t *tx) error {
		e, err := t.load(run)
		if err != nil {
			return err
		}
		if e == nil {
			return notFound(op, "there is no run %s", run)
		}
		if e.run.Holder != holder || e.run.Fence != fence {
			return lostFence(op, e.run, holder, fence)
		}
		return t.setHolder(e, sdk.ID{}, fence+1)
	})
}

func (t *tx) setHolder(e *entry, holder sdk.ID, fence int64) error {
	if err := t.update("UPDATE workload_runs SET holder=?, fence=? WHERE num=?", textOrNull(holder.String()), fence, e.num); err != nil {
		return err
	}
	next := *e
	next.run.Holder, next.run.Fence = holder, fence
	t.runs[e.run.ID] = &next
	return nil
}

// claimable chooses the open runs that nobody living drives.
func claimable(dead []sdk.ID, limit int) (text string, args []driver.Value) {
	text = "SELECT " + runColumns + " FROM workload_runs WHERE finished_at IS NULL AND (holder IS NULL"
	if len(dead) > 0 {
		text += " OR holder IN (" + placeholders(len(dead)) + ")"
		for _, d := range dead {
			args = append(args, d.String())
		}
	}
	text += ") ORDER BY num"
	if limit > 0 {
		text, args = text+" LIMIT ?", append(args, int64(limit))
	}
	return text, args
}

// ClaimAll claims the open runs that nobody drives, oldest first.
func (s *Store) ClaimAll(ctx context.Context, holder sdk.ID, dead []sdk.ID, limit int) (out []ledger.Run, err error) {
	op := "claim runs"
	if holder.IsZero() {
		return nil, sdk.Errorf(sdk.InvalidArgument, op, "a claim needs a holder")
	}
	err = s.w.do(ctx, op, false, func(t *tx) error {
		out = nil
		text, args := claimable(dead, limit)
		var nums []int64
		if err := t.w.c.query(context.Background(), text, args, func(r row) (bool, error) {
			run, num, err := readRun(r)
			out, nums = append(out, run), append(nums, num)
			return true, err
		}); err != nil {
			return err
		}
		for i := range out {
			if err := t.update("UPDATE workload_runs SET holder=?, fence=fence+1 WHERE num=?", holder.String(), nums[i]); err != nil {
				return err
			}
			out[i].Holder, out[i].Fence = holder, out[i].Fence+1
		}
		if len(out) > 0 {
			t.forget()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
