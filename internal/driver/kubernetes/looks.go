package kubernetes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// looksAtOnce is how many calls for gathered looks are under way at most, so that one
	// that hangs doesn't hold up all.
	looksAtOnce = 4
	// lookPace is how long for each of its jobs the next call waits behind one: 500 looks
	// a second are 10 calls a second where many wait, and one alone waits for nothing.
	lookPace = 2 * time.Millisecond
)

// looks gathers looks at single jobs. Each reader of a log makes its own, every two
// seconds while its pod waits to start: of a thousand such they would take all calls
// that the API server is to get, and each other job would wait behind them. Whose turn
// it is asks for all that wait.
type looks struct {
	// turns has an element for each call under way.
	turns chan struct{}

	mu      sync.Mutex
	waiting []*want
	next    time.Time // when one more call may begin
}

// want is a look that somebody waits for.
type want struct {
	h sdk.JobHandle
	// taken: somebody asks for it. got has what came of it then.
	taken bool
	got   chan looked
}

// looked is what came of a look. again: who asked has gone before an answer.
type looked struct {
	s     sight
	err   error
	again bool
}

func newLooks() *looks { return &looks{turns: make(chan struct{}, looksAtOnce)} }

// look is a look at one job. ask looks at several, in their order, within the time of
// the caller whose turn it is.
func (l *looks) look(ctx context.Context, h sdk.JobHandle, ask func(context.Context, []sdk.JobHandle) ([]sight, error)) (sight, error) {
	w := &want{h: h, got: make(chan looked, 1)}
	l.wait(w)
	turns := l.turns
	for {
		select {
		case got := <-w.got:
			if !got.again {
				return got.s, got.err
			}
			l.wait(w)
			turns = l.turns
		case turns <- struct{}{}:
			batch, err := l.take(ctx, w)
			if err != nil {
				<-l.turns
				l.leave(w)
				return sight{}, err
			}
			if batch == nil {
				turns = nil // somebody asks for it already
			} else {
				l.answer(ctx, batch, ask)
			}
			<-l.turns
		case <-ctx.Done():
			l.leave(w)
			return sight{}, ctx.Err()
		}
	}
}

// take returns a look and those that wait besides, once the next call may begin; nil
// where somebody else has taken it.
func (l *looks) take(ctx context.Context, w *want) ([]*want, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		wait := time.Until(l.next)
		if w.taken {
			return nil, nil
		}
		if wait <= 0 {
			break
		}
		l.mu.Unlock()
		err := sdk.SystemClock().Sleep(ctx, wait)
		l.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *want) bool { return o == w })
	n := min(len(l.waiting), batchMax-1)
	batch := append([]*want{w}, l.waiting[:n]...)
	l.waiting = slices.Delete(l.waiting, 0, n)
	for _, o := range batch {
		o.taken = true
	}
	l.next = time.Now().Add(time.Duration(len(batch)) * lookPace)
	return batch, nil
}

// answer asks for a batch, whose first is the caller's own. Where the caller goes
// meanwhile the others are asked for again.
func (l *looks) answer(ctx context.Context, batch []*want, ask func(context.Context, []sdk.JobHandle) ([]sight, error)) {
	handles := make([]sdk.JobHandle, len(batch))
	for i, w := range batch {
		handles[i] = w.h
	}
	sights, err := ask(ctx, handles)
	if err != nil && ctx.Err() != nil {
		for _, w := range batch[1:] {
			w.got <- looked{again: true}
		}
		batch = batch[:1]
	}
	for i, w := range batch {
		got := looked{err: err}
		if err == nil {
			got.s = sights[i]
		}
		w.got <- got
	}
}

// wait has a look be asked for.
func (l *looks) wait(w *want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.taken = false
	l.waiting = append(l.waiting, w)
}

// leave gives a look up.
func (l *looks) leave(w *want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(o *want) bool { return o == w })
}
