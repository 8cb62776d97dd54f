package drivertest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// Hooks are what a driver's test does behind the provider's back. Action is
// required; each other that is nil leaves its checks out.
type Hooks struct {
	// Action names the call that stands for an operation, as the rules of faults
	// do: the first that the operation makes. Empty says that it makes none.
	Action func(op providertest.Op) string
	// PutSecret stores a value where the cloud itself fetches it. Where it is nil
	// the suite's secrets are the submitter's.
	PutSecret func(t providertest.T, name string, value []byte) sdk.SecretRef
	// Left lists what there is of a run on the cloud.
	Left func(t providertest.T, run sdk.ID) []string
	// Hide keeps what is made from now on from searches and lists for so long.
	// Zero ends that.
	Hide func(d time.Duration)
	// Vanish takes a job away as anybody could.
	Vanish func(t providertest.T, h sdk.JobHandle)
	// Relabel changes whose a launch's job will be, and nothing else that it
	// makes. It is for clouds where a launch makes more than the job; nil lets a
	// provider of the other owner launch it.
	Relabel func(request json.RawMessage, owner string) (json.RawMessage, error)
	// Through returns the driver as the suite is to see it, such as behind a wire. It is
	// called for each process that the suite plays. Nil is the driver itself.
	Through func(d sdk.Driver) sdk.Driver
}

// driver is a process's value of the driver, as the suite sees it.
func (w *World[P]) driver(hooks Hooks) sdk.Driver {
	d := w.setup.Driver()
	if hooks.Through != nil {
		d = hooks.Through(d)
	}
	return d
}

// hidden is how long the suite hides what is made.
const hidden = time.Second

// Harness is the suite's way to the world. The caller adds waivers, and what
// else its cloud has.
func (w *World[P]) Harness(hooks Hooks) providertest.Harness {
	h := providertest.Harness{
		Driver: w.driver(hooks),
		Open:   func(t providertest.T) sdk.Provider { return opened(t, w.driver(hooks), w.Request()) },
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			spec := Shell(b.Shell(w.Mark))
			spec.Args = append(append(spec.Args, "sh"), b.Args...)
			return w.told(spec), nil
		},
		Marks:      func(_ providertest.T, key string) int { return w.Marked(key) },
		PutSecret:  hooks.PutSecret,
		Exposed:    func(providertest.T, sdk.JobHandle) map[string][]byte { return w.exposed() },
		Leftovers:  hooks.Left,
		Faults:     w.faults(hooks),
		Eventually: Patience,
		Parallel:   16,
		Poll:       5 * time.Millisecond,
		Second:     300 * time.Millisecond,
	}
	if hooks.PutSecret == nil {
		h.Secrets = w.Secrets
	}
	h.Faults.Vanish = hooks.Vanish
	if hooks.Hide != nil {
		h.Faults.Hide = func(providertest.T) func() {
			hooks.Hide(hidden)
			return func() { hooks.Hide(0) }
		}
	}
	return h
}

// Another opens a provider beside the one under test, until that is over.
func (w *World[P]) Another(t providertest.T) P {
	t.Helper()
	p := opened(t, w.setup.Driver(), w.Request())
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p.(P)
}

func opened(t providertest.T, d sdk.Driver, r sdk.OpenRequest) sdk.Provider {
	t.Helper()
	p, err := d.Open(t.Context(), r)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p
}

// exposed is what others can see: the log, and what they can ask the cloud for.
func (w *World[P]) exposed() map[string][]byte {
	out := map[string][]byte{"log": w.Logged()}
	for i, c := range w.setup.Calls.Calls("") {
		name := fmt.Sprintf("%d %s", i, c.Action)
		if w.setup.Shown != nil {
			out[name] = w.setup.Shown(c)
		} else {
			out[name] = append(append([]byte{}, c.Request...), c.Reply...)
		}
	}
	return out
}

// faults puts the suite's faults at the calls that stand for operations.
func (w *World[P]) faults(hooks Hooks) providertest.Faults {
	hit := func(t providertest.T, op providertest.Op, n int, e fault.Effect) {
		t.Helper()
		name := hooks.Action(op)
		if name == "" {
			t.Fatalf("%s makes no call that a fault could hit", op)
		}
		w.setup.Faults.Add(fault.Rule{Action: name, Count: n, Effect: e})
	}
	return providertest.Faults{
		LoseReply: func(t providertest.T, op providertest.Op) { hit(t, op, 1, fault.Effect{Drop: true}) },
		Refuse:    func(t providertest.T, op providertest.Op) { hit(t, op, 1, fault.Effect{Reset: true}) },
		Throttle: func(t providertest.T, op providertest.Op, n int) {
			hit(t, op, n, fault.Effect{Refuse: w.setup.Throttle})
		},
		Block: func(_ providertest.T, op providertest.Op) (<-chan struct{}, func(), bool) {
			name := hooks.Action(op)
			if name == "" {
				return nil, nil, false
			}
			entered, release := w.setup.Faults.Hold(name)
			return entered, release, true
		},
		Forge: func(t providertest.T, owner string) { w.forge(t, owner, hooks.Relabel) },
	}
}

// forge runs a job as if another owner had launched it with the same ledger.
func (w *World[P]) forge(t providertest.T, owner string, relabel func(json.RawMessage, string) (json.RawMessage, error)) {
	t.Helper()
	r := w.Request()
	if relabel == nil {
		r.Owner = owner
	}
	p := opened(t, w.setup.Driver(), r).(P)
	defer func() { _ = p.Close() }() // it has served
	l := w.Plan(p, Shell("sleep 1000"))
	if relabel != nil {
		var err error
		if l.Request, err = relabel(l.Request, owner); err != nil {
			t.Fatalf("relabel: %v", err)
		}
	}
	w.Run(p, l)
}
