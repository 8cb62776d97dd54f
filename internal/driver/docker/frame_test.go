package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/sdk"
)

// frameOf is a record as the engine sends it.
func frameOf(stream byte, at time.Time, data string) []byte {
	body := at.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " " + data
	h := make([]byte, frameHeader, frameHeader+len(body))
	h[0] = stream
	binary.BigEndian.PutUint32(h[4:], uint32(len(body)))
	return append(h, body...)
}

// sliced gives a stream in pieces of n bytes.
type sliced struct {
	r io.Reader
	n int
}

func (s sliced) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), s.n)]) }

func TestF64FramesCutAnywhere(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	lines := []string{"é家🚀\n", "\xff\xfe\n", "", "\n", " lead\n", "no end"}
	var raw []byte
	for i, l := range lines {
		raw = append(raw, frameOf(byte(1+i%2), at.Add(time.Duration(i)), l)...)
	}
	for _, n := range []int{1, 2, 3, 7, 8, 9, 37, 39, 1000} {
		f := newFrames(sliced{bytes.NewReader(raw), n})
		for i, want := range lines {
			r, err := f.next()
			if err != nil {
				t.Fatalf("pieces of %d, record %d: %v", n, i, err)
			}
			if string(r.data) != want || r.stamp != at.Add(time.Duration(i)).UnixNano() || (r.stream == sdk.StreamStderr) != (i%2 == 1) {
				t.Errorf("pieces of %d, record %d: got %q on %s at %d", n, i, r.data, r.stream, r.stamp)
			}
			if len(r.room) != len(r.data)+1 {
				t.Errorf("record %d has no room in front", i)
			}
		}
		if _, err := f.next(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("pieces of %d: the end is %v", n, err)
		}
	}
}

func TestStamps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, 9e18).Draw(t, "ns")
		for _, form := range []string{stampForm, time.RFC3339Nano} {
			text := time.Unix(0, want).UTC().Format(form)
			if got, ok := parseStamp([]byte(text)); !ok || got != want {
				t.Fatalf("%s: %d instead of %d, %t", text, got, want, ok)
			}
		}
	})
	for _, s := range []string{"", "x", "2026-13-01T00:00:00.000000000Z", "2026-01-01T24:00:00.000000000Z", "2026-01-01T00:00:0x.000000000Z", "2026-01-01 00:00:00.000000000Z"} {
		if _, ok := parseStamp([]byte(s)); ok {
			t.Errorf("%q is taken for a stamp", s)
		}
	}
}

func TestFramesBroken(t *testing.T) {
	whole := frameOf(1, time.Now(), "x\n")
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"cut in the header": {whole[:5], io.ErrUnexpectedEOF},
		"cut at the header": {whole[:8], io.ErrUnexpectedEOF},
		"cut in the record": {whole[:20], io.ErrUnexpectedEOF},
		"no header":         {[]byte("HTTP/1.1 500"), errUnreadable},
		"huge":              {[]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, errUnreadable},
		"unknown stream":    {append([]byte{9}, whole[1:]...), errUnreadable},
		"no stamp":          {append([]byte{1, 0, 0, 0, 0, 0, 0, 5}, "hello"...), errUnreadable},
		"bad stamp":         {append([]byte{1, 0, 0, 0, 0, 0, 0, 5}, "hel o"...), errUnreadable},
		"engine's words":    {append([]byte{3, 0, 0, 0, 0, 0, 0, 5}, "oops\n"...), errUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newFrames(bytes.NewReader(c.raw)).next(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := newFrames(iotest.TimeoutReader(bytes.NewReader(nil))).next(); err == nil {
		t.Error("no error of a reader that fails")
	}
}

func FuzzFrames(f *testing.F) {
	at := time.Unix(1, 2)
	f.Add(append(frameOf(1, at, "a\n"), frameOf(2, at, "\xff")...), 37)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		whole, pieces := newFrames(bytes.NewReader(raw)), newFrames(sliced{bytes.NewReader(raw), max(1, n%64)})
		for range len(raw)/frameHeader + 2 {
			a, err := whole.next()
			b, errB := pieces.next()
			if (err == nil) != (errB == nil) {
				t.Fatalf("whole gives %v, in pieces %v", err, errB)
			}
			if err != nil {
				return
			}
			if !bytes.Equal(a.data, b.data) || a.stamp != b.stamp || a.stream != b.stream {
				t.Fatalf("whole gives %q, in pieces %q", a.data, b.data)
			}
		}
		t.Fatal("more records than bytes for their headers")
	})
}

// logRecord is a record of a model of the engine's log.
type logRecord struct {
	stream sdk.Stream
	stamp  int64
	data   string
	id     int
}

func (r logRecord) record() record {
	return record{stream: r.stream, stamp: r.stamp, data: []byte(r.data)}
}

// modelLog draws a log as an engine keeps it: records stand in the order in
// which they were written, a line has the stamp of when it began, a little early
// at times, and all pieces of a long line have that one stamp.
func modelLog(t *rapid.T) []logRecord {
	piece := strings.Repeat("p", pieceSize)
	now := int64(10 * time.Second)
	var out []logRecord
	var open, last [2]int64
	var left [2]int
	for i := range rapid.IntRange(0, 30).Draw(t, "records") {
		now += rapid.SampledFrom([]int64{0, 0, 1, 1000, int64(time.Second), int64(3 * time.Second)}).Draw(t, "step")
		k := rapid.IntRange(0, 1).Draw(t, "stream")
		if left[k] == 0 {
			early := rapid.SampledFrom([]int64{0, 0, 1, slack / 2}).Draw(t, "early")
			open[k] = max(now-early, last[k])
			last[k] = open[k]
			left[k] = rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "pieces")
		}
		r := logRecord{[]sdk.Stream{sdk.StreamStdout, sdk.StreamStderr}[k], open[k], piece, i}
		if left[k]--; left[k] == 0 {
			r.data = "end\n"
		}
		out = append(out, r)
	}
	return out
}

// readFrom is what the engine gives from a stamp on: engines up to 20.10 leave
// out every record before it, newer ones only those in front of the first.
func readFrom(log []logRecord, since int64, each bool) []logRecord {
	var out []logRecord
	for _, r := range log {
		if r.stamp >= since || !each && len(out) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func TestF65ResumeAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := modelLog(t)
		var pos position
		got := map[sdk.Stream][]int{}
		for first := true; ; first = false {
			skip := newSeek(pos)
			rest := readFrom(log, skip.since, rapid.Bool().Draw(t, "each"))
			cut := len(rest)
			last := !first && rapid.Bool().Draw(t, "whole")
			if !last {
				cut = rapid.IntRange(0, len(rest)).Draw(t, "cut")
			}
			for _, r := range rest[:cut] {
				fresh, lost := skip.pass(r.record())
				if lost {
					t.Fatalf("a gap in a whole log")
				}
				if fresh {
					got[r.stream] = append(got[r.stream], r.id)
					pos.took(r.record())
				}
			}
			c, err := parseCursor(pos.cursor())
			if err != nil {
				t.Fatalf("cursor: %v", err)
			}
			if c != pos {
				t.Fatalf("the cursor gives %+v, was %+v", c, pos)
			}
			if last {
				if skip.lostAtEnd() {
					t.Fatalf("a gap at the end of a whole log")
				}
				break
			}
		}
		want := map[sdk.Stream][]int{}
		for _, r := range log {
			want[r.stream] = append(want[r.stream], r.id)
		}
		for _, s := range []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr} {
			if !slices.Equal(got[s], want[s]) {
				t.Fatalf("%s: records %v instead of %v", s, got[s], want[s])
			}
		}
	})
}

// A clock that was set back makes a log whose stamps prove nothing; counting does.
func TestResumeBehindClockStep(t *testing.T) {
	var log []logRecord
	for i, s := range []int64{100e9, 101e9, 50e9, 51e9, 52e9} {
		log = append(log, logRecord{sdk.StreamStdout, s, fmt.Sprintf("%d\n", i), i})
	}
	for cut := range len(log) + 1 {
		var pos position
		got := ""
		feed := func(rest []logRecord) {
			skip := newSeek(pos)
			for _, r := range rest {
				if fresh, _ := skip.pass(r.record()); fresh {
					got += r.data
					pos.took(r.record())
				}
			}
		}
		feed(log[:cut])
		if pos.stepped != (cut >= 3) {
			t.Errorf("behind %d records: stepped is %t", cut, pos.stepped)
		}
		if !pos.stepped {
			continue // the step comes while nobody looks: see the end of the pass
		}
		feed(readFrom(log, pos.since(), true))
		if got != "0\n1\n2\n3\n4\n" {
			t.Errorf("behind %d records: got %q", cut, got)
		}
	}
}

func TestDroppedRecordsAreAGap(t *testing.T) {
	rec := func(s sdk.Stream, at int64) record { return record{stream: s, stamp: at, data: []byte("x\n")} }
	var pos position
	pos.took(rec(sdk.StreamStdout, 100e9))
	pos.took(rec(sdk.StreamStdout, 101e9))
	skip := newSeek(pos)
	if fresh, lost := skip.pass(rec(sdk.StreamStdout, 105e9)); !fresh || !lost {
		t.Errorf("the last record is gone: fresh %t, lost %t", fresh, lost)
	}
	skip = newSeek(pos)
	if !skip.lostAtEnd() {
		t.Error("an emptied log is no gap")
	}
	skip.settle(&pos)
	if newSeek(pos).lostAtEnd() {
		t.Error("the same gap is told twice")
	}
	if fresh, lost := newSeek(pos).pass(rec(sdk.StreamStdout, 101e9)); !fresh || lost {
		t.Errorf("a record with the old stamp behind the gap: fresh %t, lost %t", fresh, lost)
	}
}

func TestCursorRefused(t *testing.T) {
	good := sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{keyOut: "5 1 1 "}}
	if _, err := parseCursor(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *sdk.LogCursor){
		"kind":     func(c *sdk.LogCursor) { c.Kind = "local" },
		"version":  func(c *sdk.LogCursor) { c.V = sdk.CursorVersion + 1 },
		"member":   func(c *sdk.LogCursor) { c.Position["x"] = "1" },
		"number":   func(c *sdk.LogCursor) { c.Position[keyOut] = "a 1 1 " },
		"negative": func(c *sdk.LogCursor) { c.Position[keyOut] = "5 -1 1 " },
		"more":     func(c *sdk.LogCursor) { c.Position[keyOut] = "5 2 1 " },
		"flag":     func(c *sdk.LogCursor) { c.Position[keyOut] = "5 1 1 z" },
		"short":    func(c *sdk.LogCursor) { c.Position[keyOut] = "5" },
	} {
		c := sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{keyOut: "5 1 1 "}}
		change(&c)
		if _, err := parseCursor(&c); !sdk.IsClear(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
