//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestRefusals: what can't be done is refused before launch, all at once, by
// field and value.
func TestRefusals(t *testing.T) {
	w := newWorld(t, "")
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	for _, c := range []struct {
		name   string
		change func(s *sdk.JobSpec)
		fields []string
	}{
		{"no command", func(s *sdk.JobSpec) { s.Args = nil }, []string{"args"}},
		{"empty command", func(s *sdk.JobSpec) { s.Args = sdk.Argv{""} }, []string{"args[0]"}},
		{"image", func(s *sdk.JobSpec) { s.Image = "busybox"; s.ImageEntrypoint = sdk.Argv{"sh"} }, []string{"image", "image_entrypoint"}},
		{"container things", func(s *sdk.JobSpec) {
			s.GPU, s.EphemeralStorage, s.Network, s.Profile = 1, 1, "none", sdk.ProfileStrict
			s.Mounts = []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/x"}}
			s.Files = []sdk.InputFile{{Path: "/tmp/x"}}
		}, []string{"ephemeral_storage", "files[0]", "gpu", "mounts[0]", "network", "profile"}},
		{"profile", func(s *sdk.JobSpec) { s.Profile = sdk.ProfileStandard }, []string{"profile"}},
		{"grace", func(s *sdk.JobSpec) { s.Grace = span(48 * time.Hour) }, []string{"grace"}},
		{"our variables", func(s *sdk.JobSpec) { s.Env = sdk.Env{"WINDLASS_RUN": "x", "WINDLASS_ATTEMPT": "y"} }, []string{"env", "env"}},
		{"workdir", func(s *sdk.JobSpec) { s.Workdir = "/no/such/folder" }, []string{"workdir"}},
		{"workdir that is a file", func(s *sdk.JobSpec) { s.Workdir = file }, []string{"workdir"}},
		{"user", func(s *sdk.JobSpec) { s.User = "no-such-user-here" }, []string{"user"}},
		{"group", func(s *sdk.JobSpec) { s.User = "root:no-such-group" }, []string{"user"}},
		{"number without a group", func(s *sdk.JobSpec) { s.User = "54321" }, []string{"user"}},
		{"options", func(s *sdk.JobSpec) { s.Options = []byte(`{"max_outptu":1}`) }, []string{"options.max_outptu"}},
		{"tiny limits", func(s *sdk.JobSpec) { s.CPU, s.Memory = 1, 1 }, []string{"cpu", "memory"}},
		{"NUL", func(s *sdk.JobSpec) { s.Args = sdk.Argv{"a\x00b"} }, []string{"args[0]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := sdk.JobSpec{Args: sdk.Argv{"true"}}
			c.change(&spec)
			l := (&world{TB: t, p: w.p, ids: w.ids}).prepare(spec)
			var got []string
			for _, p := range l.Problems {
				got = append(got, p.Field)
				if p.Message == "" || p.Code == 0 {
					t.Errorf("%s: no words or no code: %+v", p.Field, p)
				}
			}
			if want := slices.Compact(c.fields); !slices.Equal(slices.Compact(got), want) {
				t.Errorf("got %v, want %v", l.Problems, c.fields)
			}
			if _, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); !sdk.IsClear(err) {
				t.Errorf("a launch with problems is sent: %v", err)
			}
		})
	}
	ok := sdk.JobSpec{Args: sdk.Argv{"true"}, Network: "host", Profile: sdk.ProfilePermissive, TTL: time.Hour, Workdir: ".", AllowVisibleSecret: true}
	if l := w.prepare(ok); len(l.Problems) > 0 {
		t.Errorf("refused: %v", l.Problems)
	}
}

// TestLaunchHoldsNoInheritance: what the submitter has is not in the launch.
func TestLaunchHoldsNoInheritance(t *testing.T) {
	w := newWorld(t, "")
	b, err := w.launch(sdk.JobSpec{Args: sdk.Argv{"true"}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"INHERITED", "PATH"} {
		if strings.Contains(string(b), s) {
			t.Errorf("the launch holds %s: %s", s, b)
		}
	}
}

func TestEnvironment(t *testing.T) {
	w := newWorld(t, "")
	dir := t.TempDir()
	spec := sh(`echo "$A|$B|$C|$PWD|$(pwd)|$WINDLASS_RUN|$WINDLASS_OTHER"`)
	spec.Env = sdk.Env{"B": "spec"}
	spec.Secrets = map[string]sdk.SecretRef{"C": "secret://env/CANARY"}
	spec.Workdir = "sub"
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	a := &sdk.Ambient{Dir: dir}
	for _, e := range []string{"PATH=" + os.Getenv("PATH"), "A=amb", "B=amb", "C=amb", "WINDLASS_OTHER=x", "PWD=/elsewhere", "odd", "=odd"} {
		a.Env = append(a.Env, []byte(e))
	}
	l, err := w.p.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: w.ids.NewID(), AttemptID: w.ids.NewID(), Attempt: 1, Ambient: a})
	if err != nil || len(l.Problems) > 0 {
		t.Fatal(err, l.Problems)
	}
	res, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: a})
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(dir, "sub")
	want := fmt.Sprintf("amb|spec|%s|%s|%s|%s|\n", canary, sub, sub, l.RunID)
	if out := w.logs(res.Handle, nil, true); out.stdout.String() != want {
		t.Errorf("got %q, want %q", out.stdout.String(), want)
	}
	// Without a submitter's world there is a PATH, and a folder.
	l.AttemptID = w.ids.NewID()
	l.Request = []byte(strings.Replace(string(l.Request), `"dir":"sub"`, `"dir":"/"`, 1))
	if res, err = w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil {
		t.Fatal(err)
	}
	want = fmt.Sprintf("|spec|%s|/|/|%s|\n", canary, l.RunID)
	if out := w.logs(res.Handle, nil, true); out.stdout.String() != want {
		t.Errorf("got %q, want %q", out.stdout.String(), want)
	}
}

// TestPath: a program is looked for as a shell does.
func TestPath(t *testing.T) {
	w := newWorld(t, "")
	dir := t.TempDir()
	script := func(path, body string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), mode); err != nil {
			t.Fatal(err)
		}
	}
	script(filepath.Join(dir, "one", "prog"), "#!/bin/sh\nexit 1\n", 0o600)
	script(filepath.Join(dir, "two", "prog"), "#!/bin/sh\nexit 22\n", 0o700)
	script(filepath.Join(dir, "here"), "#!/bin/sh\nexit 23\n", 0o700)
	script(filepath.Join(dir, "bad"), "#!/no/such/interpreter\n", 0o700)
	script(filepath.Join(dir, "garbage"), "\x7fELF not really", 0o700)
	for _, c := range []struct {
		path, prog string
		code       int
		exec       string
	}{
		{dir + "/one:" + dir + "/two", "prog", 22, ""},
		{dir + "/one", "prog", 0, "not_executable"},
		{dir + "/none", "prog", 0, "not_found"},
		{"two", "prog", 22, ""},
		{":/nowhere", "here", 23, ""},
		{dir, "bad", 0, "not_found"},
		{dir, "garbage", 0, "not_executable"},
		{"/nowhere", "./here", 23, ""},
		{"/nowhere", "one/prog", 0, "not_executable"},
	} {
		spec := sdk.JobSpec{Args: sdk.Argv{c.prog}, Env: sdk.Env{"PATH": c.path}, Workdir: dir}
		res := w.ended(w.run(spec))
		code := 0
		if res.ExitCode != nil {
			code = *res.ExitCode
		}
		if code != c.code || res.Raw["exec"] != c.exec {
			t.Errorf("%s in %s: got %d, %q (%s)", c.prog, c.path, code, res.Raw["exec"], res.Message)
		}
	}
	// A script without its first line is executed by no kernel.
	script(filepath.Join(dir, "plain"), "exit 3\n", 0o700)
	res := w.ended(w.run(sdk.JobSpec{Args: sdk.Argv{dir + "/plain"}}))
	if res.Raw["exec"] != "not_executable" || res.Reason != sdk.ReasonInvalidSpec {
		t.Errorf("got %s, %v", res.Message, res.Raw)
	}
}

// TestWorkdirVanishes: a folder that goes between two calls is named.
func TestWorkdirVanishes(t *testing.T) {
	w := newWorld(t, "")
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l := w.launch(sdk.JobSpec{Args: sdk.Argv{"true"}, Workdir: dir})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	res, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
	if err != nil {
		t.Fatal(err)
	}
	if st := w.ended(res.Handle); st.Reason != sdk.ReasonInvalidSpec || !strings.Contains(st.Message, dir) || st.Raw["exec"] != "" {
		t.Errorf("got %s, %s, %v", st.Reason, st.Message, st.Raw)
	}
}

// TestStdin: attached input ends with its writer or the provider, spooled input
// depends on nobody, and none is empty.
func TestStdin(t *testing.T) {
	w := newWorld(t, "")
	run := func(p *provider, mode sdk.StdinMode, in io.Reader, script string) sdk.JobHandle {
		t.Helper()
		spec := sh(script)
		spec.Stdin = mode
		res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.launch(spec), Stdin: in, Ambient: ambient()})
		if err != nil {
			t.Fatal(err)
		}
		return res.Handle
	}
	big := strings.Repeat("0123456789abcde\n", 100000)
	if out := w.logs(run(w.p, sdk.StdinAttached, strings.NewReader(big), "cat"), nil, true); out.stdout.String() != big {
		t.Errorf("attached: %d bytes", out.stdout.Len())
	}
	if out := w.logs(run(w.p, sdk.StdinSpooled, strings.NewReader(big), "cat"), nil, true); out.stdout.String() != big {
		t.Errorf("spooled: %d bytes", out.stdout.Len())
	}
	if out := w.logs(run(w.p, sdk.StdinNone, nil, "cat; echo end"), nil, true); out.stdout.String() != "end\n" {
		t.Errorf("none: %q", out.stdout.String())
	}
	if out := w.logs(run(w.p, sdk.StdinAttached, nil, "cat; echo end"), nil, true); out.stdout.String() != "end\n" {
		t.Errorf("attached to nothing: %q", out.stdout.String())
	}
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []sdk.StdinMode{sdk.StdinAttached, sdk.StdinSpooled} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		h := run(w.p, mode, f, "sleep 0.1; cat")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if out := w.logs(h, nil, true); out.stdout.String() != big {
			t.Errorf("a file, %s: %d bytes", mode, out.stdout.Len())
		}
	}

	// The job that never reads is not waited for, nor is the writer's silence.
	r, wr := io.Pipe()
	if res := w.ended(run(w.p, sdk.StdinAttached, r, "exit 3")); *res.ExitCode != 3 {
		t.Errorf("got %s", res.Message)
	}
	_ = wr.Close()

	// Closing the provider ends attached input, as the submitter's death does.
	other := openIn(t, w.state, "")
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = pr.Close(), pw.Close() }()
	if _, err := pw.WriteString("begin "); err != nil {
		t.Fatal(err)
	}
	h := run(other, sdk.StdinAttached, pr, "cat; echo end")
	testwait.Until(t, patience, "the job's first input", func() bool {
		return strings.Contains(w.logs(h, nil, false).stdout.String(), "begin")
	})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if out := w.logs(h, nil, true); out.stdout.String() != "begin end\n" {
		t.Errorf("after the close: %q", out.stdout.String())
	}
	if _, err := pw.WriteString("rest"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := pr.Read(b); err != nil || string(b[:n]) != "rest" {
		t.Errorf("the caller's input was eaten or broken: %q, %v", b[:n], err)
	}
}

// TestDeadline: the supervisor ends the job at its own deadline, without us.
func TestDeadline(t *testing.T) {
	w := newWorld(t, "")
	spec := sh("exec sleep 1000")
	spec.Timeout = 300 * time.Millisecond
	l := w.launch(spec)
	if l.NativeDeadline != 330*time.Millisecond {
		t.Errorf("native deadline %s", l.NativeDeadline)
	}
	cmd := w.submitter(l, pointConfirmed)
	_ = cmd.Wait()
	h := w.settle(l)
	if res := w.ended(h); res.State != sdk.StateFailed || res.Reason != sdk.ReasonTimedOut || res.Signal != "SIGTERM" || res.Raw["cause"] != "deadline" {
		t.Errorf("got %s, %s, %v", res.State, res.Reason, res.Raw)
	}
}

// TestSessions: the job has a session of its own, without a terminal, and
// nothing of ours open.
func TestSessions(t *testing.T) {
	w := newWorld(t, "")
	// Something that this process would pass on to any child.
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := unix.FcntlInt(pw.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	out := w.logs(w.run(sh(`[ "$(ps -o sid= -p $$ | tr -d ' ')" = $$ ] && echo leader; ls /proc/self/fd | tr '\n' ' '`)), nil, true)
	hung := w.run(sh("exec sleep 1000"))
	_ = pw.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the pipe of the submitter is held open: %v", err)
	}
	w.cancel(hung, span(0))
	if want := "leader\n0 1 2 3 "; out.stdout.String() != want { // ls itself has the folder open
		t.Errorf("got %q, %q, want %q", out.stdout.String(), out.stderr.String(), want)
	}
}

func TestCheck(t *testing.T) {
	for config, want := range map[string]string{`{"cgroup":"off"}`: "subreaper", `{}`: ""} {
		w := newWorld(t, config)
		res, err := w.p.Check(t.Context(), sdk.CheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, i := range res.Items {
			t.Log(i)
			if !i.OK && i.Remedy == "" {
				t.Errorf("%s: no remedy", i.Name)
			}
			if i.Name == "limits" && !i.OK {
				t.Errorf("a user who may make no control groups has no less a provider: %s", i.Detail)
			}
			found = found || i.Name == "tree" && strings.HasPrefix(i.Detail, want)
		}
		if !found {
			t.Errorf("%s: no word of %q", config, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []sdk.OpenRequest{
		{Name: "a", Config: []byte(`{"max_outputs":1}`), StateDir: t.TempDir()},
		{Name: "a", Config: []byte(`{"cgroup":"maybe"}`), StateDir: t.TempDir()},
		{Name: "a"},
	} {
		if _, err := Driver().Open(t.Context(), c); sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%s: got %v", c.Config, err)
		}
	}
}

func TestLeftoverFolders(t *testing.T) {
	w := newWorld(t, "")
	id := w.ids.NewID()
	half := filepath.Join(w.state, ".gone-"+id.String()+"-1-0")
	if err := os.MkdirAll(filepath.Join(half, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for o, err := range w.p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: "owner"}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if o.AttemptID != id || o.LedgerID != "ledger" {
			t.Errorf("got %+v", o)
		}
		if _, err := w.p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
			t.Error(err)
		}
		o.ID = "../" + o.ID
		if _, err := w.p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("a path that leaves the folder: %v", err)
		}
	}
	if seen != 1 || exists(half) {
		t.Errorf("%d listed, still there: %t", seen, exists(half))
	}
}

// TestDamagedRecord: a record that can't be read is never taken for an end, and
// hides no other attempt; what ran is ended with it.
func TestDamagedRecord(t *testing.T) {
	w := newWorld(t, "")
	other := w.run(sh("exit 0"))
	w.ended(other)
	h := w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	pid := supervisorOf(t, h)
	if err := os.WriteFile(filepath.Join(w.state, h.ID, "begun.json"), []byte(`{"v":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); sdk.CodeOf(err) != sdk.DataLoss {
		t.Errorf("status: %v", err)
	}
	list := func() (out []sdk.OwnedObject) {
		t.Helper()
		for o, err := range w.p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: "owner"}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
		return out
	}
	all := list()
	if len(all) != 2 {
		t.Fatalf("listed %+v", all)
	}
	i := slices.IndexFunc(all, func(o sdk.OwnedObject) bool { return o.ID == h.ID })
	if !all[i].Live {
		t.Errorf("a job that may run: %+v", all[i])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	if _, err := w.p.RemoveOwned(ctx, sdk.RemoveOwnedRequest{Object: all[i]}); err == nil {
		t.Error("a job that may run was removed")
	}
	cancel()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "removal", func() bool {
		_, err := w.p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: all[i]})
		return err == nil
	})
	if left := processes(t, h); len(left) > 0 || len(list()) != 1 {
		t.Errorf("left %v, %+v", left, list())
	}
	if left, err := w.leftovers(mustID(t, h.ID)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
