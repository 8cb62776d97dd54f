package joblog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"pgregory.net/rapid"
)

// naive chooses entries as the documentation says, from all of them.
func naive(all []sdk.LogChunk, since time.Time, only []sdk.Stream, tail int) string {
	type piece struct {
		key  streamKey
		text string
		ends bool
		old  bool
	}
	var pieces []piece
	var newest time.Time
	for _, c := range all {
		if len(c.Data) == 0 && c.LineEnd == sdk.LineEndKept {
			continue // nothing at all, and not kept
		}
		if c.Time.After(newest) {
			newest = c.Time
		}
		at := c.Time
		if at.IsZero() {
			at = newest
		}
		if len(only) > 0 && !slices.Contains(only, c.Stream) {
			continue
		}
		old := !since.IsZero() && !at.IsZero() && at.Before(since)
		var r Renderer
		for _, part := range strings.SplitAfter(string(r.Append(nil, &c)), "\n") {
			if part != "" {
				pieces = append(pieces, piece{streamKey{c.Stream, c.Launch}, part, strings.HasSuffix(part, "\n"), old})
			}
		}
	}
	// From the back: lines that have not ended, then ends of lines.
	open := map[streamKey]bool{}
	for _, p := range pieces {
		open[p.key] = !p.ends
	}
	left := tail
	for _, o := range open {
		if o && tail > 0 {
			left--
		}
	}
	left = max(left, 0)
	in := map[streamKey]bool{} // streams whose current line is shown
	for k, o := range open {
		in[k] = o && tail > 0
	}
	var out []string
	for _, p := range slices.Backward(pieces) {
		if p.ends {
			in[p.key] = left > 0
			left--
		}
		if (in[p.key] || tail < 0) && !p.old {
			out = append(out, p.text)
		}
	}
	slices.Reverse(out)
	return strings.Join(out, "")
}

// --tail, --since and --stream choose what reading everything and choosing
// afterwards would, however the log is cut into segments.
func TestTailSinceStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open("/logs", Options{FS: newMemFS(), FlushEvery: -1})
		must(t, err)
		s.segBytes = rapid.Int64Range(400, 3000).Draw(t, "segment")
		k := newKey()
		w, err := s.Writer(k, 1)
		must(t, err)
		base := time.Unix(1_700_000_000, 0).UTC()
		var all []sdk.LogChunk
		times := rapid.SampledFrom([]string{"none", "rising", "some"}).Draw(t, "times")
		for i := range rapid.IntRange(0, 80).Draw(t, "chunks") {
			c := sdk.LogChunk{
				Stream:  rapid.SampledFrom(streams[:2]).Draw(t, "stream"),
				Launch:  rapid.IntRange(0, 1).Draw(t, "launch"),
				Data:    rapid.SliceOfN(rapid.SampledFrom([]byte("a\nb")), 0, 30).Draw(t, "data"),
				LineEnd: rapid.SampledFrom([]sdk.LineEnd{sdk.LineEndKept, sdk.LineEndStripped}).Draw(t, "line end"),
			}
			if times == "rising" || times == "some" && rapid.Bool().Draw(t, "timed") {
				c.Time = base.Add(time.Duration(i) * time.Second)
				if times == "some" {
					c.Time = base.Add(time.Duration(rapid.IntRange(0, 80).Draw(t, "time")) * time.Second)
				}
			}
			all = append(all, c)
			must(t, w.Append(sdk.LogItem{Entry: &c}))
		}
		end := ""
		if rapid.Bool().Draw(t, "ended") {
			_, err = w.Finish(sdk.VerdictComplete)
			must(t, err)
			end = "[complete]"
		}
		must(t, func() error {
			if end == "" {
				return w.Flush()
			}
			return nil
		}())
		for range 10 {
			o := ReadOptions{}
			tail := rapid.IntRange(-1, 12).Draw(t, "tail")
			if rapid.Bool().Draw(t, "tailed") {
				o.Tail = Lines(tail)
			} else {
				tail = -1
			}
			if rapid.Bool().Draw(t, "since") {
				o.Since = base.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "since")) * time.Second)
			}
			if rapid.Bool().Draw(t, "one stream") {
				o.Streams = []sdk.Stream{sdk.StreamStderr}
			}
			want := naive(all, o.Since, o.Streams, tail) + end
			if got := readAll(t, s, k, o); got != want {
				t.Fatalf("%+v tail %d:\n got %q\nwant %q", o, tail, got, want)
			}
		}
	})
}

// --tail reads no more of a big log than it has to.
func TestTailReadsLittle(t *testing.T) {
	mem := newMemFS()
	s := mustOpen(t, Options{FS: mem, SegmentBytes: 64 << 10, MaxBytes: 16 << 20})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	for i := range 50_000 {
		must(t, w.Append(kept(sdk.StreamStdout, fmt.Sprintf("line %06d %80d\n", i, i))))
	}
	must(t, w.Flush())
	n := len(mem.names(segSuffix))
	counting := &countFS{FS: mem}
	s.fs = counting
	got := readAll(t, s, k, ReadOptions{Tail: Lines(3)})
	if strings.Count(got, "\n") != 3 || !strings.HasPrefix(got, "line 049997") {
		t.Fatalf("%q", got)
	}
	// A kilobyte of header of each segment, and a segment or two.
	if most := int64(n)<<10 + 6*64<<10; counting.bytes > most {
		t.Fatalf("%d bytes read, want at most %d of %d segments", counting.bytes, most, n)
	}
}

type countFS struct {
	FS
	bytes int64
}

func (c *countFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &countFile{f, c}, nil
}

type countFile struct {
	File
	c *countFS
}

func (f *countFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.c.bytes += int64(n)
	return n, err
}

// A position may be kept as text, and reading goes on there; with other
// options too. Nonsense is refused.
func TestPosition(t *testing.T) {
	s := mustOpen(t, Options{FS: newMemFS(), FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	for i := range 5 { // more streams than fit into a Position without a slice
		it := kept(sdk.StreamStdout, "a\n")
		it.Entry.Launch = i
		must(t, w.Append(it))
		must(t, w.Append(stripped(sdk.StreamStderr, "b")))
	}
	must(t, w.Flush())
	var texts []string
	for it, err := range s.Read(context.Background(), k, ReadOptions{}) {
		must(t, err)
		b, err := it.Pos.MarshalText()
		must(t, err)
		texts = append(texts, string(b))
	}
	for i, text := range texts {
		var p Position
		must(t, p.UnmarshalText([]byte(text)))
		if p.String() != text || p.IsZero() || p.Attempt() != 1 {
			t.Fatalf("%q became %q", text, p)
		}
		check(t, "rest", readAll(t, s, k, ReadOptions{From: p}), strings.Repeat("a\nb\n", 5)[2*(i+1):])
		var last error
		for _, err := range s.Read(t.Context(), Key{Run: k.Run, Attempt: 2}, ReadOptions{From: p}) {
			last = err
		}
		if !errors.Is(last, sdk.InvalidArgument) {
			t.Fatalf("a position of another attempt: %v", last)
		}
		for _, bad := range []string{text[1:], text + "A", text[:len(text)-1], "A" + text, strings.ToUpper(text) + "!"} {
			if _, err := ParsePosition(bad); !errors.Is(err, sdk.InvalidArgument) {
				t.Fatalf("%q: %v", bad, err)
			}
		}
	}
	check(t, "later of two", readAll(t, s, k, ReadOptions{From: mustPos(t, texts[7]), Tail: Lines(9)}), "a\nb\n")
	check(t, "later of two", readAll(t, s, k, ReadOptions{From: mustPos(t, texts[0]), Tail: Lines(2)}), "a\nb\n")
	var last error
	for _, err := range s.Read(t.Context(), k, ReadOptions{Streams: []sdk.Stream{"out"}}) {
		last = err
	}
	if !errors.Is(last, sdk.InvalidArgument) {
		t.Fatal(last)
	}
}

func mustPos(t tb, text string) Position {
	t.Helper()
	p, err := ParsePosition(text)
	must(t, err)
	return p
}
