package bench

import (
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkSvcCloudRun scales and restarts a service to "accepted", with its row in
// the durable ledger before the call, beside Google's stubs alone: GetService and
// UpdateService, since an update sends the service as it is. Calls take as long as
// over a network.
func BenchmarkSvcCloudRun(b *testing.B) {
	if testing.Short() {
		b.Skip("needs seconds: left out by -short")
	}
	cloud, address, plain := servedGoogle(b)
	plain.create("ours")
	plain.create("theirs")
	c := changes{w: gcpWorkloads(b, address), target: sdk.Target{Provider: cloudrun.Kind, Path: sdk.WorkloadPath(pocketgcp.Location + "/ours")}, faults: cloud.Faults(),
		settled: plain.settled,
		scale: func(n int32) error {
			return plain.update("theirs", false, func(v *runpb.Service) { v.Scaling.ManualInstanceCount = &n })
		},
		restart: func() error { return plain.update("theirs", true, func(*runpb.Service) {}) }}
	b.Run("scale", c.scales)
	b.Run("restart", c.restarts)
}

// servedGoogle is a pocket Google Cloud whose instances go on for ever, and Google's stubs
// for it.
func servedGoogle(b *testing.B) (cloud *pocketgcp.Server, address string, plain *plainServices) {
	b.Helper()
	cloud, err := pocketgcp.New(pocketgcp.Options{Executor: forever()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cloud.Close() })
	if address, err = cloud.Listen("127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return cloud, address, &plainServices{b: b, c: runpb.NewServicesClient(conn)}
}

// gcpWorkloads is the runtime of live workloads on a pocket Google Cloud.
func gcpWorkloads(b *testing.B, address string) *control.WorkloadRuntime {
	b.Helper()
	d := cloudrun.Driver()
	p := providerOf(b, d, map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "pocket"}, fmt.Sprintf(`{"project": %q, "region": %q, "endpoint": %q, "read_rate": 1000000, "write_rate": 1000000}`,
		pocketgcp.Project, pocketgcp.Location, "http://"+address))
	return workloadsOf(b, d, p)
}

// plainServices are Google's stubs alone.
type plainServices struct {
	b *testing.B
	c runpb.ServicesClient
}

func (p *plainServices) name(id string) string {
	return "projects/" + pocketgcp.Project + "/locations/" + pocketgcp.Location + "/services/" + id
}

func (p *plainServices) create(id string) {
	p.b.Helper()
	n := int32(1)
	_, err := p.c.CreateService(p.b.Context(), &runpb.CreateServiceRequest{Parent: "projects/" + pocketgcp.Project + "/locations/" + pocketgcp.Location, ServiceId: id,
		Service: &runpb.Service{Scaling: &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_MANUAL, ManualInstanceCount: &n}, Template: &runpb.RevisionTemplate{Containers: []*runpb.Container{{Image: "app"}}}}})
	if err != nil {
		p.b.Fatal(err)
	}
}

// settled waits for the end of the change before.
func (p *plainServices) settled(id string) {
	testwait.Until(p.b, time.Minute, "end of a rollout", func() bool {
		v, err := p.c.GetService(p.b.Context(), &runpb.GetServiceRequest{Name: p.name(id)})
		return err == nil && !v.GetReconciling()
	})
}

func (p *plainServices) update(id string, anew bool, edit func(v *runpb.Service)) error {
	v, err := p.c.GetService(p.b.Context(), &runpb.GetServiceRequest{Name: p.name(id)})
	if err != nil {
		return err
	}
	edit(v)
	_, err = p.c.UpdateService(p.b.Context(), &runpb.UpdateServiceRequest{Service: v, ForceNewRevision: anew})
	return err
}
