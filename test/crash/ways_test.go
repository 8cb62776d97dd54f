//go:build unix

package crash

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
)

func pointOf(arm string) string {
	_, rest, _ := strings.Cut(arm, "/")
	point, _, _ := strings.Cut(rest, "=")
	return point
}

func (h *host) awaitHit(arm string) {
	h.t.Helper()
	testwait.Until(h.t, patience, "hit of "+arm, func() bool { return h.hits(pointOf(arm)) > 0 })
}

// refused returns the arguments of a run that its backend refuses.
func (h *host) refused() []string {
	if h.driver == "docker" {
		return []string{"run", "--on", "docker", "--image", "windlass.invalid/none:1", "--option", "pull=always", "--", "true"}
	}
	if h.driver == "aws-ecs" {
		return []string{"run", "--on", "ecs-nowhere", "--image", "img", "--", "true"}
	}
	return []string{"run", "--on", "refusing", "--image", "missing", "--", "true"}
}

// startAndCancel has a hanging job cancelled by the victim.
func (h *host) startAndCancel(victim, arm string) {
	h.t.Helper()
	if victim == "keeper" {
		id := h.running(arm)
		h.run("", "cancel", id)
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
	id := strings.TrimSpace(r.stdout)
	testwait.Until(h.t, patience, "running state", func() bool {
		for _, row := range h.rows() {
			if row.ID == id {
				return row.State == "running"
			}
		}
		return false
	})
	return id
}

// settle has the victim look up a launch whose reply was lost.
func (h *host) settle(victim, arm string) {
	h.t.Helper()
	rows := h.rows()
	if len(rows) != 1 {
		h.t.Fatalf("%d rows after a lost reply", len(rows))
	}
	if victim == "command" {
		h.alone(arm, "wait", rows[0].ID)
		return
	}
	h.run(arm, "wait", "--timeout", "1s", rows[0].ID)
	h.awaitHit(arm)
}

// abandon gives up a run whose launch can't be confirmed.
func (h *host) abandon(arm string) {
	h.t.Helper()
	h.run("", "run", "-d", "--on", "doubtful", "--image", "img", "--", "true")
	var id string
	testwait.Until(h.t, patience, "run in doubt", func() bool {
		for _, row := range h.rows() {
			id = row.ID
			return row.State == "unknown"
		}
		return false
	})
	h.run(arm, "abandon", id, "--reason", "looked by hand")
	if r := h.run("", "abandon", id, "--reason", "looked by hand"); r.code != 0 && !strings.Contains(r.stderr, "lost") {
		h.t.Errorf("abandon again: %d %s", r.code, r.stderr)
	}
}

// finished waits until nothing is left to do for a run.
func (h *host) finished(id string) {
	h.t.Helper()
	testwait.Until(h.t, patience, "end of the run's record", func() bool {
		for _, row := range h.rows() {
			if row.ID == id {
				return row.FinishedAt != ""
			}
		}
		return false
	})
}

// wholeOutput asserts that every byte of the job's output was captured.
func (h *host) wholeOutput(id string) {
	h.t.Helper()
	r := h.run("", "logs", id)
	if h.driver == "aws-ecs" {
		// ECS keeps both streams as one.
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
	h := newHost(t, "local")
	id := h.running("")
	h.killSupervisor()
	w := h.run("", "wait", id)
	if w.code != 125 {
		t.Errorf("wait gave %d: %s", w.code, w.stderr)
	}
	h.finished(id)
	if r := h.rows()[0]; r.State != "lost" || r.Reason != "supervisor_lost" || r.ExitCode != nil {
		t.Errorf("run ended %+v", r)
	}
	h.nothingLeft()
	h.ledgerSound()
}
