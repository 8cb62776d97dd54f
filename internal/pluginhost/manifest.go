package pluginhost

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
)

// ManifestName is the file beside a plugin's program that tells who it is.
const ManifestName = plugin.ManifestFile

// maxManifest bounds that file, in bytes.
const maxManifest = 1 << 20

// Manifest says who a plugin is. A field that is empty was not told.
type Manifest struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Author      string `json:"author"`
	Description string `json:"description"`
	// Services are the gRPC services that its file says it serves: the live registry
	// decides.
	Services []string `json:"services"`
}

// ParseManifest reads plugin.json. The ecosystem's hosts look for more members, so
// unknown ones are left alone; the services stand at the top or under capabilities.
func ParseManifest(data []byte) (Manifest, error) {
	var m struct {
		Manifest
		IaCServices  []string `json:"iacServices"`
		Capabilities struct {
			IaCServices []string `json:"iacServices"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", ManifestName, err)
	}
	out := m.Manifest
	out.Services = append(m.IaCServices, m.Capabilities.IaCServices...)
	slices.Sort(out.Services)
	out.Services = slices.Compact(out.Services)
	return out, nil
}

// readManifest reads the file beside a program; a plugin may have none.
func readManifest(program string) (Manifest, error) {
	path := filepath.Join(filepath.Dir(program), ManifestName)
	data, err := readBounded(path, maxManifest)
	if os.IsNotExist(err) {
		return Manifest{}, nil
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(data)
	if err != nil {
		return Manifest{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read plugin", Err: fmt.Errorf("%s: %w", path, err)}
	}
	return m, nil
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, err
}
