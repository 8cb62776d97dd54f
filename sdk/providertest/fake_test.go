package providertest

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func memoryHarness(s fake.Settings, k fake.Knobs) Harness {
	return WeakFake{Settings: s, Knobs: k}.Harness(nil)
}

// TestFake is the suite on the fake as it is.
func TestFake(t *testing.T) { Run(t, memoryHarness(fake.Settings{BatchMax: 7}, fake.Knobs{})) }

// TestFakeFolder shares a cloud through a folder, and nothing else: each
// provider opens it anew, as another process does.
func TestFakeFolder(t *testing.T) {
	dir := t.TempDir()
	hooks, err := fake.OpenCloud(dir, fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := fake.Driver()
	open := d.Open
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		if len(r.Config) == 0 {
			r.Config, _ = json.Marshal(map[string]any{"dir": dir, "record": true})
		}
		return open(ctx, r)
	}
	h := FakeHarness(hooks, d)
	// The faults of a folder come by its config; these hit this process's
	// cloud alone.
	h.Faults = Faults{Vanish: h.Faults.Vanish, Forge: h.Faults.Forge}
	Run(t, h)
}

func TestWeakBackends(t *testing.T) {
	for _, w := range WeakFakes() {
		t.Run(w.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { RunFlat(t, w.Harness(nil)) })
		})
	}
}

// record runs the suite against a T that keeps what happens.
func record(t *testing.T, h Harness) *recorder {
	t.Helper()
	r := newRecorder(t.Context(), "suite", t.TempDir)
	r.do(func(rt T) { RunT(rt, h) })
	return r
}
