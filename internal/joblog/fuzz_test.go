package joblog

import (
	"bytes"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Whatever a disk returns, a frame is what was written or nothing.
func FuzzFrame(f *testing.F) {
	entry := frame{kind: kindEntry, stream: 1, launch: 2, at: stampOf(time.Unix(3, 4)), flags: flagStripped, data: []byte("hello")}
	gap, _ := gapFrame(&sdk.LogGap{Why: "why"}, 5)
	loss, _ := lossFrame(&lossBody{End: []mark{{Units: 7}}}, unknownTime)
	for _, x := range []frame{entry, gap, loss} {
		b := appendFrame(nil, 9, &x)
		f.Add(b, uint64(9), -1)
		f.Add(b, uint64(9), 40)
	}
	f.Fuzz(func(t *testing.T, b []byte, epoch uint64, flip int) {
		var x frame
		n, status := parseFrame(b, epoch, &x)
		if status == frameOK {
			if again := appendFrame(nil, epoch, &x); !bytes.Equal(again, b[:n]) {
				t.Fatalf("%x was read and became %x", b[:n], again)
			}
			s := newState()
			_ = s.advance(&x)
			_ = s.advance(&x)
			if !s.valid() {
				t.Fatalf("%+v", s)
			}
			if flip >= 0 {
				bad := bytes.Clone(b[:n])
				bad[flip%n] ^= byte(1 + flip%255)
				if _, status := parseFrame(bad, epoch, &x); status == frameOK && !bytes.Equal(bad, b[:n]) {
					t.Fatalf("a changed byte %d went unseen", flip%n)
				}
			}
		}
		if status == frameShort && n <= len(b) {
			t.Fatalf("short of %d bytes with %d", n, len(b))
		}
	})
}

// Headers, checkpoints and positions are read whole or not at all, and never
// crash.
func FuzzFiles(f *testing.F) {
	id := segID{Number: 1, term: term{Epoch: 2}}
	h := header{ID: id, Lineage: []reign{{term: id.term, Base: 1}}, Start: newState()}
	b, _ := h.encode()
	f.Add(b)
	end := newState()
	c := checkpoint{Term: id.term, At: newState(), Verdict: sdk.VerdictGap, End: &end}
	b, _ = c.encode()
	f.Add(b)
	s := newState()
	s.mark(1, 2).Units = 3
	f.Add([]byte(positionAt(1, &s).String()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := readHeader(bytes.NewReader(b), id); err == nil && (h.ID != id || h.size > int64(len(b))) {
			t.Fatalf("%+v", h)
		}
		if c := decodeCheckpoint(b, id.term); c != nil {
			if _, err := c.encode(); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := ParsePosition(string(b)); err == nil {
			again, err := ParsePosition(p.String())
			if err != nil || again.String() != p.String() {
				t.Fatalf("%q became %q, %v", b, p, err)
			}
		}
	})
}
