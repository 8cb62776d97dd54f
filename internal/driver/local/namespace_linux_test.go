package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

const elsewhereVerb = "look-from-elsewhere"

// elsewhere is a process in another PID namespace, as in a container that
// shares the state folder: it prints what it sees of a job, and cancels it.
func elsewhere(args []string) int {
	err := func() error {
		ctx := context.Background()
		p, err := open(ctx, sdk.OpenRequest{Name: "elsewhere", StateDir: args[0]})
		if err != nil {
			return err
		}
		h, err := sdk.DecodeHandle([]byte(args[1]))
		if err != nil {
			return err
		}
		st, err := p.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
		if err != nil {
			return err
		}
		c, err := p.CancelJob(ctx, sdk.CancelJobRequest{Handle: h, Grace: new(time.Duration)})
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode([]string{string(st.State), string(st.Reason), fmt.Sprint(c.Accepted, c.Gone)})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestOtherNamespace: from another PID namespace a job that runs is not taken
// for a lost one, and its cancel arrives; and what is lost there is not said to
// be gone.
func TestOtherNamespace(t *testing.T) {
	testneed.Root(t)
	w := newWorld(t, "")
	look := func(h sdk.JobHandle) (out []string) {
		t.Helper()
		b, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], elsewhereVerb, w.state, string(b))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	h := w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	if got := fmt.Sprint(look(h)); got != "[running  true false]" {
		t.Errorf("a job that runs: %s", got)
	}
	if res := w.ended(h); res.State != sdk.StateCancelled {
		t.Errorf("after the cancel: %s, %s", res.State, res.Message)
	}
	h = w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	if err := syscall.Kill(supervisorOf(t, h), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.lost(h)
	if got := fmt.Sprint(look(h)); got != "[unknown supervisor_lost true false]" {
		t.Errorf("a job that is lost: %s", got)
	}
}
