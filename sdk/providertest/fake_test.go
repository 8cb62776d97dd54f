package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// fakeHarness puts the fake under the suite. change, when not nil, replaces
// the provider that the suite sees.
func fakeHarness(cloud func() *fake.Cloud, d sdk.Driver, change func(p sdk.Provider, c *fake.Cloud) sdk.Provider) Harness {
	secrets := &Secrets{}
	ids := sdk.NewIDSource(sdk.SystemClock())
	open := func(t T) sdk.Provider {
		p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: ids, Owner: "suite", LedgerID: "ledger",
			Secrets: secrets, StateDir: t.TempDir()})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if change != nil {
			p = change(p, cloud())
		}
		return p
	}
	return Harness{
		Driver: d, Open: open, Secrets: secrets,
		Behave: func(t T, b Behaviour) (sdk.JobSpec, error) { return fakeSpec(b) },
		Marks:  func(t T, key string) int { return cloud().Marks(key) },
		Leftovers: func(t T, run sdk.ID) []string {
			return cloud().JobsOf(run)
		},
		Exposed: func(t T, h sdk.JobHandle) map[string][]byte {
			out := map[string][]byte{"describe": cloud().Describe(h.ID)}
			for i, b := range cloud().Bodies() {
				out[fmt.Sprintf("request %d", i)] = b.Body
			}
			return out
		},
		Faults: Faults{
			LoseReply: func(t T, op Op) { cloud().Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultLostReply}) },
			Refuse:    func(t T, op Op) { cloud().Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultReset}) },
			Block: func(t T, op Op) (<-chan struct{}, func(), bool) {
				entered, release := cloud().Block(fake.Op(op))
				return entered, release, true
			},
			Throttle: func(t T, op Op, n int) { cloud().Inject(fake.Throttled(fake.Op(op), n, 0)) },
			Hide: func(t T) func() {
				was := cloud().Knobs()
				hidden := was.Visibility
				cloud().Change(func(k *fake.Knobs) { k.Visibility = fake.Duration(d.Guarantees.Found.Within) })
				return sync.OnceFunc(func() { cloud().Change(func(k *fake.Knobs) { k.Visibility = hidden }) })
			},
			Vanish: func(t T, h sdk.JobHandle) { cloud().Vanish(h.ID) },
			Forge: func(t T, owner string) {
				if _, err := cloud().Forge(owner, ids.NewID(), ids.NewID()); err != nil {
					t.Fatalf("forge: %v", err)
				}
			},
		},
		User: "1234", UserID: "1234",
		Second: 100 * time.Millisecond, Poll: 2 * time.Millisecond, Eventually: 20 * time.Second,
	}
}

// fakeSpec translates a behaviour into the fake's script.
func fakeSpec(b Behaviour) (sdk.JobSpec, error) {
	names := map[Action]string{
		ActPrint: "output", ActLines: "lines", ActLongLine: "long_line", ActSleep: "sleep", ActHang: "hang", ActExit: "exit",
		ActSignal: "signal", ActIgnoreTerm: "ignore_term", ActOnTerm: "on_term", ActMark: "mark", ActGrandchild: "grandchild",
		ActChildMemory: "child_oom", ActShowArgs: "args", ActShowEnv: "env", ActShowSecret: "secret", ActShowDir: "pwd",
		ActShowUser: "user", ActShowFile: "file", ActCopyStdin: "stdin", ActMemory: "oom",
	}
	script := []fake.Step{}
	for _, s := range b.Steps {
		do, ok := names[s.Do]
		if !ok {
			return sdk.JobSpec{}, fmt.Errorf("%s: %w", s.Do, ErrCannot)
		}
		st := fake.Step{Do: do, Data: s.Data, N: int64(s.N), For: fake.Duration(s.For), Name: s.Name, Stream: string(s.Stream)}
		if s.Do == ActMemory {
			st.N = 137
		}
		script = append(script, st)
	}
	raw, err := json.Marshal(map[string]any{"script": script})
	if err != nil {
		return sdk.JobSpec{}, err
	}
	return sdk.JobSpec{Args: b.Args, Options: raw}, nil
}

func memoryHarness(s fake.Settings, k fake.Knobs) Harness {
	c := fake.NewCloud(fake.Options{Record: true, Knobs: k})
	return fakeHarness(func() *fake.Cloud { return c }, fake.NewDriver(c, s), nil)
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
	h := fakeHarness(func() *fake.Cloud { return hooks }, d, nil)
	// The faults of a folder come by its config; these hit this process's
	// cloud alone.
	h.Faults = Faults{Vanish: h.Faults.Vanish, Forge: h.Faults.Forge}
	Run(t, h)
}

// weak are backends that guarantee less, as real ones do.
func weak() map[string]Harness {
	out := map[string]Harness{}
	add := func(name string, k fake.Knobs, change func(g *sdk.Guarantees, s *fake.Settings), waivers ...Waiver) {
		g := fake.BestGuarantees()
		s := fake.Settings{Guarantees: &g}
		change(&g, &s)
		h := memoryHarness(s, k)
		h.Waivers = waivers
		out[name] = h
	}
	add("token", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) {
		g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitByToken, TokenWindow: time.Hour}
		g.Found.Within = time.Second
	})
	add("search of a lagging list", fake.Knobs{Visibility: fake.Duration(200 * time.Millisecond), NotFoundFor: fake.Duration(100 * time.Millisecond)},
		func(g *sdk.Guarantees, _ *fake.Settings) {
			g.Submit.By = sdk.SubmitBySearch
			g.Found.Within = 300 * time.Millisecond
		})
	add("inconsistent list", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) {
		g.Submit.By = sdk.SubmitBySearch
		g.Found = sdk.FoundGuarantee{Within: 300 * time.Millisecond}
	})
	add("nothing to find by", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) {
		g.Submit.By = sdk.SubmitByNothing
	})
	add("no exit code", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) { g.ExitCode = sdk.ExitCodeAbsent },
		Waiver{"exit-codes", "ExitCode", "the platform reports none"}, Waiver{"signal", "ExitCode", "the platform reports none"})
	add("lines, late and in pieces", fake.Knobs{LateLogs: fake.Duration(50 * time.Millisecond), DuplicateLogs: true, LogCut: 37},
		func(g *sdk.Guarantees, _ *fake.Settings) { g.Logs.Fidelity = sdk.LogLines },
		Waiver{"log-bytes", "Logs.Fidelity", "lines are stored"})
	add("bytes in pieces", fake.Knobs{DuplicateLogs: true, LogCut: 3001}, func(*sdk.Guarantees, *fake.Settings) {})
	add("combined, end not proven", fake.Knobs{LateLogs: fake.Duration(20 * time.Millisecond)}, func(g *sdk.Guarantees, _ *fake.Settings) {
		g.Logs.Apart, g.Logs.EndProven = false, false
		g.Logs.Settle = sdk.LogSettle{Quiet: 100 * time.Millisecond, Max: time.Second}
	}, Waiver{"log-apart", "Logs.Apart", "one stream is stored"})
	add("accepted only, no grace", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) {
		g.CancelReadBack, g.Grace = false, sdk.GraceGuarantee{}
	})
	add("substituting", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) { g.Argv = sdk.ArgvSubstituting })
	add("one string", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) { g.Argv = sdk.ArgvOneString })
	add("visible secrets", fake.Knobs{}, func(g *sdk.Guarantees, _ *fake.Settings) { g.Secrets = sdk.SecretVisibleEnv })
	add("no deadline, slow start", fake.Knobs{StartDelay: fake.Duration(50 * time.Millisecond), Latency: fake.Duration(time.Millisecond)},
		func(g *sdk.Guarantees, _ *fake.Settings) { g.Deadline = sdk.DeadlineGuarantee{} })
	add("runner alone", fake.Knobs{}, func(_ *sdk.Guarantees, s *fake.Settings) { s.Capabilities = []string{"JobRunner"} })
	return out
}

func TestWeakBackends(t *testing.T) {
	for name, h := range weak() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := record(t, h)
				if r.Failed() {
					t.Error(r.text())
				}
			})
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
