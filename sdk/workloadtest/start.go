package workloadtest

import (
	"strconv"

	"github.com/windlass-run/windlass/sdk"
)

func itoa(n int) string { return strconv.Itoa(n) }

func startChecks() []Check {
	starter := []string{sdk.WorkloadStarts().String()}
	return []Check{
		{Name: "start-spec", Doc: "A spec becomes a workload that serves; the same operation twice makes one, another is AlreadyExists.", Needs: starter, run: checkStartSpec},
		{Name: "start-refused", Doc: "A spec that nobody could run is refused, and nothing is made.", Needs: starter, run: checkStartRefused},
		{Name: "start-broken", Doc: "A workload that can't come up is no complete rollout, and says why (F94).", Needs: starter, run: checkStartBroken},
	}
}

func (s *suite) start(t T, req sdk.OpRequest, spec sdk.DeploymentSpec) (sdk.OpResult, error) {
	t.Helper()
	r, err := need(t, s.p, sdk.WorkloadStarts()).StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: req, Spec: &spec})
	return r.Op, err
}

func checkStartSpec(s *suite, t T) {
	if s.h.Spec == nil {
		t.Skipf("the harness has no spec")
	}
	path, spec := s.h.Spec(t)
	op := s.op(path)
	r, err := s.start(t, op, spec)
	s.accepted(t, "start", r, err)
	made := s.h.Changes(t, path)
	if _, err := s.start(t, op, spec); err != nil {
		t.Errorf("the same operation again: %v", err)
	}
	_, err = s.start(t, s.op(path), spec)
	refused(t, "a second start from a spec", err, sdk.AlreadyExists)
	s.unchanged(t, path, made, "the same spec again")
	st := s.settled(t, path, 1)
	if st.Image != spec.Image {
		t.Errorf("image %q, want %q", st.Image, spec.Image)
	}
	s.eventually(t, "listed workload", func() bool {
		_, ok := s.list(t, sdk.ListWorkloadsRequest{})[path]
		return ok
	})
}

func checkStartRefused(s *suite, t T) {
	if s.h.Spec == nil {
		t.Skipf("the harness has no spec")
	}
	minus := -1
	for what, change := range map[string]func(d *sdk.DeploymentSpec){
		"no image":          func(d *sdk.DeploymentSpec) { d.Image = "" },
		"replicas below 0":  func(d *sdk.DeploymentSpec) { d.Replicas = &minus },
		"a name of another": func(d *sdk.DeploymentSpec) { d.Name += "-other" },
		"unknown options":   func(d *sdk.DeploymentSpec) { d.Options = []byte(`{"no-such-option":"x"}`) },
	} {
		path, spec := s.h.Spec(t)
		change(&spec)
		if _, err := s.start(t, s.op(path), spec); !sdk.IsClear(err) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
		s.unchanged(t, path, 0, what)
	}
}

func checkStartBroken(s *suite, t T) {
	if s.h.Broken == nil {
		t.Skipf("the harness has no spec that can't come up")
	}
	path, spec := s.h.Broken(t)
	if _, err := s.start(t, s.op(path), spec); err != nil {
		t.Fatalf("start: %v", err)
	}
	s.eventually(t, "end of a rollout that can't succeed", func() bool {
		st := s.status(t, path)
		if st.Rollout == sdk.RolloutComplete || st.Ready != nil && *st.Ready > 0 {
			t.Fatalf("a workload that can't come up is %+v", st)
		}
		if !s.g.Failures {
			return st.Rollout == sdk.RolloutFailed || st.Failure != nil
		}
		return st.Failure != nil && st.Failure.Reason == sdk.ReasonImagePull && st.Failure.Message != ""
	})
}
