package argo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/argo"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestF21NoExitCode: where Argo reports no code there is none through the server, and
// the pod's own where the pod can be seen.
func TestF21NoExitCode(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.argo.TuneKnobs(func(k *pocket.Knobs) { k.NoExitCode = true })
		p := w.Open()
		st := w.Ended(p, w.Run(p, w.Plan(p, shell("exit 7"))))
		if st.State != sdk.StateFailed || p.server != nil && st.ExitCode != nil || p.server == nil && (st.ExitCode == nil || *st.ExitCode != 7) {
			t.Errorf("got %s, code %v", st.State, st.ExitCode)
		}
	})
}

// TestF23ImageIsNotThere: a pod that can't pull waits with its reason; a cancel proves
// that it never ran.
func TestF23ImageIsNotThere(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.NoImage = "ImagePullBackOff" })
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("true")))
		w.Eventually("reason", func() bool {
			st := w.Status(p, h)
			return st.State == sdk.StatePending && st.Reason == sdk.ReasonImagePull
		})
		if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
		if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 || st.ExitCode != nil {
			t.Errorf("cancelled, the job is %s after %d launches", st.State, st.Launches)
		}
	})
}

// TestCancelKeepsCode: a job that is terminated has its true code and its whole output.
func TestCancelKeepsCode(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.argo.TuneKnobs(func(k *pocket.Knobs) { k.WaitEnds = time.Hour }) // the job is quick, but this machine may not be
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done")))
		w.Running(p, h)
		if _, err := w.Follow(t.Context(), p, h, func(text string) bool { return strings.Contains(text, "up\n") }); err != nil {
			t.Fatal(err)
		}
		res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Accepted || res.Gone {
			t.Errorf("cancel: %+v, %v", res, err)
		}
		st := w.Ended(p, h)
		if st.State != sdk.StateCancelled || st.ExitCode == nil || *st.ExitCode != 5 {
			t.Errorf("got %s %s, code %v", st.State, st.Reason, st.ExitCode)
		}
		if job, system := w.texts(p, h, true); job != "up\nbye\n" || !strings.Contains(system, "sub-process exited") {
			t.Errorf("the log is %q, Argo's lines are %q", job, system)
		}
		if res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone {
			t.Errorf("cancelled again: %+v, %v", res, err)
		}
	})
}

// TestF77IgnoresTerm: a job that ignores TERM isn't over with its Workflow. Where the
// pod can be seen it is ended by KILL, and known to be.
func TestF77IgnoresTerm(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	spec := shell("trap '' TERM; echo up; while :; do sleep 0.05; done")
	grace := 2 * time.Second
	spec.Grace = &grace
	h := w.Run(p, w.Plan(p, spec))
	w.Running(p, h)
	w.Eventually("output", func() bool { job, _ := w.texts(p, h, false); return job == "up\n" })
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	early := false
	w.Eventually("end of the job", func() bool {
		st := w.Status(p, h)
		early = early || st.Raw["workflow.phase"] == "Failed" && !st.State.Terminal()
		return st.State.Terminal()
	})
	if st := w.Status(p, h); !early || st.State != sdk.StateCancelled || st.ExitCode == nil || *st.ExitCode != 137 {
		t.Errorf("got %s %s, code %v; seen to run on: %t", st.State, st.Reason, st.ExitCode, early)
	}
}

// TestTerminateDuringStatus: a status call that hangs holds up neither a cancel nor a
// removal.
func TestTerminateDuringStatus(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("sleep 100")))
		w.Running(p, h)
		entered, release := w.cluster.Faults().Hold("workflows.get")
		done := make(chan error, 1)
		go func() {
			_, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
			done <- err
		}()
		testwait.Receive(t, drivertest.Patience, "status call", entered)
		if err := p.client.Terminate(t.Context(), opCancel, h.ID, h.Metadata[keyUID]); err != nil {
			t.Errorf("terminate: %v", err)
		}
		if err := p.client.Delete(t.Context(), opClean, h.ID, h.Metadata[keyUID]); err != nil {
			t.Errorf("delete: %v", err)
		}
		release()
		if err := testwait.Receive(t, drivertest.Patience, "end of the status call", done); err != nil && sdk.CodeOf(err) != sdk.NotFound {
			t.Errorf("status: %v", err)
		}
		w.Eventually("end of the pod", func() bool { return len(w.cluster.Pods()) == 0 })
	})
}

// TestF78Expires: a Workflow that nobody cleans up is deleted after its time to live.
func TestF78Expires(t *testing.T) {
	w := newWorld(t, nil)
	w.argo.TuneKnobs(func(k *pocket.Knobs) { k.Unit = time.Millisecond })
	p := w.Open()
	spec := shell("true")
	spec.TTL = 300 * time.Second
	h := w.Run(p, w.Plan(p, spec))
	w.Eventually("end of the Workflow", func() bool {
		_, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		return sdk.CodeOf(err) == sdk.NotFound
	})
}

// TestNativeDeadline: the kubelet ends a pod at its deadline; code and log stay.
func TestNativeDeadline(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.Unit = time.Millisecond })
		p := w.Open()
		spec := shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done")
		spec.Timeout = time.Second
		l := w.Plan(p, spec)
		if want := 602 * time.Second; l.NativeDeadline != want {
			t.Errorf("the native deadline is %s, want %s", l.NativeDeadline, want)
		}
		h := w.Run(p, l)
		st := w.Ended(p, h)
		if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut || st.ExitCode == nil || *st.ExitCode != 5 {
			t.Errorf("got %s %s, code %v", st.State, st.Reason, st.ExitCode)
		}
		if job := w.own(p, h); job != "up\nbye\n" {
			t.Errorf("the log is %q", job)
		}
	})
}

// TestPostponed: a limit on Workflows is shown as a queue.
func TestPostponed(t *testing.T) {
	w := newWorld(t, nil)
	w.argo.TuneKnobs(func(k *pocket.Knobs) {
		k.Postponed = "Workflow processing has been postponed because too many workflows are already running"
	})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Eventually("words of the queue", func() bool {
		st := w.Status(p, h)
		return st.Reason == sdk.ReasonQueued && strings.Contains(st.Message, "postponed")
	})
	w.argo.TuneKnobs(func(k *pocket.Knobs) { k.Postponed = "" })
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
		t.Errorf("the job is %s", st.State)
	}
}

// TestArgoSubstitutesNothing: Argo's and Kubernetes' variables reach the program as
// they were typed.
func TestArgoSubstitutesNothing(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		p := w.Open()
		spec := shell(`printf '%s\n' "$@"; printf '%s\n' "$V"`)
		want := []string{"{{workflow.name}}", "{{=1+1}}", "{{", "{{{x}}}", "$(HOME)", "$$", "{", "}}"}
		spec.Args = append(append(spec.Args, "sh"), want...)
		spec.Env = sdk.Env{"V": "{{pod.name}} $(HOME)"}
		h := w.Run(p, w.Plan(p, spec))
		if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
			t.Fatalf("the job is %s: %s", st.State, st.Message)
		}
		if got := w.own(p, h); got != strings.Join(append(want, spec.Env["V"]), "\n")+"\n" {
			t.Errorf("the program got %q", got)
		}
	})
}

// TestF54CutLogs: a log whose streams are cut every few bytes is read byte for byte.
func TestF54CutLogs(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.LogCut = 37 })
		p := w.Open()
		var want strings.Builder
		for i := range 12 {
			fmt.Fprintf(&want, "line %d é家🚀\n", i)
		}
		spec := shell(`printf %s "$TEXT"`)
		spec.Env = sdk.Env{"TEXT": want.String()}
		h := w.Run(p, w.Plan(p, spec))
		if job := w.own(p, h); job != want.String() {
			t.Errorf("got %q", job)
		}
	})
}

// TestNeverStarted: a job that is cancelled while its pod waits for an image had no
// output, and so none that is missing.
func TestNeverStarted(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.NoImage = "ImagePullBackOff" })
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("echo x")))
		w.Eventually("wait for the image", func() bool { return w.Status(p, h).Reason == sdk.ReasonImagePull })
		var end *sdk.LogEnd
		looks := 0
		for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
			switch {
			case err != nil:
				t.Fatal(err)
			case it.Gap != nil:
				t.Errorf("a gap: %s", it.Gap.Why)
			case it.End != nil:
				end = it.End
			default:
				if looks++; looks > 1 {
					continue
				}
				if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if end == nil || end.Verdict != sdk.VerdictComplete && end.Verdict != sdk.VerdictQuiet {
			t.Errorf("the log's end is %+v", end)
		}
		if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 {
			t.Errorf("the job is %s after %d launches", st.State, st.Launches)
		}
	})
}

// TestF58PodIsGone: what was collected before it was read is told of, and the state
// stays what it was.
func TestF58PodIsGone(t *testing.T) {
	w := newWorld(t, nil)
	w.argo.TuneKnobs(func(k *pocket.Knobs) { k.CollectPods = true })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo x; exit 3")))
	if st := w.Ended(p, h); st.State != sdk.StateFailed || st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("the job is %s with the code %v", st.State, st.ExitCode)
	}
	w.Eventually("end of the pod", func() bool { return len(w.cluster.Pods()) == 0 })
	gaps := 0
	var end *sdk.LogEnd
	for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Gap != nil {
			gaps++
		}
		if it.End != nil {
			end = it.End
		}
	}
	if gaps != 1 || end == nil || end.Verdict != sdk.VerdictUnavailable {
		t.Errorf("%d gaps, end %+v", gaps, end)
	}
}

// TestArchivedLogs: what Argo has archived is read where the pod is gone, from any
// place on, and proven to be all.
func TestArchivedLogs(t *testing.T) {
	w := newWorld(t, map[string]any{"endpoint": true, "archive_logs": true})
	w.argo.TuneKnobs(func(k *pocket.Knobs) { k.CollectPods, k.Archive = true, true })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; echo two; printf three")))
	w.Ended(p, h)
	var cursors []*sdk.LogCursor
	read := func(from *sdk.LogCursor) (text string, verdict sdk.Verdict) {
		for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Cursor: from, Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil {
				text += string(it.Entry.Data)
				if it.Entry.LineEnd == sdk.LineEndStripped {
					text += "\n"
				}
				cursors = append(cursors, it.Cursor)
			}
			if it.End != nil {
				verdict = it.End.Verdict
			}
		}
		return text, verdict
	}
	if text, verdict := read(nil); text != "one\ntwo\nthree" || verdict != sdk.VerdictComplete {
		t.Errorf("got %q, %s", text, verdict)
	}
	if text, _ := read(cursors[0]); text != "two\nthree" {
		t.Errorf("from the second line on: %q", text)
	}
	// Deleted, the Workflow is in the archive: its end is still known, and it is no
	// object of ours any more.
	if err := p.client.Delete(t.Context(), opClean, h.ID, h.Metadata[keyUID]); err != nil {
		t.Fatal(err)
	}
	if st := w.Status(p, h); st.State != sdk.StateSucceeded || st.ExitCode == nil || *st.ExitCode != 0 {
		t.Errorf("in the archive the job is %s with the code %v", st.State, st.ExitCode)
	}
	if res, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil || len(res.Removed) > 0 {
		t.Errorf("clean-up of an archived Workflow: %+v, %v", res, err)
	}
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
		t.Errorf("left: %+v, %v", o, err)
	}
}

// TestF60FollowFromSubmit: a log that is followed before there is a pod is read from
// its first line to the job's end.
func TestF60FollowFromSubmit(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.Unschedulable = "no node" })
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("echo first; sleep 0.2; echo last")))
		done := make(chan string, 1)
		go func() {
			text, err := w.Follow(t.Context(), p, h, nil)
			done <- fmt.Sprint(text, err)
		}()
		w.cluster.TuneKnobs(func(k *kube.Knobs) { k.Unschedulable = "" })
		if got := testwait.Receive(t, drivertest.Patience, "end of the log", done); !strings.HasPrefix(got, "first\nlast\n") || !strings.HasSuffix(got, "<nil>") {
			t.Errorf("got %q", got)
		}
	})
}

// TestF14OwnersAndPages: of 1,200 Workflows each is listed once, and an owner whose
// name no label can hold has its own alone.
func TestF14OwnersAndPages(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 2,400 Workflows: left out by -short")
	}
	ways(t, func(t *testing.T, w *world) {
		w.argo.TuneKnobs(func(k *pocket.Knobs) { k.Asleep = true })
		w.Owner = `ann,windlass-owner!=bob in (x) "é"`
		p := w.Open()
		const n = 1200
		drivertest.AtOnce(n, func(int) { w.Run(p, w.Plan(p, shell("true"))) })
		w.Owner = "bob"
		other := w.Open()
		w.Run(other, w.Plan(other, shell("true")))
		ctx, cancel := context.WithTimeout(t.Context(), drivertest.Patience)
		defer cancel()
		seen := map[string]bool{}
		for o, err := range p.ListOwned(ctx, sdk.ListOwnedRequest{Owner: p.owner}) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[o.ID] || o.Owner != p.owner || !o.Live {
				t.Fatalf("got %+v", o)
			}
			seen[o.ID] = true
		}
		if len(seen) != n {
			t.Errorf("%d Workflows are listed, want %d", len(seen), n)
		}
		if pages := w.Count("workflows.list"); pages != 3 {
			t.Errorf("%d pages were asked for, want 3", pages)
		}
	})
}

// TestServerRefuses: Argo Server's refusals have their class, and what isn't its word
// is none.
func TestServerRefuses(t *testing.T) {
	w := newWorld(t, throughServer())
	p := w.Open(func(r *sdk.OpenRequest) { r.Credentials["ARGO_TOKEN"] = "Bearer another" })
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))}); sdk.CodeOf(err) != sdk.Unauthenticated {
		t.Errorf("another token: %v", err)
	}
	if _, err := p.Check(t.Context(), sdk.CheckRequest{}); sdk.CodeOf(err) != sdk.Unauthenticated {
		t.Errorf("check with another token: %v", err)
	}
	proxy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	url := drivertest.Serve(t, closed{proxy})
	w.Config["endpoint"] = url
	q := w.Open()
	l := w.Plan(q, shell("true"))
	if _, err := q.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l}); sdk.CodeOf(err) != sdk.Unavailable {
		t.Errorf("a proxy's 404: %v", err)
	}
}

type closed struct{ http.Handler }

func (closed) Close() error { return nil }

// TestRefusedLook: that a Workflow is there and may not be read proves nothing of the
// launch, which may have made it.
func TestRefusedLook(t *testing.T) {
	ways(t, func(t *testing.T, w *world) {
		p := w.Open()
		l := w.Plan(p, shell("true"))
		h := w.Run(p, l)
		restore := w.cluster.Faults().Add(fault.Rule{Action: "workflows.get", Effect: fault.Effect{Refuse: &fault.Refusal{Status: 403, Code: "Forbidden", Message: "not yours"}}})
		if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
			t.Errorf("sent again: %v", err)
		}
		restore()
		if res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil || !res.Adopted || res.Handle.ID != h.ID {
			t.Errorf("sent once more: %+v, %v", res, err)
		}
	})
}
