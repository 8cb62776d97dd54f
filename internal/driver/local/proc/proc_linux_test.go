package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21\n"
	for text, want := range map[string]status{
		"7 (sh) S" + rest:               {pid: 7, ppid: 1, start: 4242},
		"7 (a) b) ((c)) R" + rest:       {pid: 7, ppid: 1, start: 4242},
		"7 (\n) S 1) Z" + rest:          {pid: 7, ppid: 1, start: 4242, ended: true},
		"7 (sh) T" + rest:               {pid: 7, ppid: 1, start: 4242, stopped: true},
		"7 (sh) X 0" + rest[len(" 1"):]: {pid: 7, ppid: 0, start: 4242, ended: true},
	} {
		got, err := parseStat(7, []byte(text))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "7 (sh)", "7 (sh) S 1", "7 (sh) S x" + rest, "7 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"} {
		if got, err := parseStat(7, []byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseStat(1, b) })
}

func start(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestIdentity(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if l, err := self.Look(); err != nil || l != Alive {
		t.Errorf("self: %v, %v", l, err)
	}
	for want, id := range map[Liveness]Identity{
		Rebooted: {BootID: "another", PIDNS: self.PIDNS, PID: self.PID, Start: self.Start},
		Foreign:  {BootID: self.BootID, PIDNS: "pid:[1]", PID: self.PID, Start: self.Start},
		Dead:     {BootID: self.BootID, PIDNS: self.PIDNS, PID: self.PID, Start: self.Start + 1},
	} {
		if l, err := id.Look(); err != nil || l != want {
			t.Errorf("%+v: %v, %v; want %v", id, l, err, want)
		}
		// F80: what is not surely the process gets no signal.
		if err := id.Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) && !errors.Is(err, ErrForeign) {
			t.Errorf("%+v: signal: %v", id, err)
		}
	}
	if l, err := (Identity{}).Look(); err != nil || l != Dead {
		t.Errorf("zero: %v, %v", l, err)
	}
	cmd := start(t, "exec sleep 1000")
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, 20*time.Second, "stopped process", id.Stopped)
	if l, err := id.Look(); err != nil || l != Alive {
		t.Errorf("stopped: %v, %v", l, err)
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// One that nobody has waited for has ended too.
	testwait.Until(t, 20*time.Second, "dead process", func() bool {
		l, err := id.Look()
		return err == nil && l == Dead
	})
	if _, err := Of(id.PID); !errors.Is(err, ErrGone) {
		t.Errorf("of a zombie: %v", err)
	}
	if err := id.Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("signal to a zombie: %v", err)
	}
}

func TestMarked(t *testing.T) {
	mark := fmt.Sprintf("WINDLASS_TEST_MARK=%d", time.Now().UnixNano())
	// The inner one has dropped its environment, and is found below the outer.
	start(t, "env -i sleep 1000 & sleep 1000 & wait", mark)
	testwait.Until(t, 20*time.Second, "three processes", func() bool {
		list, err := Marked(mark)
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 3
	})
	if list, err := Marked(mark + "0"); err != nil || len(list) != 0 {
		t.Errorf("a longer mark: %v, %v", list, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	find := func() ([]Identity, error) { return Marked(mark) }
	if n, err := KillUntilGone(ctx, find); err != nil || n < 3 {
		t.Errorf("killed %d, %v", n, err)
	}
	if list, err := find(); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestDescendants(t *testing.T) {
	all := []status{{pid: 2, ppid: 1}, {pid: 3, ppid: 2}, {pid: 4, ppid: 2}, {pid: 5, ppid: 4}, {pid: 6, ppid: 1}, {pid: 7, ppid: 7}}
	var got []int
	for _, s := range descendants(all, 2) {
		got = append(got, s.pid)
	}
	if fmt.Sprint(got) != "[3 4 5]" {
		t.Errorf("got %v", got)
	}
	if out := descendants(all, 7); len(out) != 0 {
		t.Errorf("its own parent: %v", out)
	}
}
