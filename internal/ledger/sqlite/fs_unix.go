//go:build linux || darwin

package sqlite

import (
	"errors"
	"os"
)

func syncDirFile(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
