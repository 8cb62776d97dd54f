package ledgertest

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
)

// testStamp: a write tells the time that its events got, in the precision in
// which they are stored.
func testStamp(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	sc := NewScript(ids, ids.NewID(), nil)
	var want []time.Time
	for _, w := range sc.Writes {
		var at time.Time
		w.Stamp = &at
		mustWrite(t, s, w)
		for range w.Events {
			want = append(want, at)
		}
	}
	for i, ev := range events(t, s, ledger.EventFilter{Run: sc.Run}) {
		if !ev.At.Equal(want[i]) || want[i].IsZero() {
			t.Errorf("event %d is of %s, the write said %s", i, ev.At, want[i])
		}
	}
}
