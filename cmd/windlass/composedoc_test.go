//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestComposeExample does what examples/compose/README.md says, word by word, on an
// engine without a registry.
func TestComposeExample(t *testing.T) {
	t.Parallel()
	host, compose := testneed.Docker(t), testneed.Compose(t)
	p := newProgram(t, "off")
	const example = "examples/compose"
	readme, err := os.ReadFile(filepath.Join("../..", example, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	root, bin := p.dir, filepath.Join(p.dir, "bin")
	err = errors.Join(os.CopyFS(filepath.Join(p.dir, example), os.DirFS(filepath.Join("../..", example))), os.Mkdir(bin, 0o700),
		os.Symlink(os.Args[0], filepath.Join(bin, "windlass")), os.Symlink(compose, filepath.Join(bin, "docker-compose")),
		os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\nshift\nexec docker-compose \"$@\"\n"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH"), "DOCKER_HOST="+host, "IMAGE="+testneed.Image)
	down := func() {
		cmd := exec.CommandContext(context.Background(), compose, "--project-directory", example, "down", "--timeout", "0")
		cmd.Dir, cmd.Env = root, p.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	}
	down() // what a killed test left
	t.Cleanup(down)
	shows := map[string]string{"svc ls": `shop/web .*stopped`, "svc exec": `^debug\n`, "svc logs": `serving as debug`, "ledger log": `svc\.scale`}
	said := 0
	for _, m := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(string(readme), -1) {
		line := m[1]
		if dir, ok := strings.CutPrefix(line, "cd "); ok {
			p.dir = filepath.Join(p.dir, dir)
			continue
		}
		out, err := p.shell(line).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		for cmd, want := range shows {
			if strings.HasPrefix(line, "windlass "+cmd) {
				if said++; !regexp.MustCompile(want).Match(out) {
					t.Errorf("%s shows no %q:\n%s", line, want, out)
				}
			}
		}
	}
	if said != len(shows) {
		t.Errorf("%d of %d commands were there", said, len(shows))
	}
}
