//go:build linux

package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// A page that runs says above each block of code what it is:
//
//	<!-- file: NAME -->        the block is a file in the reader's folder
//	<!-- run CODE: PATTERN --> commands, which end with CODE (0) and show PATTERN
//	<!-- up: PATTERN -->       a command of a second terminal, there once it shows PATTERN
//
// With `docker` behind run the page has a Docker engine with the tests' image.
var (
	pageBlock = regexp.MustCompile("(?s)<!-- (file|run|up)( docker)?( [0-9]+)?:? ?([^\n]*?) ?-->\n```[a-z]+\n(.*?)```\n")
	anyBlock  = regexp.MustCompile("(?m)^```[a-z]+$")
)

// TestPages does what the tutorial and the how-tos say, word by word, and looks for
// what they say is shown.
func TestPages(t *testing.T) {
	pages := map[string]string{}
	read := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "```") { // else there is nothing to do
			pages[path] = string(text)
		}
		return err
	}
	err := errors.Join(filepath.WalkDir("../../docs/tutorial.md", read), filepath.WalkDir("../../docs/how-to", read))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for path, text := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			newProgram(t, "on").doesPage(text)
		})
	}
}

// doesPage does what a page's blocks say, one after another.
func (p *program) doesPage(text string) {
	p.t.Helper()
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "windlass")); err != nil {
		p.t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH"))
	blocks := pageBlock.FindAllStringSubmatch(text, -1)
	if all := len(anyBlock.FindAllString(text, -1)); len(blocks) != all || all == 0 {
		p.t.Fatalf("%d of the page's %d blocks say what they are", len(blocks), all)
	}
	onDocker := strings.Contains(text, "<!-- run docker")
	if onDocker {
		p.env = append(p.env, "DOCKER_HOST="+testneed.Docker(p.t))
	}
	for _, b := range blocks {
		kind, code, arg, block := b[1], 0, b[4], b[5]
		if b[3] != "" {
			var err error
			if code, err = strconv.Atoi(b[3][1:]); err != nil {
				p.t.Fatal(err)
			}
		}
		if onDocker { // an engine of the tests has no other
			block = strings.ReplaceAll(block, "image: busybox\n", "image: "+testneed.Image+"\n")
		}
		switch kind {
		case "file":
			p.write(arg, block)
		case "up":
			p.secondTerminal(block, arg)
		default:
			cmd := p.shell("set -e\n" + block)
			out, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == code {
				err = nil
			} else if err == nil && code != 0 {
				err = errors.New("ends with 0")
			}
			if err != nil {
				p.t.Fatalf("%s: %v\n%s", block, err, out)
			}
			if !regexp.MustCompile(arg).Match(out) {
				p.t.Errorf("%s shows no %q:\n%s", block, arg, out)
			}
		}
	}
	p.dismiss()
}

// secondTerminal runs a command until the test's end, and returns once a line of it
// shows a pattern.
func (p *program) secondTerminal(block, pattern string) {
	p.t.Helper()
	cmd := p.shell("exec " + block)
	var errs lockedBuffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("%s: %v: %s", block, err, errs.String())
		}
	})
	seen, lines := regexp.MustCompile(pattern), bufio.NewScanner(out)
	for lines.Scan() {
		if seen.Match(lines.Bytes()) {
			return
		}
	}
	p.t.Fatalf("%s ended without %q: %s", block, pattern, errs.String())
}
