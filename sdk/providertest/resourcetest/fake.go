package resourcetest

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// FakeHarnesses puts the types of a fake's driver d under the suite, by type. d talks
// to c, perhaps through a wire.
func FakeHarnesses(c *fake.Cloud, d sdk.Driver) map[string]Harness {
	open := func(t testing.TB) sdk.Provider {
		p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Owner: "suite", LedgerID: "ledger", StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var n atomic.Int64
	ops := map[sdk.ResourceVerb]fake.Op{sdk.VerbCreate: fake.OpCreateResource, sdk.VerbDelete: fake.OpDeleteResource}
	return map[string]Harness{
		fake.TypeBox: {
			Driver: d, Type: fake.TypeBox, Open: open,
			Name:     func() string { return fmt.Sprintf("box %d", n.Add(1)) },
			Config:   json.RawMessage(`{"label":"a","items":3,"wood":"oak","key":"k"}`),
			Changed:  json.RawMessage(`{"label":"b","wood":"oak"}`),
			Replaced: json.RawMessage(`{"label":"a","items":3,"wood":"elm","key":"k"}`),
			Forge: func(t testing.TB, name string) {
				if err := c.ForgeResource(name); err != nil {
					t.Fatal(err)
				}
			},
			LoseReply: func(_ testing.TB, v sdk.ResourceVerb) {
				c.Inject(fake.Fault{Op: ops[v], Kind: fake.FaultLostReply})
			},
		},
		fake.TypePlace: {Driver: d, Type: fake.TypePlace, Open: open, Existing: sdk.ResourceRef{Name: fake.PlaceName, Type: fake.TypePlace}},
	}
}
