//go:build !linux

package attempt

import "os"

func allocate(h *os.File, size int64) error {
	_, err := h.WriteAt(make([]byte, size), 0)
	return err
}
