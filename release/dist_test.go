// Package release holds what makes and checks releases, apart from the program's own
// module: image writes the container image, and the tests here look at what
// scripts/release has made.
package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// distEnv names the folder that scripts/release has filled, otherEnv one that it has
// filled from a clone in another place.
const (
	distEnv  = "WINDLASS_RELEASE_DIST"
	otherEnv = "WINDLASS_RELEASE_OTHER"
)

// dist is the folder with a release.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(distEnv)
	if dir == "" {
		t.Skip("needs a release: scripts/release-test makes one and sets " + distEnv)
	}
	return dir
}

// metadata is what goreleaser says of a release.
type metadata struct{ Version, Commit string }

func about(t *testing.T, dir string) (m metadata) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil || m.Version == "" {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// published are the files of a release, by name, as its own sums list them.
func published(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || sums[name] != "" {
			t.Fatalf("SHA256SUMS: %q", line)
		}
		sums[name] = sum
	}
	return sums
}

// targets are those that a release was made for.
func targets(t *testing.T, sums map[string]string) (all []string) {
	t.Helper()
	for name := range sums {
		base, sbom := strings.CutSuffix(name, ".cdx.json")
		if parts := strings.Split(base, "_"); sbom && len(parts) == 4 {
			all = append(all, parts[2]+"_"+parts[3])
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		t.Fatalf("no target has an SBOM: %v", sums)
	}
	return all
}

// TestSums: the sums are right, and list each file that a release has to have, for each
// target.
func TestSums(t *testing.T) {
	dir := dist(t)
	sums, version := published(t, dir), about(t, dir).Version
	for name, want := range sums {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != want {
			t.Errorf("%s has the sum %s, not %s", name, got, want)
		}
	}
	all, n := targets(t, sums), 0
	if len(all) != 1 && !slices.Equal(all, []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64", "windows_arm64"}) {
		t.Errorf("it is for %v", all)
	}
	for _, target := range all {
		base := "windlass_" + version + "_"
		want := []string{base + target + ".tar.gz", base + target + ".cdx.json"}
		switch goos, arch, _ := strings.Cut(target, "_"); goos {
		case "windows":
			want[0] = base + target + ".zip"
		case "linux":
			want = append(want, base+target+".image.tar", base+arch+".deb")
		}
		for _, name := range want {
			n++
			if sums[name] == "" {
				t.Errorf("%s isn't in the sums", name)
			}
		}
	}
	if n != len(sums) {
		t.Errorf("the sums list %d files, and a release has %d: %v", len(sums), n, sums)
	}
}

// TestReproducible: a clone in another folder makes the same bytes.
func TestReproducible(t *testing.T) {
	dir, other := dist(t), os.Getenv(otherEnv)
	if other == "" {
		t.Skip("needs the same release of another folder: scripts/release-test --twice makes one and sets " + otherEnv)
	}
	one, two := published(t, dir), published(t, other)
	for name, sum := range one {
		if two[name] != sum {
			t.Errorf("%s has the sum %s in one folder and %s in another", name, sum, two[name])
		}
	}
	if len(one) != len(two) {
		t.Errorf("%d files in one folder, %d in another", len(one), len(two))
	}
}

// entry is a file of an archive.
type entry struct {
	mode  os.FileMode
	owner string
	time  time.Time
	data  []byte
}

// unpacked are the files of a tar or zip.
func unpacked(t *testing.T, file string) map[string]entry {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]entry{}
	if strings.HasSuffix(file, ".zip") {
		in, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range in.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			all[f.Name] = entry{f.Mode(), "root:root", f.Modified, data}
		}
		return all
	}
	packed, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !packed.ModTime.IsZero() || packed.Name != "" {
		t.Errorf("%s bears the time %s and the name %q", file, packed.ModTime, packed.Name)
	}
	for in := tar.NewReader(packed); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = entry{h.FileInfo().Mode(), h.Uname + ":" + h.Gname, h.ModTime, data}
	}
}

// TestArchives: each has the program, built for its target without cgo and without a
// place of this machine, its licences, manual pages and completions, all of the
// commit's time and nobody's in particular.
func TestArchives(t *testing.T) {
	dir := dist(t)
	sums, m := published(t, dir), about(t, dir)
	at := commitTime(t, m.Commit)
	for _, target := range targets(t, sums) {
		t.Run(target, func(t *testing.T) {
			top, ext, bin := "windlass_"+m.Version+"_"+target, ".tar.gz", "windlass"
			if strings.HasPrefix(target, "windows") {
				ext, bin = ".zip", "windlass.exe"
			}
			files := unpacked(t, filepath.Join(dir, top+ext))
			for _, name := range []string{bin, "LICENSE", "NOTICE", "THIRD_PARTY_NOTICES", "man/windlass.1.gz", "man/windlass-run.1.gz",
				"completions/windlass.bash", "completions/windlass.zsh", "completions/windlass.fish", "completions/windlass.ps1"} {
				if f, ok := files[top+"/"+name]; !ok || len(f.data) == 0 {
					t.Errorf("%s isn't there, or is empty", name)
				}
			}
			for name, f := range files {
				if !f.time.Equal(at) || f.owner != "root:root" || f.mode.Perm() != 0o644 && filepath.Base(name) != bin {
					t.Errorf("%s: mode %s, of %s, at %s; the commit was at %s", name, f.mode, f.owner, f.time, at)
				}
			}
			program := files[top+"/"+bin]
			if program.mode.Perm() != 0o755 {
				t.Errorf("the program's mode is %s", program.mode)
			}
			info, err := buildinfo.Read(bytes.NewReader(program.data))
			if err != nil {
				t.Fatal(err)
			}
			set := map[string]string{}
			for _, s := range info.Settings {
				set[s.Key] = s.Value
			}
			if set["GOOS"]+"_"+set["GOARCH"] != target || set["CGO_ENABLED"] != "0" || set["-trimpath"] != "true" || set["vcs.revision"] != m.Commit {
				t.Errorf("it was built with %v", set)
			}
			if home, err := os.UserHomeDir(); err == nil && len(home) > 5 && bytes.Contains(program.data, []byte(home+"/")) {
				t.Errorf("the program names %s", home)
			}
			if strings.HasPrefix(target, "linux") {
				static(t, program.data)
			}
			materials(t, filepath.Join(dir, top+".cdx.json"), info.Deps, m.Version)
		})
	}
}

// commitTime is when a commit was made.
func commitTime(t *testing.T, commit string) time.Time {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "show", "-s", "--format=%cI", commit).Output()
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// static looks that a program needs nothing of the system to start.
func static(t *testing.T, program []byte) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is linked to the system's libraries: it has a %s", p.Type)
		}
	}
}

// materials looks that an SBOM names each module that is in the program, and the version.
func materials(t *testing.T, file string, modules []*debug.Module, version string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BomFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; bom.BomFormat != "CycloneDX" || c.Name != "github.com/windlass-run/windlass" || c.Version != "v"+version {
		t.Errorf("%s is of %+v in the format %s", file, c, bom.BomFormat)
	}
	named := map[string]bool{}
	for _, c := range bom.Components {
		named[c.Name+"@"+c.Version] = true
	}
	if !named["std@"+runtime.Version()] {
		t.Errorf("%s doesn't name Go's library, %s", file, runtime.Version())
	}
	for _, d := range modules {
		if d.Replace != nil {
			d = d.Replace
		}
		if !named[d.Path+"@"+d.Version] {
			t.Errorf("%s doesn't name %s %s", file, d.Path, d.Version)
		}
	}
}
