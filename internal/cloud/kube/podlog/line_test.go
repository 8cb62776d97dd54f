package podlog

import (
	"strings"
	"testing"
	"time"
)

// FuzzF54Lines: however a log's bytes are cut, and wherever it is resumed, each line
// comes once and whole.
func FuzzF54Lines(f *testing.F) {
	f.Add([]byte("a\n\nbc é\nlast"), uint8(3), uint8(1))
	f.Add([]byte("\n\n\n"), uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, cut, per uint8) {
		var file []byte
		at := time.Unix(1e9, 0).UTC()
		for i, line := range strings.SplitAfter(string(data), "\n") {
			if line == "" {
				continue
			}
			if per == 0 || i%int(per) == 0 {
				at = at.Add(time.Nanosecond)
			}
			file = append(file, at.Format(time.RFC3339Nano)+" "+line...)
		}
		var pos position
		var got []byte
		for from := 0; ; {
			from = min(from+int(cut)+1, len(file))
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
			if _, ok := s.write(file[:from], take); !ok {
				t.Fatalf("a stamp isn't read in %q", file[:from])
			}
			if last, ok := s.rest(); ok {
				take(last)
			}
			if from == len(file) {
				break
			}
		}
		if string(got) != string(data) {
			t.Errorf("got %q, want %q", got, data)
		}
	})
}
