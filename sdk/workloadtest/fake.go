package workloadtest

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// FakeHarness puts a fake's driver d under the suite. d talks to c, perhaps through a
// wire; images that c misses are to have "missing" among them.
func FakeHarness(c *fake.Cloud, d sdk.Driver) Harness {
	ids := sdk.NewIDSource(sdk.SystemClock())
	open := func(t T) sdk.Provider {
		p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: ids, Owner: "suite", LedgerID: "ledger",
			Secrets: &providertest.Secrets{}, StateDir: t.TempDir()})
		if err != nil {
			t.Fatalf("open: %v", err)
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
