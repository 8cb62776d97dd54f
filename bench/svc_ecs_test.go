package bench

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/control"
	driver "github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkSvcECS scales and restarts a service to "accepted", with its row in the
// durable ledger before the call, beside one bare UpdateService of the vendor's
// client. Calls take as long as over a network. Ours reads the service and what
// scales it twice, and leaves a mark: it can't be as quick as one call.
func BenchmarkSvcECS(b *testing.B) {
	if testing.Short() {
		b.Skip("needs seconds: left out by -short")
	}
	cloud, err := pocket.New(pocket.Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{For: -1} })})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	b.Cleanup(func() {
		web.Close()
		_ = cloud.Close()
	})
	plain := newRaw(web.URL)
	plain.define(b)
	plain.serve(b, "ours")
	plain.serve(b, "theirs")
	w := awsWorkloads(b, web.URL)
	target := sdk.Target{Provider: driver.Kind, Path: "default/ours"}
	n := int32(1)
	// timed is one change, once the one before it is over.
	timed := func(name string, f func() error) time.Duration {
		plain.steady(b, name)
		remove := cloud.Faults().Add(fault.Rule{Effect: fault.Effect{Latency: 50 * time.Millisecond}})
		defer remove()
		begun := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	update := func(in *ecs.UpdateServiceInput) error {
		in.Service = new("theirs")
		_, err := plain.ecs.UpdateService(b.Context(), in)
		return err
	}
	b.Run("scale", func(b *testing.B) {
		pair(b, func() time.Duration {
			n = 3 - n
			return timed("ours", func() error {
				_, err := w.Scale(b.Context(), control.ChangeRequest{Target: target, Actor: "bench"}, int(n))
				return err
			})
		}, func() time.Duration {
			return timed("theirs", func() error { return update(&ecs.UpdateServiceInput{DesiredCount: &n}) })
		})
	})
	b.Run("restart", func(b *testing.B) {
		pair(b, func() time.Duration {
			return timed("ours", func() error {
				_, err := w.Restart(b.Context(), control.ChangeRequest{Target: target, Actor: "bench"})
				return err
			})
		}, func() time.Duration {
			return timed("theirs", func() error { return update(&ecs.UpdateServiceInput{ForceNewDeployment: true}) })
		})
	})
}

// awsWorkloads is the runtime of live workloads on a pocket AWS.
func awsWorkloads(b *testing.B, url string) *control.WorkloadRuntime {
	b.Helper()
	d := driver.Driver()
	p := providerOf(b, d, map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"},
		fmt.Sprintf(`{"region": %q, "endpoint": %q, "account": %q, "describe_rate": 10000, "service_rate": 10000}`, pocket.Region, url, pocket.Account))
	dir := b.TempDir()
	store, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, err := control.New(b.Context(), control.Options{Store: store, Logs: logs, Providers: one{control.Backend{Name: d.Kind, Provider: p, Driver: &d}}, StateDir: dir, Actor: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	return e.Workloads()
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
