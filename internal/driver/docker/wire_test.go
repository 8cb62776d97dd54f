package docker

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
)

// TestOverWire runs the suite with a plugin's wire between.
func TestOverWire(t *testing.T) {
	drivertest.OverWire(t, newWorld(t, nil).harness)
}
