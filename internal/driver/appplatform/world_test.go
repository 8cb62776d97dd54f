package appplatform

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "dop_v1_canary-token-5b1f0c7e9a"

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
	return &world{cloud: cloud, World: drivertest.New[*provider](t, drivertest.Setup{
		Driver: Driver,
		Config: map[string]any{"endpoint": drivertest.Serve(t, cloud), "visible_within": "1200ms", "log_max": "3s", "max_apps": 1000,
			"minute_rate": 1000000, "hour_rate": 60000000},
		Change:       change,
		Credentials:  map[string]string{"DIGITALOCEAN_TOKEN": canary},
		Faults:       cloud.Faults(),
		Calls:        cloud.Calls(),
		NoEntrypoint: true,
		Throttle:     pocket.Throttle(),
		// The request of a create alone has what is sealed.
		Shown: func(c fault.Call) []byte {
			if c.Action == "apps_create" || c.Action == "apps_validate_appSpec" {
				return c.Reply
			}
			return append(append([]byte{}, c.Request...), c.Reply...)
		},
	})}
}

func shell(script string) sdk.JobSpec { return drivertest.Shell(script) }
