//go:build !race

package bench

import "testing"

// TestRunAllocations gates what a short run allocates on its whole way, with all
// that the engine does beside it. It was 3,400 once.
func TestRunAllocations(t *testing.T) {
	r := newRig(t)
	e := r.engine(t)
	defer r.shut(t, e)
	if n := testing.AllocsPerRun(50, func() { r.run(t, e) }); n > 2000 {
		t.Errorf("%v allocations for a run", n)
	} else {
		t.Logf("%v allocations for a run", n)
	}
}
