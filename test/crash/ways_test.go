//go:build unix

package crash

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func pointOf(arm string) string {
	_, rest, _ := strings.Cut(arm, "/")
	point, _, _ := strings.Cut(rest, "=")
	return point
}

func (h *host) awaitHit(arm string) {
	h.t.Helper()
	testwait.Until(h.t, patience, "hit of "+arm, func() bool {
		h.openGates()
		return h.hits(pointOf(arm)) > 0
	})
}

// startAndCancel has a hanging job cancelled by the victim.
func (h *host) startAndCancel(victim, arm string) {
	h.t.Helper()
	if victim == "keeper" {
		id := h.running(arm)
		// Nobody waits, or it would see to a new keeper: see TestCancelOutlivesItsKeeper.
		h.run("", "cancel", "--no-wait", id)
		h.awaitHit(arm)
		return
	}
	// Nobody drives it: the command that cancels takes it up.
	id := h.running("")
	h.stopKeeper()
	h.alone(arm, "cancel", id)
}

// running starts a hanging job under a keeper, and returns its run once the job
// has shown its effect.
func (h *host) running(arm string) string {
	h.t.Helper()
	args := h.hang()
	r := h.run(arm, append([]string{args[0], "-d"}, args[1:]...)...)
	if r.code != 0 {
		h.t.Fatalf("run -d: %d %s", r.code, r.stderr)
	}
	testwait.Until(h.t, patience, "effect of the job", func() bool { return h.effects() == 1 })
	id, err := sdk.ParseID(strings.TrimSpace(r.stdout))
	if err != nil {
		h.t.Fatal(err)
	}
	h.sees(id, "running state", func(run ledger.Run) bool { return run.State == sdk.StateRunning })
	return id.String()
}

// settle has the victim look up a launch whose reply was lost.
func (h *host) settle(victim, arm string) {
	h.t.Helper()
	rows := h.rows()
	if len(rows) != 1 {
		h.t.Fatalf("%d rows after a lost reply", len(rows))
	}
	if victim == "command" {
		h.alone(arm, "wait", rows[0].ID.String())
		return
	}
	h.run(arm, "wait", "--timeout", "1s", rows[0].ID.String())
	h.awaitHit(arm)
}

// abandon gives up a run whose launch can't be confirmed.
func (h *host) abandon(arm string) {
	h.t.Helper()
	h.run("", "run", "-d", "--on", "doubtful", "--image", "img", "--", "true")
	rows := h.rows()
	if len(rows) != 1 {
		h.t.Fatalf("%d rows", len(rows))
	}
	id := rows[0].ID.String()
	h.sees(rows[0].ID, "run in doubt", func(run ledger.Run) bool { return run.State == sdk.StateUnknown })
	h.run(arm, "abandon", id, "--reason", "looked by hand")
	if r := h.run("", "abandon", id, "--reason", "looked by hand"); r.code != 0 && !strings.Contains(r.stderr, "lost") {
		h.t.Errorf("abandon again: %d %s", r.code, r.stderr)
	}
}

// staysInDoubt waits until a launch counts as unconfirmed, which made no job
// and is never sent again, and gives it up.
func (h *host) staysInDoubt(id sdk.ID) {
	h.t.Helper()
	h.run("", "wait", "--timeout", "10ms", id.String()) // has a keeper look for it
	h.sees(id, "unconfirmed launch", func(run ledger.Run) bool {
		return run.State == sdk.StateUnknown && run.Reason == sdk.ReasonSubmitUnconfirmed
	})
	if n := h.effects(); n != 0 {
		h.t.Errorf("the job ran %d times", n)
	}
	if r := h.run("", "abandon", id.String(), "--reason", "looked by hand"); r.code != 0 {
		h.t.Errorf("abandon: %d %s", r.code, r.stderr)
	}
}

// wholeOutput asserts that every byte of the job's output was captured.
func (h *host) wholeOutput(id sdk.ID) {
	h.t.Helper()
	r := h.run("", "logs", id.String())
	if h.backend.talks {
		var rest strings.Builder
		for line := range strings.Lines(r.stderr) {
			if !strings.HasPrefix(line, "windlass: ") {
				rest.WriteString(line)
			}
		}
		r.stderr = rest.String()
	}
	if h.backend.merged {
		before, after, found := strings.Cut(r.stdout, "err\n")
		if r.stdout = before + after; found {
			r.stderr += "err\n"
		}
	}
	lines := strings.Count(r.stdout, "\n")
	first, last, _ := strings.Cut(strings.TrimSuffix(r.stdout, "\n"), "\n")
	last = last[strings.LastIndexByte(last, '\n')+1:]
	if r.code != 0 || lines != 200 || r.stderr != "err\n" || !strings.HasPrefix(first, "line 0") || !strings.HasPrefix(last, "line 199") {
		h.t.Errorf("output: code %d, %d lines from %q to %q, stderr %q", r.code, lines, first, last, r.stderr)
	}
}

func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	h := newHost(t, "local")
	id := h.running("")
	h.killSupervisor()
	w := h.run("", "wait", id)
	if w.code != 125 {
		t.Errorf("wait gave %d: %s", w.code, w.stderr)
	}
	r := h.finished(h.rows()[0].ID)
	if r.State != sdk.StateLost || r.Reason != sdk.ReasonSupervisorLost || r.ExitCode != nil {
		t.Errorf("run ended %+v", r)
	}
	h.nothingLeft()
	h.ledgerSound()
}

// TestCancelOutlivesItsKeeper: a cancel that waits sees that the keeper died
// which was to act on it, and has another one do so.
func TestCancelOutlivesItsKeeper(t *testing.T) {
	t.Parallel()
	h := newHost(t, "local")
	id := h.running("keeper/call.cancel.before=kill")
	r := h.run("", "cancel", id)
	if h.hits("call.cancel.before") != 1 || r.code != 0 || !strings.Contains(r.stdout, "cancelled") {
		t.Errorf("cancel gave %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if run := h.finished(h.rows()[0].ID); run.State != sdk.StateCancelled {
		t.Errorf("run ended %+v", run)
	}
	h.nothingLeft()
	h.ledgerSound()
}
