//go:build unix

package config

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const checksModes = true

func ownerOf(info fs.FileInfo) (uint32, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}

// writable reports whether this process may make files in a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }

// notMine names the owner of a file that isn't this user's, else nothing.
func notMine(info fs.FileInfo) string {
	uid, ok := ownerOf(info)
	if !ok || int(uid) == os.Geteuid() {
		return ""
	}
	return userName(uid)
}

// stranger names the owner of a config file that nobody here vouches for: it
// is not this user's, not root's, and not of whoever owns the working folder.
func stranger(info fs.FileInfo, dir string) string {
	uid, ok := ownerOf(info)
	if !ok || int(uid) == os.Geteuid() || uid == 0 {
		return ""
	}
	if d, err := os.Stat(dir); err == nil {
		if owner, ok := ownerOf(d); ok && owner == uid {
			return ""
		}
	}
	return userName(uid)
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return "user " + u.Username
	}
	return "user " + id
}
