package control_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// slowReader is a log whose looks wait for their turn: the first comes at once,
// the next only after the job has been over for long.
type slowReader struct {
	// next is opened when the second look may be made; never is a look that
	// doesn't come at all.
	next  chan struct{}
	never bool
}

func (s slowReader) JobLogs(ctx context.Context, _ sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		line := func(text string) bool {
			return yield(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: []byte(text), LineEnd: sdk.LineEndKept}}, nil)
		}
		if !line("one\n") {
			return
		}
		select {
		case <-s.next:
		case <-ctx.Done():
			yield(sdk.LogItem{}, ctx.Err())
			return
		}
		if s.never {
			<-ctx.Done()
			yield(sdk.LogItem{}, ctx.Err())
			return
		}
		if !line("two\n") {
			return
		}
		for yield(sdk.LogItem{}, nil) {
			if err := sdk.SystemClock().Sleep(ctx, 5*time.Millisecond); err != nil {
				yield(sdk.LogItem{}, err)
				return
			}
		}
	}
}

func looking(settle sdk.LogSettle) option {
	g := fake.BestGuarantees()
	g.Logs.EndProven, g.Logs.Looks, g.Logs.Settle = false, true, settle
	return withSettings(fake.Settings{Guarantees: &g})
}

func withLogger(l sdk.JobLogger) option {
	return func(w *world) {
		w.wrap = func(p sdk.Provider) sdk.Provider {
			d, err := sdk.Decorate(p, map[string]any{sdk.Logger().String(): l})
			if err != nil {
				w.t.Fatal(err)
			}
			return d
		}
	}
}

// TestQuietIsSeen: a log counts as quiet when a look found nothing, not because
// nobody looked.
func TestQuietIsSeen(t *testing.T) {
	s := slowReader{next: make(chan struct{})}
	w := newWorld(t, looking(sdk.LogSettle{Quiet: 50 * time.Millisecond, Max: 10 * time.Second}), withLogger(s))
	e := w.engine()
	id := w.submit(e, request(spec("true")))
	w.wait(e, id, control.MilestoneEnded)
	over := time.Now()
	w.until("the window to pass several times over", func() bool { return time.Since(over) > 300*time.Millisecond })
	if r, err := w.store.Run(t.Context(), id); err != nil || r.Verdict != "" {
		t.Errorf("the verdict is %q before anybody looked, %v", r.Verdict, err)
	}
	close(s.next)
	r := w.wait(e, id, control.MilestoneFinished)
	if out, _ := w.output(e, id); out[sdk.StreamStdout] != "one\ntwo\n" || r.Verdict != sdk.VerdictQuiet {
		t.Errorf("output %q, verdict %s", out, r.Verdict)
	}
}

// TestUnreadIsAGap: where no look comes at all, the drain has an end, and it is
// not called quiet.
func TestUnreadIsAGap(t *testing.T) {
	s := slowReader{next: make(chan struct{}), never: true}
	close(s.next)
	w := newWorld(t, looking(sdk.LogSettle{Quiet: 10 * time.Millisecond, Max: 30 * time.Millisecond}), withLogger(s))
	e := w.engine()
	r := w.wait(e, w.submit(e, request(spec("true"))), control.MilestoneFinished)
	if r.Verdict != sdk.VerdictGap {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

// lookingInVain is a log that isn't there: it tells of a look, and fails.
type lookingInVain struct{}

func (lookingInVain) JobLogs(context.Context, sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if yield(sdk.LogItem{}, nil) {
			yield(sdk.LogItem{}, sdk.Errorf(sdk.NotFound, "read log", "there is no such log"))
		}
	}
}

// TestLooksAreNoOutput: looks that found nothing don't keep a drain going whose
// log can't be read.
func TestLooksAreNoOutput(t *testing.T) {
	w := newWorld(t, looking(sdk.LogSettle{Quiet: 50 * time.Millisecond, Max: 100 * time.Millisecond}), withLogger(lookingInVain{}))
	e := w.engine()
	if r := w.wait(e, w.submit(e, request(spec("true"))), control.MilestoneFinished); r.Verdict != sdk.VerdictUnavailable {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}
