package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// ManifestFile is the name of the manifest, beside the plugin's program.
const ManifestFile = "plugin.json"

// maxManifest bounds the manifest's length in bytes.
const maxManifest = 1 << 20

// Manifest says who a plugin is, as plugin.json has it. A field that is empty was not
// told.
type Manifest struct {
	// Name is also the name of the program and of its folder.
	Name    string `json:"name"`
	Version string `json:"version"`
	Author  string `json:"author"`
	// Description is one sentence.
	Description string `json:"description"`
	// Services are the gRPC services that the file says the plugin serves, sorted, each
	// once: the live registry decides.
	Services []string `json:"services"`
}

// ParseManifest reads plugin.json. The ecosystem's hosts look for more members, so
// unknown ones are left alone; the services stand at the top or under capabilities, as
// iacServices.
func ParseManifest(data []byte) (Manifest, error) {
	var m struct {
		Manifest
		// Services isn't the file's word for them.
		Services    json.RawMessage `json:"services"`
		IaCServices []string        `json:"iacServices"`

		Capabilities struct {
			IaCServices []string `json:"iacServices"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, err
	}
	out := m.Manifest
	out.Services = append(m.IaCServices, m.Capabilities.IaCServices...)
	slices.Sort(out.Services)
	out.Services = slices.Compact(out.Services)
	return out, nil
}

// LoadManifest reads a file, of at most 1 MiB. One that isn't there is fs.ErrNotExist;
// one that is damaged is InvalidArgument.
func LoadManifest(file string) (Manifest, error) {
	f, err := os.Open(file)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if len(data) > maxManifest {
		err = fmt.Errorf("is larger than %d bytes", maxManifest)
	} else {
		m, err = ParseManifest(data)
	}
	if err != nil {
		return Manifest{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read manifest", Err: fmt.Errorf("%s: %w", file, err)}
	}
	return m, nil
}

// readManifest returns what stands in plugin.json of a folder. What it doesn't say comes
// from the build: the name is the kind, the version that of the main module.
func readManifest(dir, kind string) (Manifest, error) {
	m, err := LoadManifest(filepath.Join(dir, ManifestFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, err
	}
	if m.Name == "" {
		m.Name = kind
	}
	if b, ok := debug.ReadBuildInfo(); ok && m.Version == "" && b.Main.Version != "(devel)" {
		m.Version = strings.TrimPrefix(b.Main.Version, "v")
	}
	return m, nil
}
