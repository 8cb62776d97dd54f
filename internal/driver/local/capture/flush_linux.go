package capture

import (
	"os"

	"golang.org/x/sys/unix"
)

// startFlush asks the kernel to begin to write a range, and doesn't wait.
func startFlush(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}
