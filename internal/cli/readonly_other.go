//go:build !unix

package cli

import "io/fs"

// errReadOnly is what the system says of a file system that can't be written to: here,
// that it isn't permitted.
var errReadOnly = fs.ErrPermission
