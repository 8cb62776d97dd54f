//go:build !race

package joblog

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Lines cost hardly any allocation, on the way in and on the way out.
func TestFewAllocations(t *testing.T) {
	const lines = 20_000
	s := mustOpen(t, Options{FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	it := kept(sdk.StreamStdout, "a line of output, as they are\n")
	it.Entry.Time = time.Unix(1, 2)
	it.Cursor = cursorAt(1)
	if n := testing.AllocsPerRun(1, func() {
		for range lines {
			must(t, w.Append(it))
		}
		must(t, w.Flush())
	}); n > lines/20 {
		t.Errorf("%v allocations for %d lines written", n, lines)
	}
	var out []byte
	if n := testing.AllocsPerRun(1, func() {
		var r Renderer
		for it, err := range s.Read(t.Context(), k, ReadOptions{}) {
			must(t, err)
			out = r.Append(out[:0], it.Entry)
		}
	}); n > lines/20 {
		t.Errorf("%v allocations for %d lines read", n, 2*lines)
	}
}
