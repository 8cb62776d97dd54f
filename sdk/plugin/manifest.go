package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// ManifestFile is the name of the manifest, beside the plugin's program.
const ManifestFile = "plugin.json"

// maxManifest bounds the manifest's length in bytes.
const maxManifest = 1 << 20

// Manifest says who a plugin is. It is a part of plugin.json, whose other members are
// for hosts.
type Manifest struct {
	// Name is also the name of the program and of its folder.
	Name    string `json:"name"`
	Version string `json:"version"`
	Author  string `json:"author"`
	// Description is one sentence.
	Description string `json:"description"`
}

// readManifest returns what stands in plugin.json of a folder. What it doesn't say comes
// from the build: the name is the kind, the version that of the main module.
func readManifest(dir, kind string) (Manifest, error) {
	file := filepath.Join(dir, ManifestFile)
	m, err := parseManifest(file)
	if err != nil {
		return Manifest{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read manifest", Err: fmt.Errorf("%s: %w", file, err)}
	}
	if m.Name == "" {
		m.Name = kind
	}
	if b, ok := debug.ReadBuildInfo(); ok && m.Version == "" && b.Main.Version != "(devel)" {
		m.Version = strings.TrimPrefix(b.Main.Version, "v")
	}
	return m, nil
}

// parseManifest reads a file; none is an empty one.
func parseManifest(file string) (Manifest, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Manifest{}, nil
	case err != nil:
		return Manifest{}, err
	case info.Size() > maxManifest:
		return Manifest{}, fmt.Errorf("has %d bytes, at most %d are read", info.Size(), maxManifest)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return Manifest{}, err
	}
	return m, nil
}
