package control_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func awaited(t sdk.Target) control.ChangeRequest {
	r := on(t)
	r.Wait = patience
	return r
}

// TestF94RowOfAFailedRollout: a change that the backend gives up has failed, with its
// reason, in the error and in the row alike.
func TestF94RowOfAFailedRollout(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	w.cloud.Set(fake.Knobs{MissingImages: []string{"img:1"}})
	c, err := rt.Restart(w.ctx(), awaited(api))
	var e *sdk.Error
	if !errors.As(err, &e) || e.ID != control.ErrWorkloadRollout || !strings.Contains(err.Error(), "image_pull") || c.After == nil || c.After.Rollout != sdk.RolloutFailed {
		t.Errorf("%+v, %v", c.After, err)
	}
	r := w.onlyRow()
	w.expect(r, sdk.StateFailed, sdk.ReasonImagePull)
	if r.Open() || !strings.Contains(r.Message, "not found") || c.Row.State != sdk.StateFailed || w.detail(r.ID)["rollout_state"] != "failed" || w.detail(r.ID)["rollout"] == "" {
		t.Errorf("row %+v, detail %v", r, w.detail(r.ID))
	}
	w.sound(r.ID)
}

func TestWaitClosesRow(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	c, err := rt.Scale(w.ctx(), awaited(api), 3)
	if err != nil || c.After == nil || *c.After.Ready != 3 {
		t.Fatalf("%+v, %v", c.After, err)
	}
	w.expect(w.onlyRow(), sdk.StateSucceeded, sdk.ReasonCompleted)
	w.cloud.Set(fake.Knobs{RolloutDelay: fake.Duration(time.Hour)})
	r := on(api)
	r.Wait = 50 * time.Millisecond
	c, err = rt.Restart(w.ctx(), r)
	if sdk.CodeOf(err) != sdk.DeadlineExceeded || c.Row.Open() || !strings.Contains(c.Row.Message, "accepted") {
		t.Errorf("past the wait: %v, row %+v", err, c.Row)
	}
	w.expect(c.Row, sdk.StateSucceeded, sdk.ReasonCompleted)
}

// TestWaitHoldsNobodyUp has a second change come while the first is waited for, as
// that which mends it: it is made, and the first one's wait ends.
func TestWaitHoldsNobodyUp(t *testing.T) {
	w := newWorld(t)
	first, second := w.engine().Workloads(), w.engine().Workloads()
	api := w.live("api", 2)
	w.cloud.Set(fake.Knobs{RolloutDelay: fake.Duration(time.Hour)})
	done := make(chan error, 1)
	go func() {
		_, err := first.Restart(w.ctx(), awaited(api))
		done <- err
	}()
	testwait.Until(t, patience, "accepted change", func() bool {
		rows := w.liveRows()
		return len(rows) == 1 && rows[0].State == sdk.StateRunning
	})
	if _, err := second.Restart(w.ctx(), on(api)); err != nil {
		t.Fatal(err)
	}
	var e *sdk.Error
	if err := <-done; !errors.As(err, &e) || e.ID != control.ErrWorkloadRollout {
		t.Errorf("the first wait: %v", err)
	}
	for _, r := range w.liveRows() {
		w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
		w.sound(r.ID)
	}
}

// TestDeathWhileWaiting: the backend had accepted the change, whatever came after it.
func TestDeathWhileWaiting(t *testing.T) {
	w := newWorld(t)
	api := w.live("api", 2)
	e := w.engine()
	id := w.rowOfTheDead(ledger.Requested{Action: "svc.restart", Target: api.String()})
	if err := w.store.Write(w.ctx(), ledger.Write{Run: id, Events: []ledger.NewEvent{{Kind: ledger.KindObserved, Actor: "dead@test",
		Change: ledger.Change{V: ledger.ChangeVersion, State: sdk.StateRunning}}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Workloads().Restart(w.ctx(), on(api)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Recover(w.ctx(), ""); err != nil {
		t.Fatal(err)
	}
	r, err := w.store.Run(w.ctx(), id)
	if err != nil {
		t.Fatal(err)
	}
	w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	if r.Open() || !strings.Contains(r.Message, "accepted") {
		t.Errorf("row %+v", r)
	}
}

// TestBusyNamesWhoHasNoRowYet: the holder is named while it still looks.
func TestBusyNamesWhoHasNoRowYet(t *testing.T) {
	w := newWorld(t)
	w.back.CallTimeout = patience
	first, second := w.engine().Workloads(), w.engine().Workloads()
	api := w.live("api", 2)
	entered, release := w.cloud.Block(fake.OpWorkloadStatus)
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := first.Scale(w.ctx(), on(api), 3)
		done <- err
	}()
	<-entered
	_, err := second.Restart(w.ctx(), control.ChangeRequest{Target: api, Actor: "other@test"})
	if sdk.CodeOf(err) != sdk.Aborted {
		t.Fatal(err)
	}
	for _, want := range []string{"tester@test", "process " + strconv.Itoa(os.Getpid()), "svc.scale", "since 20"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q isn't in %v", want, err)
		}
	}
	if rows := w.liveRows(); len(rows) != 0 {
		t.Errorf("rows %+v", rows)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
