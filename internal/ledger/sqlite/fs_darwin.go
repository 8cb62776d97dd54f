package sqlite

import (
	"strings"

	"golang.org/x/sys/unix"
)

// networkFS returns the name of the network file system on which dir lies, or
// nothing when it lies on none.
func networkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	name := unix.ByteSliceToString(st.Fstypename[:])
	if st.Flags&unix.MNT_LOCAL != 0 && !strings.Contains(name, "sshfs") {
		return "", nil
	}
	return name, nil
}

// freeBytes is how much an unprivileged user may still write below dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func syncDir(dir string) error { return syncDirFile(dir) }
