package batch

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
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
	return &world{cloud: cloud, World: drivertest.New[*provider](t, drivertest.Setup{
		Driver: Driver,
		Config: map[string]any{
			"region": pocket.Region, "endpoint": drivertest.Serve(t, cloud), "queue": pocketbatch.DefaultQueue, "execution_role": role("execution"),
			"log_quiet": "300ms", "log_max": "3s", "missing_grace": "2s", "describe_rate": 10000, "log_rate": 10000, "submit_limit": 10000,
		},
		Change:      change,
		Credentials: pocketCredentials(),
		Faults:      cloud.Faults(),
		Calls:       cloud.Calls(),
		Throttle:    pocket.Throttle(),
	})}
}

func role(name string) string { return "arn:aws:iam::" + pocket.Account + ":role/" + name }

func pocketCredentials() map[string]string {
	return map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "canary-key-5b1f0c7e9a"}
}

func shell(script string) sdk.JobSpec { return drivertest.Shell(script) }
