package local

import (
	"crypto/sha256"
	"encoding/hex"
	"os"

	"golang.org/x/sys/unix"
)

// machine names this machine.
func machine() string {
	if id, err := unix.Sysctl("kern.uuid"); err == nil && id != "" {
		sum := sha256.Sum256([]byte("windlass local " + id))
		return hex.EncodeToString(sum[:8])
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
