package kubernetes

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read logs"

const (
	// A log that isn't there yet, or was cut, is asked for again after these.
	lookFirst = 50 * time.Millisecond
	lookLast  = 2 * time.Second
	// patience is for how long a followed log may fail without a success between.
	patience = 5 * time.Minute
)

// JobLogs implements sdk.JobLogger. It reads the logs of the attempt's pods one
// behind the other. A stream's end means nothing: while the container runs it is
// opened again, and once it has ended a last read that isn't followed proves that
// nothing more is there.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.LogItem{}, p.fail(sdk.CodeOf(err), opLogs, err))
			return
		}
		if err := p.checkHandle(opLogs, r.Handle); err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		pos, err := readPosition(r.Cursor)
		if err != nil {
			yield(sdk.LogItem{}, p.fail(sdk.InvalidArgument, opLogs, err))
			return
		}
		t := &tail{p: p, h: r.Handle, pos: pos, follow: r.Follow, wait: lookFirst, verdict: sdk.VerdictComplete, healthy: time.Now()}
		t.yield = func(it sdk.LogItem) bool {
			t.left = t.left || !yield(it, nil)
			return !t.left
		}
		if err := t.run(ctx); err != nil && !t.left {
			yield(sdk.LogItem{}, err)
		}
	}
}

// tail is one read of an attempt's output.
type tail struct {
	p       *provider
	h       sdk.JobHandle
	pos     position
	follow  bool
	verdict sdk.Verdict
	yield   func(sdk.LogItem) bool
	// left: the reader has gone.
	left bool
	// given counts the items with bytes. met: what is lost at the end was told.
	given int
	met   bool
	// wait is the time until the next look; healthy is when one last succeeded.
	wait    time.Duration
	healthy time.Time
}

func (t *tail) run(ctx context.Context) error {
	for !t.left {
		done, err := t.look(ctx)
		switch {
		case ctx.Err() != nil:
			return t.p.fail(sdk.CodeOf(ctx.Err()), opLogs, ctx.Err())
		case done || t.left:
			return nil
		case err != nil && (!t.follow || !sdk.IsRetryable(err) || time.Since(t.healthy) > patience):
			return err
		case err == nil:
			t.healthy = time.Now()
		}
		if !t.yield(sdk.LogItem{}) { // a look that found nothing new
			return nil
		}
		if err := sdk.SystemClock().Sleep(ctx, max(t.wait, sdk.RetryAfter(err))); err != nil {
			return t.p.fail(sdk.CodeOf(err), opLogs, err)
		}
		t.wait = min(2*t.wait, lookLast)
	}
	return nil
}

// look reads as far as there is something to read. done: End was given.
func (t *tail) look(ctx context.Context) (done bool, err error) {
	s, err := t.p.look(ctx, opLogs, t.h)
	if err != nil {
		return false, err
	}
	over := s.job == nil || judge(s).State.Terminal()
	pods := t.rest(s.pods)
	if len(s.pods) == 0 && (over && t.pos.uid == "") {
		why := "the pod was deleted before its output was read"
		if s.job != nil && judge(s).State == sdk.StateCancelled {
			t.end() // no container was ever started
			return true, nil
		}
		t.yield(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: why}})
		t.verdict = sdk.VerdictUnavailable
		t.end()
		return true, nil
	}
	if t.pos.uid != "" && !slices.ContainsFunc(s.pods, func(pod corev1.Pod) bool { return string(pod.UID) == t.pos.uid }) {
		// What was still to come of this pod is lost; another may follow.
		if !t.gap("the pod was deleted before its output was read to the end") {
			return false, nil
		}
		t.pos = position{launch: t.pos.launch + 1}
		if len(pods) == 0 && over {
			t.end()
			return true, nil
		}
	}
	for i := range pods {
		pod := &pods[i]
		if string(pod.UID) != t.pos.uid {
			if t.pos.uid != "" {
				t.pos = position{launch: t.pos.launch + 1}
			}
			t.pos.uid = string(pod.UID)
		}
		whole, err := t.pod(ctx, pod)
		if err != nil || t.left || !whole {
			if !t.follow && err == nil && !t.left {
				t.verdict = t.verdict.Worse(sdk.VerdictQuiet)
				t.end()
				return true, nil
			}
			return false, err
		}
	}
	if over || !t.follow {
		if !over {
			t.verdict = t.verdict.Worse(sdk.VerdictQuiet)
		}
		t.end()
		return true, nil
	}
	return false, nil
}

// rest are the pods from the one on that the position is in.
func (t *tail) rest(pods []corev1.Pod) []corev1.Pod {
	if t.pos.uid == "" {
		return pods
	}
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return string(pod.UID) == t.pos.uid })
	return pods[max(i, 0):]
}

// pod reads a pod's log from the position on. whole: it is proven to be all.
func (t *tail) pod(ctx context.Context, pod *corev1.Pod) (whole bool, err error) {
	main := mainOf(pod)
	switch {
	case main == nil, main.State.Waiting != nil && main.RestartCount == 0:
		return ended(pod), nil // there never was, or isn't yet, any output
	case main.State.Terminated != nil && !started(main.State.Terminated):
		return true, nil
	}
	if main.State.Terminated == nil {
		_, err := t.read(ctx, pod, t.follow, false)
		return false, err
	}
	// All that comes from here on was written before the look that saw the end. A
	// stream that was cut on its way may look like one that came to its end, so that
	// only a read that brings nothing new is the proof.
	for !t.left {
		before := t.given
		clean, err := t.read(ctx, pod, false, true)
		if err != nil || !clean || t.given == before {
			return clean, err
		}
	}
	return false, nil
}

// read gives what one stream has; over says that the container has ended. clean: it
// was read to an end that the server made, behind a whole line or at the end of one
// that was never ended.
func (t *tail) read(ctx context.Context, pod *corev1.Pod, follow, over bool) (clean bool, err error) {
	query := url.Values{"container": {mainContainer}, "timestamps": {"true"}}
	if follow {
		query.Set("follow", "true")
	}
	if !t.pos.stamp.IsZero() {
		query.Set("sinceTime", t.pos.stamp.UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	if err := t.p.budget.Wait(ctx); err != nil {
		return false, t.p.fail(sdk.CodeOf(err), opLogs, err)
	}
	body, err := t.p.session.Stream(ctx, opLogs, kube.Log(t.p.session.Namespace, pod.Name), query)
	switch sdk.CodeOf(err) {
	case 0:
	case sdk.NotFound, sdk.InvalidArgument:
		if !over {
			return false, nil // the pod has gone, or its container hasn't come: the next look tells
		}
		e := t.p.fail(sdk.Unavailable, opLogs, fmt.Errorf("the log of an ended container: %w", err))
		e.Retryable = true
		return false, e
	default:
		return false, err
	}
	// A stream that falls silent may be dead, or follow a file that was rotated.
	stall := time.AfterFunc(time.Duration(t.p.cfg.LogStall), func() { _ = body.Close() })
	defer stall.Stop()
	defer body.Close() //nolint:errcheck // it was only read
	var lines splitter
	old := newSieve(t.pos)
	take := func(q piece) bool { return t.take(old, q) }
	buf := make([]byte, 32<<10)
	for {
		n, rerr := body.Read(buf)
		if n > 0 {
			stall.Reset(time.Duration(t.p.cfg.LogStall))
			more, ok := lines.write(buf[:n], take)
			if !more {
				return false, nil
			}
			if !ok {
				e := t.p.fail(sdk.Unavailable, opLogs, fmt.Errorf("the node has no log of the container: %s", oneLine(string(lines.buf[:min(len(lines.buf), 200)]))))
				e.Retryable = true
				return false, e
			}
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return false, nil // cut; the next look tells whether there is more
		}
	}
	if follow {
		return false, nil
	}
	last, partial := lines.rest()
	switch {
	case !over:
		return true, nil
	case partial && !t.take(old, last), !partial && len(lines.buf) > 0:
		return false, nil
	case !old.met && !t.met:
		// What was read of it is no longer there, and so perhaps what came behind.
		t.met = true
		t.gap("the node rotated the log before it was read to the end")
	}
	return true, nil
}

// take gives what is new of a piece.
func (t *tail) take(old *sieve, q piece) bool {
	fresh, isNew, gap := old.pass(q)
	if gap && !t.gap("the node rotated the log before it was read") {
		return false
	}
	if !isNew {
		return true
	}
	t.pos = t.pos.advance(q, fresh)
	t.given++
	t.wait, t.healthy = lookFirst, time.Now()
	end := sdk.LineEndKept
	if q.whole {
		end = sdk.LineEndStripped
	}
	return t.yield(sdk.LogItem{Entry: &sdk.LogChunk{Time: q.stamp, Stream: sdk.StreamCombined, Data: fresh, LineEnd: end, Launch: t.pos.launch}, Cursor: t.pos.cursor()})
}

func (t *tail) gap(why string) bool {
	t.verdict = t.verdict.Worse(sdk.VerdictGap)
	return t.yield(sdk.LogItem{Gap: &sdk.LogGap{From: t.pos.stamp, Bytes: -1, Why: why}})
}

func (t *tail) end() {
	t.yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: t.verdict}, Cursor: t.pos.cursor()})
}
