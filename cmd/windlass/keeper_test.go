//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/keeper"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

const fakeConfig = "providers:\n  fake:\n    kind: fake\n    poll_interval: 50ms\n"

// withKeeper is the program with a provider of kind fake and a keeper, which
// goes with the test.
func withKeeper(t *testing.T, vars ...string) *program {
	t.Helper()
	p := newProgram(t, "on")
	p.env = append(p.env, vars...)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(fakeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.dismiss()
		if b, err := os.ReadFile(filepath.Join(p.stateDir(), "keeper.log")); err == nil && t.Failed() {
			t.Logf("keeper.log:\n%s", b)
		}
	})
	return p
}

// dismiss asks the keeper to leave, and waits until its process has ended.
func (p *program) dismiss() {
	c := &keeper.Client{StateDir: p.stateDir(), Version: build().Version}
	st, err := c.Status(context.Background())
	if sdk.CodeOf(err) == sdk.NotFound {
		return
	}
	if err := errors.Join(err, c.Leave(context.Background())); err != nil {
		p.t.Errorf("keeper: %v", err)
		return
	}
	testwait.Until(p.t, soon, "end of the keeper", func() bool { return syscall.Kill(st.PID, 0) != nil })
}

func (p *program) stateDir() string { return filepath.Join(p.dir, "state") }

func (p *program) keeper() (keeper.Status, error) {
	c := &keeper.Client{StateDir: p.stateDir(), Version: build().Version}
	return c.Status(p.t.Context())
}

// keeperHolds waits until the keeper drives n runs, and returns its process.
func (p *program) keeperHolds(n int) int {
	p.t.Helper()
	pid := 0
	testwait.Until(p.t, soon, fmt.Sprintf("keeper with %d runs", n), func() bool {
		st, err := p.keeper()
		pid = st.PID
		return err == nil && len(st.Held) == n
	})
	return pid
}

func (p *program) killKeeper(pid int) {
	p.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	testwait.Until(p.t, soon, "end of the keeper", func() bool { return syscall.Kill(pid, 0) != nil })
}

// TestCommandsThatStartNoKeeper: what only looks starts no process, though an
// open run has nobody who drives it.
func TestCommandsThatStartNoKeeper(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	p.env = append(p.env, "WINDLASS_KEEPER=off")
	cmd := p.command("run", "--on", "fake", "--image", "i", "--name", "left", "--", "hang")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.env = p.env[:len(p.env)-1]
	p.state("left", "running")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, args := range [][]string{{"version"}, {"completion", "bash"}, {"--help"}, {"run", "--help"}, {}, {"ps"}, {"ps", "-a", "--json"}, {"status", "left"},
		{"logs", "left"}, {"ledger", "log"}, {"ledger", "verify"}, {"provider", "ls"}, {"provider", "describe", "local"}, {"config", "show"}, {"config", "validate"},
		{"explain", "secret.not-held"}, {"doctor"}, {"reap", "--dry-run"}, {"run", "--dry-run", "--", "true"}} {
		p.do(args...)
		for _, name := range []string{"keeper.log", "keeper.sock", "keeper.lock"} {
			if _, err := os.Lstat(filepath.Join(p.stateDir(), name)); err == nil {
				t.Fatalf("windlass %s: there is a %s", strings.Join(args, " "), name)
			}
		}
	}
	// One that needs it starts it, and the run is taken up.
	if _, code := p.do("cancel", "left"); code != 0 {
		t.Errorf("cancel: %d", code)
	}
	p.state("left", "cancelled")
}

// TestReapTakesUpRunsOfAKilledKeeper: ps says that nobody looks after them, and reap
// starts a keeper that does.
func TestReapTakesUpRunsOfAKilledKeeper(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	if out, code := p.do("run", "-d", "--on", "fake", "--image", "i", "--name", "left", "--", "hang"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	p.state("left", "running")
	first := p.keeperHolds(1)
	if out, _ := p.do("ps"); strings.Contains(out, "nobody") {
		t.Errorf("before the kill: %s", out)
	}
	p.killKeeper(first)
	if out, _ := p.do("ps"); !strings.Contains(out, "running, nobody looks after it") {
		t.Errorf("after the kill: %s", out)
	}
	out, code := p.do("reap", "--on", "fake", "-a")
	if code != 0 || !strings.Contains(out, "its run is running") || strings.Contains(out, "nobody looks after it") {
		t.Errorf("reap: exit %d: %s", code, out)
	}
	if second := p.keeperHolds(1); second == first {
		t.Error("the keeper is the one that was killed")
	}
	if out, _ := p.do("ps"); strings.Contains(out, "nobody") {
		t.Errorf("after the reap: %s", out)
	}
	if _, code := p.do("cancel", "left"); code != 0 {
		t.Errorf("cancel: %d", code)
	}
	p.state("left", "cancelled")
}

// TestCommandsOutliveTheirKeeper: whoever waits for a run starts another keeper
// when the one that drives it is killed.
func TestCommandsOutliveTheirKeeper(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	type end struct {
		out  string
		code int
	}
	start := func(args ...string) chan end {
		done := make(chan end, 1)
		var out, errs bytes.Buffer
		cmd := p.command(args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = cmd.Wait()
			if errs.Len() > 0 {
				t.Logf("windlass %s: %s", args[0], errs.String())
			}
			done <- end{out.String(), cmd.ProcessState.ExitCode()}
		}()
		return done
	}
	attached := start("run", "--on", "fake", "--image", "i", "--name", "a", "--", "lines", "100", ";", "sleep", "8s", ";", "lines", "100", ";", "exit", "9")
	first := p.keeperHolds(1)
	waiting, following := start("wait", "a"), start("logs", "-f", "a")
	p.killKeeper(first)
	second := p.keeperHolds(1)
	if second == first {
		t.Fatal("the same keeper")
	}
	want := strings.Repeat(lines(100), 2)
	if e := testwait.Receive(t, soon, "end of run", attached); e.code != 9 || e.out != want {
		t.Errorf("run: code %d, %d bytes of %d", e.code, len(e.out), len(want))
	}
	if e := testwait.Receive(t, soon, "end of wait", waiting); e.code != 9 {
		t.Errorf("wait: code %d", e.code)
	}
	if e := testwait.Receive(t, soon, "end of logs", following); e.code != 0 || e.out != want {
		t.Errorf("logs: code %d, %d bytes of %d", e.code, len(e.out), len(want))
	}
	if out, code := p.do("ledger", "verify"); code != 0 {
		t.Errorf("verify: %d %s", code, out)
	}
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestF84KeeperKeepsSecrets: a keeper has the secrets of several commands, uses
// each for its own run, and leaves none of them in a file, in its arguments, its
// environment or its log.
func TestF84KeeperKeepsSecrets(t *testing.T) {
	t.Parallel()
	canaries := []string{"canary-aa-0c9d17e2b5", "canary-bb-77f1c2a9d3", "canary-file-5be0917c42"}
	p := withKeeper(t, "AWS_SECRET_ACCESS_KEY=canary-key-90d1f3b7e5")
	p.env = append(p.env, "TOKEN="+canaries[0])
	if err := os.WriteFile(filepath.Join(p.dir, "secret.txt"), []byte(canaries[2]), 0o600); err != nil {
		t.Fatal(err)
	}
	submit := func(name string) {
		out, code := p.do("run", "-d", "--on", "fake", "--image", "i", "--name", name, "--retries", "1", "--secret", "T=secret://env/TOKEN",
			"--secret", "F=secret://file/secret.txt", "--", "secret", "T", ";", "secret", "F", ";", "sleep", "12s", ";", "exit", "3")
		if code != 0 {
			t.Fatalf("run: %d %s", code, out)
		}
	}
	submit("aa")
	p.env[len(p.env)-1] = "TOKEN=" + canaries[1]
	submit("bb")
	p.env[len(p.env)-1] = "TOKEN=of-whoever-waits"
	pid := p.keeperHolds(2)
	all := append(slices.Clone(canaries), "canary-key-90d1f3b7e5", "of-whoever-waits")
	look := func() {
		t.Helper()
		for _, c := range all {
			if found, err := seek(p.stateDir(), c); err != nil || found != "" {
				t.Errorf("%s holds %s: %v", found, c, err)
			}
			for _, name := range []string{"environ", "cmdline"} {
				b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
				if err == nil && holds(b, c) {
					t.Errorf("the keeper's %s holds %s", name, c)
				}
			}
		}
	}
	look()
	for i, name := range []string{"aa", "bb"} {
		if _, code := p.do("wait", name); code != 3 {
			t.Errorf("wait: %d", code)
		}
		out, _ := p.do("logs", name)
		want := strings.Repeat(fmt.Sprintf("secret T %s\nsecret F %s\n", sum(canaries[i]), sum(canaries[2])), 2)
		if out != want {
			t.Errorf("%s: %q, want %q", name, out, want)
		}
	}
	look()
	if fi, err := os.Stat(filepath.Join(p.stateDir(), "keeper.log")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("log: %v, %v", fi, err)
	}
}

// TestSecretIsGoneWithTheKeeper: the run says that its value is gone, and what
// to do; another command's value is never taken.
func TestSecretIsGoneWithTheKeeper(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	p.env = append(p.env, "TOKEN=right")
	if _, code := p.do("run", "-d", "--on", "fake", "--image", "i", "--name", "s", "--retries", "1", "--secret", "T=secret://env/TOKEN", "--",
		"secret", "T", ";", "sleep", "4s", ";", "exit", "3"); code != 0 {
		t.Fatal(code)
	}
	p.killKeeper(p.keeperHolds(1))
	p.env[len(p.env)-1] = "TOKEN=wrong"
	if _, code := p.do("wait", "s"); code != 125 {
		t.Errorf("wait: %d", code)
	}
	out, _ := p.do("status", "s")
	for _, part := range []string{"failed (credentials)", "secret://env/TOKEN", "windlass rerun"} {
		if !strings.Contains(out, part) {
			t.Errorf("status doesn't say %q:\n%s", part, out)
		}
	}
	if out, _ = p.do("logs", "s"); out != "secret T "+sum("right")+"\n" {
		t.Errorf("logs: %q", out)
	}
}

// TestSecretThatCanNotBeDelivered is refused before launch, on every driver,
// with the field, the value and the provider.
func TestSecretThatCanNotBeDelivered(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(fakeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	on := map[string][]string{
		"local": {"run", "--on", "local"},
		"fake":  {"run", "--on", "fake", "--image", "i"},
	}
	if host := os.Getenv(testneed.DockerEnv); host != "" {
		p.env = append(p.env, "DOCKER_HOST="+host)
		on["docker"] = []string{"run", "--on", "docker", "--image", "busybox:local"}
	}
	for name, args := range on {
		cmd := p.command(append(args, "--secret", "T=secret://vault/app/token", "--", "true")...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 125 {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range []string{"run on " + name, "refused before launch", "secrets.T", "secret://vault/app/token", "no secret of the scheme vault", "it takes env, file"} {
			if !strings.Contains(errs.String(), part) {
				t.Errorf("%s: %q isn't said:\n%s", name, part, errs.String())
			}
		}
	}
	if out, _ := p.do("ps", "-a"); strings.Contains(out, "true") {
		t.Errorf("a refused run has a row:\n%s", out)
	}
}

// TestKeeperEnvironment: of a command's variables its keeper's process gets
// those alone that a process of this program needs.
func TestKeeperEnvironment(t *testing.T) {
	c := &config.Config{LogMaxBytes: 1 << 20, Owner: "team", KeepLogs: 36 * time.Hour, KeepSize: 1 << 30, KeepRows: 90 * time.Minute}
	got := keeperEnv([]string{"PATH=/bin", "TOKEN=x", "AWS_SECRET_ACCESS_KEY=y", "http_proxy=p", "WINDLASS_CONFIG=c.yaml", "WINDLASS_DEFAULT_PROVIDER=prod",
		"WINDLASS_STATE=s", "XDG_RUNTIME_DIR=/run", "GOCOVERDIR=/c", "MYPATH=/x", "HOME=/h"}, c)
	want := []string{"WINDLASS_LOG_MAX_BYTES=1048576", "WINDLASS_RETENTION_LOGS=1d12h", "WINDLASS_RETENTION_LEDGER=1h30m", "WINDLASS_RETENTION_LOG_BYTES=1073741824", "WINDLASS_OWNER=team", "PATH=/bin", "http_proxy=p", "WINDLASS_STATE=s", "XDG_RUNTIME_DIR=/run", "GOCOVERDIR=/c", "HOME=/h"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// It reads there as what it was.
	own, err := config.Load(t.Context(), config.LoadRequest{Env: config.EnvOf(want[:4])})
	if err != nil || own.LogMaxBytes != c.LogMaxBytes || own.KeepLogs != c.KeepLogs || own.KeepSize != c.KeepSize || own.KeepRows != c.KeepRows {
		t.Errorf("the keeper reads %+v, %v", own, err)
	}
}

// TestMemoryIsHidden: the kernel writes no core file of a keeper.
func TestMemoryIsHidden(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := hideMemory(); err != nil {
		t.Fatal(err)
	}
	const getDumpable, setDumpable = 3, 4
	v, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, getDumpable, 0, 0)
	if errno != 0 || v != 0 {
		t.Errorf("dumpable is %d, %v", v, errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 1, 0); errno != 0 {
		t.Error(errno)
	}
}

func sum(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
