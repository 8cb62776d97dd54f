package control_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// talkative runs a job that writes enough to be worth packing, to its end.
func talkative(w *world, e *control.Engine) sdk.ID {
	w.t.Helper()
	id := w.submit(e, request(spec("lines", "2000", ";", "exit", "0")))
	w.wait(e, id, control.MilestoneFinished)
	return id
}

func sizeOf(w *world, id sdk.ID) int64 {
	w.t.Helper()
	n, err := w.logs.Size(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func stdout(w *world, e *control.Engine, id sdk.ID) string {
	w.t.Helper()
	out, _ := w.output(e, id)
	return out[sdk.StreamStdout]
}

// TestRetain: open runs keep all; of the others output goes by age and by size, the
// oldest first, what stays is compressed, and what leaves the ledger takes its
// output along.
func TestRetain(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	first, second := talkative(w, e), talkative(w, e)
	open := w.submit(e, request(spec("lines", "2000", ";", "hang")))
	w.running(open)
	before, want := sizeOf(w, first), stdout(w, e, second)
	retain := func(r control.Retention) control.Retained {
		t.Helper()
		done, err := e.Retain(t.Context(), r, "ann")
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if done := retain(control.Retention{}); len(done.Removed) != 0 || done.Pruned != 0 || done.Packed.Before == 0 || done.Packed.After*2 > done.Packed.Before {
		t.Errorf("with nothing to let go: %+v", done)
	}
	if n := sizeOf(w, first); n*2 > before || stdout(w, e, second) != want {
		t.Errorf("packed %d bytes into %d", before, n)
	}
	if done := retain(control.Retention{LogBytes: sizeOf(w, second)}); fmt.Sprint(done.Removed) != fmt.Sprint([]sdk.ID{first}) {
		t.Errorf("by size went %v, want %s", done.Removed, first)
	}
	if done := retain(control.Retention{Logs: time.Hour}); len(done.Removed) != 0 {
		t.Errorf("too early went %v", done.Removed)
	}
	if done := retain(control.Retention{Logs: 1}); fmt.Sprint(done.Removed) != fmt.Sprint([]sdk.ID{second}) {
		t.Errorf("by age went %v, want %s", done.Removed, second)
	}
	if done := retain(control.Retention{Ledger: 1}); done.Pruned != 2 {
		t.Errorf("pruned %d", done.Pruned)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "logs", "*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != open.String() {
		t.Errorf("in the folder of logs: %v, %v", left, err)
	}
	rep, err := w.store.Verify(t.Context(), nil)
	if err != nil || len(rep.Faults) != 0 || rep.Runs != 1 {
		t.Errorf("the ledger: %+v, %v", rep, err)
	}
	w.cancel(e, open)
	w.wait(e, open, control.MilestoneFinished)
	if strings.Count(stdout(w, e, open), "\n") != 2000 {
		t.Error("the open run lost output")
	}
}

// TestRetainDaily: once a day, and what was cut short is taken up by who resumes.
func TestRetainDaily(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	talkative(w, e)
	daily := func(ctx context.Context, resume bool) (control.Retained, error) {
		return e.RetainDaily(ctx, control.Retention{}, "ann", resume)
	}
	cut, stop := context.WithCancel(t.Context())
	stop()
	if _, err := daily(cut, false); err == nil {
		t.Error("it wasn't cut short")
	}
	if done, err := daily(t.Context(), false); err != nil || done.Packed.Before != 0 || e.RetainDue(false) {
		t.Errorf("a second time in a day: %+v, %v", done, err)
	}
	if done, err := daily(t.Context(), true); err != nil || done.Packed.Before == 0 {
		t.Errorf("resumed: %+v, %v", done, err)
	}
	if e.RetainDue(true) {
		t.Error("it is due although all was done")
	}
	w.clock.step(25 * time.Hour)
	if !e.RetainDue(false) {
		t.Error("it isn't due after a day")
	}
	if err := os.Remove(filepath.Join(w.dir, "retention.swept")); err != nil {
		t.Error(err)
	}
}
