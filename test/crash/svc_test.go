//go:build unix

package crash

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// liveTarget is the workload that the tests change, of a provider whose calls have little
// time: so long what isn't there may still come.
const liveTarget = "brief/main/api"

// svcVerb is a way to change a live workload.
type svcVerb struct {
	action string
	// before brings the workload to where the verb makes sense; args are the verb's.
	before, args []string
}

func svcVerbs() []svcVerb {
	return []svcVerb{
		{action: "svc.scale", args: []string{"scale", liveTarget, "3", "--wait"}},
		{action: "svc.restart", args: []string{"restart", liveTarget}},
		{action: "svc.stop", args: []string{"stop", liveTarget, "--yes"}},
		{action: "svc.start", before: []string{"stop", liveTarget, "--yes"}, args: []string{"start", liveTarget}},
		{action: "svc.config", args: []string{"config", liveTarget, "--set", "LEVEL=debug"}},
		{action: "svc.exec", args: []string{"exec", liveTarget, "--", "true"}},
	}
}

// TestEverySvcBoundary kills the command that changes a live workload before and
// after each call and each write of the ledger. There is one row at most, which says
// what became of the change; and no change without its row.
func TestEverySvcBoundary(t *testing.T) {
	t.Parallel()
	for i, v := range svcVerbs() {
		for _, point := range control.WorkloadFailpoints(v.action) {
			// What all verbs share is looked at with the first.
			if i > 0 && !strings.HasPrefix(point, "call."+v.action) && point != "write.finished.before" {
				continue
			}
			t.Run(v.action+"/"+point, func(t *testing.T) {
				t.Parallel()
				for range rounds(t, 1) {
					svcOnce(t, v, point)
				}
			})
		}
	}
}

func svcOnce(t *testing.T, v svcVerb, point string) {
	t.Helper()
	h := newHost(t, "fake")
	h.keeperOff = true
	svc := func(failpoint string, args ...string) result {
		return h.run(failpoint, append([]string{"svc"}, args...)...)
	}
	must := func(args ...string) {
		t.Helper()
		if r := svc("", args...); r.code != 0 {
			t.Fatalf("svc %s: %d %s", strings.Join(args, " "), r.code, r.stderr)
		}
	}
	file := filepath.Join(h.dir, "api.yaml")
	if err := os.WriteFile(file, []byte("target: "+liveTarget+"\nimage: app:1\nreplicas: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must("start", "-f", file)
	if v.before != nil {
		must(v.before...)
	}
	known := len(h.rows())
	versions := h.versions()
	if r := svc("command/"+point+"=kill", v.args...); !r.killed || h.hits(point) == 0 {
		t.Fatalf("it wasn't killed: %+v", r)
	}
	changed := h.versions() - versions
	if r := svc("", "config", liveTarget, "--set", "NEXT=1"); r.code != 0 { // closes what a dead command left
		if row := h.rows()[0]; changed != 0 || !row.Open() || row.Action != v.action || !strings.Contains(r.stderr, "may still come: a call has 3s") {
			t.Fatalf("the next change: %d %s\nrow %+v", r.code, r.stderr, row)
		}
		h.run("", "wait", h.rows()[0].ID.String())
		must("config", liveTarget, "--set", "NEXT=1")
	}
	rows := h.rows()
	slices.Reverse(rows)
	rows = rows[known : len(rows)-1]
	switch {
	case len(rows) > 1 || len(rows) == 1 && rows[0].Action != v.action:
		t.Fatalf("%d rows of one change: %+v", len(rows), rows)
	case len(rows) == 0 && (changed != 0 || !strings.HasPrefix(point, "call.svc.status.") && point != "write.requested.before"):
		t.Errorf("no row of a change that made %d versions", changed)
	case len(rows) == 1:
		judgeSvcRow(t, v, rows[0], changed)
	}
	if n := h.versions() - versions; n != changed+1 {
		t.Errorf("%d versions, want %d of the change that was cut off, and the next one's", n, changed)
	}
	h.ledgerSound()
}

// judgeSvcRow compares the row of a change that was cut off with what was changed.
func judgeSvcRow(t *testing.T, v svcVerb, r ledger.Run, changed int) {
	t.Helper()
	want := map[int]sdk.JobState{0: sdk.StateFailed, 1: sdk.StateSucceeded}[changed]
	if v.action == "svc.exec" {
		want = sdk.StateLost // how it ended can't be told, so it is no success
	}
	if r.FinishedAt.IsZero() || r.State != want || r.Actor != "tester@crash" {
		t.Errorf("the row of a change that made %d versions: %+v", changed, r)
	}
}

// versions counts the changes of the workload on the fake's cloud.
func (h *host) versions() int {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.state(), "driver", "fake", "*", "workloads", "*", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return len(files)
}
