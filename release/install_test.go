//go:build linux

package release

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// block is a block of code of docs/install.md:
//
//	<!-- run CODE: PATTERN -->       ends with CODE (0) and shows PATTERN
//	<!-- run docker: PATTERN -->     the same, with an engine
//	<!-- run source: PATTERN -->     the same, where the clone is this tree
//	<!-- file: NAME -->              a file, which another test uses
//	<!-- not run: REASON -->
var (
	block    = regexp.MustCompile("(?s)<!-- (file|run|not run)( docker| source)?( [0-9]+)?:? ?([^\n]*?) ?-->\n```[a-z]+\n(.*?)```\n")
	anyBlock = regexp.MustCompile("(?m)^```[a-z]+$")
)

// need ends a test that lacks something of the machine: where CI=true it has failed.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatal(what + " isn't there, and with CI=true that is a failure: run scripts/setup-test")
	default:
		t.Skip(what + " isn't there")
	}
}

// TestInstallPage does what docs/install.md says, one way after another, with the files
// of a release in a folder as if they had been downloaded.
func TestInstallPage(t *testing.T) {
	dir := dist(t)
	_, err := exec.LookPath("dpkg")
	need(t, err == nil, "dpkg")
	docker := exec.CommandContext(t.Context(), "docker", "version").Run() == nil
	need(t, docker && os.Getenv("WINDLASS_TEST_DOCKER") != "off", "a Docker engine")
	need(t, os.Geteuid() == 0, "root")
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	version := about(t, dir).Version
	image := "windlass:" + strings.ReplaceAll(version, "+", "-")

	work, home, system := t.TempDir(), t.TempDir(), t.TempDir()
	for name := range published(t, dir) {
		if err := os.Symlink(filepath.Join(dir, name), filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "SHA256SUMS"), filepath.Join(work, "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(system, "var/lib/dpkg/updates"), 0o755), os.Mkdir(filepath.Join(system, "var/lib/dpkg/info"), 0o755),
		os.WriteFile(filepath.Join(system, "var/lib/dpkg/status"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", image).Run() })

	// What the reader has and this machine mustn't be changed by: a system for packages,
	// and the way to the repository.
	prelude := "VERSION='" + version + "'" + `
set -euo pipefail
sudo() { "$@"; }
dpkg() { command dpkg --root="$SYSTEM" --log=/dev/null "$@"; }
git() { mkdir windlass && command git -C "$ROOT" archive HEAD | tar -x -C windlass; }
`
	text, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(text), -1)
	if all := len(anyBlock.FindAll(text, -1)); len(blocks) != all || all < 10 {
		t.Fatalf("%d of the page's %d blocks say what they are", len(blocks), all)
	}
	for _, b := range blocks {
		if b[1] != "run" {
			continue
		}
		words, want := b[5], 0
		if b[3] != "" {
			want, _ = strconv.Atoi(b[3][1:])
		}
		words = strings.NewReplacer("windlass:${VERSION}", image, "--image busybox", "--image busybox:local", "linux_amd64", "linux_"+runtime.GOARCH, "_amd64.deb", "_"+runtime.GOARCH+".deb").Replace(words)
		out, code := shell(t, work, prelude+words, "HOME="+home, "SYSTEM="+system, "ROOT="+root)
		if code != want {
			t.Fatalf("%s ends with %d, not %d:\n%s", words, code, want, out)
		}
		if !regexp.MustCompile(b[4]).MatchString(out) {
			t.Errorf("%s shows no %q:\n%s", words, b[4], out)
		}
		if strings.Contains(words, "dpkg -i") {
			installed(t, system, version)
		}
		if strings.Contains(words, "dpkg -r") {
			nothingOf(t, system)
		}
	}
	if out, code := shell(t, work, "exec ~/.local/bin/windlass version", "HOME="+home); code != 0 || !strings.Contains(out, "v"+version) {
		t.Errorf("windlass version shows %q, not v%s", out, version)
	}
}

// shell runs words, and returns both outputs and the code.
func shell(t *testing.T, dir, words string, env ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", words)
	cmd.Dir = dir
	// The reader has no settings of the tests.
	own := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "WINDLASS_") || strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "XDG_")
	})
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	places := strings.Fields(string(cache))
	cmd.Env = append(append(own, "GOCACHE="+places[0], "GOMODCACHE="+places[1]), env...)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// installed looks at what the package has brought into a system.
func installed(t *testing.T, system, version string) {
	t.Helper()
	for _, name := range []string{"usr/bin/windlass", "usr/share/man/man1/windlass.1.gz", "usr/share/man/man1/windlass-run.1.gz",
		"usr/share/bash-completion/completions/windlass", "usr/share/zsh/vendor-completions/_windlass", "usr/share/fish/vendor_completions.d/windlass.fish",
		"usr/share/doc/windlass/copyright", "usr/share/doc/windlass/changelog.gz", "usr/share/doc/windlass/NOTICE", "usr/share/doc/windlass/THIRD_PARTY_NOTICES.gz"} {
		info, err := os.Stat(filepath.Join(system, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if want := map[bool]os.FileMode{true: 0o755, false: 0o644}[name == "usr/bin/windlass"]; info.Mode() != want || info.Size() == 0 {
			t.Errorf("%s has the mode %s and %d bytes", name, info.Mode(), info.Size())
		}
	}
	if err := filepath.WalkDir(filepath.Join(system, "usr"), func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the folder %s has the mode %s (%v)", p, info.Mode(), err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	out, code := shell(t, system, `set -e
"$SYSTEM/usr/bin/windlass" version
"$SYSTEM/usr/bin/windlass" completion bash | cmp - "$SYSTEM/usr/share/bash-completion/completions/windlass"
command dpkg-query --admindir="$SYSTEM/var/lib/dpkg" -W -f '${db:Status-Abbrev}|${Architecture}|${Version}|${Maintainer}|${Section}\n' windlass`, "SYSTEM="+system)
	if code != 0 || !strings.Contains(out, "windlass v"+version) || !strings.Contains(out, "ii |"+runtime.GOARCH+"|") {
		t.Errorf("it ends with %d:\n%s", code, out)
	}
	copyright, err := os.ReadFile(filepath.Join(system, "usr/share/doc/windlass/copyright"))
	if err != nil || !bytes.Contains(copyright, []byte("\nLicense: Apache-2.0\n")) {
		t.Errorf("the copyright file isn't whole (%v)", err)
	}
}

// nothingOf looks that a removed package has left nothing.
func nothingOf(t *testing.T, system string) {
	t.Helper()
	if err := filepath.WalkDir(system, func(p string, d os.DirEntry, err error) error {
		if err == nil && !strings.HasPrefix(p, filepath.Join(system, "var/lib/dpkg")) && p != system && p != filepath.Join(system, "var") && p != filepath.Join(system, "var/lib") {
			t.Errorf("%s is left", p)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	list, err := filepath.Glob(filepath.Join(system, "var/lib/dpkg/info/windlass.*"))
	if err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// TestImageSettings: the image's program takes its configuration from the file and from
// the environment, keeps its ledger in a volume whoever owns that, and has no rights.
func TestImageSettings(t *testing.T) {
	dir := dist(t)
	need(t, exec.CommandContext(t.Context(), "docker", "version").Run() == nil && os.Getenv("WINDLASS_TEST_DOCKER") != "off", "a Docker engine")
	version := about(t, dir).Version
	image := "windlass:" + strings.ReplaceAll(version, "+", "-")
	if out, code := shell(t, dir, "docker load -i windlass_"+version+"_linux_"+runtime.GOARCH+".image.tar"); code != 0 || !strings.Contains(out, image) {
		t.Fatalf("docker load ends with %d: %s", code, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", image).Run() })

	config := t.TempDir()
	if err := errors.Join(os.Chmod(config, 0o755), //nolint:gosec // as a ConfigMap is
		os.WriteFile(filepath.Join(config, "windlass.yaml"), []byte("default_provider: scripted\nproviders:\n  scripted: {kind: fake}\n"), 0o644)); err != nil { //nolint:gosec // as a ConfigMap is
		t.Fatal(err)
	}
	volume := "windlass-release-" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	t.Cleanup(func() { _ = exec.Command("docker", "volume", "rm", "-f", volume).Run() })
	run := "docker run --rm --network none --read-only --tmpfs /tmp --cap-drop ALL -v " + config + ":/etc/windlass:ro -v " + volume + ":/var/lib/windlass "
	for _, test := range []struct {
		words, want string
		code        int
	}{
		{run + image + " config show", "scripted", 0},
		{run + "-e WINDLASS_DEFAULT_PROVIDER=docker " + image + " config show --origin", "WINDLASS_DEFAULT_PROVIDER", 0},
		{run + image + " provider ls", "scripted", 0},
		// The ledger of the one is there for the next.
		{run + "-e WINDLASS_ACTOR=first " + image + " run --name kept --image x -- true", "", 0},
		{run + image + " ps -a", "kept", 0},
		{run + image + " ledger verify", "", 0},
		// Another user, as some clusters give one, with a volume that is writable by all.
		{"docker run --rm --user 12345:0 --read-only --tmpfs /var/lib/windlass --tmpfs /tmp -v " + config + ":/etc/windlass:ro " + image + " run --image x -- true", "", 0},
		{"docker run --rm --user 0 " + image + " version", "windlass v" + version, 0},
		{run + image + " run --on local -- nothing-there", "nothing-there", 127},
	} {
		out, code := shell(t, dir, test.words)
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%s ends with %d, want %d and %q:\n%s", test.words, code, test.code, test.want, out)
		}
	}
}
