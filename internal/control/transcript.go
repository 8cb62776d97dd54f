package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// transcriptAttempt is the log of a row of exec: a session is tried once.
const transcriptAttempt = 1

// attempts is how many logs a row may have.
func attempts(run ledger.Run) int {
	if isRecorded(run) {
		return transcriptAttempt
	}
	return run.Attempt
}

// isRecorded reports whether what the session of a row writes was to be kept.
func isRecorded(run ledger.Run) bool {
	var args execArgs
	return run.Action == actionExec && json.Unmarshal(run.Spec, &args) == nil && args.Record
}

// endTranscript ends the log of a session whose process died over it.
func (e *Engine) endTranscript(run ledger.Run) error {
	w, err := e.o.Logs.Writer(joblog.Key{Run: run.ID, Attempt: transcriptAttempt}, uint64(run.Fence))
	if err != nil {
		return err
	}
	_, err = w.Finish(sdk.VerdictGap)
	return errors.Join(err, w.Close())
}

// transcript keeps what a session writes.
type transcript struct {
	clock sdk.Clock

	mu  sync.Mutex
	log *joblog.Writer
	err error
}

// transcript begins to keep what the session of a row writes, behind a line that
// tells whose it is.
func (w *WorkloadRuntime) transcript(ctx context.Context, id sdk.ID, s *sdk.ExecWorkloadRequest) (*transcript, error) {
	row, err := w.e.o.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	log, err := w.e.o.Logs.Writer(joblog.Key{Run: id, Attempt: transcriptAttempt}, uint64(row.Fence))
	if err != nil {
		return nil, err
	}
	t := &transcript{clock: w.e.clock, log: log}
	t.keep(sdk.StreamSystem, fmt.Appendf(nil, "session of %s in %s: %q\n", row.Actor, row.Target, []string(s.Command)))
	if err := errors.Join(t.err, log.Sync()); err != nil { // a disk that takes nothing shows here
		return nil, errors.Join(err, log.Close())
	}
	out := sdk.StreamStdout
	if s.Terminal != nil {
		out = sdk.StreamCombined
	}
	s.Stdout, s.Stderr = &keeping{t, out, s.Stdout}, &keeping{t, sdk.StreamStderr, s.Stderr}
	return t, nil
}

// keeping writes to a transcript what goes to another writer.
type keeping struct {
	t      *transcript
	stream sdk.Stream
	to     io.Writer
}

// Write implements io.Writer. A transcript that fails ends no session: its verdict
// tells.
func (k *keeping) Write(p []byte) (int, error) {
	k.t.keep(k.stream, p)
	if k.to == nil {
		return len(p), nil
	}
	return k.to.Write(p)
}

func (t *transcript) keep(stream sdk.Stream, p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = t.log.Append(sdk.LogItem{Entry: &sdk.LogChunk{Time: t.clock.Now(), Stream: stream, Data: p, LineEnd: sdk.LineEndKept}})
	}
}

// end ends the log, and says how much of the session is in it.
func (t *transcript) end() sdk.Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := sdk.VerdictComplete
	if t.err != nil {
		want = sdk.VerdictGap
	}
	got, err := t.log.Finish(want)
	if errors.Join(err, t.log.Close()) != nil {
		return sdk.VerdictGap
	}
	return got
}
