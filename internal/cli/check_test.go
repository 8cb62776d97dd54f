package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestChecksFitTheTerminal: what a check says is broken below its mark on a terminal, and
// one line in a pipe.
func TestChecksFitTheTerminal(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("windlass.provider.v1.JobRunnerService, ", 10), ", ")
	checks := []CheckView{{Subject: "fake", Name: "registry", OK: true, Needed: true, Detail: long}, {Subject: "fake", Name: "config", Needed: true, Detail: long, Remedy: long}}
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		s := &Streams{Out: &out, OutTerminal: terminal, Width: 80, NoColor: true}
		if err := printChecks(s, checks, false); err == nil {
			t.Error("a check that fails is no failure")
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if !terminal && len(lines) != 3 {
			t.Errorf("%d lines in a pipe:\n%s", len(lines), out.String())
		}
		if !terminal {
			continue
		}
		for i, l := range lines {
			if len(l) > 80 || i > 0 && !strings.HasPrefix(l, "      ") && !strings.HasPrefix(l, "FAIL  ") {
				t.Errorf("line %d on a terminal: %q", i, l)
			}
		}
		if len(lines) < 15 || strings.Count(out.String(), "JobRunnerService") != 30 {
			t.Errorf("on a terminal:\n%s", out.String())
		}
	}
}
