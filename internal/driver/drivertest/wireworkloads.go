package drivertest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// WholeWire skips a test that is one of those that testneed.WireEnv asks for.
func WholeWire(t *testing.T) {
	t.Helper()
	if !testneed.WholeWireSuite() {
		t.Skipf("%s isn't %s", testneed.WireEnv, testneed.WireAll)
	}
}

// OpenedOverWire returns open with a plugin's wire between, on a socket: what it opens
// are providers of d, and the suite sees them as a host does. The configuration doesn't
// pass over that wire, for which there is OverWire.
func OpenedOverWire(t *testing.T, d sdk.Driver, open func(providertest.T) sdk.Provider) func(providertest.T) sdk.Provider {
	t.Helper()
	var mu sync.Mutex
	askers := map[string]providertest.T{}
	d.Open = func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		mu.Lock()
		asker := askers[r.Name]
		mu.Unlock()
		return open(asker), nil
	}
	through := plugintest.Through(t, d)
	return func(asker providertest.T) sdk.Provider {
		asker.Helper()
		mu.Lock()
		name := fmt.Sprintf("asker-%d", len(askers))
		askers[name] = asker
		mu.Unlock()
		p, err := through.Open(asker.Context(), sdk.OpenRequest{Name: name})
		if err != nil {
			asker.Fatalf("open over the wire: %v", err)
		}
		return p
	}
}
