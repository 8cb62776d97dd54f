package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// entry is a run with its attempts as they are on disk, without the parts that
// no event changes (spec, settings, launches).
type entry struct {
	run      ledger.Run
	num      int64
	attempts []ledger.Attempt
	nums     []int64
	// gen is the writer's generation at which this was known to be so.
	gen uint64
}

// cache holds entries of open runs, so that a write needs no reads. It is
// emptied when it is full: what is missing is read again.
type cache map[sdk.ID]*entry

const maxCached = 20_000

func (c cache) merge(from map[sdk.ID]*entry) {
	for id, e := range from {
		if e == nil || !e.run.Open() {
			delete(c, id)
			continue
		}
		if len(c) >= maxCached {
			clear(c)
		}
		c[id] = e
	}
}

// tx is an open transaction.
type tx struct {
	w *writer
	// head is the end of the chain with what was written so far.
	head ledger.Head
	// runs are the entries that were read or changed; nil is a run that isn't
	// there.
	runs map[sdk.ID]*entry
	// changes counts statements that changed something.
	changes int
	args    []driver.Value
}

// newTx brings what the writer knows up to date.
func (w *writer) newTx() (*tx, error) {
	ctx := context.Background()
	if err := w.refresh(ctx); err != nil {
		return nil, err
	}
	if !w.known {
		version, err := w.s.checkSchema(ctx, w.c)
		if err != nil {
			return nil, err
		}
		if version != w.s.opts.schema.version {
			return nil, damaged("%s went back to schema %d", w.s.path, version)
		}
		if w.head, err = readHead(ctx, w.c); err != nil {
			return nil, err
		}
		w.known = true
	}
	return &tx{w: w, head: w.head, runs: make(map[sdk.ID]*entry)}, nil
}

func (t *tx) exec(text string, args ...driver.Value) (int64, error) {
	t.changes++
	return t.w.c.exec(context.Background(), text, args...)
}

// update runs a statement that must change exactly one row.
func (t *tx) update(text string, args ...driver.Value) error {
	n, err := t.exec(text, args...)
	if err == nil && n != 1 {
		err = damaged("a row that was read is gone (%d rows changed)", n)
	}
	return err
}

// load returns a run's entry, nil when there is no such run.
func (t *tx) load(id sdk.ID) (*entry, error) {
	if e, ok := t.runs[id]; ok {
		return e, nil
	}
	e := t.w.cache[id]
	if e != nil && e.gen != t.w.gen {
		var err error
		if e, err = t.revalidate(e); err != nil {
			return nil, err
		}
	}
	if e == nil {
		var err error
		if e, err = t.read(id); err != nil {
			return nil, err
		}
	}
	t.runs[id] = e
	return e, nil
}

// revalidate returns e as it is now, nil when it must be read again. The
// number of events tells whether anything folded differs.
func (t *tx) revalidate(e *entry) (*entry, error) {
	out := *e
	same := false
	_, err := t.w.c.one(context.Background(), "SELECT events,holder,fence FROM workload_runs WHERE id=?", []driver.Value{e.run.ID.String()}, func(r row) (err error) {
		same = r.int(0) == e.run.Events
		out.run.Fence = r.int(2)
		out.run.Holder, err = r.id(1)
		return err
	})
	if err != nil || !same {
		return nil, err
	}
	out.gen = t.w.gen
	return &out, nil
}

func (t *tx) read(id sdk.ID) (*entry, error) {
	ctx := context.Background()
	e := &entry{gen: t.w.gen}
	found, err := t.w.c.one(ctx, "SELECT "+runColumns+" FROM workload_runs WHERE id=?", []driver.Value{id.String()}, func(r row) (err error) {
		e.run, e.num, err = readRun(r)
		return err
	})
	if err != nil || !found {
		return nil, err
	}
	if e.attempts, e.nums, err = readAttempts(ctx, t.w.c, id); err != nil {
		return nil, err
	}
	e.slim()
	return e, nil
}

func (e *entry) slim() {
	e.run.Spec, e.run.Settings = nil, nil
	for i := range e.attempts {
		e.attempts[i].Launch = nil
	}
}

// forget drops what is known of all runs, after a statement that changed many.
func (t *tx) forget() {
	t.w.gen++
	clear(t.runs)
}

// preparedEvent is an event with its change encoded.
type preparedEvent struct {
	attempt int
	kind    ledger.Kind
	actor   string
	change  ledger.Change
	encoded []byte
}

// Write applies w durably. It shares its transaction, and so its sync, with
// the writes that wait beside it.
func (s *Store) Write(ctx context.Context, w ledger.Write) error {
	op := "write ledger"
	if w.Run.IsZero() || len(w.Events) == 0 {
		return sdk.Errorf(sdk.InvalidArgument, op, "a write needs a run and an event")
	}
	events := make([]preparedEvent, len(w.Events))
	for i, ev := range w.Events {
		c, b, err := ledger.EncodeChange(ev.Change)
		if err != nil {
			return fmt.Errorf("%s: event %s of run %s: %w", op, ev.Kind, w.Run, err)
		}
		if c.Checkpoint != nil || ev.Kind == ledger.KindCheckpoint {
			return sdk.Errorf(sdk.InvalidArgument, op, "run %s: only pruning writes a checkpoint", w.Run)
		}
		if c.Requested != nil && i > 0 {
			return sdk.Errorf(sdk.InvalidArgument, op, "run %s: a row is made by the first event", w.Run)
		}
		events[i] = preparedEvent{ev.Attempt, ledger.Kind(ledger.ValidText(string(ev.Kind))), ledger.ValidText(ev.Actor), c, b}
	}
	creates := events[0].change.Requested != nil
	if w.Claim && (w.Holder.IsZero() || !creates) {
		return sdk.Errorf(sdk.InvalidArgument, op, "run %s: a claim needs a holder and a new row", w.Run)
	}
	return s.w.do(ctx, op, creates, func(t *tx) error { return t.write(op, w, creates, events) })
}

func (t *tx) write(op string, w ledger.Write, creates bool, events []preparedEvent) error {
	old, err := t.load(w.Run)
	if err != nil {
		return err
	}
	next := &entry{gen: t.w.gen}
	switch {
	case old == nil && !creates:
		return notFound(op, "there is no run %s", w.Run)
	case old != nil && creates:
		return sdk.Errorf(sdk.AlreadyExists, op, "run %s exists", w.Run)
	case old == nil:
		if err := t.checkRequest(op, events[0].change.Requested); err != nil {
			return err
		}
	default:
		*next = *old
		next.gen = t.w.gen
		if !w.Holder.IsZero() && (old.run.Holder != w.Holder || old.run.Fence != w.Fence) {
			return lostFence(op, old.run, w.Holder, w.Fence)
		}
	}
	if err := t.admit(op, w.Run, w.Admit); err != nil {
		return err
	}

	now := t.w.s.opts.Clock.Now().UTC().Round(0)
	head := t.head
	chain := make([]ledger.Event, len(events))
	for i, p := range events {
		ev := ledger.Event{Seq: head.Count + 1, At: now, Run: w.Run, Attempt: p.attempt, Kind: p.kind, Actor: p.actor, Change: p.encoded, Prev: head.Hash}
		ev.Hash = ledger.HashEvent(ev)
		if next.run, next.attempts, err = ledger.Apply(next.run, next.attempts, ev, p.change); err != nil {
			return err
		}
		head.Count, head.Hash = ev.Seq, ev.Hash
		chain[i] = ev
	}
	if w.Claim {
		next.run.Holder, next.run.Fence = w.Holder, 1
	}

	for i := range chain {
		if err := t.insertEvent(&chain[i]); err != nil {
			return err
		}
	}
	if err := t.store(old, next, chain); err != nil {
		return err
	}
	next.slim()
	t.head, t.runs[w.Run] = head, next
	if w.Stamp != nil {
		*w.Stamp = now
	}
	return nil
}

func lostFence(op string, r ledger.Run, holder sdk.ID, fence int64) error {
	return sdk.Errorf(sdk.Aborted, op, "run %s: holder %s has lost it (fence %d, now %d of holder %q)", r.ID, holder, fence, r.Fence, r.Holder)
}

func (t *tx) checkRequest(op string, q *ledger.Requested) error {
	if q == nil || q.RequestID == "" {
		return nil
	}
	other := ""
	if _, err := t.w.c.one(context.Background(), "SELECT id FROM workload_runs WHERE request_id=?", []driver.Value{q.RequestID}, func(r row) error {
		other = r.text(0)
		return nil
	}); err != nil {
		return err
	}
	if other != "" {
		return sdk.Errorf(sdk.AlreadyExists, op, "the request id %q belongs to run %s", q.RequestID, other)
	}
	return nil
}

func (t *tx) insertEvent(ev *ledger.Event) error {
	prev, err := hashValue(ev.Prev)
	if err != nil {
		return err
	}
	hash, err := hashValue(ev.Hash)
	if err != nil {
		return err
	}
	_, err = t.exec("INSERT INTO run_events ("+eventColumns+") VALUES (?,?,?,?,?,?,?,?,?)",
		ev.Seq, ev.At.UnixNano(), ev.Run.String(), int64(ev.Attempt), string(ev.Kind), ev.Actor, string(ev.Change), prev, hash)
	return err
}

var (
	insertRun = "INSERT INTO workload_runs (" + runFixed + "," + runFolded + ",phase,finished_at,holder,fence) VALUES (" +
		placeholders(columnCount(runFixed)+columnCount(runFolded)+4) + ")"
	updateRun         = "UPDATE workload_runs SET " + assignments(runFolded) + " WHERE num=?"
	updateRunPhase    = "UPDATE workload_runs SET " + assignments(runFolded) + ",phase=? WHERE num=?"
	updateRunFinished = "UPDATE workload_runs SET " + assignments(runFolded) + ",phase=?,finished_at=? WHERE num=?"
	insertAttempt     = "INSERT INTO run_attempts (" + attemptFixed + "," + attemptFolded + ") VALUES (" +
		placeholders(columnCount(attemptFixed)+columnCount(attemptFolded)) + ")"
	updateAttempt = "UPDATE run_attempts SET " + assignments(attemptFolded) + " WHERE num=?"
)

// store writes the rows that the events changed.
func (t *tx) store(old, next *entry, chain []ledger.Event) (err error) {
	ctx := context.Background()
	r := &next.run
	if old == nil {
		args := appendRunFolded(appendRunFixed(t.args[:0], r), r)
		args = append(args, string(r.Phase), timeValue(r.FinishedAt), textOrNull(r.Holder.String()), r.Fence)
		t.changes++
		if next.num, err = t.w.c.insert(ctx, insertRun, args...); err != nil {
			return err
		}
		t.args = args
	} else {
		args, text := appendRunFolded(t.args[:0], r), updateRun
		switch {
		case !r.FinishedAt.Equal(old.run.FinishedAt):
			args, text = append(args, string(r.Phase), timeValue(r.FinishedAt)), updateRunFinished
		case r.Phase != old.run.Phase:
			args, text = append(args, string(r.Phase)), updateRunPhase
		}
		args = append(args, next.num)
		if err := t.update(text, args...); err != nil {
			return err
		}
		t.args = args
	}
	return t.storeAttempts(ctx, next, chain)
}

func (t *tx) storeAttempts(ctx context.Context, next *entry, chain []ledger.Event) error {
	stored := len(next.nums)
	next.nums = append(next.nums[:stored:stored], make([]int64, len(next.attempts)-stored)...)
	for i := range next.attempts {
		a := &next.attempts[i]
		touched := false
		for j := range chain {
			touched = touched || chain[j].Attempt == a.Number
		}
		if !touched {
			continue
		}
		args := t.args[:0]
		if i >= stored {
			args = appendAttemptFixed(args, a)
		}
		args, err := appendAttemptFolded(args, a)
		if err != nil {
			return err
		}
		if i >= stored {
			t.changes++
			if next.nums[i], err = t.w.c.insert(ctx, insertAttempt, args...); err != nil {
				return err
			}
		} else if err := t.update(updateAttempt, append(args, next.nums[i])...); err != nil {
			return err
		}
		t.args = args
	}
	return nil
}
