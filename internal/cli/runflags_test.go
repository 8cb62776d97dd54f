package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// request runs windlass run up to the engine, and returns what it was asked.
func request(t *testing.T, w *world, args ...string) control.SubmitRequest {
	t.Helper()
	w.engine.submitted = nil
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	w.ok(append([]string{"run"}, args...)...)
	w.engine.wg.Wait()
	if len(w.engine.submitted) != 1 {
		t.Fatalf("%d submits", len(w.engine.submitted))
	}
	return w.engine.submitted[0]
}

func TestRunFlags(t *testing.T) {
	w := newWorld(t)
	w.env["HERE"] = "from here"
	w.env["WINDLASS_OWNER"] = "team"
	w.env["TOKEN"] = "canary"
	if err := os.WriteFile(filepath.Join(w.dir, "vars"), []byte("A=file\nB=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "in.txt"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	grace := 5 * time.Second
	got := request(t, w, "--on", "docker", "--image", "app:1", "--name", "nightly", "-e", "A=flag", "-e", "HERE", "-e", "GONE", "--env-file", filepath.Join(w.dir, "vars"),
		"--secret", "TOKEN=secret://env/TOKEN", "-w", "/src", "-u", "1:2", "-v", "./x:/x:ro", "--tmpfs", "/tmp:size=1m", "--file", "in.txt:/in:0600",
		"--cpus", "0.5", "--memory", "64m", "--pids-limit", "9", "--gpus", "1", "--network", "none", "-i", "-l", "team=a", "--timeout", "90s",
		"--start-timeout", "2m", "--grace", "5", "--ttl", "1h", "--cleanup", "on-success", "--idempotency-key", "k",
		"--profile", "strict", "--allow-visible-secret", "--allow-no-cancel", "--option", "platform=linux/arm64", "--option", "init=true", "--image-entrypoint", "/ep", "--image-entrypoint", "-x",
		"--entrypoint", "/e", "--", "a b", "", "--image", "\xff")
	want := sdk.JobSpec{V: 1, Name: "nightly", Image: "app:1", Entrypoint: sdk.Argv{"/e"}, Args: sdk.Argv{"a b", "", "--image", "\xff"},
		ImageEntrypoint: sdk.Argv{"/ep", "-x"}, Env: sdk.Env{"A": "flag", "B": "file", "HERE": "from here"},
		Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}, Workdir: "/src", User: "1:2", CPU: 500, Memory: 64 << 20, GPU: 1, PIDs: 9,
		Timeout: 90 * time.Second, StartTimeout: 2 * time.Minute, Grace: &grace, Labels: map[string]string{"team": "a"}, Network: "none",
		Mounts: []sdk.Mount{{Type: sdk.MountBind, Source: filepath.Join(w.dir, "x"), Target: "/x", ReadOnly: true}, {Type: sdk.MountTmpfs, Target: "/tmp", Size: 1 << 20}},
		Files:  []sdk.InputFile{{Path: "/in", Mode: 0o600, Data: []byte("data")}}, Stdin: sdk.StdinAttached, Profile: sdk.ProfileStrict, TTL: time.Hour,
		AllowVisibleSecret: true, Options: []byte(`{"init":true,"platform":"linux/arm64"}`)}
	if d := cmp.Diff(want, got.Spec); d != "" {
		t.Errorf("spec (-want +got):\n%s", d)
	}
	if got.Provider != "docker" || got.Cleanup != control.CleanupOnSuccess || got.IdempotencyKey != "k" || !got.AllowNoCancel || got.Actor != "tester@here" || got.Stdin == nil || got.Ambient != nil {
		t.Errorf("request %+v", got)
	}
	if !strings.Contains(w.err.String(), "variable GONE isn't set here") {
		t.Errorf("stderr %q", w.err.String())
	}
}

// TestRunUnsetEmptySet checks the three values of entrypoint and arguments.
func TestRunUnsetEmptySet(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args             []string
		entrypoint, argv sdk.Argv
	}{
		{[]string{"--image", "x"}, nil, nil},
		{[]string{"--image", "x", "--"}, nil, sdk.Argv{}},
		{[]string{"--image", "x", "a"}, nil, sdk.Argv{"a"}},
		{[]string{"--image", "x", "a", "--", "-b"}, nil, sdk.Argv{"a", "--", "-b"}},
		{[]string{"--image", "x", "--entrypoint", ""}, sdk.Argv{}, nil},
		{[]string{"--image", "x", "--entrypoint", "/bin/a b"}, sdk.Argv{"/bin/a b"}, nil},
		{[]string{"--shell", "--", "echo", "a | b"}, sdk.Argv{"/bin/sh", "-c"}, sdk.Argv{"echo a | b"}},
	} {
		s := request(t, w, c.args...).Spec
		if d := cmp.Diff(c.entrypoint, s.Entrypoint); d != "" {
			t.Errorf("%q: entrypoint %s", c.args, d)
		}
		if d := cmp.Diff(c.argv, s.Args); d != "" {
			t.Errorf("%q: args %s", c.args, d)
		}
	}
	if s := request(t, w, "--", "true").Spec; s.Grace != nil || s.Env != nil || s.Options != nil || s.Stdin != sdk.StdinNone || s.Mounts != nil {
		t.Errorf("what wasn't given is set: %+v", s)
	}
	if s := request(t, w, "--grace", "0", "--", "true").Spec; s.Grace == nil || *s.Grace != 0 {
		t.Errorf("grace %v, want an explicit 0", s.Grace)
	}
	if s := request(t, w, "-i", "--retries", "1", "--", "true").Spec; s.Stdin != sdk.StdinSpooled || s.Retries != 1 {
		t.Errorf("stdin %q with retries", s.Stdin)
	}
}

// TestChooseProvider checks where a run goes without --on.
func TestChooseProvider(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ args, standard, want string }{
		{"-- true", "", "local"}, {"--image x -- true", "", "docker"}, {"-- true", "docker", "docker"}, {"--on local -- true", "docker", "local"},
	} {
		w.env["WINDLASS_DEFAULT_PROVIDER"] = c.standard
		if got := request(t, w, strings.Fields(c.args)...).Provider; got != c.want {
			t.Errorf("run %s with default %q goes to %s, want %s", c.args, c.standard, got, c.want)
		}
	}
}

// TestAmbient checks that a local job gets the submitter's folder and variables,
// less ours, and no other job does.
func TestAmbient(t *testing.T) {
	w := newWorld(t)
	w.env["PATH"], w.env["WINDLASS_OWNER"] = "/bin", "x"
	a := request(t, w, "--", "true").Ambient
	if a == nil || a.Dir != w.dir {
		t.Fatalf("ambient %+v", a)
	}
	var names []string
	for _, e := range a.Env {
		names = append(names, string(e))
	}
	if strings.Join(names, " ") != "PATH=/bin" {
		t.Errorf("inherits %q", names)
	}
	if a := request(t, w, "--image", "x").Ambient; a != nil {
		t.Errorf("a container inherits %+v", a)
	}
}

func TestRunUsage(t *testing.T) {
	w := newWorld(t)
	w.engine.onSubmit = func(r control.SubmitRequest) error {
		t.Errorf("accepted: %+v", r.Spec)
		return errors.New("accepted")
	}
	for args, want := range map[string]string{
		"":                            "neither a command nor an image",
		"--nope -- x":                 "unknown flag: --nope",
		"--memroy 1m -- x":            `did you mean --memory?`,
		"-it --image x":               "jobs have no terminal",
		"--rm --image x":              "--cleanup never keeps it",
		"--memory 0 -- x":             "--memory:",
		"--memory 1q -- x":            "--memory:",
		"--cpus 0.0001 -- x":          "thousandth",
		"--timeout 0 -- x":            "--timeout:",
		"--timeout soon -- x":         "--timeout:",
		"--grace -1s -- x":            "--grace:",
		"--retries -1 -- x":           "--retries:",
		"--retries many -- x":         "invalid argument",
		"--cleanup sometimes -- x":    "--cleanup:",
		"--secret TOKEN -- x":         "--secret: wants NAME=REFERENCE",
		"--secret TOKEN=canary -- x":  "--secret TOKEN:",
		"--env =x -- x":               "--env:",
		"--env-file /none -- x":       "--env-file:",
		"-v /a -- x":                  "--volume:",
		"--tmpfs /a:b -- x":           "--tmpfs:",
		"--file x -- x":               "--file:",
		"--label =x -- x":             "--label:",
		"--options [] -- x":           "--options",
		"--option a -- x":             "--option:",
		"--shell --entrypoint x -- x": "--shell:",
		"--shell":                     "neither a command",
		"--name  -- x":                "",
		"--on nowhere -- x":           `no provider is called "nowhere"`,
		"--pids-limit -1 -- x":        "--pids-limit:",
		"--gpus all -- x":             "--gpus:",
		"--image x --option platform=a --options {\"platform\":\"b\"}": "set twice",
	} {
		line := []string{"run"}
		if args != "" {
			line = append(line, strings.Split(args, " ")...)
		}
		text := w.fails(ExitWindlass, line...)
		if !strings.Contains(text, want) {
			t.Errorf("run %s: stderr lacks %q:\n%s", args, want, text)
		}
		if strings.Contains(text, "canary") {
			t.Errorf("run %s shows what may be a secret: %s", args, text)
		}
	}
	// Other commands end with 2.
	for _, args := range []string{"ps x", "status", "wait", "cancel", "logs --tail x y", "ledger log --since x", "abandon x", "adopt x", "rm", "rm --expired x",
		"nope", "ledger nope", "provider nope", "explain a b", "completion", "completion tcsh", "wait --timeout x y", "logs --stream x y", "logs --cursor x y", "ps --filter x", "ps --filter state=x", "ledger prune"} {
		if text := w.fails(ExitUsage, strings.Fields(args)...); !strings.Contains(text, "to do: ") {
			t.Errorf("%s: %s", args, text)
		}
	}
}
