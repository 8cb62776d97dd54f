package workloadtest

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// fakeHarness is FakeHarness with a mistake: change replaces the provider that the
// suite sees.
func fakeHarness(c *fake.Cloud, d sdk.Driver, change func(p sdk.Provider) sdk.Provider) Harness {
	h := FakeHarness(c, d)
	if change != nil {
		open := h.Open
		h.Open = func(t T) sdk.Provider { return change(open(t)) }
	}
	return h
}

func memoryHarness(k fake.Knobs, s fake.Settings, change func(p sdk.Provider) sdk.Provider) Harness {
	k.MissingImages = append(k.MissingImages, "missing")
	c := fake.NewCloud(fake.Options{Knobs: k})
	return fakeHarness(c, fake.NewDriver(c, s), change)
}

// TestFake is the suite on the fake as it is.
func TestFake(t *testing.T) { Run(t, memoryHarness(fake.Knobs{}, fake.Settings{}, nil)) }

// TestFakeFolder shares a cloud through a folder, as several processes do.
func TestFakeFolder(t *testing.T) {
	dir := t.TempDir()
	c, err := fake.OpenCloud(dir, fake.Options{Knobs: fake.Knobs{MissingImages: []string{"missing"}}})
	if err != nil {
		t.Fatal(err)
	}
	d := fake.Driver()
	open := d.Open
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		var err error
		if r.Config, err = json.Marshal(map[string]any{"dir": dir, "knobs": map[string]any{"missing_images": []string{"missing"}}}); err != nil {
			return nil, err
		}
		return open(ctx, r)
	}
	h := fakeHarness(c, d, nil)
	h.Faults = Faults{} // a folder's faults come by its config
	Run(t, h)
}

// weak are backends that promise less, or are slow.
func weak() map[string]Harness {
	out := map[string]Harness{}
	add := func(name string, k fake.Knobs, change func(g *sdk.WorkloadGuarantees)) {
		g := fake.BestGuarantees()
		change(&g.Workload)
		out[name] = memoryHarness(k, fake.Settings{Guarantees: &g}, nil)
	}
	add("last operation alone", fake.Knobs{}, func(g *sdk.WorkloadGuarantees) { g.Ops.By = sdk.OpOnObject })
	add("no operations", fake.Knobs{}, func(g *sdk.WorkloadGuarantees) { g.Ops.By = sdk.OpNowhere })
	add("slow", fake.Knobs{RolloutDelay: fake.Duration(50 * time.Millisecond), ObserveLag: fake.Duration(20 * time.Millisecond),
		MetricsWarm: fake.Duration(100 * time.Millisecond), Latency: fake.Duration(time.Millisecond)},
		func(g *sdk.WorkloadGuarantees) { g.Warms = 100 * time.Millisecond })
	return out
}

func TestWeakBackends(t *testing.T) {
	for name, h := range weak() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if failed, text := record(t, h); len(failed) > 0 {
					t.Error(text)
				}
			})
		})
	}
}

// TestFewCapabilities has the suite leave out what isn't there, and refuse a
// provider that changes what it can't look at.
func TestFewCapabilities(t *testing.T) {
	run := func(names ...string) ([]string, string) {
		return record(t, memoryHarness(fake.Knobs{}, fake.Settings{Capabilities: names}, nil))
	}
	if failed, text := run("WorkloadLister", "WorkloadStatuser"); len(failed) > 0 {
		t.Errorf("a provider that only looks: %s", text)
	}
	if failed, text := run("WorkloadLister", "WorkloadStatuser", "Restarter"); len(failed) > 0 {
		t.Errorf("a provider that only restarts: %s", text)
	}
	if failed, _ := run("Scaler"); len(failed) == 0 {
		t.Error("a provider that changes what it can't look at passes")
	}
}

func record(t *testing.T, h Harness) (failed []string, text string) {
	t.Helper()
	res := providertest.Record(t, func(rt T) { RunT(rt, h) })
	return res.Failed, res.Text
}
