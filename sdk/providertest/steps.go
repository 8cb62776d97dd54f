package providertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// job is a job that a check started.
type job struct {
	launch sdk.Launch
	handle sdk.JobHandle
	sent   time.Time
}

// request asks for a launch of a new run.
func (s *suite) request(spec sdk.JobSpec) sdk.PrepareJobRequest {
	r := sdk.PrepareJobRequest{Spec: spec, RunID: s.ids.NewID(), AttemptID: s.ids.NewID(), Attempt: 1,
		Expires: time.Now().Add(24 * time.Hour).UTC().Truncate(time.Second)}
	if s.g.Ambient {
		r.Ambient = s.h.Ambient
	}
	return r
}

// prepare returns a launch without problems.
func (s *suite) prepare(t T, spec sdk.JobSpec) sdk.Launch {
	t.Helper()
	l := s.prepareAny(t, s.request(spec))
	if len(l.Problems) > 0 {
		t.Fatalf("prepare: refused: %s", sdk.JoinProblems(l.Problems))
	}
	return l
}

// prepareAny returns a launch as it is.
func (s *suite) prepareAny(t T, r sdk.PrepareJobRequest) sdk.Launch {
	t.Helper()
	l, err := s.runner().PrepareJob(t.Context(), r)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	return l
}

// problems returns what a spec is refused for.
func (s *suite) problems(t T, spec sdk.JobSpec) []sdk.Problem {
	t.Helper()
	return s.prepareAny(t, s.request(spec)).Problems
}

// send runs a launch on a provider.
func (s *suite) send(ctx context.Context, p sdk.Provider, l sdk.Launch, stdin io.Reader) (sdk.RunJobResult, error) {
	r := sdk.RunJobRequest{Launch: l, Stdin: stdin}
	if s.g.Ambient {
		r.Ambient = s.h.Ambient
	}
	return need(p, sdk.Runner()).RunJob(ctx, r)
}

// start runs a job that does b.
func (s *suite) start(t T, b Behaviour) job {
	t.Helper()
	return s.startSpec(t, s.spec(t, b), nil)
}

func (s *suite) startSpec(t T, spec sdk.JobSpec, stdin io.Reader) job {
	t.Helper()
	return s.startLaunch(t, s.prepare(t, spec), stdin)
}

func (s *suite) startLaunch(t T, l sdk.Launch, stdin io.Reader) job {
	t.Helper()
	sent := time.Now()
	res, err := s.send(t.Context(), s.p, l, stdin)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	s.tidyUp(t, res.Handle)
	return job{launch: l, handle: res.Handle, sent: sent}
}

// tidyUp removes a job when the check is over, as far as the provider can.
func (s *suite) tidyUp(t T, h sdk.JobHandle) {
	t.Cleanup(func() {
		ctx, cancel := s.tidy()
		defer cancel()
		zero := time.Duration(0)
		if c, ok := sdk.Of(s.p, sdk.Canceler()); ok {
			r := sdk.CancelJobRequest{Handle: h, Why: "the check is over"}
			if s.g.Grace.Supported && s.g.Grace.Min == 0 {
				r.Grace = &zero
			}
			_, _ = c.CancelJob(ctx, r)
		}
		if c, ok := sdk.Of(s.p, sdk.Cleaner()); ok {
			for ctx.Err() == nil {
				_, err := c.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h})
				if !errors.Is(err, sdk.FailedPrecondition) {
					return
				}
				_ = sdk.SystemClock().Sleep(ctx, s.h.Poll)
			}
		}
	})
}

// status asks for a job's state.
func (s *suite) status(t T, h sdk.JobHandle) sdk.JobStatusResult {
	t.Helper()
	st, err := s.ask(t.Context(), h)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return st
}

func (s *suite) ask(ctx context.Context, h sdk.JobHandle) (sdk.JobStatusResult, error) {
	return s.runner().JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
}

// await waits for a state that pleases.
func (s *suite) await(t T, h sdk.JobHandle, what string, ok func(st sdk.JobStatusResult) bool) sdk.JobStatusResult {
	t.Helper()
	var st sdk.JobStatusResult
	s.eventually(t, what, func() bool {
		st = s.status(t, h)
		if !ok(st) && st.State.Terminal() {
			t.Fatalf("no %s: the job is %s: %s %s", what, st.State, st.Reason, st.Message)
		}
		return ok(st)
	})
	return st
}

func (s *suite) running(t T, h sdk.JobHandle) sdk.JobStatusResult {
	t.Helper()
	return s.await(t, h, "running job", func(st sdk.JobStatusResult) bool { return st.State == sdk.StateRunning })
}

func (s *suite) ended(t T, h sdk.JobHandle) sdk.JobStatusResult {
	t.Helper()
	return s.await(t, h, "end of the job", func(st sdk.JobStatusResult) bool { return st.State.Terminal() })
}

// cancel asks for a job's end.
func (s *suite) cancel(t T, h sdk.JobHandle, grace *time.Duration) sdk.CancelJobResult {
	t.Helper()
	res, err := need(s.p, sdk.Canceler()).CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Grace: grace, Why: "test"})
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	return res
}

// output is what a log stream gave.
type output struct {
	by      map[sdk.Stream][]byte
	items   []sdk.LogItem
	gaps    int
	end     *sdk.LogEnd
	err     error
	entries int
}

// all returns the job's bytes of all streams, stdout first.
func (o output) all() []byte {
	return bytes.Join([][]byte{o.by[sdk.StreamStdout], o.by[sdk.StreamCombined], o.by[sdk.StreamStderr]}, nil)
}

// add takes an item; its bytes are only lent.
func (o *output) add(it sdk.LogItem) {
	if it.Entry != nil {
		c := *it.Entry
		c.Data = bytes.Clone(c.Data)
		it.Entry = &c
		if c.Stream != sdk.StreamSystem { // the backend's own words
			o.entries++
		}
		if o.by == nil {
			o.by = map[sdk.Stream][]byte{}
		}
		o.by[c.Stream] = append(o.by[c.Stream], c.Data...)
		if c.LineEnd == sdk.LineEndStripped {
			o.by[c.Stream] = append(o.by[c.Stream], '\n')
		}
	}
	if it.Gap != nil {
		o.gaps++
	}
	if it.End != nil {
		o.end = it.End
	}
	o.items = append(o.items, it)
}

// readLog reads one stream to its end.
func (s *suite) readLog(ctx context.Context, p sdk.Provider, h sdk.JobHandle, from *sdk.LogCursor, follow bool) output {
	var o output
	for it, err := range need(p, sdk.Logger()).JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Cursor: from, Follow: follow}) {
		if err != nil {
			o.err = err
			break
		}
		o.add(it)
	}
	return o
}

// wholeLog returns the log of a job that ends by itself, from a cursor on: up
// to its proven end or, where there is none, until it settled.
func (s *suite) wholeLog(t T, h sdk.JobHandle, from *sdk.LogCursor) output {
	t.Helper()
	if !s.g.Logs.EndProven {
		s.ended(t, h)
	}
	o := s.settledLog(t.Context(), h, from)
	if o.err != nil {
		t.Fatalf("logs: %v", o.err)
	}
	return o
}

// settledLog is wholeLog, for any goroutine. A log whose end isn't proven is
// that of a job that has ended.
func (s *suite) settledLog(ctx context.Context, h sdk.JobHandle, from *sdk.LogCursor) output {
	ctx, cancel := context.WithTimeout(ctx, s.h.Eventually)
	defer cancel()
	if s.g.Logs.EndProven {
		return s.readLog(ctx, s.p, h, from, true)
	}
	o := s.readLog(ctx, s.p, h, from, false)
	// A read may take longer than the log is to be quiet for: what counts is what
	// one finds that begins so long after the last that brought something.
	for same := false; o.err == nil && !same; {
		if err := sdk.SystemClock().Sleep(ctx, max(s.g.Logs.Settle.Quiet, s.h.Poll)); err != nil {
			o.err = err
			break
		}
		next := s.readLog(ctx, s.p, h, from, false)
		same = maps.EqualFunc(next.by, o.by, bytes.Equal)
		o = next
	}
	return o
}

// shown returns the lines that a job's show steps wrote.
func (s *suite) shown(t T, h sdk.JobHandle) string {
	t.Helper()
	return string(s.wholeLog(t, h, nil).all())
}
