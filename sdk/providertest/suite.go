package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Check is one thing that the suite tries.
type Check struct {
	// Name is stable from 1.0, and is the subtest's name.
	Name string
	// Doc says in one sentence what must hold.
	Doc string
	// Needs are the capabilities without which the check is left out, JobRunner
	// aside.
	Needs []string
	// Waivable returns the name of the guarantee for which the check may fail,
	// or nothing. Nil is never.
	Waivable func(g sdk.Guarantees) string
	run      func(s *suite, t T)
}

// Checks returns every check in the order in which they run.
func Checks() []Check {
	var out []Check
	for _, group := range [][]Check{contractChecks(), specChecks(), stateChecks(), submitChecks(), cancelChecks(),
		cleanupChecks(), logChecks(), batchChecks(), ownedChecks(), secretChecks(), callChecks()} {
		out = append(out, group...)
	}
	return out
}

// Run tries everything that the driver promises.
func Run(t *testing.T, h Harness) { RunT(testingT{t}, h) }

// RunFlat is Run without subtests, which a bubble of testing/synctest can't have. What
// fails is told when all is over.
func RunFlat(t *testing.T, h Harness) {
	t.Helper()
	r := newRecorder(t.Context(), "suite", t.TempDir)
	r.do(func(rt T) { RunT(rt, h) })
	if r.Failed() {
		t.Error(r.text())
	}
}

// RunT is Run for a T of another kind.
func RunT(t T, h Harness) {
	t.Helper()
	if h.Open == nil || h.Behave == nil || h.Marks == nil {
		t.Fatalf("the harness lacks Open, Behave or Marks")
	}
	checks := Checks()
	for _, name := range h.Only {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			t.Fatalf("no check is called %q", name)
		}
	}
	s := newSuite(t, h)
	waivers := s.waivers(t, checks)
	for _, c := range checks {
		if len(h.Only) > 0 && !slices.Contains(h.Only, c.Name) {
			continue
		}
		t.Run(c.Name, func(t T) {
			for _, need := range c.Needs {
				if !sdk.Has(s.p, need) {
					t.Skipf("the provider has no %s", need)
				}
			}
			if w, ok := waivers[c.Name]; ok {
				s.waived(t, c, w)
				return
			}
			s.try(t, c)
		})
	}
}

// try runs a check on a suite of its own, which knows the check.
func (s *suite) try(t T, c Check) {
	own := *s
	own.check = c
	c.run(&own, t)
}

// waived runs a check that may fail, and fails if it doesn't.
func (s *suite) waived(t T, c Check, w Waiver) {
	t.Helper()
	r := newRecorder(t.Context(), t.Name(), t.TempDir)
	r.do(func(rt T) { s.try(rt, c) })
	switch {
	case r.skipped:
		t.Skipf("left out: %s", r.text())
	case !r.Failed():
		t.Errorf("the waiver for %s (%s) is no longer needed: the check passes", c.Name, w.Why)
	default:
		t.Skipf("waived for %s, since %s; it failed with:\n%s", w.Guarantee, w.Why, r.text())
	}
}

// waivers returns the justified waivers by check.
func (s *suite) waivers(t T, checks []Check) map[string]Waiver {
	t.Helper()
	out := map[string]Waiver{}
	for _, w := range s.h.Waivers {
		i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == w.Check })
		if i < 0 {
			t.Errorf("waiver for %q: no check is called so", w.Check)
			continue
		}
		allowed := ""
		if f := checks[i].Waivable; f != nil {
			allowed = f(s.g)
		}
		if allowed == "" || allowed != w.Guarantee {
			t.Errorf("waiver for %s is not justified: no declared guarantee says that the check may fail (it names %q, the guarantees allow %q)",
				w.Check, w.Guarantee, allowed)
			continue
		}
		out[w.Check] = w
	}
	return out
}

// suite is what the checks share.
type suite struct {
	h     Harness
	p     sdk.Provider
	g     sdk.Guarantees
	info  sdk.Info
	ids   sdk.IDSource
	check Check
}

func newSuite(t T, h Harness) *suite {
	t.Helper()
	if h.Eventually <= 0 {
		h.Eventually = 30 * time.Second
	}
	if h.Poll <= 0 {
		h.Poll = 20 * time.Millisecond
	}
	if h.Second <= 0 {
		h.Second = time.Second
	}
	if h.Parallel <= 0 {
		h.Parallel = 16
	}
	if h.Workdir == "" {
		h.Workdir = "/tmp"
	}
	if h.FileDir == "" {
		h.FileDir = "/tmp"
	}
	if h.Reopen == nil {
		h.Reopen = h.Open
	}
	s := &suite{h: h, ids: sdk.NewIDSource(sdk.SystemClock())}
	s.p = h.Open(t)
	t.Cleanup(func() {
		if err := s.p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s.info = s.p.Info()
	s.g = s.info.Guarantees
	if _, ok := sdk.Of(s.p, sdk.Runner()); !ok {
		t.Fatalf("the provider has no JobRunner")
	}
	if s.g.Secrets != "" && h.Secrets == nil && h.PutSecret == nil {
		t.Errorf("the driver declares secrets delivered by %s, and the harness has neither Secrets nor PutSecret", s.g.Secrets)
	}
	return s
}

// runner returns the first provider's runner.
func (s *suite) runner() sdk.JobRunner { return need(s.p, sdk.Runner()) }

// need returns a capability that is known to be there.
func need[C any](p sdk.Provider, c sdk.Capability[C]) C {
	v, ok := sdk.Of(p, c)
	if !ok {
		panic(fmt.Sprintf("providertest: the provider lost %s", c))
	}
	return v
}

// reopen opens a provider as another process would.
func (s *suite) reopen(t T) sdk.Provider {
	t.Helper()
	p := s.h.Reopen(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// spec returns a spec that behaves so.
func (s *suite) spec(t T, b Behaviour) sdk.JobSpec {
	t.Helper()
	spec, err := s.h.Behave(t, b)
	if errors.Is(err, ErrCannot) {
		if f := s.check.Waivable; f != nil && f(s.g) != "" {
			t.Skipf("left out: %v", err)
		}
		t.Fatalf("%v, and no guarantee says so", err)
	}
	if err != nil {
		t.Fatalf("behave: %v", err)
	}
	return spec
}

// tidy returns a context for cleaning up, when the test's own has ended.
func (s *suite) tidy() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.h.Eventually)
}

// eventually waits until cond holds.
func (s *suite) eventually(t T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(s.h.Eventually)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still no %s", s.h.Eventually, what)
		}
		s.pause(t)
	}
}

// pause waits for one poll.
func (s *suite) pause(t T) {
	t.Helper()
	if err := sdk.SystemClock().Sleep(t.Context(), s.h.Poll); err != nil {
		t.Fatalf("the test ended: %v", err)
	}
}
