//go:build !linux

package keeper

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// socketPath is where a state directory's keeper listens: in the directory, or
// where that path is too long for a socket, in a private folder of the same
// user, named after it. TMPDIR plays no part, as two commands may differ in it.
func socketPath(stateDir string) (string, error) {
	p := filepath.Join(stateDir, "keeper.sock")
	if len(p) <= maxSocketPath {
		return p, nil
	}
	sum := sha256.Sum256([]byte(stateDir))
	dir := filepath.Join(sharedTemp(), fmt.Sprintf("windlass-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("keeper's socket: %w", err)
	}
	if err := checkPrivate(dir); err != nil {
		return "", err
	}
	p = filepath.Join(dir, hex.EncodeToString(sum[:8])+".sock")
	if len(p) > maxSocketPath {
		return "", &sdk.Error{Code: sdk.FailedPrecondition, Op: "keeper's socket", Remedy: "set WINDLASS_STATE to a shorter path",
			Err: fmt.Errorf("the path %s is longer than a socket's may be", p)}
	}
	return p, nil
}

func shortened(path string, use func(short string) error) error { return use(path) }
