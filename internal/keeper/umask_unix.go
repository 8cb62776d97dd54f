//go:build unix

package keeper

import "syscall"

// privateUmask keeps files made from now on to this user, until restored.
func privateUmask() (restore func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}
