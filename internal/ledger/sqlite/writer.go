package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	queueLen = 256
	// maxBatch bounds a transaction, so that nobody waits for too long.
	maxBatch = 512
)

// writer is the process's one writing connection and the goroutine that owns
// it. Calls that wait share a transaction.
type writer struct {
	s       *Store
	c       *conn
	turn    *turn
	queue   chan *call
	wake    chan struct{}
	closing chan struct{}
	stopped chan struct{}

	// What follows belongs to the goroutine.

	// version is SQLite's data_version: while it stands, nobody else wrote,
	// and head and the cache are what is on disk.
	version int64
	known   bool
	head    ledger.Head
	// gen grows when somebody else wrote; entries of an older one are checked
	// before use.
	gen   uint64
	cache cache
	heads *headFile
	// ballastTried is when the ballast was last made in vain, ballastErr why.
	ballastTried time.Time
	ballastErr   error
	// commits counts transactions that changed something, refused those that
	// found the database locked, and polling says that other processes' commits
	// are looked for; all for tests.
	commits atomic.Int64
	refused atomic.Int64
	polling atomic.Bool
}

// call is one caller's piece of a transaction.
type call struct {
	op string
	// gone is closed when the caller no longer waits.
	gone <-chan struct{}
	// creates: it makes a new row, which a full disk refuses.
	creates bool
	at      time.Time
	// apply may run again after the transaction was rolled back.
	apply func(*tx) error
	state atomic.Int32
	err   error
	done  chan struct{}
}

const (
	callQueued int32 = iota
	callTaken
	callDropped
)

// do runs apply inside a durable transaction. When ctx ends before the call
// was taken up, nothing happened; once it is taken up, do returns its outcome.
func (w *writer) do(ctx context.Context, op string, creates bool, apply func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if w.s.behind != nil {
		return w.s.behind
	}
	c := &call{op: op, gone: ctx.Done(), creates: creates, at: time.Now(), apply: apply, done: make(chan struct{})}
	select {
	case w.queue <- c:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case <-w.closing:
		return closedError(op)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.state.CompareAndSwap(callQueued, callDropped) {
			return fmt.Errorf("%s: %w", op, ctx.Err())
		}
		<-c.done // it is taken up, and so it ends
	case <-w.stopped:
		select {
		case <-c.done:
		default:
			return closedError(op) // it came too late
		}
	}
	if errors.Is(c.err, errGone) {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	return c.err
}

// errGone is the end of a call whose caller no longer waits.
var errGone = errors.New("the caller no longer waits")

func closedError(op string) error {
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: op, ID: idClosed, Err: errClosed}
}

func (c *call) finish(err error) {
	c.err = err
	close(c.done)
}

// poke makes the goroutine look whether somebody waits for a change.
func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) run() {
	defer close(w.stopped)
	ticker := time.NewTicker(w.s.opts.PollInterval)
	ticker.Stop()
	defer ticker.Stop()
	for {
		select {
		case c := <-w.queue:
			w.batch(c)
		case <-w.wake:
		case <-ticker.C:
			w.poll()
		case <-w.closing:
			w.drain()
			return
		}
		if want := w.s.changes.wanted(); want != w.polling.Load() {
			if w.polling.Store(want); want {
				ticker.Reset(w.s.opts.PollInterval)
			} else {
				ticker.Stop()
			}
		}
	}
}

func (w *writer) drain() {
	for {
		select {
		case c := <-w.queue:
			w.batch(c)
		default:
			return
		}
	}
}

// stop finishes the calls that wait, and then the head file.
func (w *writer) stop() {
	close(w.closing)
	<-w.stopped
	w.turn.close()
	w.heads.close()
}

// poll looks for other processes' commits.
func (w *writer) poll() {
	if err := w.refresh(context.Background()); err != nil && !isBusy(err) {
		w.s.opts.Logger.Warn("ledger: looking for changes failed", "path", w.s.path, "error", err)
	}
}

// refresh notices that somebody else wrote. Inside a transaction it is exact.
func (w *writer) refresh(ctx context.Context) error {
	v, err := w.c.number(ctx, "PRAGMA data_version")
	if err != nil || v == w.version {
		return err
	}
	w.version, w.known = v, false
	w.gen++
	w.s.changes.fire()
	return nil
}

// batch runs first and everything that waits behind it.
func (w *writer) batch(first *call) {
	// Half of the time is left for a lock that somebody holds out of his turn.
	w.turn.take(first.gone, w.s.opts.BusyTimeout/2-time.Since(first.at))
	defer w.turn.give()
	if err := w.begin(first.gone, first.at); err != nil {
		if first.state.CompareAndSwap(callQueued, callTaken) {
			first.finish(w.s.wrap(first.op, err))
		}
		return
	}
	calls := w.collect(first)
	if len(calls) == 0 {
		w.rollback()
		return
	}
	w.attempt(calls)
}

// collect takes up the calls that wait. Callers that went away are skipped.
func (w *writer) collect(first *call) []*call {
	calls := make([]*call, 0, 16)
	take := func(c *call) {
		if c.state.CompareAndSwap(callQueued, callTaken) {
			calls = append(calls, c)
		}
	}
	take(first)
	for len(calls) < maxBatch {
		select {
		case c := <-w.queue:
			take(c)
			continue
		default:
		}
		break
	}
	return calls
}

// begin starts a transaction that will be able to write. It waits for other
// processes up to the busy time-out from since on, or until gone is closed.
func (w *writer) begin(gone <-chan struct{}, since time.Time) error {
	cleared := false
	for pause := time.Millisecond; ; pause = min(2*pause, 16*time.Millisecond) {
		_, err := w.c.exec(context.Background(), "BEGIN IMMEDIATE")
		if err == nil {
			return nil
		}
		if primary(err) == lib.SQLITE_ERROR && !cleared {
			// A failed disk can leave a transaction open that it also kept
			// from being rolled back.
			cleared = true
			w.rollback()
			continue
		}
		if !isBusy(err) || time.Since(since) > w.s.opts.BusyTimeout {
			return err
		}
		w.refused.Add(1)
		select {
		case <-gone:
			return errGone
		case <-time.After(time.Duration(rand.Int64N(int64(pause))) + pause/2):
		}
	}
}

func (w *writer) rollback() {
	if _, err := w.c.exec(context.Background(), "ROLLBACK"); err != nil {
		// SQLite has ended the transaction itself, which is as good.
		w.s.opts.Logger.Debug("ledger: roll back", "path", w.s.path, "error", err)
	}
}

// attempt applies calls inside the open transaction and commits. A call that
// fails after it changed something takes the transaction with it: it is told
// so, and the others run again in a new one.
func (w *writer) attempt(calls []*call) {
	step := fullFirst
	for len(calls) > 0 {
		t, err := w.newTx()
		if err != nil {
			w.fail(calls, err)
			return
		}
		spoiled := -1
		var applied []*call
		for i, c := range calls {
			before := t.changes
			err := w.refuseNewRow(c)
			if err == nil {
				err = c.apply(t)
			}
			if err != nil && (t.changes != before || primary(err) != 0) {
				c.err = err
				spoiled = i
				break
			}
			c.err = w.s.wrap(c.op, err)
			if err == nil {
				applied = append(applied, c)
			}
		}
		if spoiled < 0 {
			err := w.commit(t)
			if err == nil {
				for _, c := range calls {
					c.finish(c.err)
				}
				return
			}
			if !isFull(err) {
				w.fail(applied, err)
				w.finishOthers(calls, applied)
				return
			}
			w.rollback()
			calls = w.full(calls, &step, err)
		} else {
			w.rollback()
			c := calls[spoiled]
			switch {
			case isFull(c.err):
				calls = w.full(calls, &step, c.err)
			case !isOwn(c.err):
				// The database itself fails, so it will for the others.
				w.finishAll(calls, c.err)
				return
			default:
				c.finish(w.s.wrap(c.op, c.err))
				calls = append(calls[:spoiled:spoiled], calls[spoiled+1:]...)
			}
		}
		if len(calls) == 0 {
			return
		}
		if err := w.begin(nil, time.Now()); err != nil {
			w.finishAll(calls, err)
			return
		}
	}
}

// fail rolls back and gives every call the error.
func (w *writer) fail(calls []*call, err error) {
	w.rollback()
	w.finishAll(calls, err)
}

func (w *writer) finishAll(calls []*call, err error) {
	for _, c := range calls {
		c.finish(w.s.wrap(c.op, err))
	}
}

// finishOthers finishes the calls that were refused.
func (w *writer) finishOthers(calls, applied []*call) {
	done := make(map[*call]bool, len(applied))
	for _, c := range applied {
		done[c] = true
	}
	for _, c := range calls {
		if !done[c] {
			c.finish(c.err)
		}
	}
}

func (w *writer) commit(t *tx) error {
	ctx := context.Background()
	if t.changes == 0 {
		w.rollback()
		w.cache.merge(t.runs)
		return nil
	}
	if t.head != w.head {
		hash, err := hashValue(t.head.Hash)
		if err != nil {
			return err
		}
		if _, err := w.c.exec(ctx, "UPDATE meta SET head_count=?,head_hash=?", t.head.Count, hash); err != nil {
			return err
		}
	}
	if _, err := w.c.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	w.commits.Add(1)
	w.head = t.head
	w.cache.merge(t.runs)
	w.heads.advance(t.head)
	w.s.changes.fire()
	return nil
}
