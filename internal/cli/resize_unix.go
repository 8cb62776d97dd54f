//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSize tells of changes of the terminal's size until stop.
func watchSize() (resized <-chan struct{}, stop func()) {
	sig, out, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(sig, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-sig:
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
		signal.Stop(sig)
		close(done)
	}
}
