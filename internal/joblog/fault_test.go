package joblog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// A full disk costs what didn't fit, exactly counted, and nothing else: not
// the job, not what comes when there is room again.
func TestFullDisk(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		t.Run(cause.Error(), func(t *testing.T) {
			mem := newMemFS()
			s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
			k := newKey()
			w := mustWriter(t, s, k, 1)
			line := func(i int) string { return fmt.Sprintf("%07d", i) + strings.Repeat(".", 92) + "\n" }
			next := 0
			add := func(n int) {
				t.Helper()
				for range n {
					it := kept(sdk.StreamStdout, line(next))
					next++
					it.Cursor = cursorAt(next)
					must(t, w.Append(it))
				}
			}
			add(100)
			must(t, w.Sync())
			mem.mu.Lock()
			mem.onWrite = func(name string, n int) (int, error) {
				if strings.HasSuffix(name, segSuffix) {
					return min(n, 50), cause // a torn frame is left
				}
				return n, nil
			}
			mem.mu.Unlock()
			add(30_000)
			must(t, w.Flush())
			err := w.Sync()
			var e *sdk.Error
			if !errors.As(err, &e) || e.ID != ErrIDDisk || !e.Retryable || !errors.Is(err, cause) {
				t.Fatalf("Sync: %v", err)
			}
			if full := !errors.Is(cause, syscall.EIO); full != errors.Is(err, sdk.ResourceExhausted) {
				t.Fatalf("Sync: %v", err)
			}
			if c := w.Cursor(); c.Position["n"] != "100" {
				t.Fatalf("the durable cursor is %v", c)
			}
			if st := w.Stats(); st.Lost == 0 || st.Disk == nil {
				t.Fatalf("stats %+v", st)
			}
			mem.mu.Lock()
			mem.onWrite = nil
			mem.mu.Unlock()
			add(100)
			must(t, w.Sync())
			if c := w.Cursor(); c.Position["n"] != fmt.Sprint(next) {
				t.Fatalf("the durable cursor is %v", c)
			}
			v, err := w.Finish(sdk.VerdictComplete)
			must(t, err)
			if v != sdk.VerdictGap {
				t.Fatalf("verdict %s", v)
			}
			at, gaps := 0, 0
			for it, err := range s.Read(t.Context(), k, ReadOptions{}) {
				must(t, err)
				switch {
				case it.Entry != nil:
					check(t, "line", string(it.Entry.Data), line(at))
					at++
				case it.Gap != nil:
					gaps++
					at += int(it.Gap.Bytes) / len(line(0))
					if !strings.HasPrefix(it.Gap.Why, "the disk") || it.Gap.From.IsZero() {
						t.Fatalf("gap %+v", it.Gap)
					}
				}
			}
			if at != next || gaps != 1 {
				t.Fatalf("line %d of %d, %d gaps", at, next, gaps)
			}
			if st := w.Stats(); st.Disk != nil || st.Bytes != int64(next*len(line(0))) {
				t.Fatalf("stats %+v", st)
			}
		})
	}
}

// A log ends on a disk that is still full, and says what is missing.
func TestFinishOnFullDisk(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "before\n")))
	must(t, w.Flush())
	mem.setRoom(0)
	must(t, w.Append(kept(sdk.StreamStdout, "lost\n")))
	v, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	check(t, "log", readAll(t, s, k, ReadOptions{}), "before\n[gap 5][gap]")
	check(t, "follower", readAll(t, s, k, ReadOptions{Follow: true}), "before\n[gap 5][gap]")
	if v != sdk.VerdictGap {
		t.Fatalf("verdict %s", v)
	}
}

// A gap that the backend told of counts in the gap at the end when the disk had
// no room for it.
func TestGapOnFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int64
		want  string
	}{
		"full to the end":          {70, "before\n[gap 75][gap]"},
		"full to the end, unknown": {-1, "before\n[gap -1][gap]"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := newMemFS()
			s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
			k := newKey()
			w := mustWriter(t, s, k, 1)
			must(t, w.Append(kept(sdk.StreamStdout, "before\n")))
			must(t, w.Flush())
			mem.setRoom(0)
			must(t, w.Append(kept(sdk.StreamStdout, "lost\n")))
			must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: c.bytes, Why: "the backend lost it"}}))
			_, err := w.Finish(sdk.VerdictGap)
			must(t, err)
			check(t, "log", readAll(t, s, k, ReadOptions{}), c.want)
		})
	}
}

// Once there is room again, the gap for what the disk didn't take counts the gaps
// that came meanwhile, and each byte once.
func TestGapWhileDiskIsFull(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "before\n")))
	must(t, w.Flush())
	mem.setRoom(0)
	var given int64
	for range 40 {
		must(t, w.Append(kept(sdk.StreamStdout, strings.Repeat("x", 100_000)+"\n")))
		given += 100_001
	}
	must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: 1 << 30, Why: "the backend lost it"}}))
	mem.setRoom(1 << 40)
	must(t, w.Append(kept(sdk.StreamStdout, "after\n")))
	_, err := w.Finish(sdk.VerdictGap)
	must(t, err)
	var lost, shown int64
	for it, err := range s.Read(t.Context(), k, ReadOptions{}) {
		must(t, err)
		switch {
		case it.Gap != nil:
			lost += it.Gap.Bytes
		case it.Entry != nil:
			shown += int64(len(it.Entry.Data))
		}
	}
	if want := given + int64(len("before\nafter\n")) + 1<<30; lost+shown != want || lost <= 1<<30 {
		t.Errorf("%d bytes shown and %d lost, %d were there", shown, lost, want)
	}
}

// Where a torn frame can't even be taken back, the log goes on in a new
// segment and readers don't stumble.
func TestTornFrameStays(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "one\n")))
	must(t, w.Flush())
	mem.onTrunc = func(string) error { return syscall.EIO }
	mem.onWrite = func(string, int) (int, error) { return frameHead + 4 + 10, syscall.EIO }
	must(t, w.Append(kept(sdk.StreamStdout, "two\n")))
	must(t, w.Append(kept(sdk.StreamStdout, "three\n")))
	must(t, w.Flush())
	check(t, "in between", readAll(t, s, k, ReadOptions{}), "one\ntwo\n")
	mem.onWrite = nil
	must(t, w.Append(kept(sdk.StreamStdout, "four\n")))
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	check(t, "log", readAll(t, s, k, ReadOptions{}), "one\ntwo\nthree\nfour\n[complete]")
	if n := len(mem.names(segSuffix)); n != 2 {
		t.Fatalf("%d segments", n)
	}
}

// After an fsync that failed, the kernel may have dropped what it couldn't
// write; the next one doesn't take its word for it.
func TestSyncFailsOnce(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	it := kept(sdk.StreamStdout, "one\n")
	it.Cursor = cursorAt(1)
	must(t, w.Append(it))
	mem.onSync = func(name string) error {
		if strings.HasSuffix(name, segSuffix) {
			return syscall.EIO
		}
		return nil
	}
	if err := w.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Sync: %v", err)
	}
	if c := w.Cursor(); c != nil {
		t.Fatalf("cursor %v without its data", c)
	}
	mem.onSync = nil
	must(t, w.Sync())
	if c := w.Cursor(); c == nil {
		t.Fatal("no cursor")
	}
	// Whatever the disk had not been told is gone now.
	mem = mem.powerLoss(func(int) int { return 0 })
	s = mustOpen(t, Options{FS: mem, FlushEvery: -1})
	w = mustWriter(t, s, k, 2)
	if c := w.Cursor(); c == nil || c.Position["n"] != "1" {
		t.Fatalf("cursor %v", c)
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	check(t, "log", readAll(t, s, k, ReadOptions{}), "one\n[complete]")
}

// A checkpoint that can't be written leaves the last one good.
func TestCheckpointFails(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	for i := range 5 {
		it := kept(sdk.StreamStdout, fmt.Sprintln(i))
		it.Cursor = cursorAt(i)
		must(t, w.Append(it))
		if i%2 == 1 {
			mem.onWrite = func(name string, n int) (int, error) {
				if strings.HasSuffix(name, claimSuffix) {
					return min(n, 40), syscall.EIO
				}
				return n, nil
			}
			if err := w.Sync(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Sync: %v", err)
			}
			mem.onWrite = nil
		} else {
			must(t, w.Sync())
		}
		c, err := s.readCheckpoint(s.attemptDir(k), w.term)
		must(t, err)
		if want := fmt.Sprintf(`"n":"%d"`, i/2*2); !strings.Contains(string(c.Cursor), want) {
			t.Fatalf("after %d: cursor %s", i, c.Cursor)
		}
	}
}

// Damage in the middle of what is durable becomes a gap of the right size.
func TestDamage(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
	s.segBytes = 1000
	k := newKey()
	w := mustWriter(t, s, k, 1)
	for i := range 100 {
		must(t, w.Append(kept(sdk.StreamStdout, fmt.Sprintf("%02d\n", i))))
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	names := mem.names(segSuffix)
	mem.files[names[1]].data[700] ^= 1
	whole := strings.Replace(readAll(t, s, k, ReadOptions{}), "[complete]", "", 1)
	var gap int
	a, rest, ok := strings.Cut(whole, "[gap ")
	if _, err := fmt.Sscanf(rest, "%d]", &gap); !ok || err != nil {
		t.Fatalf("log %q", whole)
	}
	_, b, _ := strings.Cut(rest, "]")
	if len(a)+gap+len(b) != 300 || gap < 3 || strings.Contains(b, "[") {
		t.Fatalf("log %q", whole)
	}
	// The last segment is damaged too.
	n := mem.files[names[len(names)-1]]
	n.data[len(n.data)-1] ^= 1
	if got := readAll(t, s, k, ReadOptions{Tail: Lines(1)}); !strings.HasSuffix(got, "[gap 3][complete]") {
		t.Fatalf("log %q", got)
	}
}

// A holder whose epoch is over can't write, and learns it at once.
func TestStaleEpoch(t *testing.T) {
	fenced := func(what string, err error) {
		t.Helper()
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.Aborted || e.ID != ErrIDFenced {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, sameProcess := range []bool{true, false} {
		t.Run(fmt.Sprint(sameProcess), func(t *testing.T) {
			s := mustOpen(t, Options{FlushEvery: -1})
			k := newKey()
			old := mustWriter(t, s, k, 5)
			must(t, old.Append(kept(sdk.StreamStdout, "one\n")))
			must(t, old.Sync())
			must(t, old.Append(kept(sdk.StreamStdout, "two\n")))
			s2 := s
			if !sameProcess {
				s2 = mustOpenAt(t, s)
			}
			w := mustWriter(t, s2, k, 6)
			must(t, w.Append(kept(sdk.StreamStdout, "one\ntwo\n")))
			must(t, w.Flush())
			if sameProcess {
				fenced("Append", old.Append(kept(sdk.StreamStdout, "stale\n")))
			}
			fenced("Sync", old.Sync())
			fenced("Flush", old.Flush())
			fenced("Append", old.Append(kept(sdk.StreamStdout, "stale\n")))
			_, err := old.Finish(sdk.VerdictComplete)
			fenced("Finish", err)
			must(t, old.Close())
			_, err = s.Writer(k, 5)
			fenced("Writer", err)
			_, err = w.Finish(sdk.VerdictComplete)
			must(t, err)
			check(t, "log", readAll(t, s, k, ReadOptions{}), "one\ntwo\n[complete]")
		})
	}
}

// Two holders of one epoch in one process are a mistake.
func TestSameEpochTwice(t *testing.T) {
	s := mustOpen(t, Options{FS: newMemFS()})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	if _, err := s.Writer(k, 1); !errors.Is(err, sdk.FailedPrecondition) {
		t.Fatal(err)
	}
	must(t, w.Close())
	must(t, w.Close())
	if err := w.Append(kept(sdk.StreamStdout, "x")); !errors.Is(err, sdk.FailedPrecondition) {
		t.Fatal(err)
	}
	mustWriter(t, s, k, 1)
}

// A holder whose driver fails again and again opens the log again and again,
// and leaves no heap of files.
func TestReopenLeavesLittle(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	it := kept(sdk.StreamStdout, "one\n")
	it.Cursor = cursorAt(1)
	must(t, w.Append(it))
	must(t, w.Close())
	for range 20 {
		w = mustWriter(t, s, k, 1)
		if c := w.Cursor(); c == nil || c.Position["n"] != "1" {
			t.Fatalf("cursor %v", c)
		}
		must(t, w.Close())
	}
	if n := mem.names(""); len(n) != 2 {
		t.Fatalf("files %q", n)
	}
	// Each break after a page costs a segment, and no more.
	for i := range 20 {
		w = mustWriter(t, s, k, 1)
		it.Cursor = cursorAt(i + 2)
		must(t, w.Append(it))
		must(t, w.Close())
	}
	if n := mem.names(""); len(n) != 22 {
		t.Fatalf("files %q", n)
	}
	w = mustWriter(t, s, k, 1)
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	must(t, mustWriter(t, mustOpenAt(t, s), k, 1).Close())
	check(t, "log", readAll(t, s, k, ReadOptions{}), strings.Repeat("one\n", 21)+"[complete]")
}

// A log that has ended stays as it is, whoever opens it.
func TestEndedLog(t *testing.T) {
	s := mustOpen(t, Options{FS: newMemFS()})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "x\n")))
	if _, err := w.Finish("fine"); !errors.Is(err, sdk.InvalidArgument) {
		t.Fatal(err)
	}
	_, err := w.Finish(sdk.VerdictQuiet)
	must(t, err)
	if err := w.Append(kept(sdk.StreamStdout, "y")); !errors.Is(err, sdk.FailedPrecondition) {
		t.Fatal(err)
	}
	w = mustWriter(t, s, k, 2)
	if err := w.Append(kept(sdk.StreamStdout, "y")); !errors.Is(err, sdk.FailedPrecondition) {
		t.Fatal(err)
	}
	if v, err := w.Finish(sdk.VerdictGap); err != nil || v != sdk.VerdictQuiet {
		t.Fatal(v, err)
	}
	check(t, "log", readAll(t, s, k, ReadOptions{}), "x\n[quiet]")
}

// Capture costs fsyncs only where it is asked for durability.
func TestFewSyncs(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, MaxBytes: 1 << 20})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	it := kept(sdk.StreamStdout, strings.Repeat("x", 999)+"\n")
	it.Cursor = cursorAt(1)
	for range 500 {
		must(t, w.Append(it))
	}
	if n := mem.countSyncs(); n != 0 {
		t.Fatalf("%d syncs before Sync", n)
	}
	must(t, w.Sync())
	first := mem.countSyncs()
	// Each segment, the three folders, and the checkpoint.
	if want := len(mem.names(segSuffix)) + 4; first > want {
		t.Fatalf("the first Sync took %d, want at most %d", first, want)
	}
	must(t, w.Sync())
	if n := mem.countSyncs() - first; n != 0 {
		t.Fatalf("a Sync with nothing to do took %d", n)
	}
	must(t, w.Append(it))
	must(t, w.Sync())
	if n := mem.countSyncs() - first; n > 2 {
		t.Fatalf("a small Sync took %d", n)
	}
	k = newKey()
	w = mustWriter(t, s, k, 1)
	must(t, w.Append(it))
	before := mem.countSyncs()
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	if n := mem.countSyncs() - before; n > 5 {
		t.Fatalf("the Finish of a small log took %d", n)
	}
}

// What makes no sense is refused and leaves no trace.
func TestBadItems(t *testing.T) {
	s := mustOpen(t, Options{FS: newMemFS()})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	for name, it := range map[string]sdk.LogItem{
		"stream":   {Entry: &sdk.LogChunk{Stream: "out", LineEnd: sdk.LineEndKept, Data: []byte("x")}},
		"line end": {Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: []byte("x")}},
		"launch":   {Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Launch: -1}},
		"both":     {Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept}, Gap: &sdk.LogGap{}},
	} {
		if err := w.Append(it); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, w.Append(sdk.LogItem{})) // nothing at all is nothing
	must(t, w.Append(kept(sdk.StreamStdout, "")))
	must(t, w.Append(sdk.LogItem{End: &sdk.LogEnd{}, Cursor: cursorAt(3)}))
	must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -7, Why: strings.Repeat("\xff", 3000)}}))
	must(t, w.Sync())
	if c := w.Cursor(); c == nil || c.Position["n"] != "3" {
		t.Fatalf("cursor %v", c)
	}
	check(t, "log", readAll(t, s, k, ReadOptions{}), "[gap -1]")
	must(t, w.Append(sdk.LogItem{Cursor: &sdk.LogCursor{V: 1, Kind: "x", Position: map[string]string{"k": "\xff"}}}))
	if err := w.Sync(); !errors.Is(err, sdk.InvalidArgument) {
		t.Fatalf("a cursor that can't be encoded: %v", err)
	}
	for _, k := range []Key{{}, {Run: k.Run, Attempt: -1}} {
		if _, err := s.Writer(k, 1); !errors.Is(err, sdk.InvalidArgument) {
			t.Fatalf("writer of %+v: %v", k, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "x"), Options{MaxBytes: 1}); !errors.Is(err, sdk.InvalidArgument) {
		t.Fatal(err)
	}
}

// The caller may use an item's memory again at once.
func TestAppendCopies(t *testing.T) {
	s := mustOpen(t, Options{FS: newMemFS(), FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	data := []byte("hello\n")
	c := cursorAt(1)
	must(t, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: data}, Cursor: c}))
	copy(data, "XXXXX")
	c.Position["n"] = "X"
	must(t, w.Sync())
	check(t, "log", readAll(t, s, k, ReadOptions{}), "hello\n")
	if c := w.Cursor(); c.Position["n"] != "1" {
		t.Fatalf("cursor %v", c)
	}
}
