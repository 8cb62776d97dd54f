package workloadtest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func streamChecks() []Check {
	l, m := []string{sdk.WorkloadLogs().String()}, []string{sdk.WorkloadMetrics().String()}
	return []Check{
		{Name: "logs", Doc: "The output of all instances is read, each under its name.", Needs: l, run: checkLogs},
		{Name: "logs-one", Doc: "The output of one instance alone can be asked for, and its last lines.", Needs: l, run: checkLogsOne},
		{Name: "logs-follow", Doc: "Following goes on through a restart, and ends with the context.", Needs: append([]string{sdk.WorkloadRestarts().String()}, l...), run: checkLogsFollow},
		{Name: "logs-absent", Doc: "The output of what isn't there is NotFound.", Needs: l, run: checkLogsAbsent},
		{Name: "metrics", Doc: "Each instance is measured, and nothing that wasn't measured is a zero (F102).", Needs: m, run: checkMetrics},
		{Name: "metrics-absent", Doc: "A workload that can't be measured says so, and the others go on.", Needs: m, run: checkMetricsAbsent},
	}
}

// output reads what is there of a workload's output, by instance.
func (s *suite) output(t T, r sdk.TailLogsRequest) map[string]*bytes.Buffer {
	t.Helper()
	out := map[string]*bytes.Buffer{}
	for it, err := range need(t, s.p, sdk.WorkloadLogs()).TailLogs(t.Context(), r) {
		if err != nil {
			t.Fatalf("logs: %v", err)
		}
		put(t, out, it)
	}
	return out
}

func put(t T, out map[string]*bytes.Buffer, it sdk.WorkloadLogItem) {
	t.Helper()
	if (it.Entry == nil) == (it.Gap == nil) || it.Instance == "" {
		t.Errorf("an item of output is %+v", it)
		return
	}
	if it.Entry == nil {
		return
	}
	if out[it.Instance] == nil {
		out[it.Instance] = &bytes.Buffer{}
	}
	out[it.Instance].Write(it.Entry.Data)
	if it.Entry.LineEnd == sdk.LineEndStripped {
		out[it.Instance].WriteByte('\n')
	}
}

func has(out map[string]*bytes.Buffer, instance, text string) bool {
	return out[instance] != nil && bytes.Contains(out[instance].Bytes(), []byte(text))
}

// writers is settled, and returns the names of n instances whose output is read.
// Where the backend doesn't tell of instances, the output does.
func (s *suite) writers(t T, path sdk.WorkloadPath, n int) (names []string) {
	t.Helper()
	if lists(s.settled(t, path, n)) {
		return s.instances(t, path, n)
	}
	s.eventually(t, "output of as many instances as there are to be", func() bool {
		names = slices.Sorted(maps.Keys(s.output(t, sdk.TailLogsRequest{Path: path})))
		return len(names) == n
	})
	return names
}

func checkLogs(s *suite, t T) {
	if s.h.Line == nil {
		t.Skipf("the harness knows no line of output")
	}
	path := s.h.Make(t, 2)
	names := s.writers(t, path, 2)
	s.eventually(t, "output of both instances", func() bool {
		out := s.output(t, sdk.TailLogsRequest{Path: path})
		for _, in := range names {
			if !has(out, in, s.h.Line(in)) {
				return false
			}
		}
		return true
	})
	for _, err := range need(t, s.p, sdk.WorkloadLogs()).TailLogs(t.Context(), sdk.TailLogsRequest{Path: path, Follow: true}) {
		if err != nil {
			t.Errorf("follow: %v", err)
		}
		break // frees the stream, or the close of the provider waits for it
	}
}

func checkLogsOne(s *suite, t T) {
	if s.h.Line == nil {
		t.Skipf("the harness knows no line of output")
	}
	path := s.h.Make(t, 2)
	one := s.writers(t, path, 2)[1]
	s.eventually(t, "output of one instance", func() bool {
		return has(s.output(t, sdk.TailLogsRequest{Path: path, Instance: one}), one, s.h.Line(one))
	})
	if out := s.output(t, sdk.TailLogsRequest{Path: path, Instance: one}); len(out) != 1 {
		t.Errorf("asked for one instance, got the output of %d", len(out))
	}
	none := 0
	if out := s.output(t, sdk.TailLogsRequest{Path: path, Tail: &none}); len(out) != 0 {
		t.Errorf("asked for no lines, got those of %d instances", len(out))
	}
	if out := s.output(t, sdk.TailLogsRequest{Path: path, Since: time.Now().Add(time.Hour)}); len(out) != 0 {
		t.Errorf("asked for output of the future, got that of %d instances", len(out))
	}
}

func checkLogsFollow(s *suite, t T) {
	if s.h.Line == nil {
		t.Skipf("the harness knows no line of output")
	}
	path := s.h.Make(t, 1)
	first := s.writers(t, path, 1)[0]
	ctx, cancel := s.bounded(t)
	defer cancel()
	out := map[string]*bytes.Buffer{}
	restarted, again := false, ""
	for it, err := range need(t, s.p, sdk.WorkloadLogs()).TailLogs(ctx, sdk.TailLogsRequest{Path: path, Follow: true}) {
		if err != nil {
			if again == "" {
				t.Errorf("following ended early: %v", err)
			} else if !errors.Is(err, sdk.Canceled) {
				t.Errorf("following ended with %v, want Canceled", err)
			}
			return
		}
		put(t, out, it)
		switch {
		case !restarted && has(out, first, s.h.Line(first)):
			restarted = true
			delete(out, first) // a restart in place writes under the same name
			if _, err := s.restart(t, path); err != nil {
				t.Errorf("restart: %v", err)
				return
			}
		case restarted && again == "" && has(out, it.Instance, s.h.Line(it.Instance)):
			again = it.Instance
			cancel()
		}
	}
	t.Errorf("following ended without an error while its context went on, or after it; restarted %t", restarted)
}

func checkLogsAbsent(s *suite, t T) {
	for _, err := range need(t, s.p, sdk.WorkloadLogs()).TailLogs(t.Context(), sdk.TailLogsRequest{Path: s.h.Absent}) {
		refused(t, "output of what isn't there", err, sdk.NotFound)
		return
	}
	t.Errorf("the output of what isn't there is empty")
}

func checkMetrics(s *suite, t T) {
	path := s.h.Make(t, 2)
	left := map[string]bool{}
	whole := !lists(s.settled(t, path, 2))
	if whole {
		left[""] = true // one of the whole workload
	} else {
		for _, in := range s.instances(t, path, 2) {
			left[in] = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually+s.g.Warms)
	defer cancel()
	for it, err := range need(t, s.p, sdk.WorkloadMetrics()).StreamMetrics(ctx, sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{path}, Interval: s.h.Poll}) {
		if err != nil {
			t.Fatalf("metrics ended with %d instances never measured: %v", len(left), err)
		}
		if wrong := badItem(it, whole); wrong != "" || it.Path != path {
			t.Fatalf("an item of %s: %s", it.Path, wrong)
		}
		if it.Sample != nil {
			delete(left, it.Instance)
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("metrics ended without an error")
}

// badItem says what an item of metrics can't be. Samples are of the whole workload
// where the backend doesn't tell of instances.
func badItem(it sdk.MetricItem, whole bool) string {
	ways := 0
	for _, set := range []bool{it.Sample != nil, it.Warming != "", it.Failed != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return "it isn't exactly one of sample, warming and failed"
	}
	m := it.Sample
	if m == nil {
		return ""
	}
	for _, v := range []*int64{m.CPU, m.Memory, m.Received, m.Sent} {
		if v != nil && *v < 0 {
			return "a measure is below zero"
		}
	}
	switch {
	case it.Instance == "" && !whole:
		return "a sample is of no instance"
	case m.At.IsZero():
		return "a sample has no time"
	case m.CPU == nil && m.Memory == nil:
		return "a sample has neither CPU nor memory"
	case m.Memory != nil && *m.Memory == 0:
		return "memory is zero, which no running instance has: it wasn't measured"
	}
	return ""
}

func checkMetricsAbsent(s *suite, t T) {
	path := s.h.Make(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually+s.g.Warms)
	defer cancel()
	failed, measured := false, false
	for it, err := range need(t, s.p, sdk.WorkloadMetrics()).StreamMetrics(ctx, sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{s.h.Absent, path}, Interval: s.h.Poll}) {
		if err != nil {
			t.Fatalf("metrics ended (absent told %t, other measured %t): %v", failed, measured, err)
		}
		if it.Failed != nil && it.Path == s.h.Absent {
			refused(t, "measure what isn't there", it.Failed, sdk.NotFound)
			failed = true
		}
		measured = measured || it.Sample != nil && it.Path == path
		if failed && measured {
			return
		}
	}
	t.Errorf("metrics ended without an error")
}
