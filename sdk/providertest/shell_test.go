//go:build unix

package providertest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func runShell(t *testing.T, b Behaviour, stdin string, env ...string) (stdout, stderr string, code int) {
	t.Helper()
	for _, tool := range []string{"sh", "od", "setsid", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s on this machine", tool)
		}
	}
	dir := t.TempDir()
	script := b.Shell(func(key string) string { return "echo x >>" + quote(filepath.Join(dir, key)) })
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "sh"}, b.Args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader([]byte(stdin))
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errb.String(), cmd.ProcessState.ExitCode()
}

func TestShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, c := range []struct {
		name        string
		b           Behaviour
		stdin       string
		env         []string
		out, errOut string
		code        int
	}{
		{"print", Do(Print("a%s\\n\n"), PrintErr("b\n"), Exit(3)), "", nil, "a%s\\n\n", "b\n", 3},
		{"any byte", Do(Step{Do: ActPrint, Data: every}), "", nil, string(every), "", 0},
		{"octal then digit", Do(Print("\x011234")), "", nil, "\x011234", "", 0},
		{"args", Behaviour{Steps: []Step{{Do: ActShowArgs}}, Args: []string{"", "-n", "a b", "\xff\n"}}, "", nil,
			"arg \narg 2d6e\narg 612062\narg ff0a\n", "", 0},
		{"env", Do(Step{Do: ActShowEnv, Name: "QQ"}, Step{Do: ActShowEnv, Name: "QE"}, Step{Do: ActShowEnv, Name: "QU"}), "", []string{"QQ=a b", "QE="},
			"env QQ 612062\nenv QE \nenv QU unset\n", "", 0},
		{"secret", Do(Step{Do: ActShowSecret, Name: "S1"}, Step{Do: ActShowSecret, Name: "S2"}), "", []string{"S1=xyz", "S2_FILE=" + file},
			"secret S1 " + sum("xyz") + "\nsecret S2 " + sum("abc") + "\n", "", 0},
		{"file", Do(Step{Do: ActShowFile, Name: file}, Step{Do: ActShowFile, Name: "/nowhere"}), "", nil,
			"file " + file + " " + sum("abc") + "\nfile /nowhere missing\n", "", 0},
		{"stdin", Do(Step{Do: ActCopyStdin}), "in\x00put", nil, "in\x00put", "", 0},
		{"lines", Do(Step{Do: ActLines, N: 3}, Step{Do: ActLongLine, N: 4}), "", nil, "line 0\nline 1\nline 2\nxxxx\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errOut, code := runShell(t, c.b, c.stdin, c.env...)
			if out != c.out || errOut != c.errOut || code != c.code {
				t.Errorf("got %q, %q, %d; want %q, %q, %d", out, errOut, code, c.out, c.errOut, c.code)
			}
		})
	}
}

func TestShellTerm(t *testing.T) {
	for _, c := range []struct {
		name string
		b    Behaviour
		out  string
		code int
	}{
		{"default", Do(Print("up\n"), Hang()), "", 143},
		{"handler", Do(Step{Do: ActOnTerm, Data: []byte("bye%d\n"), N: 7}, Print("up\n"), Hang()), "bye%d\n", 7},
		{"ignored", Do(Step{Do: ActIgnoreTerm}, Print("up\n"), Sleep(300*time.Millisecond), Exit(5)), "", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", c.b.Shell(nil), "sh")
			r, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			up := make([]byte, 3)
			if _, err := r.Read(up); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var rest bytes.Buffer
			_, _ = rest.ReadFrom(r)
			_ = cmd.Wait()
			if rest.String() != c.out || cmd.ProcessState.ExitCode() != c.code {
				t.Errorf("got %q, %d; want %q, %d", rest.String(), cmd.ProcessState.ExitCode(), c.out, c.code)
			}
		})
	}
}

// TestShellChildSignalled: a backend may signal all of a job's processes. The death of
// the child that the script waits with is nothing that the job shows.
func TestShellChildSignalled(t *testing.T) {
	// TERM is ignored, by the child too, so that KILL it is; a shell tells of both.
	script := Do(Step{Do: ActIgnoreTerm}, Print("up\n"), Sleep(time.Hour), Exit(5)).Shell(nil)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	children := fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid)
	for ended := false; !ended; {
		data, err := os.ReadFile(children)
		if err != nil {
			t.Skipf("the children of a process aren't to be seen: %v", err)
		}
		for _, child := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if ended = strings.HasPrefix(string(line), "sleep"); ended {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	_ = cmd.Wait()
	if out.String() != "up\n" || errs.String() != "" || cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("got %q, %q, %d", out.String(), errs.String(), cmd.ProcessState.ExitCode())
	}
}

func TestSecrets(t *testing.T) {
	var s Secrets
	ref := s.Set("A", []byte("v"))
	v, err := s.ResolveSecret(t.Context(), ref)
	if err != nil || string(v.Reveal()) != "v" {
		t.Errorf("got %q, %v", v.Reveal(), err)
	}
	if _, err := s.ResolveSecret(t.Context(), "secret://env/B"); !errors.Is(err, sdk.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}
