package pluginhost

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin"
)

// ManifestName is the file beside a plugin's program that tells who it is.
const ManifestName = plugin.ManifestFile

// Manifest says who a plugin is.
type Manifest = plugin.Manifest

// readManifest reads the file beside a program; a plugin may have none.
func readManifest(program string) (Manifest, error) {
	m, err := plugin.LoadManifest(filepath.Join(filepath.Dir(program), ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, nil
	}
	var e *sdk.Error
	if errors.As(err, &e) {
		e.ID, e.Remedy = ErrManifest, "mend the file, or remove it"
	}
	return m, err
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
