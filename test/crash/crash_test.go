//go:build unix

package crash

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/driver/local"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// rounds is how often each boundary is hit: what WINDLASS_CRASH_ROUNDS says,
// else usual.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	s := os.Getenv("WINDLASS_CRASH_ROUNDS")
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("WINDLASS_CRASH_ROUNDS=%q is no number of rounds", s)
	}
	return n
}

// scenario is a way to bring a process to a boundary.
type scenario int

const (
	// plain runs the job to its end.
	plain scenario = iota
	// cancelled cancels a job that hangs.
	cancelled
	// kept leaves the job's objects there.
	kept
	// refused asks for what the backend refuses at launch.
	refused
	// doubtful loses the launch's reply first: the command dies right behind
	// the call, and what takes over looks it up.
	doubtful
	// abandoned gives up a run in doubt.
	abandoned
	// never: the boundary isn't on any process's path here.
	never
)

// scenarioOf says how a boundary is reached.
func scenarioOf(point string) scenario {
	switch {
	case strings.HasPrefix(point, "write."+string(ledger.KindAbandoned)):
		return abandoned
	case strings.HasPrefix(point, "write."+string(ledger.KindAdopted)), strings.HasPrefix(point, "call.find"):
		return doubtful
	case strings.HasPrefix(point, "write."+string(ledger.KindRefused)):
		return refused
	case strings.HasPrefix(point, "write."+string(ledger.KindKept)):
		return kept
	case strings.HasPrefix(point, "call.cancel"):
		return cancelled
	}
	return plain
}

// keeperReaches says whether a keeper, which takes a run over once the backend
// has it and the command has seen it run, comes to the boundary.
func keeperReaches(point string) bool {
	for _, early := range []string{"write.intent", "write.submitting", "write.submitted", "write.running", "write.refused", "call.prepare", "call.run.", "write.abandoned"} {
		if strings.HasPrefix(point, early) {
			return false
		}
	}
	return true
}

// TestEveryKind: no kind of provider is left out.
func TestEveryKind(t *testing.T) {
	for _, d := range all.Drivers() {
		if _, ok := backends()[d.Kind]; !ok && slices.Contains(d.Capabilities, sdk.Runner().String()) {
			t.Errorf("no test kills the program while it runs jobs on %s", d.Kind)
		}
	}
}

func TestEveryBoundary(t *testing.T) {
	t.Parallel()
	for _, driver := range slices.Sorted(maps.Keys(backends())) {
		for _, victim := range []string{"command", "keeper"} {
			for _, point := range control.Failpoints() {
				sc := scenarioOf(point)
				if sc == never || victim == "keeper" && !keeperReaches(point) || !reachable(driver, sc) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", driver, victim, point), func(t *testing.T) {
					t.Parallel()
					for i := range rounds(t, backends()[driver].rounds) {
						crashOnce(t, driver, victim, point, sc)
						if t.Failed() {
							t.Fatalf("in round %d", i+1)
						}
					}
				})
			}
		}
	}
}

// reachable leaves out what a backend has no way to do: see each reason.
func reachable(driver string, sc scenario) bool {
	switch sc {
	case refused:
		// A local process's failed start is an outcome, not a refusal.
		return backends()[driver].refused != nil
	case abandoned:
		// Only a backend that proves nothing leaves a run in doubt for good.
		return driver == "fake"
	}
	return true
}

// inDoubt says whether a death at the boundary leaves a launch that may have
// been sent, and wasn't or made nothing. An attempt is written as intended and
// as about to be sent in one transaction.
func inDoubt(point string) bool {
	return slices.Contains([]string{"write.intent.after", "write.submitting.after", "call.run.before", "write.refused.before"}, point)
}

// crashOnce kills the victim at the boundary, lets a second command go on, and
// asserts what is left.
func crashOnce(t *testing.T, driver, victim, point string, sc scenario) {
	t.Helper()
	h := newHost(t, driver)
	arm := victim + "/" + point + "=kill"
	wantCode, wantState, ran := 7, sdk.StateFailed, true
	if h.backend.noCode {
		wantCode = 125
	}
	// A keeper takes over what still runs; and running must be seen.
	h.held = victim == "keeper" && sc != doubtful || strings.HasPrefix(point, "write.running")
	switch sc {
	case plain:
		h.start(victim, arm, h.job())
	case kept:
		h.start(victim, arm, h.job("--cleanup", "never"))
	case refused:
		wantCode, ran = 125, false
		h.start(victim, arm, h.backend.refused(h))
	case cancelled:
		wantCode, wantState = 130, sdk.StateCancelled
		h.startAndCancel(victim, arm)
	case doubtful:
		// The reply is lost with the first command; the victim settles it. A keeper
		// of the first command, which nothing kills, could do so before it.
		h.alone("command/call.run.after=kill", h.job()...)
		h.settle(victim, arm)
	case abandoned:
		wantCode, wantState, ran = 125, sdk.StateLost, false
		h.abandon(arm)
	}
	h.takenUp(point, sc, end{wantCode, wantState, ran})
}

// end is how a run must end: with which code and state, and whether its job ran.
type end struct {
	code  int
	state sdk.JobState
	ran   bool
}

// takenUp lets a second command go on with what a death at the boundary left, and
// asserts the end.
func (h *host) takenUp(point string, sc scenario, want end) {
	t := h.t
	t.Helper()
	if h.hits(point) == 0 {
		t.Errorf("the boundary was never reached: %+v", h.last)
		return
	}
	rows := h.rows()
	if len(rows) == 0 {
		// It died before its row: nothing may have happened.
		if n := h.effects(); n != 0 {
			t.Errorf("%d jobs ran without a row", n)
		}
		if r := h.run("", "reap", "--on", h.driver); r.code != 0 {
			t.Errorf("reap: %d %s", r.code, r.stderr)
		}
		h.nothingLeft()
		return
	}
	if len(rows) != 1 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	id := rows[0].ID
	if h.backend.provesNothing && inDoubt(point) {
		h.staysInDoubt(id)
		want = end{125, sdk.StateLost, false}
	}
	w := h.run("", "wait", id.String())
	if w.code != want.code {
		t.Errorf("wait gave %d, want %d: %s", w.code, want.code, w.stderr)
	}
	got := h.finished(id)
	if got.State != want.state {
		t.Errorf("state %s (%s), want %s", got.State, got.Reason, want.state)
	}
	if want.ran {
		if n := h.effects(); n != 1 {
			t.Errorf("the job ran %d times", n)
		}
	}
	if want.ran && sc != cancelled {
		h.wholeOutput(id)
	}
	if sc == kept {
		if r := h.run("", "rm", id.String()); r.code != 0 {
			t.Errorf("rm: %d %s", r.code, r.stderr)
		}
	}
	h.nothingLeft()
	h.ledgerSound()
	h.stopKeeper()
}

// start brings a run up to the boundary. A command that is the victim keeps the
// run to itself; for a keeper the command hands it over.
func (h *host) start(victim, arm string, args []string) {
	h.t.Helper()
	if victim == "command" {
		h.alone(arm, args...)
		h.release()
		return
	}
	h.handedOver(arm, args...)
}

// alone runs without a keeper.
func (h *host) alone(arm string, args ...string) result {
	h.keeperOff = true
	defer func() { h.keeperOff = false }()
	return h.run(arm, args...)
}

// handedOver runs detached, so that a keeper drives it, and waits for the
// keeper to die at its boundary.
func (h *host) handedOver(arm string, args ...string) {
	h.t.Helper()
	if r := h.run(arm, append([]string{args[0], "-d"}, args[1:]...)...); r.code != 0 {
		h.t.Logf("run -d: %d %s", r.code, r.stderr) // the keeper may die while it takes the run
	}
	h.release()
	h.awaitHit(arm)
}

// TestEverySupervisorBoundary kills the supervisor of a local job. What its end
// record doesn't prove is lost, never guessed; and the job ran once at most.
func TestEverySupervisorBoundary(t *testing.T) {
	t.Parallel()
	submitter, held := local.Failpoints()
	for victim, points := range map[string][]string{"command": submitter, "supervisor": held} {
		for _, point := range points {
			t.Run(victim+"/"+point, func(t *testing.T) {
				t.Parallel()
				for i := range rounds(t, 3) {
					supervisorOnce(t, victim, point)
					if t.Failed() {
						t.Fatalf("in round %d", i+1)
					}
				}
			})
		}
	}
}

func supervisorOnce(t *testing.T, victim, point string) {
	t.Helper()
	h := newHost(t, "local")
	h.alone(victim+"/"+point+"=kill", h.job()...)
	if h.hits(point) == 0 {
		t.Errorf("the boundary was never reached: %+v", h.last)
		return
	}
	rows := h.rows()
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	id := rows[0].ID
	w := h.run("", "wait", id.String())
	got, n := h.finished(id), h.effects()
	switch {
	case got.State == sdk.StateFailed && got.Reason == sdk.ReasonNonzeroExit:
		if n != 1 || w.code != 7 {
			t.Errorf("%d effects, exit code %d, of %+v", n, w.code, got)
		}
		h.wholeOutput(id)
	case got.State == sdk.StateLost && got.Reason == sdk.ReasonSupervisorLost && victim == "supervisor":
		if n > 1 || w.code != 125 || got.ExitCode != nil {
			t.Errorf("%d effects, exit code %d, of %+v", n, w.code, got)
		}
	default:
		t.Errorf("%d effects, exit code %d, of %+v", n, w.code, got)
	}
	h.nothingLeft()
	h.ledgerSound()
	h.stopKeeper()
}
