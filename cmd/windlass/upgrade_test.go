//go:build linux

package main

import (
	"strings"
	"testing"
)

// asVersion names the version that the program of these tests says it is.
const asVersion = "WINDLASS_TEST_VERSION"

// TestUpgradeWithOpenRuns: the program is replaced while the keeper of the older one
// drives a run. The next command that looks after runs puts its own keeper in the
// place; the run goes on, and not a byte of its output is lost or doubled.
func TestUpgradeWithOpenRuns(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	ours := p.env
	p.env = append(p.env[:len(p.env):len(p.env)], asVersion+"=v0.0.1")
	if out, code := p.do("run", "-d", "--on", "fake", "--image", "i", "--name", "a", "--", "lines", "100", ";", "sleep", "8s", ";", "lines", "100", ";", "exit", "9"); code != 0 {
		t.Fatalf("run: %d %s", code, out)
	}
	older := p.keeperHolds(1)
	if st, err := p.keeper(); err != nil || st.Version != "v0.0.1" {
		t.Fatalf("the keeper has version %s, %v", st.Version, err)
	}
	p.env = ours
	if _, code := p.do("wait", "a"); code != 9 {
		t.Errorf("wait: code %d", code)
	}
	if st, err := p.keeper(); err != nil || st.Version == "v0.0.1" || st.PID == older {
		t.Errorf("the keeper is still the older one: %+v, %v", st, err)
	}
	if out, code := p.do("logs", "a"); code != 0 || out != strings.Repeat(lines(100), 2) {
		t.Errorf("logs: code %d, %d bytes", code, len(out))
	}
	if out, code := p.do("ledger", "verify"); code != 0 {
		t.Errorf("verify: %d %s", code, out)
	}
}
