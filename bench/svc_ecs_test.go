package bench

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/control"
	driver "github.com/windlass-run/windlass/internal/driver/ecs"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkSvcECS scales and restarts a service to "accepted", with its row in the
// durable ledger before the call, beside one bare UpdateService of the vendor's
// client. Calls take as long as over a network. Ours reads the service and what
// scales it, and leaves a mark: it can't be as quick as one call.
func BenchmarkSvcECS(b *testing.B) {
	if testing.Short() {
		b.Skip("needs seconds: left out by -short")
	}
	cloud, url := servedAWS(b)
	plain := newRaw(url)
	plain.define(b)
	plain.serve(b, "ours")
	plain.serve(b, "theirs")
	update := func(in *ecs.UpdateServiceInput) error {
		in.Service = new("theirs")
		_, err := plain.ecs.UpdateService(b.Context(), in)
		return err
	}
	c := changes{w: awsWorkloads(b, url), target: sdk.Target{Provider: driver.Kind, Path: "default/ours"}, faults: cloud.Faults(),
		settled: func(name string) { plain.steady(b, name) },
		scale:   func(n int32) error { return update(&ecs.UpdateServiceInput{DesiredCount: &n}) },
		restart: func() error { return update(&ecs.UpdateServiceInput{ForceNewDeployment: true}) }}
	b.Run("scale", c.scales)
	b.Run("restart", c.restarts)
}

// servedAWS is a pocket AWS whose tasks go on for ever.
func servedAWS(b *testing.B) (cloud *pocket.Server, url string) {
	b.Helper()
	cloud, err := pocket.New(pocket.Options{Executor: forever()})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	b.Cleanup(func() {
		web.Close()
		_ = cloud.Close()
	})
	return cloud, web.URL
}

// awsWorkloads is the runtime of live workloads on a pocket AWS.
func awsWorkloads(b *testing.B, url string) *control.WorkloadRuntime {
	b.Helper()
	d := driver.Driver()
	p := providerOf(b, d, map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"},
		fmt.Sprintf(`{"region": %q, "endpoint": %q, "account": %q, "describe_rate": 10000, "service_rate": 10000}`, pocket.Region, url, pocket.Account))
	return workloadsOf(b, d, p)
}

// serve makes a service of one task.
func (r *raw) serve(b *testing.B, name string) {
	b.Helper()
	if _, err := r.ecs.CreateService(b.Context(), &ecs.CreateServiceInput{ServiceName: &name, TaskDefinition: new("raw"), DesiredCount: new(int32(1)), LaunchType: types.LaunchTypeFargate,
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-0123456789abcdef0"}}}}); err != nil {
		b.Fatal(err)
	}
}

// steady waits for the end of the change before.
func (r *raw) steady(b *testing.B, name string) {
	b.Helper()
	testwait.Until(b, time.Minute, "end of a deployment", func() bool {
		out, err := r.ecs.DescribeServices(b.Context(), &ecs.DescribeServicesInput{Services: []string{name}})
		return err == nil && len(out.Services) == 1 && len(out.Services[0].Deployments) == 1 && out.Services[0].RunningCount == out.Services[0].DesiredCount && out.Services[0].PendingCount == 0
	})
}
