//go:build unix

package pluginhost_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
)

// header is a program for another machine, as far as it is looked at.
func header(t *testing.T, m elf.Machine) []byte {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(m), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestVerify: each reason why a program isn't started has its own name, and says what to
// do about this very one.
func TestVerify(t *testing.T) {
	other, named := elf.EM_AARCH64, "arm64"
	if runtime.GOARCH == "arm64" {
		other, named = elf.EM_X86_64, "amd64"
	}
	script := []byte("#!/bin/sh\nexit 1\n")
	for name, c := range map[string]struct {
		program  []byte
		mode     os.FileMode
		manifest string
		inFolder bool
		id       string
		words    []string
	}{
		"an entry without a program":  {id: pluginhost.ErrNoProgram, words: []string{"no program", "mend plugins.mine.path"}},
		"a folder without a program":  {inFolder: true, id: pluginhost.ErrNoProgram, words: []string{"has no program mine", "remove the folder"}},
		"a program that can't be run": {program: script, mode: 0o600, id: pluginhost.ErrNoProgram, words: []string{"may not be executed", "chmod +x"}},
		"another architecture":        {program: header(t, other), mode: 0o700, id: pluginhost.ErrPlatform, words: []string{"is built for", named, "this is " + runtime.GOOS + "/" + runtime.GOARCH}},
		"a damaged manifest":          {program: script, mode: 0o700, manifest: `{"name":`, id: pluginhost.ErrManifest, words: []string{"plugin.json", "mend the file"}},
		"a script":                    {program: script, mode: 0o700},
	} {
		t.Run(name, func(t *testing.T) {
			p := config.Plugin{Name: "mine", Path: filepath.Join(t.TempDir(), "mine"), InFolder: c.inFolder}
			if c.program != nil {
				if err := os.WriteFile(p.Path, c.program, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			if c.manifest != "" {
				if err := os.WriteFile(filepath.Join(filepath.Dir(p.Path), pluginhost.ManifestName), []byte(c.manifest), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := pluginhost.Look(p).Err
			if c.id == "" {
				if err != nil {
					t.Errorf("%v", err)
				}
				return
			}
			var e *sdk.Error
			if !errors.As(err, &e) || e.ID != c.id {
				t.Fatalf("%v, want %s", err, c.id)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v lacks %q", err, w)
				}
			}
		})
	}
}
