package joblog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// wholeSync returns syncfs(2) of the file system that dir is on. Kernels from
// 5.8 on report failed writes there.
func wholeSync(dir string) func() error {
	return func() error {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
	}
}
