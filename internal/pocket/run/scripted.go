package run

import (
	"context"
	"sync"
	"time"
)

// Play is what a scripted container does.
type Play struct {
	// Start fails the start when it isn't nil.
	Start *StartError
	// Stdout and Stderr are written at once, right after the start.
	Stdout, Stderr []byte
	// For is how long it runs; negative means until it is stopped.
	For time.Duration
	// Exit is how it ends by itself. One that is stopped ends with 143.
	Exit Exit
}

// Scripted plays containers without any process. It is for benchmarks and fault
// rounds: nothing really runs.
type Scripted struct {
	play func(Spec) Play

	mu      sync.Mutex
	closed  bool
	running map[*scripted]struct{}
	all     sync.WaitGroup
}

// NewScripted returns an executor that asks for each container's play.
func NewScripted(play func(Spec) Play) *Scripted {
	return &Scripted{play: play, running: map[*scripted]struct{}{}}
}

// Start begins a play.
func (s *Scripted) Start(_ context.Context, spec Spec) (Container, error) {
	play := s.play(spec)
	if play.Start != nil {
		return nil, play.Start
	}
	c := &scripted{done: make(chan struct{}), stopped: make(chan struct{}), exit: play.Exit}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, &StartError{Phase: Create, Text: "the executor is closed"}
	}
	s.running[c] = struct{}{}
	s.all.Add(1)
	s.mu.Unlock()
	if len(play.Stdout) > 0 {
		_, _ = spec.Stdout.Write(play.Stdout) // the pocket cloud's own writer
	}
	if len(play.Stderr) > 0 {
		_, _ = spec.Stderr.Write(play.Stderr)
	}
	if play.For == 0 {
		s.end(c)
		return c, nil
	}
	go func() {
		defer s.end(c)
		if play.For < 0 {
			<-c.stopped
			c.exit = Exit{Code: 143}
			return
		}
		timer := time.NewTimer(play.For)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.stopped:
			c.exit = Exit{Code: 143}
		}
	}()
	return c, nil
}

func (s *Scripted) end(c *scripted) {
	s.mu.Lock()
	delete(s.running, c)
	s.mu.Unlock()
	close(c.done)
	s.all.Done()
}

// Close ends all plays.
func (s *Scripted) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.running {
		c.Stop(0)
	}
	s.mu.Unlock()
	s.all.Wait()
	return nil
}

type scripted struct {
	done, stopped chan struct{}
	once          sync.Once
	exit          Exit
}

// Done is closed at the end of the play.
func (c *scripted) Done() <-chan struct{} { return c.done }

// Exit is the play's.
func (c *scripted) Exit() Exit { return c.exit }

// Stop ends the play at once.
func (c *scripted) Stop(time.Duration) { c.once.Do(func() { close(c.stopped) }) }
