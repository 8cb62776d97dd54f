//go:build !unix

package discover

import "io/fs"

// errNotDir is what the system says of a path below a file: here, that there is none.
var errNotDir = fs.ErrNotExist
