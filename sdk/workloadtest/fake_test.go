package workloadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// fakeHarness puts the fake under the suite. change, when not nil, replaces the
// provider that the suite sees.
func fakeHarness(c *fake.Cloud, d sdk.Driver, change func(p sdk.Provider) sdk.Provider) Harness {
	ids := sdk.NewIDSource(sdk.SystemClock())
	open := func(t T) sdk.Provider {
		p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: ids, Owner: "suite", LedgerID: "ledger",
			Secrets: &providertest.Secrets{}, StateDir: t.TempDir()})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if change != nil {
			p = change(p)
		}
		return p
	}
	name := func() string { return "w-" + ids.NewID().Short() }
	spec := func(image string) (sdk.WorkloadPath, sdk.DeploymentSpec) {
		n := name()
		return sdk.WorkloadPath("main/" + n), sdk.DeploymentSpec{Name: n, Image: image, Ports: []sdk.Port{{Port: 80}}}
	}
	return Harness{
		Open: open,
		Make: func(t T, replicas int) sdk.WorkloadPath {
			path := sdk.WorkloadPath("main/" + name())
			if err := c.Deploy(path, "img:1", replicas, nil); err != nil {
				t.Fatalf("deploy: %v", err)
			}
			for {
				st, _ := c.Workload(path)
				if st.Rollout == sdk.RolloutComplete {
					return path
				}
				if err := sdk.SystemClock().Sleep(t.Context(), time.Millisecond); err != nil {
					t.Fatalf("deploy: %v", err)
				}
			}
		},
		Changes: func(_ T, path sdk.WorkloadPath) int { return c.Versions(path) },
		Spec:    func(T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return spec("img:2") },
		Broken:  func(T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return spec("missing") },
		Absent:  "main/none",
		Autoscale: func(t T, path sdk.WorkloadPath, minimum, maximum int) {
			if err := c.Deploy(path, "img:1", 2, &sdk.Autoscaler{Name: "scaler/" + path.Name(), Min: minimum, Max: maximum}); err != nil {
				t.Fatalf("autoscale: %v", err)
			}
		},
		Commands: Commands{
			Exit:  func(code int) sdk.Argv { return sdk.Argv{"exit", itoa(code)} },
			Print: func(out, errs string) sdk.Argv { return sdk.Argv{"echo", out, ";", "err", errs} },
			Cat:   func() sdk.Argv { return sdk.Argv{"cat"} },
			Args:  func(args ...string) sdk.Argv { return append(sdk.Argv{"args"}, args...) },
			Env:   func(name string) sdk.Argv { return sdk.Argv{"env", name} },
			Hang:  func() sdk.Argv { return sdk.Argv{"hang"} },
		},
		Line: func(instance string) string { return instance + " is up\n" },
		Faults: Faults{
			LoseReply: func(_ T, op Op) { c.Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultLostReply}) },
			Refuse:    func(_ T, op Op) { c.Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultReset}) },
			Throttle:  func(_ T, op Op, n int) { c.Inject(fake.Throttled(fake.Op(op), n, 0)) },
			Calls:     func(_ T, op Op) int { return c.Calls(fake.Op(op)) },
		},
		Eventually: 20 * time.Second, Poll: 2 * time.Millisecond,
	}
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
	return res.Failed, fmt.Sprint(res.Text)
}
