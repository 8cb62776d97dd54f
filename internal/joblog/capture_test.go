package joblog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func kept(st sdk.Stream, data string) sdk.LogItem {
	return sdk.LogItem{Entry: &sdk.LogChunk{Stream: st, Data: []byte(data), LineEnd: sdk.LineEndKept}}
}

func stripped(st sdk.Stream, data string) sdk.LogItem {
	it := kept(st, data)
	it.Entry.LineEnd = sdk.LineEndStripped
	return it
}

func cursorAt(n int) *sdk.LogCursor {
	return &sdk.LogCursor{V: 1, Kind: "test", Position: map[string]string{"n": fmt.Sprint(n)}}
}

// readAll returns what is shown, with gaps and the end in brackets.
func readAll(t tb, s *Store, k Key, o ReadOptions) string {
	t.Helper()
	var b []byte
	var r Renderer
	for it, err := range s.Read(context.Background(), k, o) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case it.Entry != nil:
			b = r.Append(b, it.Entry)
		case it.Gap != nil:
			b = fmt.Appendf(b, "[gap %d]", it.Gap.Bytes)
		case it.End != nil:
			b = fmt.Appendf(b, "[%s]", it.End.Verdict)
		}
	}
	return string(b)
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %.300q, want %.300q", what, got, want)
	}
}

// What was captured before a job failed, timed out or was cancelled is there,
// whatever comes after: a broken stream, a dead holder, a vanished backend.
func TestF50DrainPartial(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict)
		want string
	}{
		{"stream breaks", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			return w, sdk.VerdictUnavailable
		}, "one\ntwo\n[unavailable]"},
		{"holder closes, the next drains", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			must(t, w.Close())
			w = mustWriter(t, s, k, 2)
			if c := w.Cursor(); c == nil || c.Position["n"] != "1" {
				t.Fatalf("cursor %v", c)
			}
			// From the cursor on: "two" again, and the rest.
			must(t, w.Append(kept(sdk.StreamStdout, "two\nthree\n")))
			return w, sdk.VerdictComplete
		}, "one\ntwo\nthree\n[complete]"},
		{"holder dies, the backend has nothing any more", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			must(t, w.Flush())
			return mustWriter(t, mustOpenAt(t, s), k, 2), sdk.VerdictUnavailable
		}, "one\ntwo\n[unavailable]"},
		{"holder dies, the backend lost exactly that", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			must(t, w.Flush())
			w = mustWriter(t, mustOpenAt(t, s), k, 2)
			must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: 4, Why: "rotated"}}))
			must(t, w.Append(kept(sdk.StreamStdout, "three\n")))
			return w, sdk.VerdictComplete
		}, "one\ntwo\nthree\n[complete]"},
		{"holder dies, the backend lost more", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			must(t, w.Flush())
			w = mustWriter(t, mustOpenAt(t, s), k, 2)
			must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: 10, Why: "rotated"}}))
			must(t, w.Append(kept(sdk.StreamStdout, "four\n")))
			return w, sdk.VerdictComplete
		}, "one\ntwo\n[gap 6]four\n[gap]"},
		{"holder dies, the backend lost less", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			must(t, w.Flush())
			w = mustWriter(t, mustOpenAt(t, s), k, 2)
			must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: 2, Why: "rotated"}}))
			must(t, w.Append(kept(sdk.StreamStdout, "o\nthree\n")))
			return w, sdk.VerdictComplete
		}, "one\n[gap 2]o\nthree\n[gap]"},
		{"holder dies, the backend lost an unknown part", func(t *testing.T, s *Store, w *Writer, k Key) (*Writer, sdk.Verdict) {
			must(t, w.Flush())
			w = mustWriter(t, mustOpenAt(t, s), k, 2)
			must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: "rotated"}}))
			must(t, w.Append(kept(sdk.StreamStdout, "four\n")))
			return w, sdk.VerdictComplete
		}, "one\ntwo\n[gap -1]four\n[gap]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustOpen(t, Options{FS: newMemFS(), FlushEvery: -1})
			k := newKey()
			w := mustWriter(t, s, k, 1)
			it := kept(sdk.StreamStdout, "one\n")
			it.Cursor = cursorAt(1)
			must(t, w.Append(it))
			must(t, w.Sync())
			must(t, w.Append(kept(sdk.StreamStdout, "two\n")))
			w, v := c.then(t, s, w, k)
			got, err := w.Finish(v)
			must(t, err)
			check(t, "log", readAll(t, s, k, ReadOptions{}), c.want)
			if !strings.HasSuffix(c.want, "["+string(got)+"]") {
				t.Fatalf("verdict %s", got)
			}
			if again, err := w.Finish(sdk.VerdictComplete); err != nil || again != got {
				t.Fatalf("a second Finish: %s, %v", again, err)
			}
			v2, ended, err := s.Verdict(k)
			if err != nil || !ended || v2 != got {
				t.Fatalf("Verdict: %s %v %v", v2, ended, err)
			}
		})
	}
}

// mustOpenAt opens the folder of s as another process does.
func mustOpenAt(t testing.TB, s *Store) *Store {
	t.Helper()
	o, err := Open(s.dir, Options{FS: s.fs, MaxBytes: s.maxBytes, SegmentBytes: s.segBytes, FlushEvery: s.flushEvery})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Characters of several bytes and bytes that are no characters pass through
// every cut, of chunks, of frames and of reading, as they are.
func FuzzF64CutPoints(f *testing.F) {
	text := "é家🚀\xff\x00\xc3\r\n\xe5\xae"
	for i := range len(text) {
		f.Add([]byte(text), uint64(i))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		s := mustOpen(t, Options{FS: newMemFS(), FlushEvery: -1})
		s.segBytes = 600
		k := newKey()
		w := mustWriter(t, s, k, 1)
		rnd := rand.New(rand.NewPCG(seed, 1))
		for rest := data; len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			must(t, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: rest[:n], LineEnd: sdk.LineEndKept}}))
			if rnd.IntN(2) == 0 {
				must(t, w.Flush())
			}
			rest = rest[n:]
		}
		_, err := w.Finish(sdk.VerdictComplete)
		must(t, err)
		var got []byte
		for pos := (Position{}); ; {
			var it Item
			for i, err := range s.Read(context.Background(), k, ReadOptions{From: pos}) {
				must(t, err)
				it = i
				if i.Entry != nil {
					got = append(got, i.Entry.Data...)
				}
				break
			}
			if it.End != nil {
				break
			}
			pos = it.Pos
		}
		if !bytes.Equal(got, data) {
			t.Fatalf("%q became %q", data, got)
		}
	})
}

// A line of a megabyte and a short one after it, in any chunks, come out as
// they went in.
func TestF65LongLines(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	for _, piece := range []int{16 << 10, 100 << 10, 3 << 20} {
		t.Run(fmt.Sprint(piece), func(t *testing.T) {
			s := mustOpen(t, Options{})
			k := newKey()
			w := mustWriter(t, s, k, 1)
			for rest := long + "\nshort\n"; rest != ""; {
				n := min(piece, len(rest))
				must(t, w.Append(kept(sdk.StreamStdout, rest[:n])))
				rest = rest[n:]
			}
			must(t, w.Append(stripped(sdk.StreamStdout, long)))
			must(t, w.Append(stripped(sdk.StreamStdout, "")))
			must(t, w.Append(stripped(sdk.StreamStdout, "short")))
			_, err := w.Finish(sdk.VerdictComplete)
			must(t, err)
			check(t, "log", readAll(t, s, k, ReadOptions{}), long+"\nshort\n"+long+"\n\nshort\n[complete]")
			check(t, "tail", readAll(t, s, k, ReadOptions{Tail: Lines(2)}), "\nshort\n[complete]")
			check(t, "tail", readAll(t, s, k, ReadOptions{Tail: Lines(3)}), long+"\n\nshort\n[complete]")

			var lines []string
			var sp LineSplitter
			for it, err := range s.Read(context.Background(), k, ReadOptions{}) {
				must(t, err)
				if it.Entry != nil {
					sp.Add(it.Entry, func(l Line) bool { lines = append(lines, string(l.Data)); return true })
				}
			}
			if want := []string{long, "short", long, "", "short"}; !slices.Equal(lines, want) {
				t.Fatalf("%d lines", len(lines))
			}
		})
	}
}

// Streams are kept apart and in order, items in the order of their arrival,
// and nothing is dropped because its time is before another's.
func TestF67Interleave(t *testing.T) {
	s := mustOpen(t, Options{FS: newMemFS()})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	rnd := rand.New(rand.NewPCG(6, 7))
	type line struct {
		st     sdk.Stream
		launch int
		text   string
		at     time.Time
	}
	var want []line
	base := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for i := range 5000 {
		l := line{st: streams[rnd.IntN(len(streams))], launch: rnd.IntN(3), text: fmt.Sprintf("line %d\n", i)}
		if rnd.IntN(4) > 0 {
			l.at = base.Add(time.Duration(rnd.IntN(1e9)) - 5e8) // not in order
		}
		want = append(want, l)
		it := kept(l.st, l.text)
		it.Entry.Launch, it.Entry.Time = l.launch, l.at
		must(t, w.Append(it))
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	for _, only := range [][]sdk.Stream{nil, {sdk.StreamStderr}, {sdk.StreamStdout, sdk.StreamSystem}} {
		i := 0
		for it, err := range s.Read(context.Background(), k, ReadOptions{Streams: only}) {
			must(t, err)
			if it.End != nil {
				break
			}
			for len(only) > 0 && !slices.Contains(only, want[i].st) {
				i++
			}
			got := line{st: it.Entry.Stream, launch: it.Entry.Launch, text: string(it.Entry.Data), at: it.Entry.Time}
			if got != want[i] {
				t.Fatalf("item %d is %v, want %v", i, got, want[i])
			}
			i++
		}
		for len(only) > 0 && i < len(want) && !slices.Contains(only, want[i].st) {
			i++
		}
		if i != len(want) {
			t.Fatalf("%d of %d lines", i, len(want))
		}
	}
}

// A log that retention removed is not a log that never was, and not an error
// of the server.
func TestF68Expired(t *testing.T) {
	s := mustOpen(t, Options{})
	k, other := newKey(), newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "hello\n")))
	if err := s.Remove(k.Run); !errors.Is(err, sdk.FailedPrecondition) {
		t.Fatalf("removing a log that is being captured: %v", err)
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	must(t, w.Close())

	runs := func() (n int) {
		for id, err := range s.Runs(t.Context()) {
			must(t, err)
			if id != k.Run {
				t.Fatalf("run %s", id)
			}
			n++
		}
		return n
	}
	if size, err := s.Size(k.Run); err != nil || size < 6 || runs() != 1 {
		t.Fatalf("size %d, %v, %d runs", size, err, runs())
	}
	if a, err := s.Attempts(k.Run); err != nil || !slices.Equal(a, []int{1}) {
		t.Fatalf("attempts %v, %v", a, err)
	}
	must(t, s.Remove(k.Run))
	must(t, s.Remove(k.Run))
	must(t, s.Remove(other.Run))
	if size, err := s.Size(k.Run); err != nil || size != 0 || runs() != 0 {
		t.Fatalf("size %d, %v, %d runs", size, err, runs())
	}

	isExpired := func(what string, err error) {
		t.Helper()
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.NotFound || e.ID != ErrIDExpired {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, follow := range []bool{false, true} {
		var last error
		for _, err := range s.Read(t.Context(), k, ReadOptions{Follow: follow}) {
			last = err
		}
		isExpired("read", last)
	}
	_, err = s.Writer(k, 2)
	isExpired("writer", err)
	_, _, err = s.Verdict(k)
	isExpired("verdict", err)
	_, err = s.Attempts(k.Run)
	isExpired("attempts", err)
	check(t, "another run", readAll(t, s, other, ReadOptions{}), "")
	if _, ended, err := s.Verdict(other); ended || err != nil {
		t.Fatalf("another run: %v %v", ended, err)
	}

	must(t, s.Forget(k.Run))
	check(t, "forgotten", readAll(t, s, k, ReadOptions{}), "")
}

// A log that is removed under a follower and a writer ends both with the error
// that says so.
func TestF68RemovedUnderway(t *testing.T) {
	s := mustOpen(t, Options{FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "hello\n")))
	must(t, w.Flush())
	var last error
	for it, err := range s.Read(t.Context(), k, ReadOptions{Follow: true}) {
		if last = err; err == nil && it.Entry != nil {
			must(t, mustOpenAt(t, s).Remove(k.Run))
		}
	}
	var e *sdk.Error
	if !errors.As(last, &e) || e.ID != ErrIDExpired {
		t.Fatalf("follower: %v", last)
	}
	must(t, w.Append(kept(sdk.StreamStdout, "more\n")))
	if err := w.Sync(); !errors.As(err, &e) || e.ID != ErrIDExpired {
		t.Fatalf("writer: %v", err)
	}
}

// 100 MB against a small cap: nothing fails, the disk holds no more than the
// cap at any time, head and tail are there, and the gap between is exact.
func TestF70Cap(t *testing.T) {
	const line = 1000
	total := 100_000
	if testing.Short() {
		total /= 20
	}
	const limit = 1 << 20
	mem := newMemFS()
	mem.onWrite = func(name string, n int) (int, error) {
		return n, nil
	}
	s := mustOpen(t, Options{FS: mem, MaxBytes: limit})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	buf := append(bytes.Repeat([]byte("x"), line-1), '\n')
	most := int64(0)
	for i := range total {
		copy(buf, fmt.Sprintf("%09d ", i))
		must(t, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: buf, LineEnd: sdk.LineEndKept}}))
		if i%100 == 0 {
			most = max(most, mem.size(segSuffix))
			mem.forget()
		}
	}
	v, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	if v != sdk.VerdictTruncatedByUs {
		t.Fatalf("verdict %s", v)
	}
	if most = max(most, mem.size(segSuffix)); most > limit {
		t.Fatalf("%d bytes on the disk, the cap is %d", most, limit)
	}
	lines, gaps, next := 0, 0, 0
	for it, err := range s.Read(t.Context(), k, ReadOptions{Follow: true}) {
		must(t, err)
		switch {
		case it.Entry != nil:
			want := fmt.Sprintf("%09d ", next)
			if !strings.HasPrefix(string(it.Entry.Data), want) {
				t.Fatalf("%.20q, want %s", it.Entry.Data, want)
			}
			next++
			lines++
		case it.Gap != nil:
			gaps++
			if it.Gap.Bytes%line != 0 || it.Gap.Why != whyCapped {
				t.Fatalf("gap %+v", it.Gap)
			}
			next += int(it.Gap.Bytes / line)
		}
	}
	if gaps != 1 || next != total {
		t.Fatalf("%d gaps, line %d of %d", gaps, next, total)
	}
	if kept := lines * line; kept < limit/2 {
		t.Fatalf("only %d bytes were kept", kept)
	}
	if st := w.Stats(); st.Bytes != int64(total)*line || !st.Truncated || st.Lost != 0 {
		t.Fatalf("stats %+v", st)
	}
}

// A torn last segment, cut at every byte, is found, and what is missing is
// captured again from the cursor.
func TestTornTailAtEveryByte(t *testing.T) {
	src := &source{streams: []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr}, strips: true,
		sections: []map[sdk.Stream][]byte{{
			sdk.StreamStdout: []byte("é家🚀\n\xff\n\nabc\nend"), sdk.StreamStderr: []byte("warning\n\nerror\n"),
		}, {
			sdk.StreamStdout: []byte(" of one\ntwo\n"), sdk.StreamStderr: []byte("x"),
		}}}
	rnd := rand.New(rand.NewPCG(1, 2))
	full := newMemFS()
	s := mustOpen(t, Options{FS: full, FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	f := src.feed(nil, rand.New(rand.NewPCG(3, 4)).IntN, 5, 4)
	for i := range 20 {
		it, ok := f.next()
		if !ok {
			break
		}
		must(t, w.Append(it))
		if i == 10 {
			must(t, w.Sync())
		}
	}
	must(t, w.Flush())
	shown := watch(t, "", src)
	must(t, shown.read(t.Context(), s, k, -1, ReadOptions{}))
	size := full.size(segSuffix)
	for cut := range size + 1 {
		mem, early := full.clone(), *shown
		early.name, early.seen = fmt.Sprintf("early, cut at %d", cut), maps.Clone(shown.seen)
		n := mem.files[mem.names(segSuffix)[0]]
		n.data = n.data[:cut]
		s := mustOpen(t, Options{FS: mem, FlushEvery: -1})
		w, err := s.Writer(k, 2)
		must(t, err)
		must(t, early.read(t.Context(), s, k, -1, ReadOptions{}))
		f := src.feed(w.Cursor(), rnd.IntN, 7, 3)
		for it, ok := f.next(); ok; it, ok = f.next() {
			must(t, w.Append(it))
		}
		_, err = w.Finish(sdk.VerdictComplete)
		must(t, err)
		must(t, w.Close())
		late := watch(t, fmt.Sprintf("late, cut at %d", cut), src)
		for _, x := range []*watcher{&early, late} {
			must(t, x.read(t.Context(), s, k, -1, ReadOptions{}))
			x.complete()
		}
		if early.gone > 0 {
			t.Fatalf("cut at %d: %d bytes told missing to a reader that had seen them", cut, early.gone)
		}
	}
}

// Files and folders are the user's alone.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	s, err := Open(dir, Options{})
	must(t, err)
	w := mustWriter(t, s, newKey(), 1)
	must(t, w.Append(kept(sdk.StreamStdout, "secret\n")))
	must(t, w.Sync())
	must(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return err
	}))
}
