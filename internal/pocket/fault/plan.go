package fault

import (
	"context"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"time"
)

// Refusal is an error that a call gets in place of being carried out.
type Refusal struct {
	// Status is the HTTP status, 0 for the API's usual one for errors.
	Status int
	// Code and Message are the error's name and text, as the API words them.
	Code, Message string
	// RetryAfter is sent as that header, in whole seconds, when positive.
	RetryAfter time.Duration
}

// Effect is what happens to a call that a rule hits. The parts may be combined.
type Effect struct {
	// Latency passes before anything else is done with the call.
	Latency time.Duration
	// Refuse answers with an error; the call isn't carried out.
	Refuse *Refusal
	// Reset cuts the connection; the call isn't carried out.
	Reset bool
	// Drop carries the call out, and cuts the connection before the first byte
	// of the reply.
	Drop bool

	holds []*hold
}

// hold keeps calls waiting.
type hold struct {
	entered chan struct{}
	open    chan struct{}
}

// Wait passes what comes before anything is done with the call: until whatever
// holds it lets go, and its latency. It returns the context's error when the
// caller has gone before.
func (e Effect) Wait(ctx context.Context) error {
	for _, h := range e.holds {
		select {
		case h.entered <- struct{}{}:
		default: // nobody counts so many
		}
		select {
		case <-h.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if e.Latency <= 0 {
		return nil
	}
	timer := time.NewTimer(e.Latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Rule picks calls by their action and number, and says what happens to them.
type Rule struct {
	// Action is a pattern of path.Match over names like "ecs:RunTask"; empty
	// means every call.
	Action string
	// Match looks into the request's body; nil means any.
	Match func(body []byte) bool
	// Skip is how many matching calls pass first.
	Skip int
	// Count is how many are hit after those; 0 means all that follow.
	Count int
	// Share hits only that part of them, from 0 to 1, chosen by the plan's
	// seed; 0 means all. A call that is spared counts too.
	Share float64
	Effect
}

// Plan is a set of rules that may change at any time. Its zero value isn't
// ready: use NewPlan.
type Plan struct {
	mu     sync.Mutex
	rules  []*rule
	random *rand.Rand
}

type rule struct {
	Rule
	seen int
}

// NewPlan returns a plan without rules. Equal seeds choose equal shares of
// equal sequences of calls.
func NewPlan(seed uint64) *Plan {
	return &Plan{random: rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))}
}

// Add puts a rule in force, and returns the function that takes it out again.
// It panics for an action that is no pattern, which is a test's mistake.
func (p *Plan) Add(r Rule) (remove func()) {
	if _, err := path.Match(r.Action, ""); err != nil {
		panic("fault: rule for action " + r.Action + ": " + err.Error())
	}
	own := &rule{Rule: r}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, own)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rules = slices.DeleteFunc(p.rules, func(o *rule) bool { return o == own })
	}
}

// holdMost is how many calls of one hold are told of.
const holdMost = 1000

// Hold keeps all calls of an action waiting from now on until release, and puts
// a value into entered for each that waits. A call whose caller goes away
// meanwhile isn't carried out. Other rules have their effect afterwards. Release
// may be called again; Clear lets go of no call.
func (p *Plan) Hold(action string) (entered <-chan struct{}, release func()) {
	h := &hold{entered: make(chan struct{}, holdMost), open: make(chan struct{})}
	remove := p.Add(Rule{Action: action, Effect: Effect{holds: []*hold{h}}})
	return h.entered, sync.OnceFunc(func() {
		remove()
		close(h.open)
	})
}

// Clear takes all rules out.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Next counts a call and returns what the rules do to it. Holds and latencies
// add up; of several refusals the first rule's stands.
func (p *Plan) Next(action string, body []byte) Effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all Effect
	for _, r := range p.rules {
		if !r.hits(action, body, p.random) {
			continue
		}
		all.Latency += r.Latency
		all.holds = append(all.holds, r.holds...)
		if all.Refuse == nil {
			all.Refuse = r.Refuse
		}
		all.Reset = all.Reset || r.Reset
		all.Drop = all.Drop || r.Drop
	}
	return all
}

func (r *rule) hits(action string, body []byte, random *rand.Rand) bool {
	if r.Action != "" {
		if ok, _ := path.Match(r.Action, action); !ok { // Add has checked the pattern
			return false
		}
	}
	if r.Match != nil && !r.Match(body) {
		return false
	}
	r.seen++
	if r.seen <= r.Skip || r.Count > 0 && r.seen > r.Skip+r.Count {
		return false
	}
	return r.Share == 0 || random.Float64() < r.Share
}
