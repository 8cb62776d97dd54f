package control_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/sdk"
)

// disk is the host's file system, whose syncs of files a test holds up or fails.
type disk struct {
	joblog.FS

	mu   sync.Mutex
	sync func() error
}

func (d *disk) onSync(f func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sync = f
}

func (d *disk) OpenFile(name string, flag int, perm fs.FileMode) (joblog.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d}, nil
}

type diskFile struct {
	joblog.File
	d *disk
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	hook := f.d.sync
	f.d.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func (w *world) withDisk() *disk {
	w.t.Helper()
	dir := filepath.Join(w.dir, "logs")
	d := &disk{FS: joblog.OS(dir)}
	var err error
	if w.logs, err = joblog.Open(dir, joblog.Options{Clock: w.clock, FS: d}); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// TestOutputGoesOnWhileTheDiskSyncs holds a sync up, and reads meanwhile what the
// job prints after the sync has begun.
func TestOutputGoesOnWhileTheDiskSyncs(t *testing.T) {
	w := newWorld(t)
	d := w.withDisk()
	e := w.engine()
	held, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.onSync(func() error {
		once.Do(func() { close(held) })
		<-free
		return nil
	})
	defer sync.OnceFunc(func() { close(free) })()
	id := w.submit(e, request(spec("echo", "before", ";", "sleep", "2s", ";", "echo", "after", ";", "hang")))
	<-held
	w.until("what came during the sync is seen", func() bool {
		var got strings.Builder
		for it, err := range e.Follow(w.ctx(), id, control.FollowOptions{}) {
			if err == nil && it.Entry != nil {
				got.Write(it.Entry.Data)
			}
		}
		return strings.HasSuffix(got.String(), "after\n")
	})
}

// TestFullDiskIsSaidOnce fails every sync of a log while its job runs: the user
// is told once, and the run and its output are whole when there is room again.
func TestFullDiskIsSaidOnce(t *testing.T) {
	w := newWorld(t)
	d := w.withDisk()
	e := w.engine()
	failures := make(chan struct{}, 100)
	d.onSync(func() error {
		select {
		case failures <- struct{}{}:
		default:
		}
		return &fs.PathError{Op: "sync", Path: "segment", Err: syscall.ENOSPC}
	})
	id := w.submit(e, request(spec("echo", "line", ";", "sleep", "2500ms")))
	for range 2 {
		<-failures
	}
	d.onSync(nil)
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if out, v := w.output(e, id); !strings.HasSuffix(out[sdk.StreamStdout], "line\n") || v != sdk.VerdictComplete {
		t.Errorf("output %q, verdict %s", out[sdk.StreamStdout], v)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	said := 0
	for _, m := range w.warnings {
		if strings.Contains(m, "can't be saved") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times: %q", said, w.warnings)
	}
}
