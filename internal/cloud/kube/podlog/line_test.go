package podlog

import (
	"strings"
	"testing"
	"time"
)

// FuzzF54Lines: however a log's bytes are cut, wherever it is resumed and however the
// runtime's stamps stand out of order, each line comes once and whole. A line is step
// milliseconds after the one before it; every other one is stamped back of them early.
func FuzzF54Lines(f *testing.F) {
	f.Add([]byte("a\n\nbc é\nlast"), uint8(3), uint16(1), uint8(0))
	f.Add([]byte("\n\n\n"), uint8(1), uint16(0), uint8(0))
	f.Add([]byte("0\n1\n2\n3\n4\n5\n6\n7\n"), uint8(40), uint16(1), uint8(3))
	f.Add([]byte("0\n1\n2\n3\n4\n5\n6\n7\n"), uint8(20), uint16(600), uint8(250))
	f.Add([]byte("0\n1\n2\n3\n4\n5\n6\n7\n"), uint8(20), uint16(2500), uint8(9))
	f.Fuzz(func(t *testing.T, data []byte, cut uint8, step uint16, back uint8) {
		var file [][]byte
		var stamps []time.Time
		size := 0
		at := time.Unix(1e9, 0).UTC()
		for i, line := range strings.SplitAfter(string(data), "\n") {
			if line == "" {
				continue
			}
			at = at.Add(time.Duration(step) * time.Millisecond)
			stamp := at
			if i%2 == 1 {
				stamp = at.Add(-time.Duration(back) * time.Millisecond)
			}
			file, stamps = append(file, []byte(stamp.Format(time.RFC3339Nano)+" "+line)), append(stamps, stamp)
			size += len(file[len(file)-1])
		}
		var pos position
		var got []byte
		for from := 0; ; {
			from = min(from+int(cut)+1, size)
			var s splitter
			old := newSieve(pos)
			take := func(q piece) bool {
				fresh, isNew, gap := old.pass(q)
				if gap {
					t.Errorf("a gap at %q", q.data)
				}
				if isNew {
					pos = pos.advance(q, fresh)
					got = append(got, fresh...)
					if q.whole {
						got = append(got, '\n')
					}
				}
				return true
			}
			if _, ok := s.write(served(file, stamps, pos.since(), from), take); !ok {
				t.Fatalf("a stamp isn't read in the first %d bytes of %q", from, file)
			}
			if last, ok := s.rest(); ok {
				take(last)
			}
			if from == size {
				break
			}
		}
		if string(got) != string(data) {
			t.Errorf("got %q, want %q", got, data)
		}
	})
}

// served is what the API gives of a file's first n bytes: the lines since a time.
func served(file [][]byte, stamps []time.Time, since time.Time, n int) []byte {
	var out []byte
	for i, line := range file {
		line = line[:min(n, len(line))]
		n -= len(line)
		if !stamps[i].Before(since) {
			out = append(out, line...)
		}
	}
	return out
}

// TestRotatedPlace: where what was given is no longer there, what comes is new, and a
// gap is told of, once.
func TestRotatedPlace(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	line := func(ms int, text string) piece {
		return piece{stamp: at.Add(time.Duration(ms) * time.Millisecond), data: []byte(text), whole: true}
	}
	var pos position
	for i := range 5 {
		pos = pos.advance(line(i, "x"), []byte("x"))
	}
	old := newSieve(pos)
	var got strings.Builder
	gaps := 0
	for _, q := range []piece{line(4, "x"), line(5, "new"), line(6, "er")} {
		fresh, isNew, gap := old.pass(q)
		if gap {
			gaps++
			pos = old.there
		}
		if isNew {
			got.Write(fresh)
			pos = pos.advance(q, fresh)
		}
	}
	again := newSieve(pos)
	for _, q := range []piece{line(4, "x"), line(5, "new"), line(6, "er")} {
		if _, isNew, _ := again.pass(q); isNew {
			t.Errorf("%q comes twice", q.data)
		}
	}
	if !again.met {
		t.Error("the place behind the gap isn't found again")
	}
	if got.String() != "newer" || gaps != 1 {
		t.Errorf("got %q with %d gaps", got.String(), gaps)
	}
}
