package cloudrun

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a pocket cloud with providers on it.
type world struct {
	*drivertest.World[*provider]
	cloud *pocket.Server
}

// newWorld starts a pocket cloud without a quota of log reads. Change adds to the
// config, or takes away by nil.
func newWorld(t testing.TB, o pocket.Options, change map[string]any) *world {
	t.Helper()
	o.Record = true
	cloud, err := pocket.New(o)
	if err != nil {
		t.Fatal(err)
	}
	cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Grace = 500 * time.Millisecond })
	cloud.Logging().TuneKnobs(func(k *cloudlogging.Knobs) { k.ReadsPerMinute = 0 })
	return &world{cloud: cloud, World: drivertest.New[*provider](t, drivertest.Setup{
		Driver: Driver,
		Config: map[string]any{
			"project": pocket.Project, "region": pocket.Location, "endpoint": "http://" + drivertest.Listen(t, cloud),
			"log_late": "50ms", "log_quiet": "300ms", "log_max": "3s", "visible_within": "2s",
			"read_rate": 1000000, "write_rate": 1000000, "log_rate": 1000000,
		},
		Change:      change,
		Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "canary-token-5b1f0c7e9a"},
		Faults:      cloud.Faults(),
		Calls:       cloud.Calls(),
		Throttle:    pocket.Throttle(),
	})}
}

func shell(script string) sdk.JobSpec { return drivertest.Shell(script) }
