//go:build linux || darwin

package sqlite

import (
	"path/filepath"
	"time"
)

// Turn is a place in the line of writers.
type Turn struct{ t *turn }

// OpenTurn joins the line of a state directory.
func OpenTurn(dir string) Turn { return Turn{openTurn(filepath.Join(dir, turnFile))} }

// Take waits for the turn and reports whether it came.
func (t Turn) Take(limit time.Duration) bool {
	t.t.take(nil, limit)
	return t.t.held
}

// Give lets the next one have it.
func (t Turn) Give() { t.t.give() }

// Close leaves the line.
func (t Turn) Close() { t.t.close() }
