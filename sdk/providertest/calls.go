package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func callChecks() []Check {
	return []Check{
		{Name: "context-ended", Doc: "A call whose context has ended does nothing.", run: checkContextEnded},
		{Name: "context-blocked", Doc: "A call that hangs at the server returns at once when it is cancelled.", run: checkContextBlocked},
		{Name: "throttled", Doc: "Too many calls are ResourceExhausted, can be tried again, and made nothing.", run: checkThrottled},
		{Name: "concurrent", Doc: "Many jobs at once are kept apart.", run: checkConcurrent},
	}
}

// calls returns every call on a job, by operation.
func (s *suite) calls(j job, l sdk.Launch) map[Op]func(ctx context.Context) error {
	h := j.handle
	out := map[Op]func(ctx context.Context) error{
		OpCheck: func(ctx context.Context) error {
			_, err := s.p.Check(ctx, sdk.CheckRequest{})
			return err
		},
		OpRunJob: func(ctx context.Context) error {
			_, err := s.send(ctx, s.p, l, nil)
			return err
		},
		OpJobStatus: func(ctx context.Context) error {
			_, err := s.ask(ctx, h)
			return err
		},
	}
	if f, ok := sdk.Of(s.p, sdk.Finder()); ok {
		out[OpFindJobs] = func(ctx context.Context) error {
			_, err := f.FindJobs(ctx, sdk.FindJobsRequest{Launch: &j.launch, SentAt: j.sent})
			return err
		}
	}
	if c, ok := sdk.Of(s.p, sdk.Canceler()); ok {
		out[OpCancelJob] = func(ctx context.Context) error {
			_, err := c.CancelJob(ctx, sdk.CancelJobRequest{Handle: h})
			return err
		}
	}
	if c, ok := sdk.Of(s.p, sdk.Cleaner()); ok {
		out[OpCleanupJob] = func(ctx context.Context) error {
			_, err := c.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h})
			return err
		}
	}
	if sdk.Has(s.p, sdk.Logger().String()) {
		out[OpJobLogs] = func(ctx context.Context) error { return s.readLog(ctx, s.p, h, nil, true).err }
	}
	if b, ok := sdk.Of(s.p, sdk.Batcher()); ok {
		out[OpJobStatuses] = func(ctx context.Context) error {
			_, err := b.JobStatuses(ctx, sdk.JobStatusesRequest{Handles: []sdk.JobHandle{h}})
			return err
		}
	}
	if w, ok := sdk.Of(s.p, sdk.Watcher()); ok {
		out[OpWatchJobs] = func(ctx context.Context) error {
			for _, err := range w.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: j.launch.Owner}) {
				if err != nil {
					return err
				}
			}
			return ctx.Err()
		}
	}
	if o, ok := sdk.Of(s.p, sdk.Lister()); ok {
		out[OpListOwned] = func(ctx context.Context) error {
			for _, err := range o.ListOwned(ctx, sdk.ListOwnedRequest{Owner: j.launch.Owner}) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	if r, ok := sdk.Of(s.p, sdk.Renewer()); ok {
		out[OpRenewExpiry] = func(ctx context.Context) error {
			_, err := r.RenewExpiry(ctx, sdk.RenewExpiryRequest{Handle: h, Expires: time.Now().Add(time.Hour)})
			return err
		}
	}
	return out
}

// eachCall runs f for each operation that the provider has, on a job of its own.
func (s *suite) eachCall(t T, f func(t T, op Op, call func(ctx context.Context) error, l sdk.Launch)) {
	t.Helper()
	probe := s.calls(job{}, sdk.Launch{})
	for _, op := range []Op{OpCheck, OpRunJob, OpJobStatus, OpFindJobs, OpCancelJob, OpCleanupJob, OpJobLogs, OpJobStatuses,
		OpWatchJobs, OpListOwned, OpRenewExpiry} {
		if _, ok := probe[op]; !ok {
			continue
		}
		t.Run(string(op), func(t T) {
			b := Do(Hang())
			if op == OpCleanupJob {
				b = Do()
			}
			j := s.start(t, b)
			if op == OpCleanupJob {
				s.ended(t, j.handle)
			}
			l := s.prepare(t, s.spec(t, Do()))
			f(t, op, s.calls(j, l)[op], l)
		})
	}
}

func isContext(err error) bool {
	return errors.Is(err, sdk.Canceled) || errors.Is(err, context.Canceled)
}

func checkContextEnded(s *suite, t T) {
	s.eachCall(t, func(t T, op Op, call func(ctx context.Context) error, l sdk.Launch) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := call(ctx); !isContext(err) {
			t.Errorf("%s with a context that has ended: got %v, want Canceled", op, err)
		}
		if op == OpRunJob {
			if left := s.leftovers(t, l); len(left) > 0 {
				t.Errorf("it left %s", strings.Join(left, ", "))
			}
		}
	})
}

func checkContextBlocked(s *suite, t T) {
	if s.h.Faults.Block == nil {
		t.Skipf("the harness can't block calls")
	}
	s.eachCall(t, func(t T, op Op, call func(ctx context.Context) error, l sdk.Launch) {
		entered, release, ok := s.h.Faults.Block(t, op)
		if !ok {
			t.Skipf("%s reaches no server", op)
		}
		defer release()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		timer := time.NewTimer(s.h.Eventually)
		defer timer.Stop()
		select {
		case <-entered:
		case err := <-done:
			t.Fatalf("%s returned before it reached the server: %v", op, err)
		case <-timer.C:
			t.Fatalf("%s did not reach the server within %s", op, s.h.Eventually)
		}
		cancel()
		timer.Reset(2 * time.Second)
		select {
		case err := <-done:
			if !isContext(err) {
				t.Errorf("%s: got %v, want Canceled", op, err)
			}
			if op == OpRunJob && sdk.IsClear(err) {
				t.Errorf("%s: a cancelled call is not clear, but %v is", op, err)
			}
		case <-timer.C:
			t.Errorf("%s: the call goes on after its context has ended", op)
			release()
			<-done //nolint:errcheck // only its end counts
		}
		// The server may have carried it out all the same.
		release()
		if f, ok := sdk.Of(s.p, sdk.Finder()); ok && op == OpRunJob {
			if res, err := f.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: time.Now()}); err == nil {
				for _, j := range res.Jobs {
					s.tidyUp(t, j.Handle)
				}
			}
		}
	})
}

func checkThrottled(s *suite, t T) {
	if s.h.Faults.Throttle == nil {
		t.Skipf("the harness can't throttle")
	}
	j := s.start(t, Do(Hang()))
	s.h.Faults.Throttle(t, OpJobStatus, 1)
	if _, err := s.ask(t.Context(), j.handle); !errors.Is(err, sdk.ResourceExhausted) || !sdk.IsRetryable(err) {
		t.Errorf("status: got %v (retryable %t), want ResourceExhausted, retryable", err, sdk.IsRetryable(err))
	}
	if _, err := s.ask(t.Context(), j.handle); err != nil {
		t.Errorf("status afterwards: %v", err)
	}
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key))))
	s.h.Faults.Throttle(t, OpRunJob, 1)
	if res, err := s.send(t.Context(), s.p, l, nil); !errors.Is(err, sdk.ResourceExhausted) || !sdk.IsRetryable(err) || !sdk.IsClear(err) {
		if err == nil {
			s.tidyUp(t, res.Handle)
		}
		t.Errorf("run: got %v (retryable %t), want ResourceExhausted, retryable", err, sdk.IsRetryable(err))
	}
	if n := s.h.Marks(t, key); n != 0 {
		t.Errorf("the refused job ran %d times", n)
	}
	s.ended(t, s.startLaunch(t, l, nil).handle)
	if n := s.h.Marks(t, key); n != 1 {
		t.Errorf("the job that was sent again ran %d times", n)
	}
}

func checkConcurrent(s *suite, t T) {
	type one struct {
		key    string
		launch sdk.Launch
		handle sdk.JobHandle
		err    error
	}
	jobs := make([]one, s.h.Parallel)
	for i := range jobs {
		jobs[i].key = s.ids.NewID().String()
		jobs[i].launch = s.prepare(t, s.spec(t, Do(Print(fmt.Sprintf("job %d\n", i)), Mark(jobs[i].key))))
	}
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			j := &jobs[i]
			res, err := s.send(t.Context(), s.p, j.launch, nil)
			if j.handle, j.err = res.Handle, err; err != nil {
				return
			}
			for range 20 {
				if _, j.err = s.ask(t.Context(), j.handle); j.err != nil {
					return
				}
			}
			if sdk.Has(s.p, sdk.Logger().String()) {
				j.err = s.readLog(t.Context(), s.p, j.handle, nil, false).err
			}
		})
	}
	wg.Wait()
	for i := range jobs {
		if jobs[i].err != nil {
			t.Errorf("job %d: %v", i, jobs[i].err)
		}
		if jobs[i].handle.ID != "" {
			s.tidyUp(t, jobs[i].handle)
		}
	}
	if t.Failed() {
		return
	}
	for i, j := range jobs {
		if st := s.ended(t, j.handle); st.State != sdk.StateSucceeded {
			t.Errorf("job %d: %s", i, essence(st))
		}
		if n := s.h.Marks(t, j.key); n != 1 {
			t.Errorf("job %d ran %d times", i, n)
		}
	}
	if !sdk.Has(s.p, sdk.Logger().String()) {
		return
	}
	logs := make([]output, len(jobs))
	for i := range jobs {
		wg.Go(func() { logs[i] = s.settledLog(t.Context(), jobs[i].handle, nil) })
	}
	wg.Wait()
	for i, o := range logs {
		if got, want := string(o.all()), fmt.Sprintf("job %d\n", i); got != want || o.err != nil {
			t.Errorf("job %d shows %q, %v", i, got, o.err)
		}
	}
}
