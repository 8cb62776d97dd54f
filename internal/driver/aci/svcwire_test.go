package aci

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// TestWorkloadsOverWire is TestWorkloadSuite as the host of a plugin sees it.
func TestWorkloadsOverWire(t *testing.T) {
	drivertest.WholeWire(t)
	t.Parallel() // it mostly waits
	h := workloadWorld(t, withShell()).workloads()
	h.Open = drivertest.OpenedOverWire(t, Driver(), h.Open)
	workloadtest.Run(t, h)
}
