//go:build linux

package bench

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/aci"
	"github.com/windlass-run/windlass/internal/driver/cloudrun"
	driver "github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/ledger"
	pocketaws "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketazure "github.com/windlass-run/windlass/internal/pocket/azure"
	pocketgcp "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// several are backends by name.
type several map[string]control.Backend

func (s several) Names() []string { return slices.Sorted(maps.Keys(s)) }

func (s several) Backend(_ context.Context, name string) (control.Backend, error) {
	back, ok := s[name]
	if !ok {
		return back, fmt.Errorf("no provider %q", name)
	}
	return back, nil
}

func (s several) BackendFor(ctx context.Context, r ledger.Run) (control.Backend, error) {
	return s.Backend(ctx, r.Provider)
}

// onFake is a fake provider with workloads of a number of instances each.
func onFake(b *testing.B, name string, workloads, instances int) control.Backend {
	b.Helper()
	d := fake.NewDriver(fake.NewCloud(fake.Options{Name: name}), fake.Settings{})
	p := providerOf(b, d, nil, `{}`)
	start, ok := p.(sdk.Starter)
	if !ok {
		b.Fatal("the fake starts no workloads")
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	for i := range workloads {
		path := sdk.WorkloadPath(fmt.Sprintf("shop/api-%03d", i))
		if _, err := start.StartWorkload(b.Context(), sdk.StartWorkloadRequest{Op: sdk.OpRequest{OpID: ids.NewID(), Path: path},
			Spec: &sdk.DeploymentSpec{Name: path.Name(), Image: "app:1", Replicas: &instances}}); err != nil {
			b.Fatal(err)
		}
	}
	return control.Backend{Name: name, Provider: p, Driver: &d}
}

// BenchmarkSvcTop reads 1,000 instances of 50 workloads on five providers, a sample a
// second of each, for ten seconds: what it costs, and what a reader that takes each
// item at once misses.
func BenchmarkSvcTop(b *testing.B) {
	if testing.Short() {
		b.Skip("needs ten seconds: left out by -short")
	}
	const providers, workloads, instances, lasts = 5, 10, 20, 10 * time.Second
	backs := several{}
	for i := range providers {
		name := fmt.Sprintf("p%d", i)
		backs[name] = onFake(b, name, workloads, instances)
	}
	w := engineWith(b, func(string) control.Providers { return backs }).Workloads()
	var sources []telemetry.Source
	for _, name := range backs.Names() {
		sources = append(sources, telemetry.Source{Provider: name,
			List: func(ctx context.Context) ([]sdk.WorkloadPath, error) {
				var out []sdk.WorkloadPath
				for v, err := range w.List(ctx, name, "") {
					if err != nil {
						return out, err
					}
					out = append(out, v.Target.Path)
				}
				return out, nil
			},
			Status: func(ctx context.Context, p sdk.WorkloadPath) (sdk.DeploymentStatus, error) {
				return w.Status(ctx, sdk.Target{Provider: name, Path: p})
			},
			Metrics: func(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
				return w.Metrics(ctx, name, r)
			}})
	}
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), lasts)
		seen, lost, samples := map[string]bool{}, 0, 0
		before := cpuTime(b)
		for it := range telemetry.Stream(ctx, sources, telemetry.Options{}) {
			switch {
			case it.Sample != nil:
				samples++
				seen[it.Target.String()+"/"+it.Instance] = true
			case it.Event != nil && it.Event.Kind == telemetry.Lost:
				lost += it.Event.Count
			}
		}
		cancel()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		if len(seen) != providers*workloads*instances {
			b.Fatalf("saw %d instances", len(seen))
		}
		b.ReportMetric(100*float64(cpuTime(b)-before)/float64(lasts), "%core")
		b.ReportMetric(float64(samples)/lasts.Seconds(), "samples/s")
		b.ReportMetric(float64(lost), "lost")
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MB")
	}
}

// BenchmarkSvcStatus looks at 500 workloads on five providers, 100 each, under the rate
// budgets that they have unless configured: pocket ECS, Container Instances and Cloud
// Run, and two fakes. `list` is what `svc ls` does; `each` is a status of every one, at
// most 16 at once, beside the same looks one after another.
func BenchmarkSvcStatus(b *testing.B) {
	if testing.Short() {
		b.Skip("needs minutes: left out by -short")
	}
	const each = 100
	backs := several{"ecs": manyOnECS(b, each), "aci": manyOnACI(b, each), "run": manyOnCloudRun(b, each), "fake1": onFake(b, "fake1", each, 2), "fake2": onFake(b, "fake2", each, 2)}
	w := engineWith(b, func(string) control.Providers { return backs }).Workloads()
	var targets []sdk.Target
	list := func(b *testing.B) {
		b.Helper()
		targets = targets[:0]
		for _, l := range w.ListAll(b.Context(), backs.Names(), "") {
			if l.Err != nil {
				b.Fatal(l.Err)
			}
			for _, v := range l.Workloads {
				targets = append(targets, v.Target)
			}
		}
		if len(targets) != 5*each {
			b.Fatalf("%d workloads", len(targets))
		}
	}
	look := func(b *testing.B, t sdk.Target) {
		if _, err := w.Status(b.Context(), t); err != nil {
			b.Errorf("%s: %v", t, err)
		}
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			list(b)
		}
	})
	b.Run("each", func(b *testing.B) {
		list(b)
		pair(b, func() time.Duration {
			begun := time.Now()
			var wg sync.WaitGroup
			turn := make(chan struct{}, 16)
			for _, t := range targets {
				turn <- struct{}{}
				wg.Go(func() {
					look(b, t)
					<-turn
				})
			}
			wg.Wait()
			return time.Since(begun)
		}, func() time.Duration {
			begun := time.Now()
			for _, t := range targets {
				look(b, t)
			}
			return time.Since(begun)
		})
	})
}

func manyOnECS(b *testing.B, n int) control.Backend {
	b.Helper()
	_, url := servedAWS(b)
	plain := newRaw(url)
	plain.define(b)
	for i := range n {
		plain.serve(b, fmt.Sprintf("api-%03d", i))
	}
	d := driver.Driver()
	return control.Backend{Name: "ecs", Driver: &d, Provider: providerOf(b, d, map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"},
		fmt.Sprintf(`{"region": %q, "endpoint": %q, "account": %q}`, pocketaws.Region, url, pocketaws.Account))}
}

func manyOnACI(b *testing.B, n int) control.Backend {
	b.Helper()
	_, address, ca := servedAzure(b)
	plain := plainGroups(b, address, ca)
	for i := range n {
		if _, err := plain.BeginCreateOrUpdate(b.Context(), pocketazure.ResourceGroup, fmt.Sprintf("api-%03d", i), group(), nil); err != nil {
			b.Fatal(err)
		}
	}
	d := aci.Driver()
	return control.Backend{Name: "aci", Driver: &d, Provider: providerOf(b, d, azureKeys(), fmt.Sprintf(`{"subscription": %q, "resource_group": %q, "location": %q, "endpoint": %q, "ca_file": %q}`,
		pocketazure.SubscriptionID, pocketazure.ResourceGroup, pocketazure.Location, "https://"+address, ca))}
}

func manyOnCloudRun(b *testing.B, n int) control.Backend {
	b.Helper()
	_, address, plain := servedGoogle(b)
	for i := range n {
		plain.create(fmt.Sprintf("api-%03d", i))
	}
	d := cloudrun.Driver()
	return control.Backend{Name: "run", Driver: &d, Provider: providerOf(b, d, map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "pocket"}, fmt.Sprintf(`{"project": %q, "region": %q, "endpoint": %q}`,
		pocketgcp.Project, pocketgcp.Location, "http://"+address))}
}
