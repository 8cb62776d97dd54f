package control_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// clumsy is a driver that panics at the first of each of its calls, with a
// secret in the text.
type clumsy struct {
	sdk.JobRunner
	sdk.JobLogger
	sdk.JobCleaner

	mu   sync.Mutex
	done map[string]bool
}

func (c *clumsy) slip(op string) {
	c.mu.Lock()
	first := !c.done[op]
	c.done[op] = true
	c.mu.Unlock()
	if first {
		panic(op + " slipped on canary-value")
	}
}

func (c *clumsy) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	c.slip("run")
	return c.JobRunner.RunJob(ctx, r)
}

func (c *clumsy) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		c.slip("logs")
		c.JobLogger.JobLogs(ctx, r)(yield)
	}
}

func (c *clumsy) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	c.slip("clean")
	return c.JobCleaner.CleanupJob(ctx, r)
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestDriverPanics: a panic of a driver is an error of that call. The process
// and its other runs live on, the launch is in doubt and made once, and the
// panic's text is told without the run's secrets.
func TestDriverPanics(t *testing.T) {
	w := newWorld(t)
	var log lockedBuffer
	var red secret.Redactor
	red.Know(sdk.NewSecretValue([]byte("canary-value")))
	w.redact, w.log = red.Redact, slog.New(red.Handler(slog.NewTextHandler(&log, nil)))
	w.wrap = func(p sdk.Provider) sdk.Provider {
		c := &clumsy{done: map[string]bool{}}
		c.JobRunner, _ = sdk.Of(p, sdk.Runner())
		c.JobLogger, _ = sdk.Of(p, sdk.Logger())
		c.JobCleaner, _ = sdk.Of(p, sdk.Cleaner())
		d, err := sdk.Decorate(p, map[string]any{sdk.Runner().String(): c, sdk.Logger().String(): c, sdk.Cleaner().String(): c})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	e := w.engine()
	id := w.submit(e, request(spec("echo", "hello")))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if out, v := w.output(e, id); out[sdk.StreamStdout] != "hello\n" || v != sdk.VerdictComplete {
		t.Errorf("output %q, verdict %s", out[sdk.StreamStdout], v)
	}
	w.sound(id)
	if made := w.cloud.Made(w.attempts(id)[0].ID); made != 1 {
		t.Errorf("made %d objects", made)
	}
	said := log.String() + strings.Join(w.warnings, "\n")
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{Run: id}) {
		if err != nil {
			t.Fatal(err)
		}
		said += string(ev.Change)
	}
	if strings.Contains(said, "canary") || !strings.Contains(said, "panic_test.go") || !strings.Contains(said, "clean slipped on "+sdk.Redacted) {
		t.Errorf("said:\n%s", said)
	}
}
