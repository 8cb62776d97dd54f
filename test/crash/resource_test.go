//go:build unix

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// resourceChange is a change of a resource, by the command that makes it.
type resourceChange struct {
	// before and after are the box's label; empty is no box.
	before, after string
	args          []string
	// replicas are how many there are afterwards; 0 is not looked at.
	replicas string
}

func resourceChanges() map[string]resourceChange {
	return map[string]resourceChange{
		"create": {after: "x", args: []string{"apply"}},
		"update": {before: "x", after: "y", args: []string{"apply"}},
		"delete": {before: "x", args: []string{"delete", "--yes"}},
		"scale":  {before: "x", after: "x", args: []string{"scale", "box=3"}, replicas: `"replicas": 3`},
	}
}

// TestEveryBoundaryOfResources kills the command at each write and call of each change of
// a resource. Who waits sees the row closed by what is there, as soon as the call can't come
// to anything any more; the same command again comes to the same end, whatever had been
// done; and each call has one row.
func TestEveryBoundaryOfResources(t *testing.T) {
	t.Parallel()
	for verb, c := range resourceChanges() {
		call := "call." + verb + " resource"
		behind := []string{call + ".after", "write.finished.before", "write.finished.after"}
		for _, point := range append([]string{"write.requested.before", "write.requested.after", call + ".before"}, behind...) {
			t.Run(verb+"/"+point, func(t *testing.T) {
				t.Parallel()
				for range rounds(t, 1) {
					killedChange(t, verb, point, c, slices.Contains(behind, point))
				}
			})
		}
	}
}

// killedChange kills the command at a boundary; sent says that it lies behind the call.
func killedChange(t *testing.T, verb, point string, c resourceChange, sent bool) {
	t.Helper()
	h := newHost(t, "fake")
	h.keeperOff = true
	if c.before != "" {
		h.boxed(c.before)
		h.resource("", "apply")
	}
	before := len(h.rows())
	if c.after != "" {
		h.boxed(c.after)
	}
	if h.resource("command/"+point+"=kill", c.args...); !h.last.killed || h.hits(point) != 1 {
		t.Fatalf("it wasn't killed at its boundary: %+v", h.last)
	}
	if r := h.run("", "ps"); r.code != 0 {
		t.Fatalf("ps: %d %s", r.code, r.stderr)
	}
	rows := h.rows()
	if len(rows) > before && rows[0].Open() {
		if sent || rows[0].State != sdk.StateUnknown || !strings.Contains(rows[0].Message, "may still come") {
			t.Errorf("after a look the row is %+v", rows[0])
		}
		h.run("", "wait", rows[0].ID.String())
		rows = h.rows()
	}
	if point == "write.requested.before" {
		if len(rows) != before {
			t.Errorf("%d rows, before %d", len(rows), before)
		}
	} else {
		h.settledAs(rows, before, "resource."+verb, sent)
	}
	if h.resource("", c.args...); h.last.code != 0 {
		t.Fatalf("again: %d %s", h.last.code, h.last.stderr)
	}
	switch h.resource("", "read", "--json"); {
	case c.after == "" && h.last.code == 1:
	case c.after != "" && h.last.code == 0 && strings.Contains(h.last.stdout, fmt.Sprintf(`"label": %q`, c.after)) && strings.Contains(h.last.stdout, c.replicas):
	default:
		t.Errorf("at the end there is %d %s", h.last.code, h.last.stdout)
	}
	for _, r := range h.rows() {
		if r.Open() {
			t.Errorf("left open: %+v", r)
		}
	}
	h.ledgerSound()
}

// TestSettlingIsKilled: who looks at what a killed command left may be killed, too.
func TestSettlingIsKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"call.read resource.before", "call.read resource.after", "write.finished.before", "write.finished.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "fake")
			h.keeperOff = true
			h.boxed("x")
			if h.resource("command/call.create resource.after=kill", "apply"); !h.last.killed {
				t.Fatalf("it wasn't killed: %+v", h.last)
			}
			if r := h.run("command/"+point+"=kill", "ps"); !r.killed || h.hits(point) != 1 {
				t.Fatalf("ps wasn't killed: %+v", r)
			}
			if r := h.run("", "ps"); r.code != 0 {
				t.Fatalf("ps: %d %s", r.code, r.stderr)
			}
			h.settledAs(h.rows(), 0, "resource.create", true)
			h.ledgerSound()
		})
	}
}

// settledAs asserts what the row of the killed change says: done where the call was made.
func (h *host) settledAs(rows []ledger.Run, before int, action string, sent bool) {
	h.t.Helper()
	if len(rows) != before+1 {
		h.t.Fatalf("%d rows, before %d", len(rows), before)
	}
	r := rows[0] // the newest
	want := sdk.StateLost
	if sent {
		want = sdk.StateSucceeded
	}
	if r.Action != action || r.Open() || r.State != want || want == sdk.StateLost && r.Reason != sdk.ReasonSubmitUnconfirmed {
		h.t.Errorf("the row is %+v, want %s", r, want)
	}
}

// boxed writes the file of resources.
func (h *host) boxed(label string) {
	h.t.Helper()
	text := "resources:\n  - {name: box, type: fake.box, provider: brief, config: {label: " + label + "}}\n"
	if err := os.WriteFile(filepath.Join(h.dir, "r.yaml"), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// resource runs windlass resource VERB.
func (h *host) resource(failpoint string, args ...string) {
	h.t.Helper()
	h.run(failpoint, append([]string{"resource", args[0], "-f", "r.yaml"}, args[1:]...)...)
}
