package providertest

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func checkHandle(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	h := j.handle
	b, err := h.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if len(b) > 4096 {
		t.Errorf("the handle has %d bytes", len(b))
	}
	again, err := sdk.DecodeHandle(b)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if !reflect.DeepEqual(again, h) {
		t.Errorf("the handle changed in its encoding: %+v, %+v", h, again)
	}
	if h.V != sdk.HandleVersion || h.Kind != s.info.Kind || h.Identity != s.info.Identity || h.ID == "" {
		t.Errorf("version, kind, identity or ID doesn't fit: %s", b)
	}
}

func checkFresh(s *suite, t T) {
	spec := s.spec(t, Do(Print("before\n"), Sleep(s.h.Second), Print("after\n")))
	first := s.h.Open(t)
	l := s.prepare(t, spec)
	res, err := s.send(t.Context(), first, l, nil)
	if err != nil {
		_ = first.Close()
		t.Fatalf("run: %v", err)
	}
	s.tidyUp(t, res.Handle)
	if err := first.Close(); err != nil {
		t.Errorf("close while the job runs: %v", err)
	}
	b, err := res.Handle.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	h, err := sdk.DecodeHandle(b)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	p := s.reopen(t)
	run := need(p, sdk.Runner())
	s.eventually(t, "end of the job, seen from another process", func() bool {
		st, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		if err != nil {
			t.Fatalf("status in another process: %v", err)
		}
		if st.State.Terminal() && st.State != sdk.StateSucceeded {
			t.Fatalf("the job did not go on: it is %s, %s: %s", st.State, st.Reason, st.Message)
		}
		return st.State.Terminal()
	})
	if sdk.Has(p, sdk.Logger().String()) {
		ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually)
		defer cancel()
		if o := s.readLog(ctx, p, h, nil, false); o.err != nil {
			t.Errorf("logs in another process: %v", o.err)
		}
	}
	if c, ok := sdk.Of(p, sdk.Canceler()); ok {
		if _, err := c.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
			t.Errorf("cancel in another process: %v", err)
		}
	}
	if c, ok := sdk.Of(p, sdk.Cleaner()); ok {
		if _, err := c.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			t.Errorf("clean-up in another process: %v", err)
		}
	}
}

// handleCalls makes each call that takes a handle.
func (s *suite) handleCalls(ctx context.Context, h sdk.JobHandle) map[Op]error {
	out := map[Op]error{}
	_, out[OpJobStatus] = s.ask(ctx, h)
	if c, ok := sdk.Of(s.p, sdk.Canceler()); ok {
		_, out[OpCancelJob] = c.CancelJob(ctx, sdk.CancelJobRequest{Handle: h})
	}
	if c, ok := sdk.Of(s.p, sdk.Cleaner()); ok {
		_, out[OpCleanupJob] = c.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h})
	}
	if sdk.Has(s.p, sdk.Logger().String()) {
		out[OpJobLogs] = s.readLog(ctx, s.p, h, nil, false).err
	}
	if c, ok := sdk.Of(s.p, sdk.Batcher()); ok {
		res, err := c.JobStatuses(ctx, sdk.JobStatusesRequest{Handles: []sdk.JobHandle{h}})
		if err == nil && len(res.Items) == 1 {
			err = res.Items[0].Err
		}
		out[OpJobStatuses] = err
	}
	if c, ok := sdk.Of(s.p, sdk.Renewer()); ok {
		_, out[OpRenewExpiry] = c.RenewExpiry(ctx, sdk.RenewExpiryRequest{Handle: h, Expires: time.Now().Add(time.Hour)})
	}
	return out
}

func checkForeign(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	h := j.handle
	h.Identity.Account += "-other"
	for op, err := range s.handleCalls(t.Context(), h) {
		if !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("%s with a handle of another account: got %v, want FailedPrecondition", op, err)
		}
	}
	key := s.ids.NewID().String()
	l := s.prepare(t, s.spec(t, Do(Mark(key))))
	l.Identity.Account += "-other"
	if res, err := s.send(t.Context(), s.p, l, nil); !errors.Is(err, sdk.FailedPrecondition) {
		if err == nil {
			s.tidyUp(t, res.Handle)
		}
		t.Errorf("RunJob with a launch of another account: got %v, want FailedPrecondition", err)
	}
	if f, ok := sdk.Of(s.p, sdk.Finder()); ok {
		if _, err := f.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, SentAt: time.Now()}); !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("FindJobs with a launch of another account: got %v, want FailedPrecondition", err)
		}
	}
}

func checkNewer(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	h := j.handle
	h.V = sdk.HandleVersion + 1
	for op, err := range s.handleCalls(t.Context(), h) {
		if !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("%s with a handle of a newer version: got %v, want FailedPrecondition", op, err)
		}
	}
	l := s.prepare(t, s.spec(t, Do()))
	l.V = sdk.LaunchVersion + 1
	if res, err := s.send(t.Context(), s.p, l, nil); !errors.Is(err, sdk.FailedPrecondition) {
		if err == nil {
			s.tidyUp(t, res.Handle)
		}
		t.Errorf("RunJob with a launch of a newer version: got %v, want FailedPrecondition", err)
	}
}
