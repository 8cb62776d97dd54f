package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/aci"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
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
	cloud, address, ca := servedAzure(b)
	plain := plainGroups(b, address, ca)
	settled := func(name string) {
		testwait.Until(b, time.Minute, "group "+name, func() bool {
			g, err := plain.Get(b.Context(), pocketazure.ResourceGroup, name, nil)
			return err == nil && *g.Properties.InstanceView.State == "Running" && *g.Properties.ProvisioningState == "Succeeded"
		})
	}
	for _, name := range []string{"ours", "theirs"} {
		if _, err := plain.BeginCreateOrUpdate(b.Context(), pocketazure.ResourceGroup, name, group(), nil); err != nil {
			b.Fatal(err)
		}
	}
	c := changes{w: workloadsOf(b, aci.Driver(), onAzure(b, address, ca, "")), target: sdk.Target{Provider: aci.Kind, Path: sdk.WorkloadPath(pocketazure.ResourceGroup + "/ours")},
		faults: cloud.Faults(), settled: settled, restart: func() error {
			_, err := plain.BeginRestart(b.Context(), pocketazure.ResourceGroup, "theirs", nil)
			return err
		}}
	c.restarts(b) // the first, unmeasured change of either gets a token
}

// servedAzure is a pocket Azure whose containers go on for ever, and the file of its
// authority.
func servedAzure(b *testing.B) (cloud *pocketazure.Server, address, ca string) {
	b.Helper()
	cloud, err := pocketazure.New(pocketazure.Options{Executor: forever()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cloud.Close() })
	if address, err = cloud.Listen("127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	ca = filepath.Join(b.TempDir(), pocketazure.CAFile)
	if err := os.WriteFile(ca, cloud.CA(), 0o600); err != nil {
		b.Fatal(err)
	}
	return cloud, address, ca
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

// group is a container group of one container.
func group() arm.ContainerGroup {
	return arm.ContainerGroup{Location: new(pocketazure.Location), Properties: &arm.ContainerGroupPropertiesProperties{OSType: new(arm.OperatingSystemTypesLinux),
		Containers: []*arm.Container{{Name: new("main"), Properties: &arm.ContainerProperties{Image: new("app"), Resources: &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: new(1.0), MemoryInGB: new(1.0)}}}}}}}
}
