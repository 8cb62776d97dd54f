package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// IdleTime is how long a keeper without runs stays.
	IdleTime = 30 * time.Second
	// LeaveTime bounds the handing over when it ends.
	LeaveTime = 20 * time.Second
	// messageTime bounds the wait for a client's next message, and the writing
	// of an answer.
	messageTime = 30 * time.Second
	// maxConns is how many clients are heard at once.
	maxConns = 64
)

// Options is what a keeper works with. StateDir, Version, Actor, Store, Logs
// and Open are required.
type Options struct {
	StateDir string
	Version  string
	Actor    string
	Owner    string
	Store    ledger.Store
	Logs     *joblog.Store
	// Open opens the providers of a command's surroundings.
	Open func(ctx context.Context, o Origin) (Opened, error)
	// Home, when not nil, is the surroundings that the keeper itself has. They
	// drive runs of backends that need nothing of a command's, and resolve no
	// secrets.
	Home  *Origin
	Clock sdk.Clock
	Log   *slog.Logger
	// Redact, when not nil, takes secret values out of what is recorded and
	// answered.
	Redact func(text string) string
	// Retention is what is kept of ended runs, applied when it is quiet.
	Retention control.Retention
	// Idle replaces IdleTime.
	Idle time.Duration
}

// Why a keeper leaves.
var (
	errIdle  = errors.New("it was idle")
	errAsked = errors.New("it was asked to")
)

// Serve is the keeper's whole life. It returns nil at once when another keeper
// has the state directory, and otherwise when it has been idle, was asked to
// leave, lost its place, or ctx ends. Runs are left for another holder; their
// jobs go on.
func Serve(ctx context.Context, o Options) error {
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Idle == 0 {
		o.Idle = IdleTime
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	pl, err := elect(ctx, o.StateDir, o.Clock)
	if err != nil {
		return err
	}
	if pl == nil {
		o.Log.Debug("another keeper serves")
		return nil
	}
	return errors.Join(lead(ctx, o, pl), pl.leave())
}

// lead serves with the place won.
func lead(ctx context.Context, o Options, pl *place) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	s := &server{o: o, place: pl, leave: leave, pool: newPool(o.Open, o.Log), kick: make(chan struct{}, 1), first: make(chan struct{}), conns: make(chan struct{}, maxConns)}
	if o.Home != nil {
		if _, err := s.pool.offer(ctx, *o.Home, true); err != nil {
			o.Log.Warn("own surroundings not opened", "err", err)
		}
	}
	var err error
	s.engine, err = control.New(ctx, control.Options{Store: o.Store, Logs: o.Logs, Providers: s.pool, Kind: "keeper", Version: o.Version,
		StateDir: o.StateDir, Owner: o.Owner, Actor: o.Actor, Clock: o.Clock, Log: o.Log, Redact: o.Redact})
	if err != nil {
		return errors.Join(err, s.pool.close(ctx))
	}
	s.pool.holds = s.engine.Holds
	if s.sock, err = listen(ctx, o.StateDir); err == nil {
		o.Log.Info("keeper started", "pid", os.Getpid(), "version", o.Version)
		s.serve(ctx)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), LeaveTime)
	defer cancel()
	err = errors.Join(err, s.quit(end))
	o.Log.Info("keeper left", "pid", os.Getpid(), "why", context.Cause(ctx), "err", err)
	return err
}

type server struct {
	o      Options
	place  *place
	pool   *pool
	engine *control.Engine
	leave  context.CancelCauseFunc
	sock   *socket
	conns  chan struct{}
	// kick asks for a recovery at once, first is closed with the first offer.
	kick  chan struct{}
	first chan struct{}
	once  sync.Once

	mu sync.Mutex
	// talks counts clients, heard what they asked since the last tick.
	talks, heard int
	// holds counts the uses of plugins by clients.
	holds int
	// retaining says that retention is being applied.
	retaining bool
	// retained is when it was begun last.
	retained time.Time
	wg       sync.WaitGroup
}

// serve returns when it is time to leave.
func (s *server) serve(ctx context.Context) {
	s.wg.Go(func() { s.recoverLoop(ctx) })
	sock := s.sock
	s.wg.Go(func() { s.accept(ctx, sock) })
	s.tend(ctx)
}

// quit ends everything, within ctx and a moment.
func (s *server) quit(ctx context.Context) error {
	s.leave(nil)
	var errs []error
	if s.sock != nil {
		s.sock.remove()
		errs = append(errs, s.sock.Close())
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		errs = append(errs, errors.New("a client's request doesn't end"))
	}
	errs = append(errs, s.engine.Close(ctx), s.pool.close(ctx))
	for i, err := range errs {
		if errors.Is(err, net.ErrClosed) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// accept hears clients. What keeps it from taking one, such as a process's
// limit of open files, passes.
func (s *server) accept(ctx context.Context, sock *socket) {
	wait, failing := time.Duration(0), false
	for {
		c, err := sock.Accept()
		switch {
		case err == nil:
			if failing {
				s.o.Log.Info("clients are heard again")
			}
			wait, failing = 0, false
			s.admit(ctx, c)
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			if !failing {
				s.o.Log.Warn("a client can't be heard, trying again", "err", err)
			}
			failing = true
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			if s.o.Clock.Sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

func (s *server) admit(ctx context.Context, c net.Conn) {
	select {
	case s.conns <- struct{}{}:
	default:
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_ = writeMessage(c, s.answerTo(sdk.Errorf(sdk.ResourceExhausted, "hear client", "%d others are being heard", maxConns)))
		_ = c.Close()
		return
	}
	s.count(1)
	s.wg.Go(func() {
		defer func() { <-s.conns }()
		defer s.count(-1)
		s.talk(ctx, c)
	})
}

func (s *server) count(d int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.talks += d
}

// talk answers one client until it goes, says what isn't a message, or says
// nothing for too long.
func (s *server) talk(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	kept := false
	defer func() {
		if !kept {
			_ = c.Close()
		}
	}()
	r := bufio.NewReader(c)
	for {
		if c.SetDeadline(time.Now().Add(messageTime)) != nil {
			return
		}
		var req request
		if err := readMessage(r, &req); err != nil {
			if errors.Is(err, errMessage) {
				_ = writeMessage(c, s.answerTo(sdk.Errorf(sdk.InvalidArgument, "hear client", "%w", err)))
			}
			return
		}
		var res response
		if req.Op == opPlugin {
			kept = s.host(ctx, c, r, req)
			return
		}
		err := safely(s.o.Log, "answer "+string(req.Op), s.o.Redact, func() error { return s.answer(ctx, req, &res) })
		out := s.answerTo(err)
		out.Held, out.Bound = res.Held, res.Bound
		if c.SetDeadline(time.Now().Add(messageTime)) != nil || writeMessage(c, out) != nil {
			return
		}
		if req.Op == opLeave && err == nil {
			s.leave(errAsked)
			return
		}
	}
}

func (s *server) answerTo(err error) response {
	res := response{Proto: protocolVersion, Version: s.o.Version, PID: os.Getpid()}
	if err != nil {
		res.Error, res.Code = s.o.Redact(err.Error()), sdk.CodeOf(err)
	}
	return res
}

func (s *server) answer(ctx context.Context, req request, res *response) error {
	ctx, cancel := context.WithTimeout(ctx, messageTime)
	defer cancel()
	if req.Op != opHello && req.Op != opStatus {
		s.mu.Lock()
		s.heard++
		s.mu.Unlock()
	}
	switch req.Op {
	case opHello:
		return nil
	case opStatus:
		res.Held = s.engine.Held()
		return nil
	case opLeave:
		res.Bound = s.pool.known()
		return nil
	case opOffer:
		return s.offered(ctx, req.Bound)
	case opTake:
		if err := s.offered(ctx, req.Bound); err != nil {
			return err
		}
		return s.engine.Take(ctx, req.Run)
	}
	return sdk.Errorf(sdk.Unimplemented, "ask the keeper", "it doesn't know the request %q", req.Op)
}

// offered takes surroundings, and drives what they make possible.
func (s *server) offered(ctx context.Context, list []Bound) error {
	var errs []error
	refusals := s.pool.refusals()
	for _, b := range list {
		news, err := s.pool.offer(ctx, b.Origin, false, b.Runs...)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.once.Do(func() { close(s.first) })
		if !news {
			continue
		}
		select {
		case s.kick <- struct{}{}:
		default:
		}
		if refusals {
			s.engine.LookNow()
		}
	}
	return errors.Join(errs...)
}

// safely turns a panic into an error, with its stack in the log. Its text may
// hold anything; redact, when not nil, takes out what the log doesn't know as
// secret yet.
func safely(log *slog.Logger, what string, redact func(string) string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprint(p)
			if redact != nil {
				text = redact(text)
			}
			log.Error("panic", "while", what, "panic", text, "stack", string(debug.Stack()))
			err = sdk.Errorf(sdk.Internal, what, "the keeper failed: %s", text)
		}
	}()
	return fn()
}
