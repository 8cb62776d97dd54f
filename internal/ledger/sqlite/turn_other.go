//go:build !linux && !darwin

package sqlite

import "time"

// turn is a place in a line that there is none of here: writers poll.
type turn struct{}

func openTurn(string) *turn { return &turn{} }

func (*turn) take(<-chan struct{}, time.Duration) {}
func (*turn) give()                               {}
func (*turn) close()                              {}
