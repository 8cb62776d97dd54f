package workloadtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// Check is one thing that the suite tries.
type Check struct {
	// Name is stable from 1.0, and is the subtest's name.
	Name string
	// Doc says in one sentence what must hold.
	Doc string
	// Needs are the capabilities without which the check is left out.
	Needs []string
	run   func(s *suite, t T)
}

// Checks returns every check in the order in which they run.
func Checks() []Check {
	var out []Check
	for _, group := range [][]Check{readChecks(), changeChecks(), startChecks(), guardChecks(), doubtChecks(), configChecks(), execChecks(), streamChecks()} {
		out = append(out, group...)
	}
	return out
}

// Run tries everything that the driver promises of live workloads.
func Run(t *testing.T, h Harness) { RunT(providertest.Testing(t), h) }

// RunT is Run for a T of another kind.
func RunT(t T, h Harness) {
	t.Helper()
	if h.Open == nil || h.Make == nil || h.Changes == nil {
		t.Fatalf("the harness lacks Open, Make or Changes")
	}
	checks := Checks()
	for _, name := range h.Only {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			t.Fatalf("no check is called %q", name)
		}
	}
	if h.Eventually <= 0 {
		h.Eventually = time.Minute
	}
	if h.Poll <= 0 {
		h.Poll = 50 * time.Millisecond
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
	s.g = s.p.Info().Guarantees.Workload
	s.complete(t)
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
			c.run(s, t)
		})
	}
}

// suite is what the checks share.
type suite struct {
	h   Harness
	p   sdk.Provider
	g   sdk.WorkloadGuarantees
	ids sdk.IDSource
}

// complete refuses a provider that can change what it can't look at: nobody could
// read a lost reply back.
func (s *suite) complete(t T) {
	t.Helper()
	if !sdk.Has(s.p, sdk.WorkloadStates().String()) || !sdk.Has(s.p, sdk.Workloads().String()) {
		t.Fatalf("a provider of workloads has WorkloadLister and WorkloadStatuser; this one can do %q", sdk.CapabilityNames(s.p))
	}
}

// need returns a capability that is known to be there.
func need[C any](t T, p sdk.Provider, c sdk.Capability[C]) C {
	t.Helper()
	v, ok := sdk.Of(p, c)
	if !ok {
		t.Fatalf("the provider lost %s", c)
	}
	return v
}

// op returns a request of a new operation.
func (s *suite) op(path sdk.WorkloadPath) sdk.OpRequest {
	return sdk.OpRequest{OpID: s.ids.NewID(), Path: path}
}

// status reads how a workload is.
func (s *suite) status(t T, path sdk.WorkloadPath) sdk.DeploymentStatus {
	t.Helper()
	res, err := s.ask(t, sdk.WorkloadStatusRequest{Path: path})
	if err != nil {
		t.Fatalf("status of %s: %v", path, err)
	}
	return res.Status
}

func (s *suite) ask(t T, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	t.Helper()
	return need(t, s.p, sdk.WorkloadStates()).WorkloadStatus(t.Context(), r)
}

// settled waits until the newest change of a workload is complete with n
// replicas, and returns how it is then.
func (s *suite) settled(t T, path sdk.WorkloadPath, n int) sdk.DeploymentStatus {
	t.Helper()
	var st sdk.DeploymentStatus
	s.eventually(t, "rollout of "+string(path), func() bool {
		st = s.status(t, path)
		return st.Rollout == sdk.RolloutComplete && is(st.Desired, n) && is(st.Ready, n)
	})
	return st
}

// lists reports whether the backend tells of single instances: one that does tells
// how many are ready, too.
func lists(st sdk.DeploymentStatus) bool { return st.Ready != nil || len(st.Instances) > 0 }

// instances is settled, and returns the names of the n instances.
func (s *suite) instances(t T, path sdk.WorkloadPath, n int) []string {
	t.Helper()
	var out []string
	for _, in := range s.settled(t, path, n).Instances {
		out = append(out, in.Name)
	}
	if len(out) != n {
		t.Fatalf("%s has the instances %q, want %d", path, out, n)
	}
	return out
}

// is reports whether a count is known and n. A count that the backend doesn't give
// fits everything.
func is(count *int, n int) bool { return count == nil || *count == n }

// unchanged fails when the backend carried out more changes than before.
func (s *suite) unchanged(t T, path sdk.WorkloadPath, before int, what string) {
	t.Helper()
	if now := s.h.Changes(t, path); now != before {
		t.Errorf("%s: the backend carried out %d changes", what, now-before)
	}
}

// refused fails unless err has a code.
func refused(t T, what string, err error, code sdk.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
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

// bounded returns a context that ends when something took too long.
func (s *suite) bounded(t T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), s.h.Eventually)
}

// verb is one mutating method, with an argument that changes something.
type verb struct {
	op    Op
	needs string
	// count: it changes the number of replicas.
	count bool
	call  func(ctx context.Context, p sdk.Provider, op sdk.OpRequest) (sdk.OpResult, error)
}

// canary is a value of config that may stand nowhere but on the backend.
const canary = "canary-5f0b"

// verbs are those that the provider has. Each changes a workload of two replicas.
func (s *suite) verbs() []verb {
	all := []verb{
		{"ScaleWorkload", sdk.WorkloadScales().String(), true, func(ctx context.Context, p sdk.Provider, op sdk.OpRequest) (sdk.OpResult, error) {
			c, _ := sdk.Of(p, sdk.WorkloadScales())
			r, err := c.ScaleWorkload(ctx, sdk.ScaleWorkloadRequest{Op: op, Replicas: 3})
			return r.Op, err
		}},
		{"RestartWorkload", sdk.WorkloadRestarts().String(), false, func(ctx context.Context, p sdk.Provider, op sdk.OpRequest) (sdk.OpResult, error) {
			c, _ := sdk.Of(p, sdk.WorkloadRestarts())
			r, err := c.RestartWorkload(ctx, sdk.RestartWorkloadRequest{Op: op})
			return r.Op, err
		}},
		{"ApplyConfig", sdk.WorkloadConfigs().String(), false, func(ctx context.Context, p sdk.Provider, op sdk.OpRequest) (sdk.OpResult, error) {
			c, _ := sdk.Of(p, sdk.WorkloadConfigs())
			r, err := c.ApplyConfig(ctx, sdk.ApplyConfigRequest{Op: op, Set: map[string]string{"SUITE": canary + op.OpID.Short()}})
			return r.Op, err
		}},
		{"StopWorkload", sdk.WorkloadStops().String(), true, func(ctx context.Context, p sdk.Provider, op sdk.OpRequest) (sdk.OpResult, error) {
			c, _ := sdk.Of(p, sdk.WorkloadStops())
			r, err := c.StopWorkload(ctx, sdk.StopWorkloadRequest{Op: op})
			return r.Op, err
		}},
	}
	return slices.DeleteFunc(all, func(v verb) bool { return !sdk.Has(s.p, v.needs) })
}

// each runs a subtest for each verb on a workload of its own.
func (s *suite) each(t T, f func(t T, v verb, path sdk.WorkloadPath)) {
	t.Helper()
	for _, v := range s.verbs() {
		t.Run(string(v.op), func(t T) { f(t, v, s.h.Make(t, 2)) })
	}
}
