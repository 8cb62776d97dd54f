package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// tmpfsMagic is statfs(2)'s type of a tmpfs.
const tmpfsMagic = 0x01021994

// tmpfsBase returns the folder below which secrets may lie, on a file system
// that lives in memory; empty where this machine has none. The folder need not
// exist yet.
func tmpfsBase() string {
	uid := strconv.Itoa(os.Geteuid())
	// /run/user is emptied when its user logs out, while a job may go on.
	places := []string{"/dev/shm/windlass-" + uid, "/run/user/" + uid + "/windlass"}
	if uid == "0" {
		places = []string{"/run/windlass", "/dev/shm/windlass-0"}
	}
	for _, p := range places {
		var st syscall.Statfs_t
		if syscall.Statfs(filepath.Dir(p), &st) != nil || int64(st.Type) != tmpfsMagic {
			continue
		}
		return p
	}
	return ""
}

// privateDir makes a folder that nobody else may look into, and refuses one
// that somebody else made.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder of mode 0700 of this user", dir)
	}
	return nil
}

// giveTo makes a file the container user's own, where this process may.
func giveTo(file string, uid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(file, uid, -1)
}

// freeBytes returns the space that is left under a folder; ok is false where it
// can't be seen.
func freeBytes(dir string) (int64, bool) {
	var st syscall.Statfs_t
	if dir == "" || syscall.Statfs(dir, &st) != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true
}
