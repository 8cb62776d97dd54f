//go:build !unix

package cli

import "time"

// watchSize tells a few times a second that the terminal's size may have changed:
// this system sends no signal of it.
func watchSize() (resized <-chan struct{}, stop func()) {
	tick, out, done := time.NewTicker(500*time.Millisecond), make(chan struct{}), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			select {
			case out <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		tick.Stop()
		close(done)
	}
}
