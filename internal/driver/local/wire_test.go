//go:build linux || darwin

package local

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestOverWire runs the whole suite with a plugin's wire between: here it costs the
// least, and it has everything that a wire can carry.
func TestOverWire(t *testing.T) {
	h := harness(t, `{}`, plugintest.Through(t, Driver()))
	h.Second = 500 * time.Millisecond
	providertest.Run(t, h)
}
