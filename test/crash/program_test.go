//go:build unix

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// program is the binary with failpoints, built once for all tests.
var program string

func TestMain(m *testing.M) { os.Exit(main(m)) }

func main(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return 0 // the whole package is slow
	}
	if err := manyAtOnce(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "windlass-crash")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "windlass")
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "github.com/windlass-run/windlass/cmd/windlass")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build with failpoints: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// atOnce is how many tests run at once, unless -parallel says: they wait for
// other processes more than they work.
const atOnce = 12

func manyAtOnce() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(atOnce))
}

// patience bounds every wait.
const patience = 2 * time.Minute

// host is a machine of one user: a state folder and a program.
type host struct {
	t       *testing.T
	dir     string
	effect  string
	log     string
	driver  string
	backend backend
	docker  string
	// kubeconfig is that of a cluster; empty is none.
	kubeconfig string
	// network is that of jobs on Docker; empty is the engine's own.
	network string
	// held holds jobs back until release.
	held, released bool
	// keeperOff makes commands do everything themselves.
	keeperOff bool
	// last is what the last command left.
	last result
}

func newHost(t *testing.T, driver string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), driver: driver, backend: backends()[driver]}
	h.effect, h.log = filepath.Join(h.dir, "effect"), filepath.Join(h.dir, "hits")
	config := `providers:
  fake: {kind: fake, poll_interval: 100ms}
  brief: {kind: fake, call_timeout: 3s}
  refusing: {kind: fake, poll_interval: 100ms, config: {knobs: {faults: [{op: RunJob, kind: error, status: 400, times: -1}]}}}
  doubtful: {kind: fake, poll_interval: 100ms, config: {submit: search, found_within: 200ms, list_consistent: false, knobs: {faults: [{op: RunJob, kind: reset}]}}}
`
	if h.backend.start != nil {
		config += h.backend.start(h)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stopKeeper)
	return h
}

func (h *host) state() string { return filepath.Join(h.dir, "state") }

// result is what a command left.
type result struct {
	stdout, stderr string
	code           int
	killed         bool
}

// run runs the program to its end. failpoint is WINDLASS_FAILPOINT's value, for
// it and what it starts.
func (h *host) run(failpoint string, args ...string) result {
	h.t.Helper()
	h.openGates()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	cmd := h.command(ctx, failpoint, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	// A supervisor inherits neither pipe, but a killed command's children must
	// not keep this test waiting.
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		h.t.Fatalf("windlass %s did not end within %s\n%s%s", strings.Join(args, " "), patience, out.String(), errOut.String())
	}
	r := result{stdout: out.String(), stderr: errOut.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.code = exit.ExitCode()
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok {
			r.killed = ws.Signaled()
		}
	} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		h.t.Fatalf("windlass %s: %v", strings.Join(args, " "), err)
	}
	h.last = r
	return r
}

// command returns a command of this host's user; failpoint is as for run.
func (h *host) command(ctx context.Context, failpoint string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = h.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "WINDLASS_STATE=" + h.state(), "WINDLASS_ACTOR=tester@crash",
		"WINDLASS_FAILPOINT=" + failpoint, "WINDLASS_FAILPOINT_LOG=" + h.log, "EFFECT=" + h.effect}
	if h.keeperOff {
		cmd.Env = append(cmd.Env, "WINDLASS_KEEPER=off")
	}
	if h.docker != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+h.docker)
	}
	if h.kubeconfig != "" {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+h.kubeconfig)
	}
	return cmd
}

// job returns the arguments of a run of this host's driver: it leaves its side
// effect once, prints some lines, and exits 7.
func (h *host) job(flags ...string) []string {
	if h.driver == "fake" {
		args := append(h.onBackend(flags...), "--", "sleep", "100ms", ";")
		if h.held {
			args = append(args, "gate", ";")
		}
		return append(args, "lines", "200", ";", "err", "err", ";", "exit", "7")
	}
	if h.held {
		flags = append(flags, "-e", "GO="+h.goFile())
	}
	return append(h.onBackend(flags...), "--", "sh", "-c", script)
}

// script is the job of a real process. GO, when set, holds it back until the test
// lets it go on.
const script = `echo x >>"$EFFECT"; while [ -n "$GO" ] && [ ! -e "$GO" ]; do sleep 0.05; done; i=0; while [ $i -lt 200 ]; do echo "line $i of the job"; i=$((i+1)); done; echo err >&2; exit 7`

// onBackend returns a run's arguments up to its command.
func (h *host) onBackend(flags ...string) []string {
	args := append([]string{"run", "--on", h.driver}, flags...)
	if h.backend.flags != nil {
		args = append(args, h.backend.flags(h)...)
	}
	return args
}

func (h *host) goFile() string { return filepath.Join(h.dir, "go") }

// release lets jobs that were held back go on, also those that are still to come.
func (h *host) release() {
	h.t.Helper()
	h.released = true
	h.openGates()
	if err := os.WriteFile(h.goFile(), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// openGates lets the fake's jobs go on, once they are released.
func (h *host) openGates() {
	h.t.Helper()
	if h.driver != "fake" || !h.released {
		return
	}
	dirs, err := filepath.Glob(filepath.Join(h.state(), "driver", "fake", "*"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, dir := range dirs {
		cloud, err := fake.OpenCloud(dir, fake.Options{})
		if err == nil {
			err = cloud.OpenGate(sdk.ID{})
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// hang returns the arguments of a run that ends only when told to.
func (h *host) hang() []string {
	if h.driver == "fake" {
		return append(h.onBackend(), "--", "hang")
	}
	return append(h.onBackend(), "--", "sh", "-c", `trap 'exit 9' TERM; echo x >>"$EFFECT"; while :; do sleep 0.1; done`)
}

// effects counts how often the job really ran.
func (h *host) effects() int {
	h.t.Helper()
	if h.driver == "fake" {
		// A fake job's effect is the object that was made for it.
		files, err := filepath.Glob(filepath.Join(h.state(), "driver", "fake", "*", "made", "*", "*"))
		if err != nil {
			h.t.Fatal(err)
		}
		return len(files)
	}
	b, err := os.ReadFile(h.effect)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return bytes.Count(b, []byte("x"))
}

// hits counts how often a failpoint acted.
func (h *host) hits(name string) int {
	b, err := os.ReadFile(h.log)
	if err != nil {
		return 0
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, name+" ") {
			n++
		}
	}
	return n
}

// nothingLeft asserts that no process, container, folder or spool stays.
func (h *host) nothingLeft() {
	h.t.Helper()
	for _, pattern := range []string{"spool/*", "driver/local/*/*", "driver/fake/*/jobs/*"} {
		files, err := filepath.Glob(filepath.Join(h.state(), pattern))
		if err != nil {
			h.t.Fatal(err)
		}
		if len(files) > 0 {
			h.t.Errorf("left behind: %v", files)
		}
	}
	r := h.run("", "reap", "--dry-run", "--all", "--on", h.driver, "--json")
	var env struct {
		Data []struct {
			Provider string `json:"provider"`
			Ours     bool   `json:"orphan"`
			Why      string `json:"why"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &env); err != nil || r.code != 0 {
		h.t.Fatalf("reap --dry-run: %d %v %s%s", r.code, err, r.stdout, r.stderr)
	}
	for _, it := range env.Data {
		if it.Ours {
			h.t.Errorf("the reaper finds an orphan: %+v", it)
		}
	}
}

// killSupervisor kills this host's supervisor of a local job.
func (h *host) killSupervisor() {
	h.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, d := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err != nil || !strings.Contains(string(cmdline), "__supervise") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		exe, _ := os.Readlink(filepath.Join(d, "exe"))
		cwd, _ := os.Readlink(filepath.Join(d, "cwd"))
		if err != nil || exe != program || !strings.Contains(string(env)+string(cmdline)+cwd, h.dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			h.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			h.t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		h.t.Fatalf("%d supervisors of this test found", n)
	}
}

func (h *host) ledgerSound() {
	h.t.Helper()
	if r := h.run("", "ledger", "verify"); r.code != 0 {
		h.t.Errorf("ledger verify: %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// stopKeeper ends this host's keeper, so that none outlives its test.
func (h *host) stopKeeper() {
	b, err := os.ReadFile(filepath.Join(h.state(), "keeper.log"))
	if err != nil {
		return
	}
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(strings.TrimPrefix(f, "pid="))
		if !strings.HasPrefix(f, "pid=") || err != nil {
			continue
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.HasPrefix(string(cmdline), program+"\x00") {
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		// Until it is dead: that its parent, which is init now, takes note may
		// last a second, and a zombie has no command line.
		testwait.Until(h.t, patience, "end of the keeper", func() bool {
			left, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return err != nil || len(left) == 0
		})
	}
	if h.t.Failed() {
		h.t.Logf("keeper.log:\n%s", b)
	}
}
