package workload

import (
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// glances are objects as a status has just read them, each for one decision: the
// runtime reads how a workload is before it writes the row of a change, and the change
// needn't read it again. The zero value is ready.
type glances struct {
	mu sync.Mutex
	m  map[ref]glance
}

type glance struct {
	o  *object
	at time.Time
}

const (
	// fresh is how old a glance may be; an older one would mostly be refused.
	fresh = 2 * time.Second
	// maxGlances bounds the memory.
	maxGlances = 1000
)

func (g *glances) put(o *object, scaler *sdk.Autoscaler, unseen error, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil || len(g.m) >= maxGlances {
		g.m = map[ref]glance{}
	}
	own := *o
	own.scaler, own.unseen = scaler, unseen
	g.m[o.ref] = glance{&own, now}
}

// take returns an object for one decision, nil where it wasn't read just now.
func (g *glances) take(r ref, now time.Time) *object {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.m[r]
	delete(g.m, r)
	if now.Sub(x.at) > fresh {
		return nil
	}
	return x.o
}
