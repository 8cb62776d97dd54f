package keeper

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// recoverEvery is how often the keeper looks for runs of holders that died,
	// recoverPause the least time between two such looks.
	recoverEvery = 5 * time.Second
	recoverPause = 250 * time.Millisecond
	// firstWait is how long the first look waits for the surroundings of the
	// command that started the keeper.
	firstWait = 5 * time.Second
	tickTime  = time.Second
	// beatEvery is how often the lease is renewed: often enough that a clock
	// that steps makes it look lapsed for a moment only.
	beatEvery  = 5 * time.Second
	pruneEvery = 30 * time.Second
	// retainPause is the least time between two tries to apply retention: one that
	// fails keeps no keeper here.
	retainPause = time.Hour
)

// tend looks after the keeper's place, its socket and its idleness, until it is
// time to leave. It counts its own ticks, so that a clock that steps and a time
// in which the process was stopped make nobody idle.
func (s *server) tend(ctx context.Context) {
	tick := min(tickTime, s.o.Idle/10)
	var idle, beat, prune time.Duration
	for s.o.Clock.Sleep(ctx, tick) == nil {
		if why := s.place.check(); why != nil {
			s.o.Log.Warn("keeper lost its place", "why", why)
			s.leave(why)
			return
		}
		if beat += tick; beat >= beatEvery {
			beat = 0
			if err := s.place.beat(); err != nil {
				s.o.Log.Warn("lease not renewed", "err", err)
			}
		}
		s.keepSocket(ctx)
		if prune += tick; prune >= pruneEvery || s.pool.crowded() {
			prune = 0
			s.pool.prune(s.engine.Held(), func(id sdk.ID) bool { return s.stillOpen(ctx, id) })
			s.pool.renew(ctx)
		}
		if idle += tick; s.busy() {
			idle = 0
		}
		if idle >= s.o.Idle/2 {
			s.retain(ctx)
		}
		if idle >= s.o.Idle {
			s.leave(errIdle)
			return
		}
	}
}

// busy reports whether there is something to do, or was since the last look.
func (s *server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := s.heard
	s.heard = 0
	return heard > 0 || s.talks > 0 || s.retaining || len(s.engine.Held()) > 0
}

// retain applies retention in the background, when that is due. A keeper that is
// never quiet leaves it to the commands.
func (s *server) retain(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock.Now()
	if s.retaining || now.Sub(s.retained).Abs() < retainPause || !s.engine.RetainDue(true) {
		return
	}
	s.retaining, s.retained = true, now
	s.wg.Go(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.retaining = false
		}()
		var done control.Retained
		err := safely(s.o.Log, "apply retention", s.o.Redact, func() (err error) {
			done, err = s.engine.RetainDaily(ctx, s.o.Retention, s.o.Actor, true)
			return err
		})
		s.o.Log.Info("retention applied", "outputs_removed", len(done.Removed), "rows_pruned", done.Pruned,
			"bytes_packed", done.Packed.Before, "into", done.Packed.After, "err", err)
	})
}

// stillOpen reports whether a run has something left to do; one that can't be
// looked up counts as such.
func (s *server) stillOpen(ctx context.Context, id sdk.ID) bool {
	run, err := s.o.Store.Run(ctx, id)
	if sdk.CodeOf(err) == sdk.NotFound {
		return false
	}
	return err != nil || run.Open()
}

// keepSocket makes the socket again when somebody has taken it away.
func (s *server) keepSocket(ctx context.Context) {
	if s.sock.ours() {
		return
	}
	next, err := listen(ctx, s.o.StateDir)
	if err != nil {
		s.o.Log.Warn("the socket is gone and can't be made again", "err", err)
		return
	}
	s.o.Log.Warn("the socket was gone and is made again")
	old := s.sock
	s.sock = next
	s.wg.Go(func() { s.accept(ctx, next) })
	_ = old.Close()
}

// recoverLoop takes up runs whose holders died.
func (s *server) recoverLoop(ctx context.Context) {
	s.either(ctx, s.first, firstWait)
	for ctx.Err() == nil {
		start, n := time.Now(), 0
		err := safely(s.o.Log, "recover runs", s.o.Redact, func() (err error) {
			n, err = s.engine.Recover(ctx, "")
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			s.o.Log.Warn("recovery failed", "err", err)
		case n > 0:
			s.o.Log.Info("runs taken up", "count", n)
		}
		// A look costs time where there are many runs: it takes a small part. One that
		// waited for a backend is no reason to leave what has come meanwhile.
		if s.o.Clock.Sleep(ctx, min(max(recoverPause, 4*time.Since(start)), recoverEvery)) != nil {
			return
		}
		s.either(ctx, s.kick, recoverEvery)
	}
}

// either waits for a channel, at most d.
func (s *server) either(ctx context.Context, c <-chan struct{}, d time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	timer := make(chan struct{})
	go func() {
		defer close(timer)
		_ = s.o.Clock.Sleep(ctx, d)
	}()
	select {
	case <-timer:
	case <-c:
	}
	cancel()
	<-timer
}
