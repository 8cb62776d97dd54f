package argo

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
)

// TestF36PlaceIsForgotten: there is no watch here to expire, but a list whose place the
// server has forgotten; it begins again, and tells of each Workflow once.
func TestF36PlaceIsForgotten(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		p := w.Open()
		want := map[string]bool{}
		for range 3 {
			want[w.Run(p, w.Plan(p, shell("true"))).ID] = true
		}
		w.cluster.Faults().Add(fault.Rule{Action: "workflows.list", Count: 2, Effect: fault.Effect{Refuse: &fault.Refusal{Status: 410, Code: "Expired",
			Message: "The provided continue parameter is too old to display a consistent list result."}}})
		for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: p.owner}) {
			if err != nil {
				t.Fatal(err)
			}
			if o.Type == typeWorkflow && !want[o.ID] {
				t.Errorf("%s comes twice, or is another's", o.ID)
			}
			delete(want, o.ID)
		}
		if len(want) > 0 {
			t.Errorf("%d are missing", len(want))
		}
	})
}

// TestF37StreamsThatCloseEndNothing: streams that close all the time, as an end would
// look, end no job: what a read of the Workflow says decides.
func TestF37StreamsThatCloseEndNothing(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.LogCut = 100 })
		p := w.Open()
		gate := t.TempDir() + "/x"
		h := w.Run(p, w.Plan(p, shell("i=0; until [ -e "+gate+" ]; do echo $((i+=1)); sleep 0.02; done; exit 3")))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// A dozen lines need several streams.
		if _, err := w.Follow(ctx, p, h, func(text string) bool { return strings.Count(text, "\n") > 12 }); err != nil {
			t.Fatal(err)
		}
		if n := w.Count("pods.log"); n < 2 {
			t.Errorf("%d streams were opened, none after another's end", n)
		}
		if st := w.Status(p, h); st.State != sdk.StateRunning || st.ExitCode != nil {
			t.Errorf("a job that runs is %s with the code %v", st.State, st.ExitCode)
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if st := w.Ended(p, h); st.State != sdk.StateFailed || st.ExitCode == nil || *st.ExitCode != 3 {
			t.Errorf("the job is %s with the code %v", st.State, st.ExitCode)
		}
	})
}

// TestF55EndsMeanNothing: a stream that ends while the container runs is opened again.
func TestF55EndsMeanNothing(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.LogCut = 100 })
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done")))
		if job := w.own(p, h); job != "1\n2\n3\n4\n5\n6\n7\n8\n" {
			t.Errorf("got %q", job)
		}
	})
}

// TestF57Rotation: a stream that falls silent on a rotated file is opened again, and
// lost lines are told of.
func TestF57Rotation(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("echo a; until [ -e "+t.TempDir()+"/x ]; do sleep 0.05; done")))
		w.Running(p, h)
		pods := w.cluster.Pods()
		if len(pods) != 1 {
			t.Fatalf("there are the pods %q, want one", pods)
		}
		ctx, cancel := context.WithTimeout(t.Context(), drivertest.Patience)
		defer cancel()
		gaps, rotated := 0, false
		verdict := sdk.Verdict("")
		var text strings.Builder
		for it, err := range p.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
			switch {
			case err != nil:
				t.Fatal(err)
			case it.Gap != nil:
				if gaps++; gaps == 1 {
					if _, err := p.CancelJob(ctx, sdk.CancelJobRequest{Handle: h}); err != nil {
						t.Fatal(err)
					}
				}
			case it.Entry != nil && it.Entry.Stream != sdk.StreamSystem:
				text.Write(it.Entry.Data)
				if !rotated {
					rotated = true
					w.cluster.Rotate(pods[0], 0)
					w.cluster.Write(pods[0], "b")
				}
			case it.End != nil:
				verdict = it.End.Verdict
			}
		}
		if gaps != 1 || verdict != sdk.VerdictGap || text.String() != "ab" {
			t.Errorf("%d gaps are told of, want 1; the verdict is %s, the text %q", gaps, verdict, text.String())
		}
	})
}
