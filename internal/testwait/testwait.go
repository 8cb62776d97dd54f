// Package testwait waits in tests for what another process or goroutine brings
// about, with a deadline in place of a sleep. Where time can be virtual,
// testing/synctest is the better tool.
//
// It is imported by tests alone.
package testwait

import (
	"testing"
	"time"
)

const interval = 2 * time.Millisecond

// Until asks cond until it is true. After the time allowed it ends the test
// with a failure that names what was awaited. Like t.Fatal it belongs into the
// test's own goroutine, and cond runs there.
func Until(t testing.TB, allowed time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(allowed)
	for pause := interval; !cond(); pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still no %s", allowed, what)
		}
		time.Sleep(pause)
	}
}

// Receive returns the next value of a channel. It ends the test with a failure
// that names what was awaited when the channel is closed or the time allowed
// has passed.
func Receive[T any](t testing.TB, allowed time.Duration, what string, c <-chan T) T {
	t.Helper()
	timer := time.NewTimer(allowed)
	defer timer.Stop()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("no %s: the channel was closed", what)
		}
		return v
	case <-timer.C:
		t.Fatalf("after %s still no %s", allowed, what)
	}
	panic("unreachable")
}
