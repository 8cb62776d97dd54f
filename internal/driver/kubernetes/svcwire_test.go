package kubernetes

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// TestLiveOverWire is TestLive as the host of a plugin sees it.
func TestLiveOverWire(t *testing.T) {
	h := newScriptedLive(t).suite()
	h.Open = drivertest.OpenedOverWire(t, Driver(), h.Open)
	workloadtest.Run(t, h)
}
