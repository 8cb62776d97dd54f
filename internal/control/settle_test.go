package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestReapTakesUp: the runs of a holder that was killed are taken up before anything
// is listed, by whom the request names or by the reap's own engine. What has ended
// meanwhile leaves nothing, and of what still runs it is told whether anybody looks
// after it. A look alone takes up nothing.
func TestReapTakesUp(t *testing.T) {
	for _, how := range []string{"by itself", "by another", "by itself since the other can't"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			first := w.engine()
			ended := w.submit(first, request(spec("gate")))
			running := w.submit(first, request(spec("hang")))
			w.running(ended)
			w.running(running)
			first.Crash()
			if err := w.cloud.OpenGate(ended); err != nil {
				t.Fatal(err)
			}
			e := w.engine()
			holder := func(id sdk.ID) (held bool) {
				free, err := control.Undriven(t.Context(), w.store, w.clock.Now())
				if err != nil {
					t.Fatal(err)
				}
				r, err := w.store.Run(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return r.Open() && !free(r)
			}
			looked := w.reap(e, control.ReapRequest{DryRun: true})
			if len(looked) != 2 || holder(ended) || holder(running) {
				t.Errorf("a look took up runs, or found %d objects", len(looked))
			}
			for _, it := range looked {
				want := fmt.Sprintf("its run is running, and nobody looks after it: `windlass wait %s` takes it up", it.Object.RunID.Short())
				if it.Why != want || it.Orphan {
					t.Errorf("%+v, want %q", it, want)
				}
			}
			req := control.ReapRequest{}
			asked := 0
			switch how {
			case "by another":
				other := w.engine()
				w.clock.bound(5 * time.Millisecond)
				req.TakeUp = func(ctx context.Context) error {
					asked++
					_, err := other.Recover(ctx, "")
					w.wait(other, ended, control.MilestoneFinished)
					return err
				}
			case "by itself since the other can't":
				req.TakeUp = func(context.Context) error { asked++; return errors.New("it can't be started") }
			}
			got := w.reap(e, req)
			if len(got) != 1 {
				t.Errorf("%d objects: %+v", len(got), got)
			}
			for _, it := range got {
				if it.Object.RunID != running || it.Why != "its run is running" || it.Removed {
					t.Errorf("%+v", it)
				}
			}
			if (asked == 1) != (req.TakeUp != nil) || (len(e.Held()) == 0) != (how == "by another") {
				t.Errorf("asked %d times, holds %v", asked, e.Held())
			}
			w.expect(w.wait(e, ended, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
			if !holder(running) {
				t.Error("nobody holds what runs")
			}
			// With nothing to take up nobody is asked.
			w.reap(e, req)
			if asked > 1 {
				t.Error("asked for nothing")
			}
			w.cancel(e, running)
			w.expect(w.wait(e, running, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
			w.sound(ended)
		})
	}
}

// TestReapOfAnUndrivableRun: a run that can't be taken up holds up nothing, and is
// told of as one that nobody looks after.
func TestReapOfAnUndrivableRun(t *testing.T) {
	w := newWorld(t)
	w.clock.bound(5 * time.Millisecond)
	first := w.engine()
	id := w.submit(first, request(spec("hang")))
	w.running(id)
	first.Crash()
	w.gone = sdk.Errorf(sdk.Unauthenticated, "open provider", "no key")
	e := w.engine()
	got := w.reap(e, control.ReapRequest{})
	if len(got) != 1 {
		t.Errorf("%+v", got)
	}
	for _, it := range got {
		if !strings.Contains(it.Why, "its run is unknown, and nobody looks after it") || it.Removed {
			t.Errorf("%+v", it)
		}
	}
	w.gone = nil
	e = w.engine()
	w.reap(e, control.ReapRequest{})
	w.row(id, "it is driven", func(r ledger.Run) bool { return r.State == sdk.StateRunning })
	w.cancel(e, id)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
}
