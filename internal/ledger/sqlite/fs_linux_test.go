package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemoteFS(t *testing.T) {
	for kind, want := range map[int64]string{0x6969: "nfs", 0xff534d42: "smb", -0xacb2be: "smb", 0xfe534d42: "smb", 0x01021997: "9p", 0x00c36400: "ceph",
		0xef53: "", 0x01021994: "", 0x9123683e: "", 0x58465342: "", 0x794c7630: ""} {
		if got := remoteFS(kind); got != want {
			t.Errorf("%#x: %q, want %q", kind, got, want)
		}
	}
	if name, err := networkFS(t.TempDir()); err != nil || name != "" {
		t.Errorf("the test's own directory: %q, %v", name, err)
	}
	if _, err := networkFS("/does/not/exist"); err == nil {
		t.Error("a missing directory has a file system")
	}
}

func TestMountKind(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "my mount", "inner", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	escaped := strings.ReplaceAll(dir, " ", `\040`)
	text := strings.Join([]string{
		"22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw",
		"30 22 0:40 / " + escaped + `/my\040mount rw,nosuid shared:5 master:2 - fuse.sshfs host:/x rw`,
		"31 30 0:41 / " + escaped + `/my\040mount/inner rw - fuse.gocryptfs /x rw`,
		"32 22 0:42 / " + escaped + `/my rw - nfs host:/x rw`,
		"broken line",
	}, "\n") + "\n"
	file := filepath.Join(dir, "mountinfo")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "ext4", "my mount": "fuse.sshfs", "my mount/inner": "fuse.gocryptfs", "my mount/inner/deep": "fuse.gocryptfs"} {
		if got, err := mountKind(file, filepath.Join(dir, path)); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", path, got, err, want)
		}
	}
	if _, err := mountKind(filepath.Join(dir, "none"), dir); err == nil {
		t.Error("no error without a table of mounts")
	}
}
