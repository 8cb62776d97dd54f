//go:build !failpoint

// Package failpoint stops a process at a named boundary, so that tests can
// kill it there. Without the build tag failpoint every call is empty and
// costs nothing.
package failpoint

// Enabled reports whether the program was built with failpoints.
const Enabled = false

// Hit marks a boundary.
func Hit(string) {}

// Environ returns the variables that arm a child process's boundaries, for
// children that inherit nothing: here none, but for the race detector's own
// settings where the program was built with it.
func Environ() []string { return raceEnviron() }
