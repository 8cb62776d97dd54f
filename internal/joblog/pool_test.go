package joblog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// openFS counts the files that are open, and opens no more than most.
type openFS struct {
	FS
	most      int64
	now, peak atomic.Int64
}

func (c *openFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	n := c.now.Add(1)
	if c.most > 0 && n > c.most {
		c.now.Add(-1)
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		c.now.Add(-1)
		return nil, err
	}
	for {
		peak := c.peak.Load()
		if n <= peak || c.peak.CompareAndSwap(peak, n) {
			break
		}
	}
	return &openedFile{File: f, fs: c}, nil
}

type openedFile struct {
	File
	fs     *openFS
	closed atomic.Bool
}

func (f *openedFile) Close() error {
	if f.closed.Swap(true) {
		return os.ErrClosed
	}
	f.fs.now.Add(-1)
	return f.File.Close()
}

// line appends one, with its cursor.
func line(t testing.TB, w *Writer, n int) {
	t.Helper()
	must(t, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: fmt.Appendf(nil, "line %d\n", n)}, Cursor: cursorAt(n)}))
}

// finished ends a log and reads it back.
func finished(t testing.TB, s *Store, w *Writer, lines int) {
	t.Helper()
	v, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	must(t, w.Close())
	var got, want bytes.Buffer
	for it, err := range s.Read(t.Context(), w.k, ReadOptions{}) {
		must(t, err)
		if it.Entry != nil {
			got.Write(it.Entry.Data)
		}
	}
	for n := range lines {
		fmt.Fprintf(&want, "line %d\n", n)
	}
	if v != sdk.VerdictComplete || got.String() != want.String() {
		t.Errorf("%s: %q", v, got.String())
	}
}

// TestManyLogsFewFiles: a thousand logs that are written in turn keep no more files
// open than they may, and none loses a line.
func TestManyLogsFewFiles(t *testing.T) {
	const logs, most = 1000, 16
	c := &openFS{FS: OS(t.TempDir())}
	s, err := Open(filepath.Join(t.TempDir(), "logs"), Options{FS: c, FlushEvery: -1, MaxOpen: most})
	must(t, err)
	writers := make([]*Writer, logs)
	for i := range writers {
		writers[i] = mustWriter(t, s, newKey(), 1)
	}
	for n := range 3 {
		for _, w := range writers {
			line(t, w, n)
			must(t, w.Flush())
		}
		if n == 1 {
			for _, w := range writers {
				must(t, w.Sync())
			}
		}
	}
	if c.now.Load() > most || c.peak.Load() > most+1 || s.files.reopened == 0 { // one more to look at what was there
		t.Errorf("%d files are open, %d were at most, %d may be; %d opened again", c.now.Load(), c.peak.Load(), most, s.files.reopened)
	}
	for _, w := range writers {
		finished(t, s, w, 3)
	}
	if c.now.Load() != 0 || s.files.open != 0 || s.files.idle.Len() != 0 {
		t.Errorf("%d files are left open, the pool counts %d and %d idle", c.now.Load(), s.files.open, s.files.idle.Len())
	}
}

// TestFewLogsKeepTheirFiles: below the bound nothing is opened twice.
func TestFewLogsKeepTheirFiles(t *testing.T) {
	s := mustOpen(t, Options{FlushEvery: -1})
	w := mustWriter(t, s, newKey(), 1)
	for n := range 100 {
		line(t, w, n)
		must(t, w.Flush())
		must(t, w.Sync())
	}
	finished(t, s, w, 100)
	if s.files.reopened != 0 {
		t.Errorf("%d files were opened again", s.files.reopened)
	}
}

// TestLogsAtOnce: writers in many goroutines, with flushes, syncs and a bound that is
// far below their number.
func TestLogsAtOnce(t *testing.T) {
	c := &openFS{FS: OS(t.TempDir())}
	s, err := Open(filepath.Join(t.TempDir(), "logs"), Options{FS: c, MaxOpen: 3})
	must(t, err)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			w, err := s.Writer(newKey(), 1)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 20 {
				line(t, w, n)
				if n%3 == 0 {
					if err := errors.Join(w.Flush(), w.Sync()); err != nil {
						t.Error(err)
					}
				}
			}
			finished(t, s, w, 20)
		})
	}
	wg.Wait()
	if c.now.Load() != 0 || s.files.open != 0 {
		t.Errorf("%d files are left open, the pool counts %d", c.now.Load(), s.files.open)
	}
}

// TestNoDescriptorLeft: a process that may open no more files lets go of those that
// wait, before output is lost.
func TestNoDescriptorLeft(t *testing.T) {
	c := &openFS{FS: OS(t.TempDir()), most: 12}
	s, err := Open(filepath.Join(t.TempDir(), "logs"), Options{FS: c, FlushEvery: -1, MaxOpen: 1000})
	must(t, err)
	var writers []*Writer
	for range 50 {
		s.files.limit = 20 // a system that allows less than was counted on
		w := mustWriter(t, s, newKey(), 1)
		line(t, w, 0)
		must(t, w.Flush())
		writers = append(writers, w)
	}
	for _, w := range writers {
		must(t, w.Sync())
		if st := w.Stats(); st.Lost > 0 || st.Disk != nil {
			t.Fatalf("%+v", st)
		}
		finished(t, s, w, 1)
	}
}

// TestHeldFile: one that was taken away says so, and one that is closed stays closed.
func TestHeldFile(t *testing.T) {
	p := newPool(OS(t.TempDir()), 1)
	name := filepath.Join(t.TempDir(), "a")
	h, err := p.openFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	other, err := p.openFile(name+"b", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	if _, err := h.WriteAt([]byte("text"), 0); err != nil || p.open != 1 || p.reopened != 1 {
		t.Errorf("%v, %d open, %d reopened", err, p.open, p.reopened)
	}
	_, done, err := h.use()
	must(t, err)
	must(t, h.Close()) // while it is used
	if p.open != 1 {
		t.Errorf("%d open", p.open)
	}
	done()
	if _, err := h.ReadAt(make([]byte, 4), 0); !errors.Is(err, os.ErrClosed) || p.open != 0 {
		t.Errorf("%v, %d open", err, p.open)
	}
	must(t, errors.Join(h.Close(), os.Remove(name+"b")))
	if err := errors.Join(other.Truncate(0)); !isMissing(err) {
		t.Errorf("%v", err)
	}
	if err := other.Sync(); !isMissing(err) {
		t.Errorf("%v", err)
	}
	must(t, other.Close())
}

// BenchmarkManyLogs is a line to each of a thousand logs in turn, with as many files
// as they need and with few.
func BenchmarkManyLogs(b *testing.B) {
	for _, most := range []int{4096, 256} {
		b.Run(fmt.Sprint(most, " files"), func(b *testing.B) {
			s := mustOpen(b, Options{FlushEvery: -1, MaxOpen: most})
			writers := make([]*Writer, 1000)
			for i := range writers {
				writers[i] = mustWriter(b, s, newKey(), 1)
				line(b, writers[i], 0)
				must(b, writers[i].Flush())
			}
			for n := 0; b.Loop(); n++ {
				w := writers[n%len(writers)]
				line(b, w, n)
				must(b, w.Flush())
			}
			for _, w := range writers {
				must(b, w.Close())
			}
		})
	}
}
