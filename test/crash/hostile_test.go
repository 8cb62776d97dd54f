//go:build unix

package crash

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// small puts the host's state on a file system of so many bytes.
func (h *host) small(size string) {
	h.t.Helper()
	testneed.Root(h.t)
	if err := os.MkdirAll(h.state(), 0o700); err != nil {
		h.t.Fatal(err)
	}
	h.mount("-t", "tmpfs", "-o", "mode=0700,size="+size, "tmpfs", h.state())
	h.t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", h.state()).CombinedOutput(); err != nil {
			h.t.Errorf("umount: %v %s", err, out)
		}
	})
}

func (h *host) mount(args ...string) {
	h.t.Helper()
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		h.t.Fatalf("mount %v: %v %s", args, err, out)
	}
}

// says asserts that a command failed with a code, and that its words hold all
// of parts.
func (r result) says(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, p := range parts {
		if !strings.Contains(r.stderr, p) {
			t.Errorf("the message lacks %q:\n%s", p, r.stderr)
		}
	}
	if strings.Contains(r.stderr, "panic") || strings.Contains(r.stderr, "goroutine ") {
		t.Errorf("not for people:\n%s", r.stderr)
	}
}

func TestFullDiskBeforeARun(t *testing.T) {
	h := newHost(t, "local")
	h.small("6m")
	h.keeperOff = true
	if r := h.run("", h.job()...); r.code != 7 {
		t.Fatalf("on a disk with room: %d %s", r.code, r.stderr)
	}
	if err := os.Remove(h.effect); err != nil {
		t.Fatal(err)
	}
	// Fill what is left, ballast aside.
	f, err := os.Create(filepath.Join(h.state(), "filler"))
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	_ = f.Close()
	for range 40 { // until the space that the ledger has left is used up
		if r := h.run("", h.job()...); r.code == 125 {
			r.says(t, 125, "full")
			if n := h.effects(); n > 40 {
				t.Errorf("%d jobs ran", n)
			}
			before := h.effects()
			h.run("", h.job()...)
			if h.effects() != before {
				t.Error("a job ran whose row could not be written")
			}
			return
		}
	}
	t.Error("a full disk refuses nothing")
}

func TestDiskFillsDuringARun(t *testing.T) {
	h := newHost(t, "local")
	h.small("24m")
	h.keeperOff = true
	r := h.run("", "run", "--", "sh", "-c", `echo begin; head -c 60000000 /dev/zero; echo x >>"`+h.effect+`"; exit 7`)
	r.says(t, 7, "output isn't whole")
	if n := h.effects(); n != 1 {
		t.Errorf("the job got to its end %d times", n)
	}
	if !strings.HasPrefix(r.stdout, "begin\n") {
		t.Errorf("the head of the output is gone: %q", r.stdout[:min(len(r.stdout), 20)])
	}
	st := h.run("", "ps", "-a", "--json")
	var env struct {
		Data []struct {
			Verdict string `json:"log_verdict"`
			State   string `json:"state"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(st.stdout), &env); err != nil || len(env.Data) != 1 {
		t.Fatalf("ps: %v %s%s", err, st.stdout, st.stderr)
	}
	if v := env.Data[0].Verdict; v != "gap" && v != "truncated_by_provider" {
		t.Errorf("verdict %q", v)
	}
}

func TestReadOnlyState(t *testing.T) {
	h := newHost(t, "local")
	h.small("16m")
	h.keeperOff = true
	if r := h.run("", h.job()...); r.code != 7 {
		t.Fatalf("before: %d %s", r.code, r.stderr)
	}
	h.mount("-o", "remount,ro", h.state())
	before := h.effects()
	r := h.run("", h.job()...)
	r.says(t, 125, h.state(), "read-only")
	if h.effects() != before {
		t.Error("a job ran without a row")
	}
}

func TestCorruptConfig(t *testing.T) {
	h := newHost(t, "local")
	for name, c := range map[string]struct{ text, want string }{
		"not YAML":      {"providers: [\n", "windlass.yaml:"},
		"unknown key":   {"provders:\n  a: {kind: local}\n", "providers"},
		"wrong type":    {"providers: 3\n", "windlass.yaml:1"},
		"unknown kind":  {"default_provider: p\nproviders:\n  p: {kind: dokcer}\n", "docker"},
		"binary":        {"\x00\x01\x02", "windlass.yaml"},
		"bad duration":  {"providers:\n  p: {kind: fake, poll_interval: soon}\n", "windlass.yaml:2"},
		"two providers": {"providers:\n  p: {kind: fake}\n  p: {kind: local}\n", "windlass.yaml:3"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(h.dir, "windlass.yaml"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := h.run("", "run", "--", "true")
			r.says(t, 125, c.want)
		})
	}
}

func TestCorruptLedger(t *testing.T) {
	h := newHost(t, "local")
	h.keeperOff = true
	if r := h.run("", h.job()...); r.code != 7 {
		t.Fatalf("before: %d %s", r.code, r.stderr)
	}
	db := filepath.Join(h.state(), "ledger.db")
	for _, tail := range []string{"-wal", "-shm"} {
		if err := os.Remove(db + tail); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	for i := range min(len(b), 8192) {
		b[i] ^= 0x5a
	}
	if err := os.WriteFile(db, b, 0o600); err != nil {
		t.Fatal(err)
	}
	before := h.effects()
	h.run("", h.job()...).says(t, 125, "ledger", "backup")
	if h.effects() != before {
		t.Error("a job ran without a ledger")
	}
}
