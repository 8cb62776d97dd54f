package kubernetes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
)

// interleaved writes lines to both streams, o1 to o40 and e1 to e40.
const interleaved = `i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo o$i; echo e$i >&2; done`

// both are the lines of interleaved.
func both() []string {
	var out []string
	for i := range 40 {
		out = append(out, fmt.Sprint("o", i+1), fmt.Sprint("e", i+1))
	}
	slices.Sort(out)
	return out
}

// TestF54StampsGoBack: a runtime stamps the lines of each stream before it writes them
// into one file, where they may so stand out of order; cut streams are resumed without
// a line lost or doubled, whatever the node's clock shows.
func TestF54StampsGoBack(t *testing.T) {
	for step, clock := range map[time.Duration]time.Duration{0: 0, 90 * time.Millisecond: -time.Hour, 1700 * time.Millisecond: time.Hour} {
		w := newWorld(t, nil)
		w.cluster.TuneKnobs(func(k *pocket.Knobs) {
			k.NodeClock, k.NodeClockStep, k.StderrEarly, k.LogCut = clock, step, 400*time.Millisecond, 500
		})
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell(interleaved)))
		text, err := w.Follow(t.Context(), p, h, nil)
		got := strings.Fields(text)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, both()) {
			t.Errorf("clock %s, step %s: %d lines of %d, %v\n%s", clock, step, len(got), len(both()), err, text)
		}
		if st := w.Ended(p, h); st.State != sdk.StateSucceeded || st.EndedAt.IsZero() || st.EndedAt.Before(st.StartedAt) {
			t.Errorf("clock %s, step %s: %s, from %s to %s", clock, step, st.State, st.StartedAt, st.EndedAt)
		}
	}
}

// TestF54ProgressBar: a line of many parts, which took long to be written, comes once
// and whole, and so does what is behind it.
func TestF54ProgressBar(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.NodeClockStep, k.LogCut = 3*time.Second, 9000 })
	p := w.Open()
	spec := shell(`echo begin; for i in 1 2 3 4 5; do printf %s "$BAR"; done; echo; echo done; echo bye`)
	bar := strings.Repeat("#", 9<<10)
	spec.Env = sdk.Env{"BAR": bar}
	h := w.Run(p, w.Plan(p, spec))
	text, err := w.Follow(t.Context(), p, h, nil)
	if want := "begin\n" + strings.Repeat(bar, 5) + "\ndone\nbye\n"; err != nil || text != want {
		t.Errorf("%d bytes of %d, %v", len(text), len(want), err)
	}
}
