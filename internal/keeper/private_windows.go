package keeper

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// privateUmask does nothing: files take the folder's access rules.
func privateUmask() (restore func()) { return func() {} }

// sharedTemp is the profile's own folder.
func sharedTemp() string { return os.TempDir() }

// checkPrivate relies on the profile's own access rules.
func checkPrivate(string) error { return nil }

// detach makes a command's process outlive its parent and its console.
func detach(cmd *exec.Cmd) {
	const detachedProcess, newGroup = 0x8, 0x200
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: detachedProcess | newGroup}
}

// refused reports whether nobody listens at a socket that is there.
func refused(err error) bool { return errors.Is(err, syscall.Errno(10061)) } // WSAECONNREFUSED
