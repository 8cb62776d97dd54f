package compose

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// TestSuiteOverWire is TestSuite as the host of a plugin sees it, in one project.
func TestSuiteOverWire(t *testing.T) {
	drivertest.WholeWire(t)
	t.Parallel()
	h := newYard(t).harness()
	h.Open = drivertest.OpenedOverWire(t, Driver(), h.Open)
	workloadtest.Run(t, h)
}
