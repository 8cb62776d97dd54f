package ecs

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// TestServicesOverWire is TestServices as the host of a plugin sees it.
func TestServicesOverWire(t *testing.T) {
	drivertest.WholeWire(t)
	h := serviceWorld(t).services(t)
	h.Open = drivertest.OpenedOverWire(t, Driver(), h.Open)
	workloadtest.Run(t, h)
}
