//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
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

// TestUpgradeToANewerSchema: today's program and its keeper drive a run, and a later
// release, whose ledger has one more migration, takes over. The ledger is copied before
// it is changed; the run goes on to its end with all of its output; today's program
// then refuses the ledger, says which release reads it, and changes nothing.
func TestUpgradeToANewerSchema(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	today := slices.Clone(p.env)
	newer := append(slices.Clone(p.env), asVersion+"=v9.9.9", withSchema+"=ALTER TABLE holders ADD COLUMN mood TEXT")
	p.env = today
	if out, code := p.do("run", "-d", "--on", "fake", "--image", "i", "--name", "a", "--", "lines", "100", ";", "sleep", "5s", ";", "lines", "100", ";", "exit", "9"); code != 0 {
		t.Fatalf("run: %d %s", code, out)
	}
	older := p.keeperHolds(1)
	copies := func() []string {
		names, err := filepath.Glob(filepath.Join(p.stateDir(), "ledger.db.v*.bak"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if len(copies()) > 0 {
		t.Fatalf("there is a copy already: %v", copies())
	}
	p.env = newer
	t.Cleanup(func() { p.env = newer }) // whose keeper is asked to leave
	if _, code := p.do("wait", "a"); code != 9 {
		t.Errorf("wait: code %d", code)
	}
	if st, err := p.keeper(); err != nil || st.Version != "v9.9.9" || st.PID == older {
		t.Errorf("the keeper is %+v, %v", st, err)
	}
	testwait.Until(t, soon, "end of the older keeper", func() bool { return errors.Is(syscall.Kill(older, 0), syscall.ESRCH) })
	if out, code := p.do("logs", "a"); code != 0 || out != strings.Repeat(lines(100), 2) {
		t.Errorf("logs: code %d, %d bytes", code, len(out))
	}
	verify := func() {
		t.Helper()
		if out, code := p.do("ledger", "verify"); code != 0 {
			t.Errorf("verify: %d %s", code, out)
		}
	}
	verify()

	// Today's program doesn't touch what it doesn't know.
	p.env = append(slices.Clone(today), "WINDLASS_KEEPER=off")
	for _, args := range [][]string{{"ps", "-a"}, {"status", "a"}, {"wait", "a"}, {"run", "--on", "fake", "--image", "i", "--", "exit", "0"}, {"cancel", "a"}, {"ledger", "log"}} {
		out, code := p.fails(args...)
		if code != 125 || !strings.Contains(out, "windlass 9.9.9 or newer") || !strings.Contains(out, "ledger.newer") {
			t.Errorf("%q by today's program: exit %d: %s", args, code, out)
		}
	}
	p.env = newer
	verify()

	// The copy is a whole ledger of today's, with the run as it stood.
	if len(copies()) != 1 {
		t.Fatalf("copies: %v", copies())
	}
	text, err := os.ReadFile(copies()[0])
	if err != nil {
		t.Fatal(err)
	}
	q := *p
	back := filepath.Join(p.dir, "back")
	q.env = append(slices.Clone(today), "WINDLASS_KEEPER=off", "WINDLASS_STATE="+back)
	for i, v := range q.env {
		if strings.HasPrefix(v, "WINDLASS_STATE=") && !strings.HasSuffix(v, back) {
			q.env[i] = "UNUSED="
		}
	}
	if err := errors.Join(os.Mkdir(back, 0o700), os.WriteFile(filepath.Join(back, "ledger.db"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, code := q.do("ledger", "log"); code != 0 || !strings.Contains(out, "a") {
		t.Errorf("log of the copy: exit %d: %s", code, out)
	}
	if out, code := q.do("status", "a"); code != 0 || !strings.Contains(out, "running") {
		t.Errorf("status in the copy: exit %d: %s", code, out)
	}
	// The head, by which a cut at the end would show, isn't the copy's.
	if out, code := q.do("ledger", "verify"); code != 1 || !strings.Contains(out, "no_head: ") || !strings.Contains(out, "1 fault in ") {
		t.Errorf("verify of the copy: exit %d: %s", code, out)
	}
}
