package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// maxReaders bounds the connections for reading; pageRows how many rows a
// listing reads at a time. Between pages it holds no connection, so that a
// slow consumer stops neither writers nor other readers.
const (
	maxReaders = 4
	pageRows   = 256
)

// pool lends connections for reading.
type pool struct {
	dsn    string
	tokens chan struct{}
	mu     sync.Mutex
	idle   []*conn
	closed bool
	out    sync.WaitGroup
}

func newPool(dsn string) *pool { return &pool{dsn: dsn, tokens: make(chan struct{}, maxReaders)} }

var errClosed = errors.New("the ledger is closed")

func (p *pool) get(ctx context.Context) (*conn, error) {
	select {
	case p.tokens <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.tokens
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read ledger", ID: idClosed, Err: errClosed}
	}
	p.out.Add(1)
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := openConn(ctx, p.dsn)
	if err != nil {
		p.out.Done()
		<-p.tokens
		return nil, err
	}
	return c, nil
}

func (p *pool) put(c *conn) {
	if c.broken {
		// Whatever it says, nothing can be done with it any more.
		_ = c.close()
	} else {
		p.mu.Lock()
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	}
	p.out.Done()
	<-p.tokens
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.out.Wait()
	var errs []error
	for _, c := range p.idle {
		errs = append(errs, c.close())
	}
	p.idle = nil
	return errors.Join(errs...)
}

func (s *Store) read(ctx context.Context, op string, do func(*conn) error) error {
	c, err := s.readers.get(ctx)
	if err != nil {
		return s.wrap(op, err)
	}
	defer s.readers.put(c)
	return s.wrap(op, do(c))
}

// snapshot is read inside one read transaction: all statements see one state.
func (s *Store) snapshot(ctx context.Context, op string, do func(*conn) error) error {
	return s.read(ctx, op, func(c *conn) (err error) {
		if _, err := c.exec(ctx, "BEGIN"); err != nil {
			return err
		}
		defer func() {
			if _, rerr := c.exec(context.WithoutCancel(ctx), "ROLLBACK"); rerr != nil {
				// It would show the same moment for ever.
				c.broken = true
				err = errors.Join(err, rerr)
			}
		}()
		return do(c)
	})
}

func notFound(op string, format string, args ...any) error {
	return &sdk.Error{Code: sdk.NotFound, Op: op, Err: fmt.Errorf(format, args...)}
}

// Run reads a run's row.
func (s *Store) Run(ctx context.Context, id sdk.ID) (ledger.Run, error) {
	run, found, err := s.runWhere(ctx, "id=?", id.String())
	if err == nil && !found {
		err = notFound("read run", "there is no run %s", id)
	}
	return run, err
}

// RunByRequest reads the row of an idempotency key.
func (s *Store) RunByRequest(ctx context.Context, requestID string) (ledger.Run, error) {
	run, found, err := s.runWhere(ctx, "request_id=?", textOrNull(requestID))
	if err == nil && !found {
		err = notFound("read run", "no run has the request id %q", requestID)
	}
	return run, err
}

func (s *Store) runWhere(ctx context.Context, where string, arg driver.Value) (run ledger.Run, found bool, err error) {
	err = s.read(ctx, "read run", func(c *conn) error {
		found, err = c.one(ctx, "SELECT "+runColumns+" FROM workload_runs WHERE "+where, []driver.Value{arg}, func(r row) error {
			run, _, err = readRun(r)
			return err
		})
		return err
	})
	return run, found, err
}

// Attempts reads a run's attempts in order of number.
func (s *Store) Attempts(ctx context.Context, id sdk.ID) (out []ledger.Attempt, err error) {
	err = s.read(ctx, "read attempts", func(c *conn) error {
		out, _, err = readAttempts(ctx, c, id)
		return err
	})
	return out, err
}

func readAttempts(ctx context.Context, c *conn, id sdk.ID) (out []ledger.Attempt, nums []int64, err error) {
	err = c.query(ctx, "SELECT "+attemptColumns+" FROM run_attempts WHERE run=? ORDER BY number", []driver.Value{id.String()}, func(r row) (bool, error) {
		a, num, err := readAttempt(r)
		out, nums = append(out, a), append(nums, num)
		return true, err
	})
	return out, nums, err
}

// Runs lists runs in the order in which they were recorded, newest first.
func (s *Store) Runs(ctx context.Context, f ledger.RunFilter) iter.Seq2[ledger.Run, error] {
	return func(yield func(ledger.Run, error) bool) {
		q := newRunQuery(f)
		if !f.After.IsZero() {
			err := s.read(ctx, "list runs", func(c *conn) (err error) {
				q.from, err = c.number(ctx, "SELECT num FROM workload_runs WHERE id=?", f.After.String())
				return err
			})
			if err == nil && q.from == 0 {
				err = notFound("list runs", "there is no run %s to go on behind", f.After)
			}
			if err != nil {
				yield(ledger.Run{}, err)
				return
			}
		}
		left := f.Limit
		for {
			n := pageRows
			if f.Limit > 0 {
				n = min(n, left)
			}
			var page []ledger.Run
			err := s.read(ctx, "list runs", func(c *conn) error {
				text, args := q.page(n)
				return c.query(ctx, text, args, func(r row) (bool, error) {
					run, num, err := readRun(r)
					page, q.from = append(page, run), num
					return true, err
				})
			})
			if err != nil {
				yield(ledger.Run{}, err)
				return
			}
			for _, run := range page {
				if !yield(run, nil) {
					return
				}
			}
			if left -= len(page); len(page) < n || f.Limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// runQuery is a filter as SQL.
type runQuery struct {
	where  []string
	args   []driver.Value
	oldest bool
	// from is the number of the run behind which the next page starts.
	from int64
}

// actionRun is the action of most rows.
const actionRun = "run"

func newRunQuery(f ledger.RunFilter) *runQuery {
	q := &runQuery{oldest: f.OldestFirst}
	add := func(cond string, args ...driver.Value) {
		q.where, q.args = append(q.where, cond), append(q.args, args...)
	}
	if f.Open {
		add("finished_at IS NULL")
	}
	if !f.Holder.IsZero() {
		add("holder=?", f.Holder.String())
	}
	action, target := "action", "target"
	// The planner takes the index of actions wherever it can. Of the open rows, which are
	// few, another has all; and of all rows most are runs, in the order that is asked for.
	// A plus keeps a column out of its choice.
	if f.Open || f.Action == actionRun && f.Target == "" {
		action, target = "+action", "+target"
	}
	for _, c := range []struct{ column, value string }{{"provider", f.Provider}, {action, f.Action}, {target, f.Target}, {"name", f.Name}, {"actor", f.Actor}} {
		if c.value != "" {
			add(c.column+"=?", c.value)
		}
	}
	if len(f.States) > 0 {
		args := make([]driver.Value, len(f.States))
		for i, st := range f.States {
			args[i] = string(st)
		}
		add("state IN ("+placeholders(len(args))+")", args...)
	}
	if !f.Since.IsZero() {
		add("requested_at>=?", timeValue(f.Since))
	}
	if !f.Until.IsZero() {
		add("requested_at<?", timeValue(f.Until))
	}
	if n := len(f.Suffix); n > 0 {
		suffix := strings.ToLower(f.Suffix)
		if n >= sdk.MinIDSuffix {
			add("substr(id,-6)=?", suffix[n-sdk.MinIDSuffix:])
		}
		if n != sdk.MinIDSuffix {
			add("substr(id,?)=?", int64(-n), suffix)
		}
	}
	return q
}

func (q *runQuery) page(n int) (string, []driver.Value) {
	where, args := q.where, q.args
	order, behind := "DESC", "num<?"
	if q.oldest {
		order, behind = "ASC", "num>?"
	}
	if q.from != 0 {
		where, args = append(where[:len(where):len(where)], behind), append(args[:len(args):len(args)], q.from)
	}
	text := "SELECT " + runColumns + " FROM workload_runs"
	if len(where) > 0 {
		text += " WHERE " + strings.Join(where, " AND ")
	}
	return text + " ORDER BY num " + order + " LIMIT ?", append(args[:len(args):len(args)], int64(n))
}

// Events lists events in order of the chain.
func (s *Store) Events(ctx context.Context, f ledger.EventFilter) iter.Seq2[ledger.Event, error] {
	return func(yield func(ledger.Event, error) bool) {
		after, left := f.After, f.Limit
		for {
			n := pageRows
			if f.Limit > 0 {
				n = min(n, left)
			}
			var page []ledger.Event
			err := s.read(ctx, "list events", func(c *conn) error {
				where, args := "seq>?", []driver.Value{after}
				if !f.Run.IsZero() {
					where, args = "run=? AND seq>?", []driver.Value{f.Run.String(), after}
				}
				if len(f.Kinds) > 0 {
					where += " AND kind IN (?" + strings.Repeat(",?", len(f.Kinds)-1) + ")"
					for _, k := range f.Kinds {
						args = append(args, string(k))
					}
				}
				text := "SELECT " + eventColumns + " FROM run_events WHERE " + where + " ORDER BY seq LIMIT ?"
				args = append(args, int64(n))
				return c.query(ctx, text, args, func(r row) (bool, error) {
					ev, err := readEvent(r)
					page, after = append(page, ev), ev.Seq
					return true, err
				})
			})
			if err != nil {
				yield(ledger.Event{}, err)
				return
			}
			for _, ev := range page {
				if !yield(ev, nil) {
					return
				}
			}
			if left -= len(page); len(page) < n || f.Limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// CountOpen counts open runs that may have an object on the backend.
func (s *Store) CountOpen(ctx context.Context, provider string) (int, error) {
	var n int64
	err := s.read(ctx, "count runs", func(c *conn) (err error) {
		n, err = c.number(ctx, "SELECT count(*) FROM workload_runs WHERE finished_at IS NULL AND provider=? AND phase IN ('submitting','submitted','running','ended','drained')", provider)
		return err
	})
	return int(n), err
}

// Holders lists the holders, oldest first.
func (s *Store) Holders(ctx context.Context) (out []ledger.Holder, err error) {
	err = s.read(ctx, "list holders", func(c *conn) error {
		return c.query(ctx, "SELECT "+holderColumns+" FROM holders ORDER BY id", nil, func(r row) (bool, error) {
			h, err := readHolder(r)
			out = append(out, h)
			return true, err
		})
	})
	return out, err
}
