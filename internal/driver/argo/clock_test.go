package argo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/kube"
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
	for _, step := range []time.Duration{0, 1700 * time.Millisecond} {
		ways(t, func(t *testing.T, w *world) {
			w.cluster.TuneKnobs(func(k *kube.Knobs) {
				k.NodeClock, k.NodeClockStep, k.StderrEarly, k.LogCut = -time.Hour, step, 400*time.Millisecond, 900
			})
			p := w.Open()
			got := strings.Fields(w.own(p, w.Run(p, w.Plan(p, shell(interleaved)))))
			slices.Sort(got)
			if !slices.Equal(got, both()) {
				t.Errorf("step %s: %d lines of %d: %q", step, len(got), len(both()), got)
			}
		})
	}
}

// TestF54ProgressBar: a line of many parts, which took long to be written, comes once
// and whole, and so does what is behind it.
func TestF54ProgressBar(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.NodeClockStep, k.LogCut = 3*time.Second, 9000 })
		p := w.Open()
		spec := shell(`echo begin; for i in 1 2 3 4 5; do printf %s "$BAR"; done; echo; echo done; echo bye`)
		bar := strings.Repeat("#", 9<<10)
		spec.Env = sdk.Env{"BAR": bar}
		text := w.own(p, w.Run(p, w.Plan(p, spec)))
		if want := "begin\n" + strings.Repeat(bar, 5) + "\ndone\nbye\n"; text != want {
			t.Errorf("%d bytes of %d", len(text), len(want))
		}
	})
}
