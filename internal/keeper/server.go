package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// IdleTime is how long a keeper without runs stays.
	IdleTime = 30 * time.Second
	// recoverEvery is how often it looks for runs of holders that died.
	recoverEvery = 5 * time.Second
	// leaveTime bounds the handing over when it ends.
	leaveTime = 20 * time.Second
	askTime   = 30 * time.Second
)

// Options is what a keeper works with.
type Options struct {
	StateDir string
	Version  string
	Actor    string
	Owner    string
	Store    ledger.Store
	Logs     *joblog.Store
	// Open opens the providers of a command's surroundings.
	Open func(ctx context.Context, o Origin) (Opened, error)
	// Home is the surroundings that the keeper itself was started with.
	Home  Origin
	Clock sdk.Clock
	Log   *slog.Logger
	// Idle replaces IdleTime.
	Idle time.Duration
}

// Opened is the providers of one origin.
type Opened interface {
	control.Providers
	Close() error
}

// Serve is the keeper's whole life. It returns nil at once when another keeper
// has the state directory, and otherwise when it has been idle, was asked to
// leave, or ctx ends.
func Serve(ctx context.Context, o Options) (err error) {
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Idle == 0 {
		o.Idle = IdleTime
	}
	lock := flock.New(lockPath(o.StateDir), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("elect keeper: %w", err)
	}
	if !ok {
		return nil
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	path, err := socketPath(o.StateDir)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keeper's socket: %w", err)
	}
	ln, err := listenPrivate(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }()
	s := &server{o: o, last: o.Clock.Now()}
	s.origins = newOrigins(o.Open)
	defer func() { err = errors.Join(err, s.origins.close()) }()
	if _, err := s.origins.add(ctx, o.Home); err != nil {
		o.Log.Warn("own surroundings not opened", "err", err)
	}
	s.engine, err = control.New(ctx, control.Options{Store: o.Store, Logs: o.Logs, Providers: s.origins, Kind: "keeper", Version: o.Version,
		StateDir: o.StateDir, Owner: o.Owner, Actor: o.Actor, Clock: o.Clock, Log: o.Log})
	if err != nil {
		_ = ln.Close()
		return err
	}
	o.Log.Info("keeper started", "pid", os.Getpid(), "version", o.Version)
	err = s.serve(ctx, ln)
	lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	err = errors.Join(err, s.engine.Close(lctx))
	o.Log.Info("keeper left", "err", err)
	return err
}

// listenPrivate makes the socket with mode 0600 from its first moment on.
func listenPrivate(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	restore := privateUmask()
	ln, err := lc.Listen(ctx, "unix", path)
	restore()
	if err != nil {
		return nil, fmt.Errorf("keeper's socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("keeper's socket: %w", err)
	}
	return ln, nil
}

type server struct {
	o       Options
	engine  *control.Engine
	origins *origins

	mu    sync.Mutex
	conns int
	last  time.Time
	wg    sync.WaitGroup
}

func (s *server) serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.wg.Add(2)
	go func() { defer s.wg.Done(); s.recoverLoop(ctx) }()
	go func() { defer s.wg.Done(); defer cancel(); s.idleLoop(ctx) }()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	for {
		c, err := ln.Accept()
		if err != nil {
			leaving := ctx.Err() != nil
			cancel()
			s.wg.Wait()
			if leaving {
				return nil
			}
			return fmt.Errorf("keeper's socket: %w", err)
		}
		s.busy(1)
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			defer s.busy(-1)
			s.talk(ctx, c, cancel)
		}()
	}
}

func (s *server) busy(d int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns += d
	s.last = s.o.Clock.Now()
}

// idleLoop returns once there has been nothing to do for long enough.
func (s *server) idleLoop(ctx context.Context) {
	for {
		select {
		case <-s.engine.Idle():
		case <-ctx.Done():
			return
		}
		if s.o.Clock.Sleep(ctx, s.o.Idle/10) != nil {
			return
		}
		s.mu.Lock()
		now := s.o.Clock.Now()
		if len(s.engine.Held()) > 0 || s.conns > 0 {
			s.last = now
		}
		idle := now.Sub(s.last)
		s.mu.Unlock()
		if idle >= s.o.Idle {
			return
		}
	}
}

func (s *server) recoverLoop(ctx context.Context) {
	for {
		if n, err := s.engine.Recover(ctx, ""); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("recovery failed", "err", err)
		} else if n > 0 {
			s.o.Log.Info("runs taken up", "count", n)
		}
		if s.o.Clock.Sleep(ctx, recoverEvery) != nil {
			return
		}
	}
}

func (s *server) talk(ctx context.Context, c net.Conn, leave func()) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		var req request
		if err := readMessage(r, &req); err != nil {
			return
		}
		res := response{Proto: protocolVersion, Version: s.o.Version, PID: os.Getpid()}
		err := s.answer(ctx, req, &res)
		if err != nil {
			res.Error, res.Code = err.Error(), sdk.CodeOf(err)
		}
		if writeMessage(c, res) != nil {
			return
		}
		if req.Op == opLeave && err == nil {
			leave()
			return
		}
	}
}

func (s *server) answer(ctx context.Context, req request, res *response) error {
	switch req.Op {
	case opHello, opLeave:
		return nil
	case opStatus:
		res.Held = s.engine.Held()
		return nil
	case opRenew:
		_, err := s.origins.add(ctx, req.Origin)
		return err
	case opTake:
		key, err := s.origins.add(ctx, req.Origin)
		if err != nil {
			return err
		}
		s.origins.bind(req.Run, key)
		if err := s.engine.Take(ctx, req.Run); err != nil {
			return err
		}
		if err := s.origins.prune(append(s.engine.Held(), req.Run)); err != nil {
			s.o.Log.Warn("surroundings not closed", "err", err)
		}
		return nil
	}
	return sdk.Errorf(sdk.Unimplemented, "ask the keeper", "it doesn't know the request %q", req.Op)
}
