package control_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// TestNoCanceler: a provider that can't end jobs is refused, unless that is allowed.
// What can't be ended then says so, and keeps its own end.
func TestNoCanceler(t *testing.T) {
	w := newWorld(t, withSettings(fake.Settings{Capabilities: []string{"JobRunner", "JobFinder", "JobLogger"}}))
	e := w.engine()
	req := request(spec("echo", "up", ";", "sleep", "1", ";", "exit", "3"))
	var refused *sdk.Error
	if _, err := e.Submit(w.ctx(), req); !errors.As(err, &refused) || refused.ID != control.ErrIDNoCancel || refused.Code != sdk.Unimplemented ||
		!strings.Contains(err.Error(), "--allow-no-cancel") {
		t.Fatalf("submit: %v", err)
	}
	if _, err := e.Plan(w.ctx(), req); !errors.As(err, &refused) || refused.ID != control.ErrIDNoCancel {
		t.Fatalf("plan: %v", err)
	}
	if n := w.cloud.Calls(fake.OpRunJob); n != 0 {
		t.Fatalf("%d launches were sent", n)
	}
	req.AllowNoCancel = true
	id := w.submit(e, req)
	w.wait(e, id, control.MilestoneSubmitted)
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test"}); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateFailed, sdk.ReasonNonzeroExit)
	w.sound(id)
}
