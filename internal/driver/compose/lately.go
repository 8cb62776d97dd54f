package compose

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// fresh is for how long what Compose said is taken for what it would say. A verb
// looks, and looks again before it changes something; a listing looks for each
// service. What is named to Compose is compared as well, so only a file that those
// include can be older than it is, by this at most.
const fresh = 2 * time.Second

// answerKey tells apart what Compose is asked.
type answerKey [sha256.Size]byte

// readKey is of a command of Compose: its arguments, its environment, and what is
// in the files that it is given.
func (p *provider) readKey(ctx context.Context, op string, files, args []string) (answerKey, error) {
	cmd, err := p.command(ctx, op, files, args...)
	if err != nil {
		return answerKey{}, err
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q\n", cmd.Args, cmd.Env) // a hash takes all
	envs := p.place.envFiles
	if len(envs) == 0 {
		envs = []string{filepath.Join(p.place.directory, ".env")}
	}
	for _, f := range slices.Concat(files, envs) {
		data, err := os.ReadFile(f)
		// What can't be read Compose says itself.
		_, _ = fmt.Fprintf(h, "%q %x %v\n", f, sha256.Sum256(data), err)
	}
	return answerKey(h.Sum(nil)), nil
}

// lately are answers of Compose that are still fresh. The zero value has none.
type lately[T any] struct {
	mu      sync.Mutex
	answers map[answerKey]*answer[T]
}

// answer is one that came, or that somebody waits for until done is closed.
type answer[T any] struct {
	done  chan struct{}
	at    time.Time
	value T
	err   error
	// left: who asked went away before it came.
	left bool
}

func (a *answer[T]) came() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *answer[T]) fresh(now time.Time) bool {
	return a.err == nil && now.Sub(a.at) < fresh
}

// get returns a fresh answer, or the one that another is waiting for, or asks.
func (l *lately[T]) get(ctx context.Context, clock sdk.Clock, key answerKey, ask func() (T, error)) (T, error) {
	for {
		a, mine := l.find(key, clock.Now())
		if mine {
			a.value, a.err = ask()
			a.at, a.left = clock.Now(), ctx.Err() != nil
			close(a.done)
			return a.value, a.err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			var none T
			return none, context.Cause(ctx)
		}
		if !a.left {
			return a.value, a.err
		}
	}
}

// find returns the answer to a question; mine is one that the caller must fetch.
func (l *lately[T]) find(key answerKey, now time.Time) (a *answer[T], mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	if a = l.answers[key]; a != nil {
		return a, false
	}
	a = &answer[T]{done: make(chan struct{})}
	l.answers[key] = a
	return a, true
}

// forget drops what isn't fresh any more.
func (l *lately[T]) forget(now time.Time) {
	if l.answers == nil {
		l.answers = map[answerKey]*answer[T]{}
	}
	for k, a := range l.answers {
		if a.came() && !a.fresh(now) {
			delete(l.answers, k)
		}
	}
}

// put keeps an answer.
func (l *lately[T]) put(clock sdk.Clock, key answerKey, value T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &answer[T]{done: make(chan struct{}), at: clock.Now(), value: value}
	close(a.done)
	l.forget(a.at)
	l.answers[key] = a
}

// take returns a fresh answer once.
func (l *lately[T]) take(clock sdk.Clock, key answerKey) (T, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(clock.Now())
	a := l.answers[key]
	if a == nil {
		var none T
		return none, false
	}
	delete(l.answers, key)
	return a.value, true
}
