package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkSvcACI restarts a container group to "accepted", with its row in the
// durable ledger before the call, beside the one call of Azure's client. Ours reads
// the group and sets its tag before, for the call takes no body that could name the
// operation. Calls take as long as over a network.
func BenchmarkSvcACI(b *testing.B) {
	if testing.Short() {
		b.Skip("needs seconds: left out by -short")
	}
	cloud, err := pocketazure.New(pocketazure.Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: -1} })})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cloud.Close() })
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ca := filepath.Join(b.TempDir(), pocketazure.CAFile)
	if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
		b.Fatal(err)
	}
	plain := plainGroups(b, address, ca)
	settled := func(name string) {
		testwait.Until(b, time.Minute, "group "+name, func() bool {
			g, err := plain.Get(b.Context(), pocketazure.ResourceGroup, name, nil)
			return err == nil && *g.Properties.InstanceView.State == "Running" && *g.Properties.ProvisioningState == "Succeeded"
		})
	}
	for _, name := range []string{"ours", "theirs"} {
		g := arm.ContainerGroup{Location: to.Ptr(pocketazure.Location), Properties: &arm.ContainerGroupPropertiesProperties{OSType: to.Ptr(arm.OperatingSystemTypesLinux),
			Containers: []*arm.Container{{Name: to.Ptr("main"), Properties: &arm.ContainerProperties{Image: to.Ptr("app"), Resources: &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: to.Ptr(1.0), MemoryInGB: to.Ptr(1.0)}}}}}}}
		if _, err := plain.BeginCreateOrUpdate(b.Context(), pocketazure.ResourceGroup, name, g, nil); err != nil {
			b.Fatal(err)
		}
	}
	w := azureWorkloads(b, address, ca)
	// timed is one restart, once the one before it is over.
	timed := func(name string, f func() error) time.Duration {
		settled(name)
		remove := cloud.Faults().Add(fault.Rule{Effect: fault.Effect{Latency: 50 * time.Millisecond}})
		defer remove()
		begun := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	ours := func() error {
		_, err := w.Restart(b.Context(), control.ChangeRequest{Target: sdk.Target{Provider: aci.Kind, Path: sdk.WorkloadPath(pocketazure.ResourceGroup + "/ours")}, Actor: "bench"})
		return err
	}
	theirs := func() error {
		_, err := plain.BeginRestart(b.Context(), pocketazure.ResourceGroup, "theirs", nil)
		return err
	}
	timed("ours", ours) // the first call of either gets a token
	timed("theirs", theirs)
	pair(b, func() time.Duration { return timed("ours", ours) }, func() time.Duration { return timed("theirs", theirs) })
}

// azureWorkloads is the runtime of live workloads on a pocket Azure.
func azureWorkloads(b *testing.B, address, ca string) *control.WorkloadRuntime {
	b.Helper()
	d, dir := aci.Driver(), b.TempDir()
	store, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, err := control.New(b.Context(), control.Options{Store: store, Logs: logs, Providers: one{control.Backend{Name: d.Kind, Provider: onAzure(b, address, ca, ""), Driver: &d}}, StateDir: dir, Actor: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	return e.Workloads()
}

// plainGroups is Azure's client alone.
func plainGroups(b *testing.B, address, ca string) *arm.ContainerGroupsClient {
	b.Helper()
	session, err := azure.Open(azure.Settings{Provider: "plain", Subscription: pocketazure.SubscriptionID, Endpoint: "https://" + address, CAFile: ca, Credentials: azureKeys()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = session.Close() })
	token, options := session.Client()
	c, err := arm.NewContainerGroupsClient(session.Subscription, token, options)
	if err != nil {
		b.Fatal(err)
	}
	return c
}
