package workloadtest

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
)

func readChecks() []Check {
	return []Check{
		{Name: "list", Doc: "Every workload is listed once, under the path that status takes.", run: checkList},
		{Name: "list-name", Doc: "A listing by name has what is called so.", run: checkListName},
		{Name: "list-break", Doc: "Breaking out of a list is no error, and the next one is whole.", run: checkListBreak},
		{Name: "status", Doc: "Status has counts, generation and instances, and changes nothing.", run: checkStatus},
		{Name: "status-brief", Doc: "A brief status has what the record of a change keeps, guesses nothing, and changes nothing.", run: checkStatusBrief},
		{Name: "status-absent", Doc: "A workload that isn't there is NotFound; a path of no form is refused.", run: checkStatusAbsent},
		{Name: "ended-context", Doc: "No method does anything under a context that has ended.", run: checkEndedContext},
	}
}

func (s *suite) list(t T, r sdk.ListWorkloadsRequest) map[sdk.WorkloadPath]sdk.WorkloadItem {
	t.Helper()
	out := map[sdk.WorkloadPath]sdk.WorkloadItem{}
	for it, err := range need(t, s.p, sdk.Workloads()).ListWorkloads(t.Context(), r) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if err := it.Path.Check(); err != nil {
			t.Errorf("list: %v", err)
		}
		if _, twice := out[it.Path]; twice {
			t.Errorf("%s is listed twice", it.Path)
		}
		out[it.Path] = it
	}
	return out
}

func checkList(s *suite, t T) {
	path := s.h.Make(t, 2)
	var it sdk.WorkloadItem
	s.eventually(t, "listed workload", func() bool {
		var ok bool
		it, ok = s.list(t, sdk.ListWorkloadsRequest{})[path]
		return ok
	})
	st := s.status(t, path)
	if st.Path != path {
		t.Errorf("status of %s is of %s", path, st.Path)
	}
	if !is(it.Desired, 2) || it.Stopped || it.Image != "" && it.Image != st.Image {
		t.Errorf("listed as %+v, status is %+v", it, st)
	}
}

func checkListName(s *suite, t T) {
	path := s.h.Make(t, 1)
	s.eventually(t, "workload listed by name", func() bool {
		_, ok := s.list(t, sdk.ListWorkloadsRequest{Name: path.Name()})[path]
		return ok
	})
}

func checkListBreak(s *suite, t T) {
	a, b := s.h.Make(t, 1), s.h.Make(t, 1)
	for _, err := range need(t, s.p, sdk.Workloads()).ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		break
	}
	s.eventually(t, "whole list", func() bool {
		all := s.list(t, sdk.ListWorkloadsRequest{})
		_, hasA := all[a]
		_, hasB := all[b]
		return hasA && hasB
	})
}

func checkStatus(s *suite, t T) {
	path := s.h.Make(t, 2)
	before := s.h.Changes(t, path)
	st := s.settled(t, path, 2)
	again := s.status(t, path)
	if st.Generation == "" || st.Generation != again.Generation {
		t.Errorf("generation %q, and %q with nothing changed", st.Generation, again.Generation)
	}
	if st.GenerationSeen != "" && st.GenerationSeen != st.Generation {
		t.Errorf("a complete rollout of generation %q has seen %q", st.Generation, st.GenerationSeen)
	}
	if !is(st.Updated, 2) || st.Stopped || st.Image == "" {
		t.Errorf("status is %+v", st)
	}
	names := map[string]bool{}
	for _, in := range st.Instances {
		if in.Name == "" || names[in.Name] || in.State != sdk.InstanceRunning || !in.Ready {
			t.Errorf("instance %+v of a workload whose instances all serve", in)
		}
		names[in.Name] = true
	}
	if lists(st) && len(names) != 2 {
		t.Errorf("%d instances, want 2", len(names))
	}
	s.unchanged(t, path, before, "reading")
}

func checkStatusBrief(s *suite, t T) {
	path := s.h.Make(t, 2)
	compare := func(st sdk.DeploymentStatus) {
		t.Helper()
		before := s.h.Changes(t, path)
		res, err := s.ask(t, sdk.WorkloadStatusRequest{Path: path, Brief: true})
		if err != nil {
			t.Fatalf("brief status of %s: %v", path, err)
		}
		got := res.Status
		if got.Path != st.Path || got.Image != st.Image || got.Generation != st.Generation || !same(got.Desired, st.Desired) ||
			got.Stopped != st.Stopped || got.Unmade != st.Unmade || !same(got.Restores, st.Restores) {
			t.Errorf("a brief status is %+v, a whole one %+v", got, st)
		}
		if got.Ready != nil && !same(got.Ready, st.Ready) || got.Updated != nil && !same(got.Updated, st.Updated) {
			t.Errorf("a brief status counts ready %v, updated %v; a whole one %v, %v", words(got.Ready), words(got.Updated), words(st.Ready), words(st.Updated))
		}
		if got.Rollout != sdk.RolloutUnknown && got.Rollout != st.Rollout {
			t.Errorf("a brief status says that the rollout is %s, a whole one %s", got.Rollout, st.Rollout)
		}
		s.unchanged(t, path, before, "reading")
	}
	compare(s.settled(t, path, 2))
	stopper, ok := sdk.Of(s.p, sdk.WorkloadStops())
	if !ok {
		return
	}
	if _, err := stopper.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: s.op(path)}); err != nil {
		t.Fatalf("stop: %v", err)
	}
	var st sdk.DeploymentStatus
	s.eventually(t, "stopped workload", func() bool {
		st = s.status(t, path)
		return st.Stopped && st.Rollout == sdk.RolloutComplete
	})
	compare(st)
}

// same reports whether two counts are both unknown, or both known and the same.
func same(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

// words is a count as it is shown.
func words(n *int) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

func checkStatusAbsent(s *suite, t T) {
	_, err := s.ask(t, sdk.WorkloadStatusRequest{Path: s.h.Absent})
	refused(t, "status of what isn't there", err, sdk.NotFound)
	for _, path := range []sdk.WorkloadPath{"", "/", "a//b", "../x"} {
		_, err := s.ask(t, sdk.WorkloadStatusRequest{Path: path})
		refused(t, "status of "+string(path), err, sdk.InvalidArgument)
	}
	for _, v := range s.verbs() {
		_, err := v.call(t.Context(), s.p, s.op(s.h.Absent))
		refused(t, string(v.op)+" on what isn't there", err, sdk.NotFound)
	}
}

func checkEndedContext(s *suite, t T) {
	path := s.h.Make(t, 2)
	before := s.h.Changes(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := need(t, s.p, sdk.WorkloadStates()).WorkloadStatus(ctx, sdk.WorkloadStatusRequest{Path: path})
	refused(t, "status", err, sdk.Canceled)
	for _, v := range s.verbs() {
		_, err := v.call(ctx, s.p, s.op(path))
		refused(t, string(v.op), err, sdk.Canceled)
	}
	for _, err := range need(t, s.p, sdk.Workloads()).ListWorkloads(ctx, sdk.ListWorkloadsRequest{}) {
		if err == nil {
			t.Errorf("list: an item under an ended context")
		} else {
			refused(t, "list", err, sdk.Canceled)
		}
	}
	s.unchanged(t, path, before, "under an ended context")
}
