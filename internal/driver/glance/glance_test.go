package glance_test

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/glance"
)

// TestTake gives a value once, while it is fresh, and the newest one.
func TestTake(t *testing.T) {
	var g glance.Glances[string, int]
	now := time.Unix(1000, 0)
	for name, k := range map[string]struct {
		put  []int
		when time.Duration
		want int
		ok   bool
	}{
		"none":            {nil, 0, 0, false},
		"at once":         {[]int{1}, 0, 1, true},
		"the newest":      {[]int{1, 2}, time.Second, 2, true},
		"just fresh":      {[]int{1}, 2 * time.Second, 1, true},
		"old":             {[]int{1}, 2*time.Second + 1, 0, false},
		"clock went back": {[]int{1}, -time.Second, 0, false},
	} {
		for _, v := range k.put {
			g.Put(name, v, now)
		}
		if v, ok := g.Take(name, now.Add(k.when), 2*time.Second); v != k.want || ok != k.ok {
			t.Errorf("%s: %d, %t", name, v, ok)
		}
		if v, ok := g.Take(name, now, 2*time.Second); ok {
			t.Errorf("%s: %d was given twice", name, v)
		}
	}
}

// TestMost forgets rather than grows.
func TestMost(t *testing.T) {
	var g glance.Glances[int, int]
	now := time.Unix(1000, 0)
	for i := range 2500 {
		g.Put(i, i, now)
	}
	kept := 0
	for i := range 2500 {
		if _, ok := g.Take(i, now, time.Second); ok {
			kept++
		}
	}
	if kept == 0 || kept > 1000 {
		t.Errorf("%d are kept", kept)
	}
	if _, ok := g.Take(2499, now, time.Second); ok {
		t.Error("the last one was given twice")
	}
}
