package workload

import (
	"context"
	"iter"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-run/windlass/sdk"
)

const opTail = "read output"

// lookForPods is how often a followed workload is asked for pods and restarts that are
// new.
const lookForPods = time.Second

// TailLogs implements sdk.LogTailer: the output of the main container of every pod, and
// of each of its starts. Of starts before the newest a node keeps one.
func (w *Workloads) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		at, err := w.parse(opTail, r.Path)
		if err == nil {
			err = w.ended(ctx, opTail)
		}
		if err != nil {
			yield(sdk.WorkloadLogItem{}, err)
			return
		}
		inner, leave := context.WithCancel(ctx)
		t := &tailing{w: w, r: r, ref: at, items: make(chan sdk.WorkloadLogItem), begun: map[start]bool{}, failed: make(chan error, 1)}
		// No reader outlives the call, also when the caller breaks out.
		defer func() {
			leave()
			t.finder.Wait()
			t.readers.Wait()
		}()
		t.finder.Go(func() { t.find(inner) })
		for {
			select {
			case it := <-t.items:
				if !yield(it, nil) {
					return
				}
			case err := <-t.failed:
				if ctx.Err() != nil {
					err = w.ended(ctx, opTail)
				}
				if err != nil {
					yield(sdk.WorkloadLogItem{}, err)
				}
				return
			}
		}
	}
}

// start is one start of a pod's main container, counted from 0.
type start struct {
	pod types.UID
	n   int
}

// tailing is one call.
type tailing struct {
	w   *Workloads
	r   sdk.TailLogsRequest
	ref ref
	// items are handed over one by one, so that a slow caller slows the readers down.
	items chan sdk.WorkloadLogItem
	// failed has the end of it all, nil for a read that isn't followed and is whole.
	failed  chan error
	finder  sync.WaitGroup
	readers sync.WaitGroup
	// begun are the starts that are read, or were.
	begun map[start]bool
}

// find looks for pods and has each of their starts read: once, or until ctx ends. What
// fails for a while is asked for again as long as it is followed; that the workload has
// gone is an end.
func (t *tailing) find(ctx context.Context) {
	first := true
	for {
		pods, err := t.look(ctx, first)
		switch {
		case ctx.Err() != nil:
			t.failed <- ctx.Err()
			return
		case err != nil && (first || !sdk.IsRetryable(err)):
			if sdk.CodeOf(err) == sdk.NotFound {
				t.readers.Wait() // its pods go too, and their last words come first
			}
			t.failed <- err
			return
		}
		for i := range pods {
			t.begin(ctx, &pods[i], first)
		}
		if !t.r.Follow {
			t.readers.Wait()
			t.failed <- nil
			return
		}
		first = false
		if err := t.w.c.Clock.Sleep(ctx, lookForPods); err != nil {
			t.failed <- err
			return
		}
	}
}

// look reads the pods whose output is wanted. One that is named is there at first.
func (t *tailing) look(ctx context.Context, first bool) ([]corev1.Pod, error) {
	o, err := t.w.read(ctx, opTail, t.ref)
	if err != nil {
		return nil, err
	}
	pods, _, err := t.w.pods(ctx, opTail, o)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range pods {
		if t.r.Instance == "" || p.Name == t.r.Instance {
			out = append(out, p)
		}
	}
	if t.r.Instance != "" && len(out) == 0 && first {
		e := t.w.fail(sdk.NotFound, opTail, "the %s has no pod %s", t.ref.object(), t.r.Instance)
		e.Remedy = "`windlass svc status` lists them"
		return nil, e
	}
	return out, nil
}

// begin has a pod's starts read that aren't yet: the newest, and the one before it
// where all that is kept is wanted, or where it was missed.
func (t *tailing) begin(ctx context.Context, p *corev1.Pod, first bool) {
	c := mainStatus(p)
	if c == nil || c.State.Running == nil && c.State.Terminated == nil && c.LastTerminationState.Terminated == nil {
		return // it never ran
	}
	newest := int(c.RestartCount)
	starts := []int{newest}
	if newest > 0 && (!first || t.r.Tail == nil) {
		starts = []int{newest - 1, newest}
	}
	s := &startLog{t: t, pod: p.Name, uid: p.UID, container: c.Name}
	var fresh []int
	for _, n := range starts {
		if id := (start{p.UID, n}); !t.begun[id] && n >= 0 {
			t.begun[id] = true
			fresh = append(fresh, n)
		}
	}
	if len(fresh) == 0 {
		return
	}
	missed := !first && newest > 1 && !t.begun[start{p.UID, newest - 2}]
	t.readers.Go(func() {
		if missed && !s.give(ctx, sdk.WorkloadLogItem{Instance: p.Name, Gap: &sdk.LogGap{Bytes: -1, Why: "the container was started several times, and the node keeps the output of the last two"}}) {
			return
		}
		for _, n := range fresh {
			s.read(ctx, n, first)
		}
	})
}
