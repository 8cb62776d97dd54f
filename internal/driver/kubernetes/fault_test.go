package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// only is the pod that there is.
func (w *world) only() string {
	w.T.Helper()
	pods := w.cluster.Pods()
	if len(pods) != 1 {
		w.T.Fatalf("there are the pods %q, want one", pods)
	}
	return pods[0]
}

// TestF23ImageIsNotThere: a pod that can't pull waits with its reason; a cancel
// proves that it never ran, and keeps it.
func TestF23ImageIsNotThere(t *testing.T) {
	for word, want := range map[string]sdk.Reason{"ErrImagePull": sdk.ReasonImagePull, "ImagePullBackOff": sdk.ReasonImagePull, "InvalidImageName": sdk.ReasonImagePull} {
		w := newWorld(t, nil)
		w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.NoImage = word })
		p := w.Open()
		h := w.Run(p, w.Plan(p, shell("true")))
		w.Eventually("reason", func() bool { st := w.Status(p, h); return st.State == sdk.StatePending && st.Reason == want })
		if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
		if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 || st.ExitCode != nil {
			t.Errorf("%s: cancelled, the job is %s after %d launches", word, st.State, st.Launches)
		}
	}
}

// TestUnschedulable: the scheduler's own words are shown, and a cancel takes the
// pod away before it has a node.
func TestUnschedulable(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unschedulable = "0/1 nodes are available: 1 Insufficient cpu." })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Eventually("scheduler's words", func() bool {
		st := w.Status(p, h)
		return st.Reason == sdk.ReasonUnschedulable && strings.Contains(st.Message, "Insufficient cpu")
	})
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 {
		t.Errorf("the job is %s after %d launches", st.State, st.Launches)
	}
}

// TestNativeDeadline: the kubelet ends a pod at its deadline and keeps code and log.
func TestNativeDeadline(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unit = time.Millisecond })
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
	if text, _ := w.Text(p, h, nil); text != "up\nbye\n" {
		t.Errorf("the log is %q", text)
	}
}

// TestF77IgnoresTerm: a job that ignores TERM is ended by KILL once its grace is over,
// with its true code and its output.
func TestF77IgnoresTerm(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	spec := shell("trap '' TERM; echo up; while :; do sleep 0.05; done")
	grace := 2 * time.Second
	spec.Grace = &grace
	h := w.Run(p, w.Plan(p, spec))
	if _, err := w.Follow(t.Context(), p, h, func(text string) bool { return text == "up\n" }); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.ExitCode == nil || *st.ExitCode != 137 {
		t.Errorf("got %s %s, code %v", st.State, st.Reason, st.ExitCode)
	}
	if text, _ := w.Text(p, h, nil); text != "up\n" {
		t.Errorf("the log is %q", text)
	}
}

// TestEvicted: a pod that its node threw out has no success and no made-up code.
func TestEvicted(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo up; sleep 100")))
	w.Running(p, h)
	w.cluster.Evict(w.only())
	if st := w.Ended(p, h); st.State != sdk.StateFailed || st.Reason != sdk.ReasonEvicted || st.Raw["pod.reason"] != "Evicted" {
		t.Errorf("got %s %s, %v", st.State, st.Reason, st.Raw)
	}
	w.cluster.DeletePod(w.only())
	if st := w.Status(p, h); st.State != sdk.StateFailed || st.Reason != sdk.ReasonEvicted || !strings.Contains(st.Message, "DisruptionTarget") {
		t.Errorf("without its pod: %s %s, %s", st.State, st.Reason, st.Message)
	}
}

// TestF24TwoPods: a second pod of a Job is shown and its output read.
func TestF24TwoPods(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo hello; sleep 1")))
	w.Running(p, h)
	if !w.cluster.SecondPod(h.ID) {
		t.Fatal("no Job")
	}
	text, err := w.Follow(t.Context(), p, h, nil)
	if err != nil || text != "hello\nhello\n" {
		t.Errorf("the logs are %q, %v", text, err)
	}
	if st := w.Ended(p, h); st.Launches != 2 || st.State != sdk.StateSucceeded {
		t.Errorf("got %s after %d launches", st.State, st.Launches)
	}
}

// TestF54CutLogs: a log whose streams are cut every few bytes, within lines, stamps
// and characters, cleanly or not, is read byte for byte.
func TestF54CutLogs(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.LogCut = 37 })
	p := w.Open()
	var want strings.Builder
	for i := range 12 {
		fmt.Fprintf(&want, "line %d é家🚀\n", i)
	}
	spec := shell(`printf %s "$TEXT"`)
	spec.Env = sdk.Env{"TEXT": want.String() + "without an end"}
	h := w.Run(p, w.Plan(p, spec))
	text, err := w.Follow(t.Context(), p, h, nil)
	if err != nil || text != want.String()+"without an end" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestF55EndsMeanNothing: a stream that ends while the container runs is opened
// again.
func TestF55EndsMeanNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.LogCut = 100 })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done")))
	text, err := w.Follow(t.Context(), p, h, nil)
	if err != nil || text != "1\n2\n3\n4\n5\n6\n7\n8\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestF57Rotation: a stream that falls silent on a rotated file is opened again, and
// lost lines are told of.
func TestF57Rotation(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo a; until [ -e "+t.TempDir()+"/x ]; do sleep 0.05; done")))
	w.Running(p, h)
	pod := w.only()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Patience)
	defer cancel()
	gaps, lines := 0, 0
	for it, err := range p.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Gap != nil {
			gaps++
			if _, err := p.CancelJob(ctx, sdk.CancelJobRequest{Handle: h}); err != nil {
				t.Fatal(err)
			}
		}
		if it.Entry != nil && lines == 0 {
			lines++
			w.cluster.Rotate(pod, 0)
			w.cluster.Write(pod, "b")
		}
		if it.End != nil && it.End.Verdict != sdk.VerdictGap {
			t.Errorf("the verdict is %s", it.End.Verdict)
		}
	}
	if gaps != 1 {
		t.Errorf("%d gaps are told of, want 1", gaps)
	}
}

// TestF58PodIsGone: what was deleted before it was read is told of.
func TestF58PodIsGone(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo x")))
	w.Ended(p, h)
	w.cluster.DeletePod(w.only())
	var end *sdk.LogEnd
	gaps := 0
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
	if st := w.Status(p, h); st.State != sdk.StateSucceeded || st.ExitCode != nil {
		t.Errorf("the job is %s with the code %v; the code went with the pod", st.State, st.ExitCode)
	}
}

// TestF60FollowFromSubmit: a log that is followed before there is a pod is read from
// its first line to the job's end.
func TestF60FollowFromSubmit(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unschedulable = "no node" })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo first; sleep 0.2; echo last")))
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := w.Follow(t.Context(), p, h, nil)
		done <- result{text, err}
	}()
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unschedulable = "" })
	if got := testwait.Receive(t, drivertest.Patience, "end of the log", done); got.err != nil || got.text != "first\nlast\n" {
		t.Errorf("got %q, %v", got.text, got.err)
	}
}

// watched tells of the jobs that launch makes, by watches, until each was seen. At is
// called when a place to watch from was given, with how many were before; it launches
// more, or reports that it is over.
func (w *world) watched(p *provider, at func(places int, launch func()) (over bool)) {
	t := w.T
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Patience)
	defer cancel()
	want := map[sdk.ID]bool{}
	launch := func() {
		l := w.Plan(p, shell("true"))
		want[l.AttemptID] = true
		w.Run(p, l)
	}
	places := 0
	for e, err := range p.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: w.Owner}) {
		if err != nil {
			t.Fatalf("after %d places, without %d jobs: %v", places, len(want), err)
		}
		delete(want, e.AttemptID)
		if e.AttemptID.IsZero() {
			places++
			launch()
		}
		if len(want) == 0 && at(places, launch) {
			return
		}
	}
}

// TestF36WatchIsForgotten: a watch whose place is forgotten, by an answer of 410 or by
// an event, begins at a new one, which is told; every job is still told of.
func TestF36WatchIsForgotten(t *testing.T) {
	for name, byEvent := range map[string]bool{"answer": false, "event": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.WatchFor, k.ForgetByEvent = 100*time.Millisecond, byEvent })
			w.watched(w.Open(), func(places int, _ func()) bool {
				w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Forget = places == 1 })
				return places == 2
			})
		})
	}
}

// TestF37WatchesClose: the end of a watch means nothing: the next one goes on from its
// place, every job is told of, and none is taken for ended.
func TestF37WatchesClose(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.WatchFor = 100 * time.Millisecond })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	w.Running(p, h)
	w.watched(p, func(places int, launch func()) bool {
		if places != 1 {
			t.Errorf("%d places were given for watches that closed", places)
		}
		if st := w.Status(p, h); st.State != sdk.StateRunning {
			t.Errorf("a job that runs is %s", st.State)
		}
		if w.calls.Count("pods.watch") > 3 {
			return true
		}
		launch()
		return false
	})
}

// TestF14OwnersAndPages: of more Jobs than a page holds each is listed once, and an
// owner and a name that no label can hold have their own alone.
func TestF14OwnersAndPages(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 520 Jobs: left out by -short")
	}
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unschedulable = "no node" })
	w.Owner = strings.Repeat("a", 70) + "é,windlass-owner!=bob"
	p := w.Open()
	const n = 520
	spec := shell("true")
	spec.Name = strings.Repeat("n", 80)
	drivertest.AtOnce(n, func(int) { w.Run(p, w.Plan(p, spec)) })
	w.Owner = strings.Repeat("a", 70)
	other := w.Open()
	w.Run(other, w.Plan(other, spec))
	before := w.Count("jobs.list")
	seen := map[string]bool{}
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: p.owner}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[o.ID] || o.Owner != p.owner || len(o.Name) > 57 {
			t.Fatalf("got %+v", o)
		}
		seen[o.ID] = true
	}
	if pages := w.Count("jobs.list") - before; len(seen) != n || pages != 2 {
		t.Errorf("%d Jobs are listed on %d pages, want %d on 2", len(seen), pages, n)
	}
}

// TestQuota: a Job that a quota refuses has made nothing, and is sent again.
func TestQuota(t *testing.T) {
	w := newWorld(t, nil)
	set := func(full bool) { w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Quota = full }) }
	w.WaitsForRoom(w.Open(), func() func() { set(true); return func() { set(false) } }, sdk.ReasonQuota, "quota")
}

// TestRefusedLook: that a Job is there and may not be read proves nothing of the
// launch, which may have made it.
func TestRefusedLook(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Open()
	l := w.Plan(p, shell("true"))
	h := w.Run(p, l)
	restore := w.cluster.Faults().Add(fault.Rule{Action: "jobs.get", Effect: fault.Effect{Refuse: &fault.Refusal{Status: 403, Code: "Forbidden", Message: "not yours"}}})
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
		t.Errorf("sent again: %v", err)
	}
	restore()
	if res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil || !res.Adopted || res.Handle.ID != h.ID {
		t.Errorf("sent once more: %+v, %v", res, err)
	}
}
