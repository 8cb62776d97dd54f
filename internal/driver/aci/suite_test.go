package aci

import (
	"testing"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: left out by -short")
	}
	providertest.Run(t, suiteWorld(t).suite(nil))
}

func suiteWorld(t *testing.T) *world {
	return newWorld(t, pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}, nil)
}

// suite is the suite's harness.
func (w *world) suite(through func(sdk.Driver) sdk.Driver) providertest.Harness {
	h := w.Harness(drivertest.Hooks{Action: actionOf, PutSecret: w.putSecret, Left: w.left, Hide: w.hide, Vanish: w.vanish, Through: through})
	h.Waivers = []providertest.Waiver{
		{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "Container Instances gives a log as text"},
		{Check: "log-apart", Guarantee: "Logs.Apart", Why: "Container Instances gives both streams as one"},
	}
	return h
}

// actionOf is the call that stands for an operation.
func actionOf(op providertest.Op) string {
	switch op {
	case providertest.OpCheck, providertest.OpListOwned:
		return "ContainerGroups_ListByResourceGroup"
	case providertest.OpRunJob:
		return "ContainerGroups_CreateOrUpdate"
	case providertest.OpJobStatus, providertest.OpCancelJob, providertest.OpCleanupJob, providertest.OpFindJobs, providertest.OpRenewExpiry:
		return "ContainerGroups_Get"
	case providertest.OpJobLogs:
		return "Containers_ListLogs"
	}
	return ""
}

func (w *world) putSecret(t providertest.T, name string, value []byte) sdk.SecretRef {
	if _, err := w.cloud.PutSecret(pocket.Vault, vaultName(name), string(value)); err != nil {
		t.Fatalf("put secret: %v", err)
	}
	return sdk.SecretRef("secret://azure-kv/" + pocket.Vault + "/" + vaultName(name))
}

// vaultName is a name that a secret of a vault may have: none has a _.
func vaultName(name string) string {
	b := []byte(name)
	for i := range b {
		if b[i] == '_' {
			b[i] = '-'
		}
	}
	return string(b)
}

// left lists a run's groups by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	var out []string
	err := w.Another(t).listGroups(t.Context(), "list", func(g *arm.ContainerGroup) bool {
		if tag(g, sdk.LabelRun) == run.String() {
			out = append(out, "container group "+*g.Name)
		}
		return true
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return out
}

// hide makes groups invisible for a while from when each is made.
func (w *world) hide(d time.Duration) {
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.GetDelay, k.ListDelay = d, d })
}

// vanish deletes a group as anybody could.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	if _, err := w.Another(t).remove(t.Context(), "vanish", h.ID); err != nil {
		t.Fatalf("delete: %v", err)
	}
}
