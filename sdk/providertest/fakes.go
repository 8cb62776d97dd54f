package providertest

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// FakeHarness puts the fake backend c under the suite, as d shows it: a driver of the
// fake itself, or what a test puts before it, such as a wire.
func FakeHarness(c *fake.Cloud, d sdk.Driver) Harness {
	secrets := &Secrets{}
	ids := sdk.NewIDSource(sdk.SystemClock())
	return Harness{
		Driver: d, Secrets: secrets,
		Open: func(t T) sdk.Provider {
			p, err := d.Open(t.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: ids, Owner: "suite", LedgerID: "ledger",
				Secrets: secrets, StateDir: t.TempDir()})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			return p
		},
		Behave: func(_ T, b Behaviour) (sdk.JobSpec, error) { return fakeSpec(b) },
		Marks:  func(_ T, key string) int { return c.Marks(key) },
		Leftovers: func(_ T, run sdk.ID) []string {
			return c.JobsOf(run)
		},
		Exposed: func(_ T, h sdk.JobHandle) map[string][]byte {
			out := map[string][]byte{"describe": c.Describe(h.ID)}
			for i, b := range c.Bodies() {
				out[fmt.Sprintf("request %d", i)] = b.Body
			}
			return out
		},
		Faults: Faults{
			LoseReply: func(_ T, op Op) { c.Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultLostReply}) },
			Refuse:    func(_ T, op Op) { c.Inject(fake.Fault{Op: fake.Op(op), Kind: fake.FaultReset}) },
			Block: func(_ T, op Op) (<-chan struct{}, func(), bool) {
				entered, release := c.Block(fake.Op(op))
				return entered, release, true
			},
			Throttle: func(_ T, op Op, n int) { c.Inject(fake.Throttled(fake.Op(op), n, 0)) },
			Hide: func(_ T) func() {
				hidden := c.Knobs().Visibility
				c.Change(func(k *fake.Knobs) { k.Visibility = fake.Duration(d.Guarantees.Found.Within) })
				return sync.OnceFunc(func() { c.Change(func(k *fake.Knobs) { k.Visibility = hidden }) })
			},
			Vanish: func(_ T, h sdk.JobHandle) { c.Vanish(h.ID) },
			Forge: func(t T, owner string) {
				if _, err := c.Forge(owner, ids.NewID(), ids.NewID()); err != nil {
					t.Fatalf("forge: %v", err)
				}
			},
		},
		User: "1234", UserID: "1234",
		Second: 100 * time.Millisecond, Poll: 2 * time.Millisecond, Eventually: time.Minute,
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

// WeakFake is a fake backend that guarantees less than the fake can.
type WeakFake struct {
	Name     string
	Settings fake.Settings
	Knobs    fake.Knobs
	Waivers  []Waiver
}

// Harness puts a cloud of its own under the suite. Through, where it isn't nil, returns
// the driver as the suite is to see it.
func (w WeakFake) Harness(through func(sdk.Driver) sdk.Driver) Harness {
	c := fake.NewCloud(fake.Options{Record: true, Knobs: w.Knobs})
	d := fake.NewDriver(c, w.Settings)
	if through != nil {
		d = through(d)
	}
	h := FakeHarness(c, d)
	h.Waivers = w.Waivers
	return h
}

// WeakFakes returns backends that guarantee less, as real ones do: what stands between a
// host and its backends must pass the suite on each of them.
func WeakFakes() []WeakFake {
	var out []WeakFake
	add := func(name string, k fake.Knobs, change func(g *sdk.Guarantees, s *fake.Settings), waivers ...Waiver) {
		g := fake.BestGuarantees()
		w := WeakFake{Name: name, Settings: fake.Settings{Guarantees: &g}, Knobs: k, Waivers: waivers}
		change(&g, &w.Settings)
		out = append(out, w)
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
