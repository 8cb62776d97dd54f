package appplatform

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
)

// TestOverWire runs the suite with a plugin's wire between.
func TestOverWire(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds: left out by -short")
	}
	drivertest.OverWire(t, newWorld(t, suiteOptions(), nil).harness)
}
