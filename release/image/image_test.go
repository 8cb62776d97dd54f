package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// built is a small program of Go for a target.
func built(t *testing.T, target ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", "program", ".")
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOFLAGS=", "GOWORK=off"), target...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "program")
}

// written runs the command, which must end with 0, and returns the tar.
func written(t *testing.T, more ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "x.tar")
	var errs bytes.Buffer
	args := append([]string{"-version", "v1.2.3+x", "-revision", "abc", "-time", "2026-11-29T05:00:00+02:00", "-o", out}, more...)
	if code := run(args, &errs); code != 0 {
		t.Fatalf("ended with %d: %s", code, errs.String())
	}
	return out
}

// entries are a tar's, by name.
func entries(t *testing.T, r io.Reader) (heads map[string]*tar.Header, data map[string][]byte) {
	t.Helper()
	heads, data = map[string]*tar.Header{}, map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return heads, data
		}
		if err != nil {
			t.Fatal(err)
		}
		if heads[h.Name] != nil {
			t.Errorf("%s stands twice", h.Name)
		}
		heads[h.Name] = h
		if data[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage: an engine can load it, it has what the program needs and starts it as
// nobody, and the same arguments make the same bytes.
func TestImage(t *testing.T) {
	notices := filepath.Join(t.TempDir(), "NOTICE")
	if err := os.WriteFile(notices, []byte("thanks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	prog := built(t, "GOOS=linux", "CGO_ENABLED=0")
	first, second := written(t, prog, notices), written(t, prog, notices)
	one, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(second); err != nil || !bytes.Equal(one, two) {
		t.Errorf("two tars of the same program differ (%v)", err)
	}

	// As docker load reads it.
	img, err := tarball.ImageFromPath(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if file.Architecture != runtime.GOARCH || file.OS != "linux" || c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/windlass"}) ||
		!slices.Contains(c.Env, "WINDLASS_KEEPER=off") || c.Labels["org.opencontainers.image.version"] != "v1.2.3+x" || c.Labels["org.opencontainers.image.created"] != "2026-11-29T03:00:00Z" {
		t.Errorf("its config is %+v", file)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	heads, data := entries(t, r)
	for name, want := range map[string]struct {
		mode  int64
		owner int
	}{
		"usr/": {0o755, 0}, "usr/bin/": {0o755, 0}, "usr/bin/windlass": {0o755, 0}, "usr/share/doc/windlass/NOTICE": {0o644, 0},
		"home/windlass/": {0o755, user}, "var/lib/windlass/": {0o1777, user}, "tmp/": {0o1777, 0}, "etc/passwd": {0o644, 0},
	} {
		if h := heads[name]; h == nil || h.Mode != want.mode || h.Uid != want.owner || h.Gid != want.owner || h.ModTime.Unix() != file.Created.Unix() {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if text, err := os.ReadFile(prog); err != nil || !bytes.Equal(text, data["usr/bin/windlass"]) {
		t.Errorf("the program isn't the one that was given (%v)", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("it has no authorities")
	}
	if n := strings.Count(string(data["etc/ssl/certs/ca-certificates.crt"]), "BEGIN CERTIFICATE"); n < 80 {
		t.Errorf("it has %d authorities", n)
	}

	// As containerd reads it.
	_, parts := entries(t, bytes.NewReader(one))
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(parts["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v: %s", err, parts["index.json"])
	}
	m := index.Manifests[0]
	if parts["blobs/"+strings.Replace(m.Digest, ":", "/", 1)] == nil || m.Annotations["io.containerd.image.name"] != "docker.io/library/windlass:1.2.3-x" || parts["oci-layout"] == nil {
		t.Errorf("the layout is %s", parts["index.json"])
	}
}

// TestRefused: what couldn't start is no image, and nothing of it stays.
func TestRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no program":          {[]string{"-version", "v1", "-time", "2026-11-29T05:00:00Z"}, "usage"},
		"no time":             {[]string{"-version", "v1", text}, "usage"},
		"another system's":    {[]string{"-version", "v1", "-time", "2026-11-29T05:00:00Z", built(t, "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")}, "an image needs linux"},
		"text":                {[]string{"-version", "v1", "-time", "2026-11-29T05:00:00Z", text}, text},
		"a document is wrong": {[]string{"-version", "v1", "-time", "2026-11-29T05:00:00Z", built(t, "GOOS=linux", "CGO_ENABLED=0"), text + "?"}, text + "?"},
		"unknown flag":        {[]string{"-x"}, "-x"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var errs bytes.Buffer
			if code := run(append([]string{"-o", filepath.Join(dir, "x.tar")}, test.args...), &errs); code == 0 || !strings.Contains(errs.String(), test.want) {
				t.Errorf("ended with %d: %s", code, errs.String())
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
	if _, err := exec.LookPath("gcc"); err == nil {
		var errs bytes.Buffer
		cgo := built(t, "GOOS=linux", "CGO_ENABLED=1")
		if code := run([]string{"-version", "v1", "-time", "2026-11-29T05:00:00Z", "-o", filepath.Join(t.TempDir(), "x"), cgo}, &errs); code != 1 || !strings.Contains(errs.String(), "CGO_ENABLED=0") {
			t.Errorf("ended with %d: %s", code, errs.String())
		}
	}
}
