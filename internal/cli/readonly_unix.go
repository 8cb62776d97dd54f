//go:build unix

package cli

import "syscall"

// errReadOnly is what the system says of a file system that can't be written to.
const errReadOnly = syscall.EROFS
