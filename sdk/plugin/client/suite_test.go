package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite runs the contract's own suite on the fake through the wire.
func TestSuite(t *testing.T) {
	c := fake.NewCloud(fake.Options{Record: true})
	d := plugintest.Through(t, fake.NewDriver(c, fake.Settings{BatchMax: 7}))
	secrets := &providertest.Secrets{}
	ids := sdk.NewIDSource(sdk.SystemClock())
	providertest.Run(t, providertest.Harness{
		Driver: d, Secrets: secrets,
		Open: func(t providertest.T) sdk.Provider {
			p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Owner: "suite", LedgerID: "ledger", Secrets: secrets, StateDir: t.TempDir()})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return p
		},
		Behave:    behave,
		Marks:     func(_ providertest.T, key string) int { return c.Marks(key) },
		Leftovers: func(_ providertest.T, run sdk.ID) []string { return c.JobsOf(run) },
		Exposed: func(_ providertest.T, h sdk.JobHandle) map[string][]byte {
			out := map[string][]byte{"describe": c.Describe(h.ID)}
			for i, b := range c.Bodies() {
				out[fmt.Sprintf("request %d", i)] = b.Body
			}
			return out
		},
		Faults: providertest.Faults{
			LoseReply: func(_ providertest.T, op providertest.Op) {
				c.Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultLostReply})
			},
			Refuse: func(_ providertest.T, op providertest.Op) {
				c.Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultReset})
			},
			Block: func(_ providertest.T, op providertest.Op) (<-chan struct{}, func(), bool) {
				entered, release := c.Block(fake.Op(op))
				return entered, release, true
			},
			Throttle: func(_ providertest.T, op providertest.Op, n int) { c.Inject(fake.Throttled(fake.Op(op), n, 0)) },
			Vanish:   func(_ providertest.T, h sdk.JobHandle) { c.Vanish(h.ID) },
			Forge: func(t providertest.T, owner string) {
				if _, err := c.Forge(owner, ids.NewID(), ids.NewID()); err != nil {
					t.Fatalf("forge: %v", err)
				}
			},
		},
		User: "1234", UserID: "1234",
		Second: 100 * time.Millisecond, Poll: 2 * time.Millisecond, Eventually: time.Minute,
	})
}

// behave translates a behaviour into the fake's script.
func behave(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
	names := map[providertest.Action]string{
		providertest.ActPrint: "output", providertest.ActLines: "lines", providertest.ActLongLine: "long_line", providertest.ActSleep: "sleep",
		providertest.ActHang: "hang", providertest.ActExit: "exit", providertest.ActSignal: "signal", providertest.ActIgnoreTerm: "ignore_term",
		providertest.ActOnTerm: "on_term", providertest.ActMark: "mark", providertest.ActGrandchild: "grandchild", providertest.ActChildMemory: "child_oom",
		providertest.ActShowArgs: "args", providertest.ActShowEnv: "env", providertest.ActShowSecret: "secret", providertest.ActShowDir: "pwd",
		providertest.ActShowUser: "user", providertest.ActShowFile: "file", providertest.ActCopyStdin: "stdin", providertest.ActMemory: "oom",
	}
	script := []fake.Step{}
	for _, s := range b.Steps {
		do, ok := names[s.Do]
		if !ok {
			return sdk.JobSpec{}, fmt.Errorf("%s: %w", s.Do, providertest.ErrCannot)
		}
		st := fake.Step{Do: do, Data: s.Data, N: int64(s.N), For: fake.Duration(s.For), Name: s.Name, Stream: string(s.Stream)}
		if s.Do == providertest.ActMemory {
			st.N = 137
		}
		script = append(script, st)
	}
	raw, err := json.Marshal(map[string]any{"script": script})
	return sdk.JobSpec{Args: b.Args, Options: raw}, err
}

// TestAbsentIsNil wants what a plugin doesn't name not to be there.
func TestAbsentIsNil(t *testing.T) {
	d := plugintest.Through(t, fake.NewDriver(fake.NewCloud(fake.Options{}), fake.Settings{Capabilities: []string{"JobRunner", "JobLogger"}}))
	p, err := d.Open(context.WithoutCancel(t.Context()), sdk.OpenRequest{Name: "fake", Owner: "me", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, row := range sdk.Capabilities() {
		if got, want := sdk.Has(p, row.Name), row.Name == "JobRunner" || row.Name == "JobLogger"; got != want {
			t.Errorf("%s is there: %v", row.Name, got)
		}
	}
	if _, ok := sdk.Of(p, sdk.Canceler()); ok {
		t.Error("a canceler is there")
	}
}
