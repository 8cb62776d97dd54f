package keeper

import (
	"fmt"
	"os"
	"path/filepath"
)

// socketPath is where a state directory's keeper listens.
func socketPath(stateDir string) (string, error) { return filepath.Join(stateDir, "keeper.sock"), nil }

// shortened calls use with a path of the same file that fits into a socket's
// address: a longer one goes through the open folder.
func shortened(path string, use func(short string) error) error {
	if len(path) <= maxSocketPath {
		return use(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
