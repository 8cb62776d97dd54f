//go:build !linux

package docker

import "os"

// tmpfsBase returns nothing: where the engine runs in a machine of its own, a
// folder of this one that lives in memory is out of its reach.
func tmpfsBase() string { return "" }

// privateDir makes a folder that nobody else may look into.
func privateDir(dir string) error { return os.MkdirAll(dir, folderMode) }

// giveTo does nothing: file sharing with the engine's machine decides.
func giveTo(string, int) error { return nil }

// freeBytes can't be asked for: the engine's data lie in a machine of its own.
func freeBytes(string) (int64, bool) { return 0, false }
