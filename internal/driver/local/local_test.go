//go:build linux || darwin

package local

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func TestEndings(t *testing.T) {
	w := newWorld(t, "")
	for _, c := range []struct {
		name   string
		spec   sdk.JobSpec
		state  sdk.JobState
		reason sdk.Reason
		code   int // -1 is none
		signal string
		raw    map[string]string
	}{
		{"success", sh("exit 0"), sdk.StateSucceeded, sdk.ReasonCompleted, 0, "", nil},
		{"failure", sh("exit 3"), sdk.StateFailed, sdk.ReasonNonzeroExit, 3, "", map[string]string{"exit_code": "3"}},
		{"137 is no signal", sh("exit 137"), sdk.StateFailed, sdk.ReasonNonzeroExit, 137, "", nil},
		{"signal", sh("kill -SEGV $$"), sdk.StateFailed, sdk.ReasonSignaled, -1, "SIGSEGV", map[string]string{"signal": "SIGSEGV"}},
		{"no such program", sdk.JobSpec{Args: sdk.Argv{"no-such-program-here"}}, sdk.StateFailed, sdk.ReasonInvalidSpec, -1, "", map[string]string{"exec": "not_found"}},
		{"no such path", sdk.JobSpec{Args: sdk.Argv{"/no/such/path"}}, sdk.StateFailed, sdk.ReasonInvalidSpec, -1, "", map[string]string{"exec": "not_found"}},
		{"folder", sdk.JobSpec{Args: sdk.Argv{"/tmp"}}, sdk.StateFailed, sdk.ReasonInvalidSpec, -1, "", map[string]string{"exec": "not_executable"}},
		{"not executable", sdk.JobSpec{Args: sdk.Argv{"/etc/passwd"}}, sdk.StateFailed, sdk.ReasonInvalidSpec, -1, "", map[string]string{"exec": "not_executable"}},
		{"entrypoint", sdk.JobSpec{Entrypoint: sdk.Argv{"sh", "-c", "exit $1", "x"}, Args: sdk.Argv{"9"}}, sdk.StateFailed, sdk.ReasonNonzeroExit, 9, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{TB: t, p: w.p, state: w.state, marks: w.marks, ids: w.ids}
			res := w.ended(w.run(c.spec))
			code := -1
			if res.ExitCode != nil {
				code = *res.ExitCode
			}
			if res.State != c.state || res.Reason != c.reason || code != c.code || res.Signal != c.signal {
				t.Errorf("got %s, %s, %d, %q (%s); want %s, %s, %d, %q", res.State, res.Reason, code, res.Signal, res.Message, c.state, c.reason, c.code, c.signal)
			}
			for k, v := range c.raw {
				if res.Raw[k] != v {
					t.Errorf("raw[%s] = %q, want %q", k, res.Raw[k], v)
				}
			}
		})
	}
}

func TestOutput(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh(`echo out; echo err >&2; printf '\377\000x'; echo "$INHERITED $WINDLASS_SECRET $WINDLASS_ATTEMPT"`))
	out := w.logs(h, nil, true)
	if want := "out\n\xff\x00xyes  " + h.ID + "\n"; out.stdout.String() != want || out.stderr.String() != "err\n" || out.verdict != sdk.VerdictComplete {
		t.Errorf("got %q, %q, %s; want %q", out.stdout.String(), out.stderr.String(), out.verdict, want)
	}
	if again := w.logs(h, out.end, true); again.items != 1 || again.verdict != sdk.VerdictComplete {
		t.Errorf("from the end: %d items, %s", again.items, again.verdict)
	}
	if !strings.Contains(w.ended(h).Message, "exited with 0") {
		t.Error(w.ended(h).Message)
	}
}
