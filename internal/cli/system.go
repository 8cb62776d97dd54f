package cli

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/windlass-run/windlass/sdk"
)

// IDs of what this machine itself refuses.
const (
	idFile    = "system.file"
	idNetwork = "system.network"
)

// systemError names an error of this machine's own, which has no class otherwise: of
// a file, or of an address. It is empty for any other.
func systemError(err error) (id string, code sdk.Code) {
	var (
		op      *net.OpError
		address *net.AddrError
		name    *net.DNSError
		path    *fs.PathError
		link    *os.LinkError
		call    *os.SyscallError
		number  syscall.Errno
	)
	switch {
	case errors.As(err, &op), errors.As(err, &address), errors.As(err, &name):
		id = idNetwork
	case errors.As(err, &path), errors.As(err, &link), errors.As(err, &call), errors.As(err, &number):
		id = idFile
	default:
		return "", 0
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, sdk.NotFound
	case errors.Is(err, fs.ErrPermission):
		return id, sdk.PermissionDenied
	case errors.Is(err, syscall.ENOSPC):
		return id, sdk.ResourceExhausted
	}
	return id, sdk.FailedPrecondition
}

// systemEntries explains them.
func systemEntries() []Entry {
	return []Entry{
		{idFile, "A file or folder can't be used.",
			"This machine refused to read, write or make it: it isn't there, its rights don't allow it, the disk is full, or a folder stands where a file should.",
			"Mend what the message names, or name another path."},
		{idNetwork, "An address can't be used.",
			"This machine refused to listen there or to connect: another program has the port, the address isn't this machine's, or its name can't be found.",
			"Name another address or port, or end the program that has it."},
	}
}
