package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// Mutation is a call by which a driver changes something in its cloud. Each
// driver has a table of all that it makes.
type Mutation struct {
	// Action names the call as the rules of faults do.
	Action string
	// Op is the operation that makes it: RunJob, CancelJob of a job that runs,
	// CleanupJob of one that has ended, RenewExpiry of one that runs.
	Op providertest.Op
	// Before says that a launch makes it before the job itself is asked for.
	Before bool
	// With changes the job's spec, so that the operation has the call to make.
	With func(s *sdk.JobSpec)
	// Stubborn says that a cancel makes it only while the job ignores a first signal.
	Stubborn bool
}

const ranMark = "mutation"

// ready brings a provider to where the mutation's operation is next, and returns
// that. done waits for what comes of it, and checks it.
func (w *World[P]) ready(p P, m Mutation) (call func(ctx context.Context) error, done func()) {
	w.T.Helper()
	spec := func(script string) sdk.JobSpec {
		s := Shell(script)
		if m.With != nil {
			m.With(&s)
		}
		return s
	}
	start := func(script string) sdk.JobHandle { return w.Run(p, w.Plan(p, spec(script))) }
	nothing := func() {}
	switch m.Op {
	case providertest.OpRunJob:
		before, l := w.Marked(ranMark), w.Plan(p, spec(w.Mark(ranMark)))
		var h sdk.JobHandle
		return func(ctx context.Context) error {
				res, err := p.RunJob(ctx, sdk.RunJobRequest{Launch: l})
				h = res.Handle
				return err
			}, func() {
				w.Ended(p, h)
				if n := w.Marked(ranMark) - before; n != 1 {
					w.T.Errorf("%s: the job ran %d times", m.Action, n)
				}
			}
	case providertest.OpCancelJob:
		h := w.toCancel(p, m.Stubborn, start)
		return func(ctx context.Context) error {
				_, err := p.CancelJob(ctx, sdk.CancelJobRequest{Handle: h})
				return err
			}, func() {
				if st := w.Ended(p, h); st.State != sdk.StateCancelled {
					w.T.Errorf("%s: the job is %s: %s", m.Action, st.State, st.Message)
				}
			}
	case providertest.OpCleanupJob:
		h := start("true")
		w.Ended(p, h)
		return func(ctx context.Context) error {
			_, err := p.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h})
			return err
		}, nothing
	case providertest.OpRenewExpiry:
		h := start("sleep 100")
		w.Running(p, h)
		return func(ctx context.Context) error {
			r, ok := sdk.Of(p, sdk.Renewer())
			if !ok {
				w.T.Fatalf("%s: the provider renews nothing", m.Action)
			}
			_, err := r.RenewExpiry(ctx, sdk.RenewExpiryRequest{Handle: h, Expires: time.Now().Add(2 * time.Hour)})
			return err
		}, nothing
	}
	w.T.Fatalf("%s: no test makes %s", m.Action, m.Op)
	return nil, nil
}

// toCancel starts a job that runs until it is ended. One that is stubborn has
// shown that it ignores the first signal.
func (w *World[P]) toCancel(p P, stubborn bool, start func(script string) sdk.JobHandle) sdk.JobHandle {
	w.T.Helper()
	if !stubborn {
		h := start("sleep 100")
		w.Running(p, h)
		return h
	}
	const deaf = "deaf"
	before := w.Marked(deaf)
	h := start("trap '' TERM; " + w.Mark(deaf) + "; sleep 100")
	w.Running(p, h)
	w.Eventually("job that ignores TERM", func() bool { return w.Marked(deaf) > before })
	return h
}

// inDoubt reports whether an operation whose call's fate isn't known leaves
// something in doubt. What comes before a launch mustn't, where a launch can't be
// sent twice.
func (w *World[P]) inDoubt(m Mutation, err error) bool {
	if m.Before && w.setup.Driver().Guarantees.Submit.By != sdk.SubmitBySearch {
		return true // by its token or name it does no harm
	}
	return sdk.IsClear(err) == m.Before
}

// SendsOnce checks that a call that changes something is sent once, whatever
// becomes of its request or reply: nothing is repeated in the vendor's client.
// Refusals are what such a client would repeat by itself.
func SendsOnce[P Provider](t *testing.T, world func(t testing.TB) *World[P], mutations []Mutation, refusals map[string]*fault.Refusal) {
	effects := map[string]fault.Effect{"dropped reply": {Drop: true}, "reset": {Reset: true}}
	for name, r := range refusals {
		effects[name] = fault.Effect{Refuse: r}
	}
	for name, effect := range effects {
		t.Run(name, func(t *testing.T) { world(t).sendsOnce(mutations, effect) })
	}
}

func (w *World[P]) sendsOnce(mutations []Mutation, effect fault.Effect) {
	p := w.Open()
	for _, m := range mutations {
		call, _ := w.ready(p, m)
		before := w.Count(m.Action)
		remove := w.setup.Faults.Add(fault.Rule{Action: m.Action, Effect: effect})
		err := call(w.T.Context())
		remove()
		if n := w.Count(m.Action) - before; n != 1 {
			w.T.Errorf("%s went out %d times", m.Action, n)
		}
		if err == nil || effect.Refuse == nil && !w.inDoubt(m, err) {
			w.T.Errorf("%s: got %v (clear: %t)", m.Action, err, sdk.IsClear(err))
		}
	}
}

// OutlivesLostReplies checks that an operation whose reply was lost is done when
// it is asked for again, and that a launch's job then runs once.
func OutlivesLostReplies[P Provider](t *testing.T, world func(t testing.TB) *World[P], mutations []Mutation) {
	for _, m := range mutations {
		t.Run(m.Action, func(t *testing.T) { world(t).outlivesLostReply(m) })
	}
}

func (w *World[P]) outlivesLostReply(m Mutation) {
	call, done := w.ready(w.Open(), m)
	w.setup.Faults.Add(fault.Rule{Action: m.Action, Count: 1, Effect: fault.Effect{Drop: true}})
	if err := call(w.T.Context()); err == nil || !w.inDoubt(m, err) {
		w.T.Errorf("a lost reply: got %v (clear: %t)", err, sdk.IsClear(err))
	}
	if err := call(w.T.Context()); err != nil {
		w.T.Fatalf("again: %v", err)
	}
	done()
}

// EndsWithItsContext checks that an operation that is cancelled while its call
// hangs returns at once, and claims to know nothing of what came of the call.
func EndsWithItsContext[P Provider](t *testing.T, world func(t testing.TB) *World[P], mutations []Mutation) {
	for _, m := range mutations {
		t.Run(m.Action, func(t *testing.T) { world(t).endsWithItsContext(m, atOnce) })
	}
}

// atOnce is far below the time-out of a call, and generous to a busy machine.
const atOnce = 15 * time.Second

func (w *World[P]) endsWithItsContext(m Mutation, within time.Duration) {
	call, _ := w.ready(w.Open(), m)
	entered, release := w.setup.Faults.Hold(m.Action)
	defer release()
	ctx, cancel := context.WithCancel(w.T.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	testwait.Receive(w.T, Patience, "call at the cloud", entered)
	cancel()
	if err := testwait.Receive(w.T, within, "end of the operation", done); sdk.CodeOf(err) != sdk.Canceled {
		w.T.Errorf("got %v, want Canceled", err)
	}
}
