package joblog

import (
	"io/fs"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// costFS counts the calls that cost most.
type costFS struct {
	osFS
	opens, lists int
}

func (c *costFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	c.opens++
	return c.osFS.OpenFile(name, flag, perm)
}

func (c *costFS) ReadDir(name string) ([]fs.DirEntry, error) {
	c.lists++
	return c.osFS.ReadDir(name)
}

// TestShortLogIsCheap: a log of one line waits for the disk twice, for its
// segment and for its end, and costs few calls besides. Most runs are like it,
// and hundreds end at once.
func TestShortLogIsCheap(t *testing.T) {
	system := &costFS{osFS: osFS{&syncGroup{}}}
	s, err := Open(t.TempDir(), Options{FS: system})
	must(t, err)
	w := mustWriter(t, s, newKey(), 1)
	must(t, w.Append(kept(sdk.StreamStdout, "hello\n")))
	_, err = w.Finish(sdk.VerdictComplete)
	must(t, err)
	must(t, w.Close())
	if n := system.group.asked; n != 2 {
		t.Errorf("waited for the disk %d times", n)
	}
	if system.opens > 2 || system.lists > 4 {
		t.Errorf("%d files opened, %d folders listed", system.opens, system.lists)
	}
}
