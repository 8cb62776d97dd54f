// Package glance keeps what a status has just read, for one decision: the runtime
// reads how a workload is before it writes the row of a change, and the change
// needn't read it again.
package glance

import (
	"sync"
	"time"
)

// most bounds the memory.
const most = 1000

// Glances are values as they were just read, by what they are of. The zero value is
// ready, and it is safe for concurrent use.
type Glances[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]glance[V]
}

type glance[V any] struct {
	v  V
	at time.Time
}

// Put keeps a value that was read at a time, in place of an earlier one.
func (g *Glances[K, V]) Put(k K, v V, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil || len(g.m) >= most {
		g.m = map[K]glance[V]{}
	}
	g.m[k] = glance[V]{v, at}
}

// Take returns a value for one decision; ok is false where it wasn't read within
// fresh before now. A clock that went back has read nothing.
func (g *Glances[K, V]) Take(k K, now time.Time, fresh time.Duration) (v V, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, ok := g.m[k]
	delete(g.m, k)
	if age := now.Sub(x.at); !ok || age > fresh || age < 0 {
		return v, false
	}
	return x.v, true
}
