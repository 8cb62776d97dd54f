package aci

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a pocket cloud with providers on it.
type world struct {
	*drivertest.World[*provider]
	cloud *pocket.Server
}

// newWorld starts a pocket cloud. Change adds to the config, or takes away by nil.
func newWorld(t testing.TB, o pocket.Options, change map[string]any) *world {
	t.Helper()
	o.Record = true
	cloud, err := pocket.New(o)
	if err != nil {
		t.Fatal(err)
	}
	cloud.TuneKnobs(func(k *pocket.Knobs) {
		k.Pace = pocket.DefaultPace()
		k.Pace.Grace = 500 * time.Millisecond
	})
	ca := filepath.Join(t.TempDir(), pocket.CAFile)
	if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	return &world{cloud: cloud, World: drivertest.New[*provider](t, drivertest.Setup{
		Driver: Driver,
		Config: map[string]any{
			"subscription": pocket.SubscriptionID, "resource_group": pocket.ResourceGroup, "location": pocket.Location, "endpoint": "https://" + drivertest.Listen(t, cloud), "ca_file": ca,
			"log_poll": "5ms", "log_quiet": "300ms", "log_max": "3s", "visible_within": "2s", "read_rate": 1000000, "write_rate": 1000000,
		},
		Change:       change,
		Credentials:  pocketCredentials(),
		Faults:       cloud.Faults(),
		Calls:        cloud.Calls(),
		NoEntrypoint: true,
		Throttle:     pocket.Throttled(),
		Shown:        shown,
	})}
}

func pocketCredentials() map[string]string {
	return map[string]string{"AZURE_TENANT_ID": pocket.TenantID, "AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666", "AZURE_CLIENT_SECRET": "canary-client-secret-5b1f0c7e9a"}
}

// shown is what others can ask Azure for: what a request for a group says isn't,
// nor what a vault gives to whoever may read it.
func shown(c fault.Call) []byte {
	switch c.Action {
	case "ContainerGroups_CreateOrUpdate":
		return c.Reply
	case "GetSecret":
		return nil
	}
	return append(append([]byte{}, c.Request...), c.Reply...)
}

func shell(script string) sdk.JobSpec { return drivertest.Shell(script) }
