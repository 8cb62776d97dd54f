//go:build linux

package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// realDeleted: a pod that somebody deletes takes its code along; the Job says that it
// failed, and a second pod doesn't come.
func realDeleted(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done")))
	w.printed(p, h, "up")
	c.Do(t, http.MethodDelete, w.at("pods", w.pod(p, h)), nil, nil)
	st := w.Ended(p, h)
	if st.State != sdk.StateFailed {
		t.Errorf("got %s %s, code %s: %v", st.State, st.Reason, code(st), st.Raw)
	}
	w.Eventually("end of the pod", func() bool {
		s, err := p.look(t.Context(), "look", h)
		return err == nil && len(s.pods) == 0
	})
	if st = w.Status(p, h); st.State != sdk.StateFailed || st.Launches > 1 {
		t.Errorf("without its pod: %s %s, %d launches: %v", st.State, st.Reason, st.Launches, st.Raw)
	}
	w.cleanUp(p, h)
}

// realEviction: a taint that no pod tolerates takes the pods from their node. Seen in
// time or not, that is what a run ends with, unless its process took its leave with
// 0: then Kubernetes calls it completed.
func realEviction(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	var handles []sdk.JobHandle
	for _, code := range []int{4, 0} {
		h := w.Run(p, w.Plan(p, shell(fmt.Sprintf("trap 'exit %d' TERM; echo up; while :; do sleep 0.05; done", code))))
		w.printed(p, h, "up")
		handles = append(handles, h)
	}
	taint := func(taints []any) {
		c.Do(t, http.MethodPatch, "/api/v1/nodes/node1", map[string]any{"spec": map[string]any{"taints": taints}}, nil)
	}
	taint([]any{map[string]any{"key": "test", "value": "leave", "effect": "NoExecute"}})
	lift := sync.OnceFunc(func() { taint(nil) })
	defer lift()
	w.evicted(p, handles[0])
	left := w.Ended(p, handles[1])
	// The code goes with the pod, which may be sooner than it is seen.
	if left.State != sdk.StateSucceeded || left.ExitCode != nil && *left.ExitCode != 0 {
		t.Errorf("with 0 it is %s %s, code %s: %v", left.State, left.Reason, code(left), left.Raw)
	}
	for _, h := range handles {
		w.Eventually("end of the pod", func() bool {
			s, err := p.look(t.Context(), "look", h)
			return err == nil && len(s.pods) == 0
		})
	}
	w.evicted(p, handles[0])
	if st := w.Status(p, handles[1]); st.State != sdk.StateSucceeded {
		t.Errorf("with 0 and without its pod it is %s %s: %v", st.State, st.Reason, st.Raw)
	}
	lift()
	for _, h := range handles {
		if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			t.Error(err)
		}
	}
}

// evicted waits for the end of a job that was taken from its node.
func (w *real) evicted(p *provider, h sdk.JobHandle) {
	w.T.Helper()
	if st := w.Ended(p, h); st.State != sdk.StateFailed || st.Reason != sdk.ReasonEvicted || !strings.Contains(st.Message, "Taint") && !strings.Contains(st.Message, "DisruptionTarget") {
		w.T.Errorf("got %s %s, code %s, %s: %v", st.State, st.Reason, code(st), st.Message, st.Raw)
	}
}

// realF55APIServer: an API server that is killed under a followed log, and comes
// back, costs no line.
func realF55APIServer(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("i=0; while [ $i -lt 60 ]; do echo line $i; i=$((i+1)); sleep 0.1; done; exit 9")))
	w.printed(p, h, "line 2")
	type result struct {
		text string
		err  error
	}
	begun, done := make(chan struct{}, 1), make(chan result, 1)
	go func() {
		text, err := w.Follow(context.WithoutCancel(t.Context()), p, h, func(string) bool {
			select {
			case begun <- struct{}{}:
			default: // only the first line counts
			}
			return false
		})
		done <- result{text, err}
	}()
	testwait.Receive(t, patience, "first line", begun)
	c.Kill(t, cluster.APIServer)
	if _, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err == nil || !sdk.IsRetryable(err) {
		t.Errorf("without an API server a look says %v", err)
	}
	c.Restart(t, cluster.APIServer)
	var want strings.Builder
	for i := range 60 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if got := testwait.Receive(t, patience, "end of the log", done); got.err != nil || got.text != want.String() {
		t.Errorf("the log is %q, %v", got.text, got.err)
	}
	if st := w.Ended(p, h); st.ExitCode == nil || *st.ExitCode != 9 || st.Launches != 1 {
		t.Errorf("got %s %s, code %s, %d launches", st.State, st.Reason, code(st), st.Launches)
	}
	w.cleanUp(p, h)
}

// realKubelet: a kubelet that is killed and comes back finds its containers again.
func realKubelet(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.1; done; exit 9")))
	w.printed(p, h, "line 2")
	c.Kill(t, cluster.Kubelet)
	for _, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if err != nil && !sdk.IsRetryable(err) {
			t.Errorf("without a kubelet the log is %v", err)
		}
	}
	c.Restart(t, cluster.Kubelet)
	text, err := w.Follow(t.Context(), p, h, nil)
	if err != nil {
		t.Errorf("the log: %v", err)
	}
	var want strings.Builder
	for i := range 40 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if text != want.String() {
		t.Errorf("the log is %q", text)
	}
	if st := w.Ended(p, h); st.ExitCode == nil || *st.ExitCode != 9 || st.Launches != 1 {
		t.Errorf("got %s %s, code %s, %d launches: %v", st.State, st.Reason, code(st), st.Launches, st.Raw)
	}
	w.cleanUp(p, h)
}

// realF54ProgressBar: a line that a program draws over seconds, which the runtime keeps
// in parts with stamps of their own, comes whole and once, followed and from any place on
// where a read broke off.
func realF54ProgressBar(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell(`echo begin; for i in 1 2 3 4 5 6 7 8 9 10; do printf '%s\r' "$BAR"; sleep 0.4; done; echo 100%; echo done; printf bye`)
	bar := strings.Repeat("#", 17<<10)
	spec.Env = sdk.Env{"BAR": bar}
	h := w.Run(p, w.Plan(p, spec))
	want := "begin\n" + strings.Repeat(bar+"\r", 10) + "100%\ndone\nbye"
	var parts strings.Builder
	var from *sdk.LogCursor
	for over, reads := false, 0; !over; reads++ {
		if reads > len(want) {
			t.Fatal("it never ends")
		}
		for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Cursor: from, Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil {
				parts.Write(it.Entry.Data)
				if it.Entry.LineEnd == sdk.LineEndStripped {
					parts.WriteByte('\n')
				}
			}
			if it.Cursor != nil {
				from = it.Cursor
			}
			if over = it.End != nil; over || it.Entry != nil {
				break // the next read goes on from here
			}
		}
	}
	whole, err := w.Follow(t.Context(), p, h, nil)
	if err != nil || whole != want || parts.String() != want {
		t.Errorf("%d bytes at once, %d in parts, want %d, %v", len(whole), parts.Len(), len(want), err)
	}
	w.cleanUp(p, h)
}
