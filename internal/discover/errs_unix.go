//go:build unix

package discover

import "syscall"

// errNotDir is what the system says of a path below a file.
const errNotDir = syscall.ENOTDIR
