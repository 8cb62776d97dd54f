package sqlite

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// remoteFS names file systems by the type that statfs gives, from
// linux/magic.h and the drivers' sources.
func remoteFS(kind int64) string {
	switch uint32(kind) {
	case 0x6969:
		return "nfs"
	case 0x517b, 0xff534d42, 0xfe534d42:
		return "smb"
	case 0x01021997:
		return "9p"
	case 0x5346414f, 0x6b414653:
		return "afs"
	case 0x73757245:
		return "coda"
	case 0x00c36400:
		return "ceph"
	case 0x0bd00bd0:
		return "lustre"
	case 0x47504653:
		return "gpfs"
	case 0x7461636f:
		return "ocfs2"
	case 0x01161970:
		return "gfs2"
	case 0x19830326:
		return "beegfs"
	case 0x786f4256:
		return "vboxsf"
	case 0xbacbacbc:
		return "vmhgfs"
	}
	return ""
}

const fuseMagic = 0x65735546

// remoteFUSE are kinds of FUSE file systems whose files lie elsewhere; others
// (encrypting ones, ntfs-3g) lie on a disk of this machine.
var remoteFUSE = []string{"sshfs", "s3fs", "gcsfuse", "rclone", "glusterfs", "ceph", "davfs", "curlftpfs", "goofys", "mountpoint-s3",
	"juicefs", "blobfuse", "smbnetfs", "gvfsd", "vmhgfs", "prl_fsd", "grpcfuse", "osxfs", "moosefs", "mfs", "seaweedfs", "cvmfs"}

// networkFS returns the name of the network file system on which dir lies, or
// nothing when it lies on none that is known.
func networkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", err
	}
	if uint32(st.Type) != fuseMagic {
		return remoteFS(int64(st.Type)), nil
	}
	kind, err := mountKind("/proc/self/mountinfo", dir)
	if err != nil {
		return "", nil // without /proc there is nothing to tell by
	}
	sub := strings.TrimPrefix(kind, "fuse.")
	for _, r := range remoteFUSE {
		if strings.HasPrefix(sub, r) {
			return kind, nil
		}
	}
	return "", nil
}

// mountKind returns the file system's type of the mount that holds dir.
func mountKind(mountinfo, dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	f, err := os.Open(mountinfo)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	best, kind := -1, ""
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		left, right, ok := strings.Cut(sc.Text(), " - ")
		fields, after := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(after) < 1 {
			continue
		}
		at := unescapeMount(fields[4])
		inside := at == dir || at == "/" || strings.HasPrefix(dir, at+"/")
		if inside && len(at) >= best {
			best, kind = len(at), after[0]
		}
	}
	return kind, sc.Err()
}

func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// freeBytes is how much an unprivileged user may still write below dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func syncDir(dir string) error { return syncDirFile(dir) }
