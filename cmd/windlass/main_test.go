package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/windlass-run/windlass/internal/keeper"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// asProgram makes the test binary the program itself.
const asProgram = "WINDLASS_TEST_MAIN"

// withSchema makes the program a later release's, with a migration of these statements.
const withSchema = "WINDLASS_TEST_LATER"

// fastExit keeps a program under the race detector from sleeping for a second
// when it ends.
const fastExit = "GORACE=atexit_sleep_ms=20"

// pretend is the kind of the plugin of these tests: the fake, in a process of its own.
const pretend = "pretend"

// Other names of that program: the one keeps resources alone, the other has none.
const (
	pretendShelf = "shelf"
	pretendBench = "bench"
)

// pretended is the driver of the plugin of a name. Its provider's config has the same
// capabilities.
func pretended(name string) sdk.Driver {
	d := fake.DriverOf(name)
	switch name {
	case pretendShelf:
		d.Capabilities = []string{sdk.Resources().String(), sdk.Troubleshooting().String()}
	case pretendBench:
		d.Capabilities, d.Resources = []string{sdk.Runner().String(), sdk.Canceler().String()}, nil
	}
	return d
}

// together is how many tests run at a time: they wait for programs more than
// they work.
const together = "8"

func TestMain(m *testing.M) {
	if os.Getenv(plugin.CookieKey) == plugin.CookieValue {
		if filepath.Base(os.Args[0]) == pretendTheirs {
			servePublished()
			return
		}
		plugin.Serve(pretended(filepath.Base(os.Args[0])))
		return
	}
	if v := os.Getenv("WINDLASS_TEST_VERSION"); v != "" {
		version = v // see upgrade_test.go
	}
	later = os.Getenv(withSchema)
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	// A supervisor's environment is empty, and its name is the program's.
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "__") {
		os.Exit(run(os.Args[1:]))
	}
	testscript.Main(manyTests{m}, map[string]func(){"windlass": func() { os.Exit(run(os.Args[1:])) }})
}

// manyTests runs tests together, unless the command line says how many.
type manyTests struct{ *testing.M }

func (m manyTests) Run() int {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set(together); err != nil {
			panic(err)
		}
	}
	return m.M.Run()
}

// TestScripts runs the documents' examples against the program.
func TestScripts(t *testing.T) {
	docker := hasDocker(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "../../internal/cli/testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("WINDLASS_STATE", filepath.Join(e.WorkDir, ".state"))
			e.Setenv("WINDLASS_KEEPER", "off")
			e.Setenv("WINDLASS_ACTOR", "tester@here")
			name, value, _ := strings.Cut(fastExit, "=")
			e.Setenv(name, value)
			e.Setenv("HOME", filepath.Join(e.WorkDir, ".home"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			if host := os.Getenv(testneed.DockerEnv); host != "" {
				e.Setenv("DOCKER_HOST", host)
			}
			e.Defer(func() { dismiss(t, filepath.Join(e.WorkDir, ".state")) })
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "docker" {
				return docker, nil
			}
			return false, os.ErrInvalid
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"absent":  absent,
			"awaits":  awaits,
			"damage":  damage,
			"appears": appears,
		},
	})
}

// dismiss asks the keeper of a state folder to leave, and waits until it has:
// the folder goes away.
func dismiss(t *testing.T, state string) {
	c := &keeper.Client{StateDir: state, Version: build().Version}
	if err := c.Leave(t.Context()); err != nil {
		t.Logf("keeper: %v", err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if _, err := c.Status(t.Context()); sdk.CodeOf(err) == sdk.NotFound {
			return
		}
	}
	t.Errorf("the keeper of %s doesn't leave", state)
}

// hasDocker decides as testneed does: a missing engine skips here, and fails
// in CI.
func hasDocker(t *testing.T) bool {
	has := true
	t.Run("docker", func(t *testing.T) {
		defer func() { has = !t.Skipped() && !t.Failed() }()
		testneed.Docker(t)
	})
	return has
}

// exits runs a command that must end with a code: exits CODE COMMAND ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit := new(exec.ExitError); err != nil {
		if !asExit(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		code = itoa(exit.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// awaits waits until a run has a state: awaits STATE RUN
func awaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaits STATE RUN")
	}
	for deadline := time.Now().Add(time.Minute); ; {
		err := ts.Exec("windlass", "status", "--json", args[1])
		if err == nil && strings.Contains(ts.ReadFile("stdout"), `"state": "`+args[0]+`"`) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("run %s isn't %s within a minute: %v", args[1], args[0], err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// appears waits until a file is there: appears FILE
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: appears FILE")
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s isn't there within a minute", args[0])
		}
	}
}

// damage writes over the middle of a file: damage FILE
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage FILE")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	for i := 0; i < len(data); i++ {
		data[i] = 0x55
	}
	ts.Check(os.WriteFile(path, data, 0o600))
}

// absent looks for a text, also in base64, in every file of a folder: absent
// FOLDER TEXT
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: absent FOLDER TEXT")
	}
	found, err := seek(ts.MkAbs(args[0]), args[1])
	ts.Check(err)
	if (found == "") == neg {
		ts.Fatalf("%q: found in %q", args[1], found)
	}
}
