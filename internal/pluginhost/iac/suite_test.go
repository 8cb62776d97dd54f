//go:build linux

package iac

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestSuite runs the contract's own suite over the published wire, on plugins that give
// a log as it is and as it comes, and on one that can't cancel. No check is waived.
func TestSuite(t *testing.T) {
	for name, c := range map[string]struct{ live, cancels bool }{
		"logs as they are": {false, true}, "logs as they come": {true, true}, "without cancel": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !c.live {
				t.Skip("left out by -short")
			}
			t.Parallel() // each waits for jobs of its own
			y := newYard()
			y.live = c.live
			providertest.Run(t, harness(t, y, c.cancels))
		})
	}
}

func harness(t *testing.T, y *yard, cancels bool) providertest.Harness {
	d, k := driverOf(t, y, cancels)
	dir := t.TempDir()
	open := func(pt providertest.T) sdk.Provider {
		p, err := d.Open(pt.Context(), sdk.OpenRequest{Name: "here", Config: []byte(`{"log_quiet":"300ms"}`), Owner: "owner", LedgerID: "ledger"})
		if err != nil {
			pt.Fatalf("open: %v", err)
		}
		return p
	}
	mark := func(key string) string { return "printf x >>" + filepath.Join(dir, key) }
	return providertest.Harness{
		Driver: d, Open: open, Second: 400 * time.Millisecond, Eventually: patience, Parallel: 8,
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			return sdk.JobSpec{Image: "app:1", ImageEntrypoint: sdk.Argv{}, Args: append(sdk.Argv{"sh", "-c", b.Shell(mark), "sh"}, b.Args...)}, nil
		},
		Marks: func(_ providertest.T, key string) int {
			b, _ := os.ReadFile(filepath.Join(dir, key)) // without it there is none
			return len(b)
		},
		PutSecret: func(_ providertest.T, name string, value []byte) sdk.SecretRef {
			y.mu.Lock()
			defer y.mu.Unlock()
			ref := "secret://vault/" + name
			y.secrets[ref] = value
			return sdk.SecretRef(ref)
		},
		Exposed: func(providertest.T, sdk.JobHandle) map[string][]byte {
			out := map[string][]byte{}
			for i, s := range y.sent() {
				b, err := protojson.Marshal(s)
				if err != nil {
					t.Errorf("show: %v", err)
				}
				out[fmt.Sprintf("request %d", i)] = b
			}
			return out
		},
		Faults: k.fault.harness(),
	}
}
