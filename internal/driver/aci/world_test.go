package aci

import (
	"context"
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

// bare is a provider that is told of every image that it has no entrypoint: those
// of tests have none, and no registry to say so.
type bare struct{ *provider }

// PrepareJob implements sdk.JobRunner.
func (b bare) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if r.Spec.ImageEntrypoint == nil {
		r.Spec.ImageEntrypoint = sdk.Argv{}
	}
	return b.provider.PrepareJob(ctx, r)
}

func bareDriver() sdk.Driver {
	d := Driver()
	open := d.Open
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		p, err := open(ctx, r)
		if err != nil {
			return nil, err
		}
		return bare{p.(*provider)}, nil
	}
	return d
}

// world is a pocket cloud with providers on it.
type world struct {
	*drivertest.World[bare]
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
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	cloud.TuneKnobs(func(k *pocket.Knobs) {
		k.Pace = pocket.DefaultPace()
		k.Pace.Grace = 500 * time.Millisecond
	})
	ca := filepath.Join(t.TempDir(), pocket.CAFile)
	if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	return &world{cloud: cloud, World: drivertest.New[bare](t, drivertest.Setup{
		Driver: bareDriver,
		Config: map[string]any{
			"subscription": pocket.SubscriptionID, "resource_group": pocket.ResourceGroup, "location": pocket.Location, "endpoint": "https://" + address, "ca_file": ca,
			"log_poll": "5ms", "log_quiet": "300ms", "log_max": "3s", "visible_within": "2s", "read_rate": 1000000, "write_rate": 1000000,
		},
		Change:      change,
		Credentials: pocketCredentials(),
		Faults:      cloud.Faults(),
		Calls:       cloud.Calls(),
		Throttle:    pocket.Throttled(),
		Shown:       shown,
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
