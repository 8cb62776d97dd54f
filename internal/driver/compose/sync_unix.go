//go:build unix

package compose

import (
	"errors"
	"os"
)

// syncFolder makes a rename in a folder durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
