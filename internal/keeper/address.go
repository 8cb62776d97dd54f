package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// maxSocketPath is the shortest limit of the systems that we know for the path
// of a unix socket (macOS: 104 bytes with the final zero).
const maxSocketPath = 100

// socketPath is where a state directory's keeper listens: in the directory, or
// where that path is too long for a socket, in a private folder of the same
// user, named after it.
func socketPath(stateDir string) (string, error) {
	p := filepath.Join(stateDir, "keeper.sock")
	if len(p) <= maxSocketPath {
		return p, nil
	}
	sum := sha256.Sum256([]byte(stateDir))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("windlass-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("keeper's socket: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return "", err
	}
	p = filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock")
	if len(p) > maxSocketPath {
		return "", &sdk.Error{Code: sdk.FailedPrecondition, Op: "keeper's socket", Remedy: "set WINDLASS_STATE or TMPDIR to a shorter path",
			Err: fmt.Errorf("the path %s is longer than a socket's may be", p)}
	}
	return p, nil
}

func lockPath(stateDir string) string { return filepath.Join(stateDir, "keeper.lock") }

// logPath is where a keeper writes what it has to say.
func logPath(stateDir string) string { return filepath.Join(stateDir, "keeper.log") }
