package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/sdk"
)

// TestSystemErrorsHaveNames: what this machine itself refuses is told under a name
// that `windlass explain` knows, wherever it comes from, and never as something
// without a class.
func TestSystemErrorsHaveNames(t *testing.T) {
	dir := t.TempDir()
	first, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	listen := func(address string) error {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err == nil {
			t.Fatalf("%s: %v", address, l.Close())
		}
		return err
	}
	file := func(f func() error) error {
		err := f()
		if err == nil {
			t.Fatal("no error")
		}
		return err
	}
	for name, k := range map[string]struct {
		err  error
		id   string
		code sdk.Code
	}{
		"a port that is taken": {listen(first.Addr().String()), idNetwork, sdk.FailedPrecondition},
		"no port":              {listen("nix"), idNetwork, sdk.FailedPrecondition},
		"a port too high":      {listen("127.0.0.1:99999"), idNetwork, sdk.FailedPrecondition},
		"no such file":         {file(func() error { _, err := os.ReadFile(filepath.Join(dir, "none")); return err }), idFile, sdk.NotFound},
		"a folder":             {file(func() error { return os.WriteFile(dir, nil, 0o600) }), idFile, sdk.FailedPrecondition},
		"a rename":             {file(func() error { return os.Rename(filepath.Join(dir, "none"), filepath.Join(dir, "b")) }), idFile, sdk.NotFound},
		"rights":               {&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}, idFile, sdk.PermissionDenied},
		"a full disk":          {&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, idFile, sdk.ResourceExhausted},
		"a bare number":        {os.NewSyscallError("flock", syscall.ENOLCK), idFile, sdk.FailedPrecondition},
		"of class unknown":     {sdk.Errorf(sdk.Unknown, "read", "standard input: %w", &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}), idFile, sdk.FailedPrecondition},
		"of its own class":     {sdk.Errorf(sdk.DataLoss, "read", "%w", &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}), "code.data-loss", sdk.DataLoss},
	} {
		b := describe(fmt.Errorf("do it: %w", k.err))
		if b.ID != k.id || b.Code != k.code.String() {
			t.Errorf("%s: %+v", name, b)
		}
		if _, ok := findEntry(b.ID); !ok {
			t.Errorf("%s isn't explained", b.ID)
		}
	}
	if b := describe(errors.New("x")); b.ID != "code.unknown" {
		t.Errorf("%+v", b)
	}
}

// TestRunnerListen: what is no address is a wrong call, and one that is taken says
// what to do.
func TestRunnerListen(t *testing.T) {
	w := newWorld(t)
	for address, text := range map[string]string{"nix": `"nix" is no HOST:PORT`, "": `"" is no HOST:PORT`, "127.0.0.1:99999": `"99999" is no port`, "127.0.0.1:": `"" is no port`, "::1:80": `"::1:80" is no HOST:PORT`} {
		got := w.fails(ExitUsage, "runner", "serve", "--listen", address, "--tls-cert", "c", "--tls-key", "k", "--client-ca", "a")
		if !strings.Contains(got, "--listen: "+text) || !strings.Contains(got, "windlass runner serve --help") {
			t.Errorf("%q: %s", address, got)
		}
	}
	for _, address := range []string{"127.0.0.1:0", ":7443", "[::1]:7443", "localhost:https"} {
		if err := checkListen(t.Context(), address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, ok := findEntry(runner.ErrListen); !ok {
		t.Error("it isn't explained")
	}
}

// TestRunnerStopWords: a runner that is being stopped says what it waits for, how long,
// and what ends it sooner.
func TestRunnerStopWords(t *testing.T) {
	for jobs, want := range map[int][]string{
		0: {"stopping: no more jobs are taken", "there is none to wait for"},
		1: {"cancelling 1 job and waiting, without a bound, for proof", "a second signal leaves at once, and the next start cancels what is left"},
		2: {"cancelling 2 jobs and"},
	} {
		for _, part := range want {
			if got := stopWords(jobs); !strings.Contains(got, part) {
				t.Errorf("%d: %q isn't in %q", jobs, part, got)
			}
		}
	}
}
