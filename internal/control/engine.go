package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// What the engine goes by when nothing else is configured.
const (
	// LeaseTime is how long a holder's lease lasts without renewal.
	LeaseTime = 90 * time.Second
	// DefaultPollInterval is the time between looks at one job.
	DefaultPollInterval = 2 * time.Second
	// DefaultCallTimeout bounds one call to a backend.
	DefaultCallTimeout = 30 * time.Second
	// DefaultTTL is how long objects may outlive a holder that died.
	DefaultTTL = 24 * time.Hour
	// DefaultGrace is the time between asking a job to end and killing it.
	DefaultGrace = 10 * time.Second
	// ContactLimit is how long a backend may be silent before its runs are
	// shown as unknown.
	ContactLimit = 5 * time.Minute

	renewEvery = 20 * time.Second
	// submitCall bounds a launch's call: under half the lease, so that a call
	// of a holder that lost its lease is over before another may send.
	submitCall = 40 * time.Second
	// namedSubmitCall bounds it where the backend refuses a second object of
	// the same name, so that a late call can do no harm: a pull takes minutes.
	namedSubmitCall = 30 * time.Minute
	cancelCall      = 10 * time.Second
)

// Options is what an Engine works with. All but Log, Clock and IDs is required.
type Options struct {
	Store     ledger.Store
	Logs      *joblog.Store
	Providers Providers
	// Kind is what the holder is called: "command" or "keeper".
	Kind string
	// Version is this program's.
	Version string
	// StateDir holds spools and holders' locks; mode 0700.
	StateDir string
	// Owner is the installation's name.
	Owner string
	// Actor is who causes what the engine does by itself.
	Actor string
	Clock sdk.Clock
	IDs   sdk.IDSource
	Log   *slog.Logger
	// Warn, when not nil, takes sentences for the person at the terminal.
	Warn func(run sdk.ID, message string)
	// Redact, when not nil, takes secret values out of texts that come from
	// backends, before they are recorded, compared or shown.
	Redact func(text string) string
}

// Engine drives runs. It is safe for concurrent use. It does nothing in the
// background until it holds a run.
type Engine struct {
	o     Options
	clock sdk.Clock
	log   *slog.Logger
	self  ledger.Holder

	// over is closed with the engine; ends are what stops the goroutines in the
	// background then.
	over chan struct{}
	ends []context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	runners map[sdk.ID]*runner
	pollers map[string]*poller
	idle    chan struct{}
	joined  bool
	closed  bool
	lock    *flock.Flock
	// leaseEnd is when our lease lapses if it isn't renewed.
	leaseEnd time.Time
	seen     int64
	queues   map[string]*queue
	// dumb is when what became of a dead change couldn't be told last.
	dumb map[sdk.ID]time.Time
}

// New returns an engine. It writes nothing yet.
func New(_ context.Context, o Options) (*Engine, error) {
	switch {
	case o.Store == nil, o.Logs == nil, o.Providers == nil:
		return nil, sdk.Errorf(sdk.InvalidArgument, "open engine", "store, logs and providers are required")
	case o.StateDir == "" || o.Actor == "":
		return nil, sdk.Errorf(sdk.InvalidArgument, "open engine", "state folder and actor are required")
	}
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	if o.IDs == nil {
		o.IDs = sdk.NewIDSource(o.Clock)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Kind == "" {
		o.Kind = "command"
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Owner == "" {
		o.Owner = o.Store.ID()
	}
	e := &Engine{o: o, clock: o.Clock, log: o.Log, over: make(chan struct{}),
		runners: map[sdk.ID]*runner{}, pollers: map[string]*poller{}, queues: map[string]*queue{}, dumb: map[sdk.ID]time.Time{}, idle: make(chan struct{})}
	close(e.idle)
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	id := o.IDs.NewID()
	e.self = ledger.Holder{ID: id, Kind: o.Kind, PID: os.Getpid(), Host: host, Version: o.Version,
		LockFile: filepath.Join(o.StateDir, "holders", id.String()+".lock")}
	return e, nil
}

// HolderID is the ID under which this engine holds runs.
func (e *Engine) HolderID() sdk.ID { return e.self.ID }

// join registers the holder before its first run: lock file, lease, and the
// goroutines that renew the one and look for requests of others.
func (e *Engine) join(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return sdk.Errorf(sdk.Canceled, "hold runs", "the engine is closed")
	}
	if e.joined {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(e.self.LockFile), 0o700); err != nil {
		return fmt.Errorf("hold runs: %w", err)
	}
	lock := flock.New(e.self.LockFile, flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil || !ok {
		return sdk.Errorf(sdk.Internal, "hold runs", "can't lock %s: %w", e.self.LockFile, errors.Join(err))
	}
	now := e.clock.Now()
	e.self.Started, e.self.Expires = now, now.Add(LeaseTime)
	if err := e.o.Store.PutHolder(ctx, e.self); err != nil {
		_ = lock.Close()
		_ = os.Remove(e.self.LockFile)
		return err
	}
	head, err := e.o.Store.Head(ctx)
	if err != nil {
		_ = lock.Close()
		return err
	}
	e.lock, e.joined, e.leaseEnd, e.seen = lock, true, e.self.Expires, head.Count
	e.background(ctx, e.renewLoop)
	e.background(ctx, e.watchLoop)
	return nil
}

// background starts what goes on until the engine is closed, with the values of
// ctx and not its end. e.mu is held.
func (e *Engine) background(ctx context.Context, work func(ctx context.Context)) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	select {
	case <-e.over:
		end()
	default:
		e.ends = append(e.ends, end)
	}
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		defer end()
		work(ctx)
	}()
}

// endAll ends everything in the background.
func (e *Engine) endAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.over)
	for _, end := range e.ends {
		end()
	}
}

func (e *Engine) renewLoop(ctx context.Context) {
	for e.clock.Sleep(ctx, renewEvery) == nil {
		e.renew(ctx)
	}
}

func (e *Engine) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	h := e.self
	h.Expires = e.clock.Now().Add(LeaseTime)
	if err := e.o.Store.PutHolder(ctx, h); err != nil {
		if ctx.Err() == nil {
			e.log.Warn("lease not renewed", "err", err)
		}
		return
	}
	e.mu.Lock()
	e.leaseEnd = h.Expires
	e.mu.Unlock()
}

// leaseLeft is how long our lease still lasts; a process that was stopped finds
// it gone.
func (e *Engine) leaseLeft() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leaseEnd.Sub(e.clock.Now())
}

// watchLoop hands the requests of other processes to the runs that we hold.
func (e *Engine) watchLoop(ctx context.Context) {
	for {
		changed := e.o.Store.Changed()
		e.readRequests(ctx)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		// Bounds the reading when thousands of our own writes arrive.
		if e.clock.Sleep(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

func (e *Engine) readRequests(ctx context.Context) {
	e.mu.Lock()
	after := e.seen
	e.mu.Unlock()
	head, err := e.o.Store.Head(ctx)
	if err != nil || head.Count <= after {
		return // an error shows at the next write
	}
	f := ledger.EventFilter{After: after, Kinds: []ledger.Kind{ledger.KindCancelAsk, ledger.KindAbandoned}}
	for ev, err := range e.o.Store.Events(ctx, f) {
		if err != nil {
			if ctx.Err() == nil {
				e.log.Warn("requests not read", "err", err)
			}
			return
		}
		if r := e.runner(ev.Run); r != nil {
			r.poke()
		}
	}
	e.mu.Lock()
	e.seen = max(e.seen, head.Count)
	e.mu.Unlock()
}

// hold starts to drive a run that this engine has claimed.
func (e *Engine) hold(r *runner) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.runners[r.id] != nil {
		return false
	}
	if len(e.runners) == 0 {
		e.idle = make(chan struct{})
	}
	e.runners[r.id] = r
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		defer e.drop(r)
		r.drive(ctx)
	}()
	return true
}

func (e *Engine) drop(r *runner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runners, r.id)
	if len(e.runners) == 0 {
		close(e.idle)
	}
	close(r.gone)
}

func (e *Engine) runner(id sdk.ID) *runner {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runners[id]
}

// Held lists the runs that this engine drives.
func (e *Engine) Held() []sdk.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]sdk.ID, 0, len(e.runners))
	for id := range e.runners {
		out = append(out, id)
	}
	return out
}

// Holds reports whether this engine drives a run.
func (e *Engine) Holds(id sdk.ID) bool { return e.runner(id) != nil }

// Idle returns a channel that is closed while the engine holds nothing.
func (e *Engine) Idle() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.idle
}

// HandOver stops driving a run, syncs what was captured, and leaves it for
// another holder. The job goes on. A run that isn't held is no error.
func (e *Engine) HandOver(ctx context.Context, id sdk.ID) error {
	r := e.runner(id)
	if r == nil {
		return nil
	}
	r.stop()
	select {
	case <-r.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close stops driving, leaves what it held to others, and returns when nothing
// of the engine runs any more. Jobs go on.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	for _, r := range e.runners {
		r.stop()
	}
	idle := e.idle
	e.mu.Unlock()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.endAll()
	err = errors.Join(err, e.settleDown(ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.joined {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
		defer cancel()
		err = errors.Join(err, e.o.Store.RemoveHolder(rctx, e.self.ID), e.lock.Close())
		if rmErr := os.Remove(e.self.LockFile); rmErr != nil && !errors.Is(rmErr, os.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}

// settleDown waits until nothing of the engine runs any more. A provider that
// doesn't end its calls can't hold it up past ctx and a moment: what such a call
// still writes is fenced off once the holder is gone.
func (e *Engine) settleDown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-late.Done():
		return sdk.Errorf(sdk.DeadlineExceeded, "close engine", "a provider doesn't end its calls")
	}
}

// warn tells the person at the terminal, and the log.
func (e *Engine) warn(run sdk.ID, format string, args ...any) {
	msg := e.o.Redact(fmt.Sprintf(format, args...))
	e.log.Warn(msg, "run", run)
	if e.o.Warn != nil {
		e.o.Warn(run, msg)
	}
}

// after closes the returned channel once d has passed on the engine's clock.
// stop frees it.
func (e *Engine) after(ctx context.Context, d time.Duration) (done <-chan struct{}, stop func()) {
	ch := make(chan struct{})
	if e.clock == sdk.SystemClock() {
		// Its timers need no goroutine of their own, and each run has one set.
		timer := time.AfterFunc(d, func() { close(ch) })
		return ch, func() { timer.Stop() }
	}
	ctx, cancel := context.WithCancel(ctx)
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		if e.clock.Sleep(ctx, d) == nil {
			close(ch)
		}
	}()
	return ch, cancel
}
