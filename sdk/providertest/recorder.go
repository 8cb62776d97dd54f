package providertest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// testingT brings *testing.T into the form of T.
type testingT struct{ *testing.T }

var _ T = testingT{}

// Run implements T.
func (t testingT) Run(name string, f func(t T)) bool {
	return t.T.Run(name, func(t *testing.T) { f(testingT{t}) })
}

// recorder is a T that keeps what happened: for waived checks, and for the
// suite's own tests.
type recorder struct {
	ctx     context.Context
	name    string
	tempDir func() string

	mu       sync.Mutex
	failed   bool
	skipped  bool
	lines    []string
	cleanups []func()
	subs     []*recorder
}

var _ T = (*recorder)(nil)

func newRecorder(ctx context.Context, name string, tempDir func() string) *recorder {
	return &recorder{ctx: ctx, name: name, tempDir: tempDir}
}

// do runs f in a goroutine of its own, which Fatalf and Skipf end, and then the
// clean-ups.
func (r *recorder) do(f func(t T)) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.ctx = ctx
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			cancel()
			for {
				r.mu.Lock()
				n := len(r.cleanups)
				if n == 0 {
					r.mu.Unlock()
					return
				}
				last := r.cleanups[n-1]
				r.cleanups = r.cleanups[:n-1]
				r.mu.Unlock()
				last()
			}
		}()
		f(r)
	}()
	<-done
}

func (r *recorder) Helper() {}

func (r *recorder) Name() string { return r.name }

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) log(format string, args []any, set func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	if set != nil {
		set()
	}
}

func (r *recorder) Logf(format string, args ...any) { r.log(format, args, nil) }

func (r *recorder) Errorf(format string, args ...any) {
	r.log(format, args, func() { r.failed = true })
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.log(format, args, func() { r.skipped = true })
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) TempDir() string { return r.tempDir() }

func (r *recorder) Run(name string, f func(t T)) bool {
	sub := newRecorder(r.ctx, r.name+"/"+name, r.tempDir)
	r.mu.Lock()
	r.subs = append(r.subs, sub)
	r.mu.Unlock()
	sub.do(f)
	if sub.Failed() {
		r.mu.Lock()
		r.failed = true
		r.mu.Unlock()
	}
	return !sub.Failed()
}

// text returns all that was said.
func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	for _, sub := range r.subs {
		if sub.Failed() {
			lines = append(lines, sub.name+": "+sub.text())
		}
	}
	return strings.Join(lines, "\n")
}

// Testing brings *testing.T into the form of T, for suites beside this one.
func Testing(t *testing.T) T { return testingT{t} }

// Recorded is what a suite came to.
type Recorded struct {
	// Failed are the names of the subtests right below f that failed; f's own
	// failure has an empty name.
	Failed []string
	// Text is all that was said by what failed.
	Text string
}

// Record runs f against a T that keeps what happens and fails nothing, for tests
// of suites.
func Record(t *testing.T, f func(t T)) Recorded {
	t.Helper()
	r := newRecorder(t.Context(), "suite", t.TempDir)
	r.do(f)
	out := Recorded{Text: r.text()}
	for _, sub := range r.subs {
		if sub.Failed() {
			out.Failed = append(out.Failed, strings.TrimPrefix(sub.name, r.name+"/"))
		}
	}
	if r.Failed() && len(out.Failed) == 0 {
		out.Failed = []string{""}
	}
	return out
}
