//go:build !linux && !darwin

package proc

import (
	"fmt"
	"runtime"
)

func errSystem() error { return fmt.Errorf("processes can't be told apart on %s", runtime.GOOS) }

// BootID is an error.
func BootID() (string, error) { return "", errSystem() }

func namespace() string { return "" }

func stat(int) (status, error) { return status{}, errSystem() }
