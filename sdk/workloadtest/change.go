package workloadtest

import (
	"github.com/windlass-run/windlass/sdk"
)

func changeChecks() []Check {
	scaler, restarter, stopper := sdk.WorkloadScales().String(), sdk.WorkloadRestarts().String(), sdk.WorkloadStops().String()
	starter := sdk.WorkloadStarts().String()
	return []Check{
		{Name: "scale", Doc: "A scale is accepted, and comes to its end with that many serving.", Needs: []string{scaler}, run: checkScale},
		{Name: "scale-same", Doc: "A scale to what is there changes nothing and says so.", Needs: []string{scaler}, run: checkScaleSame},
		{Name: "scale-negative", Doc: "A count below zero is refused.", Needs: []string{scaler}, run: checkScaleNegative},
		{Name: "restart", Doc: "A restart replaces every instance, as the guarantee says, and nothing else.", Needs: []string{restarter}, run: checkRestart},
		{Name: "stop-start", Doc: "A start brings back what was there before the stop, in any process (F99).", Needs: []string{stopper, starter}, run: checkStopStart},
		{Name: "stop-twice", Doc: "Stopping what is stopped is success and changes nothing.", Needs: []string{stopper}, run: checkStopTwice},
		{Name: "stopped", Doc: "What is stopped can be neither scaled nor restarted.", Needs: []string{stopper}, run: checkStopped},
		{Name: "start-running", Doc: "Starting what runs is success and changes nothing.", Needs: []string{starter}, run: checkStartRunning},
	}
}

// accepted checks what an accepted change says of itself.
func (s *suite) accepted(t T, what string, r sdk.OpResult, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !r.Changed {
		t.Errorf("%s: says that nothing changed", what)
	}
	if s.g.Ops.By != sdk.OpNowhere && r.Trace == "" {
		t.Errorf("%s: the guarantee says that the operation can be found again, and the result doesn't say where", what)
	}
	if len(r.Calls) > 0 {
		t.Errorf("%s: lists calls as a dry run does: %v", what, r.Calls)
	}
}

func (s *suite) scale(t T, path sdk.WorkloadPath, n int) (sdk.OpResult, error) {
	t.Helper()
	r, err := need(t, s.p, sdk.WorkloadScales()).ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: s.op(path), Replicas: n})
	return r.Op, err
}

func checkScale(s *suite, t T) {
	path := s.h.Make(t, 2)
	was := s.settled(t, path, 2)
	for _, n := range []int{4, 1} {
		r, err := s.scale(t, path, n)
		s.accepted(t, "scale", r, err)
		if st := s.status(t, path); st.Desired != nil && *st.Desired != n && st.Rollout != sdk.RolloutProgressing {
			t.Errorf("right after the scale to %d, %d are to be there and nothing is under way", n, *st.Desired)
		}
		if r.Rollout != "" {
			s.followed(t, path, r.Rollout)
		}
		st := s.settled(t, path, n)
		if st.Image != was.Image || st.Stopped {
			t.Errorf("the scale changed more than the count: %+v", st)
		}
	}
}

// followed waits for the end of one rollout, by its name.
func (s *suite) followed(t T, path sdk.WorkloadPath, rollout string) {
	t.Helper()
	s.eventually(t, "end of rollout "+rollout, func() bool {
		res, err := s.ask(t, sdk.WorkloadStatusRequest{Path: path, Rollout: rollout})
		if err != nil {
			t.Fatalf("follow %s: %v", rollout, err)
		}
		if res.Status.Rollout == sdk.RolloutFailed {
			t.Fatalf("rollout %s failed: %+v", rollout, res.Status.Failure)
		}
		return res.Status.Rollout == sdk.RolloutComplete
	})
}

func checkScaleSame(s *suite, t T) {
	path := s.h.Make(t, 2)
	s.settled(t, path, 2)
	before := s.h.Changes(t, path)
	r, err := s.scale(t, path, 2)
	if err != nil || r.Changed {
		t.Errorf("scale to what is there: %+v, %v", r, err)
	}
	s.unchanged(t, path, before, "a scale to what is there")
}

func checkScaleNegative(s *suite, t T) {
	path := s.h.Make(t, 1)
	before := s.h.Changes(t, path)
	_, err := s.scale(t, path, -1)
	refused(t, "scale to -1", err, sdk.InvalidArgument)
	s.unchanged(t, path, before, "a scale to -1")
}

func (s *suite) restart(t T, path sdk.WorkloadPath) (sdk.OpResult, error) {
	t.Helper()
	r, err := need(t, s.p, sdk.WorkloadRestarts()).RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: s.op(path)})
	return r.Op, err
}

func checkRestart(s *suite, t T) {
	path := s.h.Make(t, 2)
	was := s.settled(t, path, 2)
	r, err := s.restart(t, path)
	s.accepted(t, "restart", r, err)
	s.eventually(t, "restarted workload", func() bool {
		st := s.status(t, path)
		if s.g.Restart == sdk.RestartRolling && st.Ready != nil && *st.Ready == 0 {
			t.Fatalf("a rolling restart of two instances leaves none serving: %+v", st)
		}
		return st.Rollout == sdk.RolloutComplete && is(st.Ready, 2) && fresh(was, st)
	})
	st := s.status(t, path)
	if st.Image != was.Image || !is(st.Desired, 2) || st.Stopped {
		t.Errorf("the restart changed more than the instances: %+v, before %+v", st, was)
	}
}

// fresh reports whether no instance is as it was before.
func fresh(was, now sdk.DeploymentStatus) bool {
	old := map[string]sdk.InstanceStatus{}
	for _, in := range was.Instances {
		old[in.Name] = in
	}
	for _, in := range now.Instances {
		o, ok := old[in.Name]
		restarted := in.Restarts != nil && o.Restarts != nil && *in.Restarts > *o.Restarts
		if ok && !in.Started.After(o.Started) && !restarted {
			return false
		}
	}
	return true
}

func (s *suite) stop(t T, path sdk.WorkloadPath) sdk.StopWorkloadResult {
	t.Helper()
	r, err := need(t, s.p, sdk.WorkloadStops()).StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: s.op(path)})
	if err != nil {
		t.Fatalf("stop: %v", err)
	}
	return r
}

// stopped waits until nothing of a workload serves.
func (s *suite) stopped(t T, path sdk.WorkloadPath) sdk.DeploymentStatus {
	t.Helper()
	var st sdk.DeploymentStatus
	s.eventually(t, "stopped workload", func() bool {
		st = s.status(t, path)
		for _, in := range st.Instances {
			if in.State == sdk.InstanceRunning {
				return false
			}
		}
		return is(st.Ready, 0) && is(st.Desired, 0) && (st.Stopped || s.g.Stop == sdk.StopForgets)
	})
	return st
}

func checkStopStart(s *suite, t T) {
	path := s.h.Make(t, 3)
	was := s.settled(t, path, 3)
	r := s.stop(t, path)
	s.accepted(t, "stop", r.Op, nil)
	st := s.stopped(t, path)
	req := sdk.StartWorkloadRequest{Op: s.op(path)}
	if s.g.Stop == sdk.StopForgets {
		n := 3
		req.Replicas = &n
	} else if r.Restores == nil || *r.Restores != 3 || st.Restores == nil || *st.Restores != 3 {
		t.Errorf("a stop of three replicas says that a start brings back %s, and the status says %s", count(r.Restores), count(st.Restores))
	}
	p := s.h.Reopen(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	started, err := need(t, p, sdk.WorkloadStarts()).StartWorkload(t.Context(), req)
	s.accepted(t, "start", started.Op, err)
	now := s.settled(t, path, 3)
	if now.Stopped || now.Restores != nil || now.Image != was.Image {
		t.Errorf("started again as %+v, before the stop %+v", now, was)
	}
}

func count(n *int) string {
	if n == nil {
		return "an unknown number"
	}
	return itoa(*n)
}

func checkStopTwice(s *suite, t T) {
	path := s.h.Make(t, 2)
	s.settled(t, path, 2)
	s.stop(t, path)
	s.stopped(t, path)
	before := s.h.Changes(t, path)
	r := s.stop(t, path)
	if r.Op.Changed {
		t.Errorf("a second stop says that something changed")
	}
	if s.g.Stop != sdk.StopForgets && (r.Restores == nil || *r.Restores != 2) {
		t.Errorf("a second stop says that a start brings back %s, not 2", count(r.Restores))
	}
	s.unchanged(t, path, before, "a second stop")
}

func checkStopped(s *suite, t T) {
	if s.g.Stop == sdk.StopForgets {
		t.Skipf("a workload that is stopped can't be told from one with no replicas")
	}
	path := s.h.Make(t, 1)
	s.settled(t, path, 1)
	s.stop(t, path)
	s.stopped(t, path)
	before := s.h.Changes(t, path)
	if sdk.Has(s.p, sdk.WorkloadScales().String()) {
		_, err := s.scale(t, path, 2)
		refused(t, "scale of what is stopped", err, sdk.FailedPrecondition)
	}
	if sdk.Has(s.p, sdk.WorkloadRestarts().String()) {
		_, err := s.restart(t, path)
		refused(t, "restart of what is stopped", err, sdk.FailedPrecondition)
	}
	s.unchanged(t, path, before, "refused changes")
}

func checkStartRunning(s *suite, t T) {
	path := s.h.Make(t, 2)
	s.settled(t, path, 2)
	before := s.h.Changes(t, path)
	r, err := need(t, s.p, sdk.WorkloadStarts()).StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op(path)})
	if err != nil || r.Op.Changed {
		t.Errorf("start of what runs: %+v, %v", r, err)
	}
	s.unchanged(t, path, before, "a start of what runs")
}
