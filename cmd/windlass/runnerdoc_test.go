//go:build linux

package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

var docBlock = regexp.MustCompile("(?s)<!-- (run|serve|call|file: [a-z.]+) -->\n```[a-z]+\n(.*?)```\n")

// TestRunnerPage does what docs/runner.md says, word by word, but for the port.
func TestRunnerPage(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	host := testneed.Docker(t)
	testneed.Program(t, "openssl")
	page, err := os.ReadFile("../../docs/runner.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "windlass")); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "DOCKER_HOST="+host, "PATH="+bin+":"+os.Getenv("PATH"))
	port := "0" // until the server has said which it took
	var did []string
	for _, m := range docBlock.FindAllStringSubmatch(string(page), -1) {
		kind, text := m[1], strings.ReplaceAll(m[2], ":7443", ":"+port)
		did = append(did, kind)
		switch name, isFile := strings.CutPrefix(kind, "file: "); {
		case isFile:
			if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case kind == "run":
			if out, err := p.shell(text).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		case kind == "serve":
			cmd := p.shell(strings.Replace(text, "windlass runner", "exec windlass runner", 1))
			var out, errs lockedBuffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("%v: %s", err, errs.String())
				}
			})
			_, port, err = net.SplitHostPort(awaitRunner(t, &out, &errs))
			if err != nil {
				t.Fatal(err)
			}
		default:
			cmd := p.shell(text)
			var errs lockedBuffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil || !strings.HasPrefix(string(out), "hello from ") || !strings.HasSuffix(string(out), "21\n") {
				t.Errorf("%v: %q, %s", err, out, errs.String())
			}
		}
	}
	if got := strings.Join(did, ", "); got != "run, file: clients.yaml, serve, file: windlass.yaml, file: greet.yaml, call" {
		t.Errorf("did %s", got)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"actor": "ci"`) {
		t.Errorf("exit %d: %s", code, out)
	}
}

// shell is bash with a script, in the program's folder.
func (p *program) shell(script string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}
