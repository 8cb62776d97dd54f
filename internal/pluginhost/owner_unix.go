//go:build unix

package pluginhost

import (
	"fmt"
	"os"
	"syscall"
)

// changeable says how others may change what stands at path; empty when they can't. A
// folder where only owners may replace files, such as /tmp, protects them.
func changeable(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "can't be looked at: " + err.Error()
	}
	others := os.FileMode(0o022)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if st.Uid != 0 && int64(st.Uid) != int64(os.Geteuid()) {
			return fmt.Sprintf("belongs to user %d", st.Uid)
		}
		if int64(st.Gid) == int64(os.Getegid()) {
			others = 0o002 // the group is this user's own on most systems, and so is its umask
		}
	}
	sticky := info.IsDir() && info.Mode()&os.ModeSticky != 0
	if mode := info.Mode().Perm(); mode&others != 0 && !sticky {
		return fmt.Sprintf("may be written by others (mode %04o)", mode)
	}
	return ""
}
