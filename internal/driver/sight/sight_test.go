package sight

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestMemory: notes are kept, and beyond many those that nobody looked at go.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory[int]
		if m.Get("a") != 0 {
			t.Error("a job that was never seen has a note")
		}
		for i := range most - 1 {
			m.Change(strconv.Itoa(i), func(n *int) { *n++ })
		}
		time.Sleep(keep + 1)
		m.Change("a", func(n *int) { *n += 2 })
		m.Change("b", func(n *int) { *n += 3 })
		if m.Get("a") != 2 || m.Get("b") != 3 || m.Get("1") != 0 || len(m.m) != 2 {
			t.Errorf("a %d, b %d, 1 %d, %d notes", m.Get("a"), m.Get("b"), m.Get("1"), len(m.m))
		}
	})
}
