package providertest

import (
	"context"
	"errors"

	"github.com/windlass-run/windlass/sdk"
)

func batchChecks() []Check {
	batch := []string{"JobBatcher"}
	return []Check{
		{Name: "batch", Doc: "Batched states stand in the handles' order, errors of single jobs among them.", Needs: batch, run: checkBatch},
		{Name: "batch-limits", Doc: "No handles give no items, and too many are InvalidArgument.", Needs: batch, run: checkBatchLimits},
		{Name: "watch", Doc: "A change of a job is told, and a watch can be left.", Needs: []string{"JobWatcher"}, run: checkWatch},
	}
}

func checkBatch(s *suite, t T) {
	ended := s.start(t, Do(Print("x\n"), Exit(0)))
	runs := s.start(t, Do(Hang()))
	s.ended(t, ended.handle)
	s.running(t, runs.handle)
	foreign, newer := ended.handle, ended.handle
	foreign.Identity.Account += "-other"
	newer.V = sdk.HandleVersion + 1
	handles := []sdk.JobHandle{runs.handle, foreign, ended.handle, newer, runs.handle, ended.handle}
	want := []any{sdk.StateRunning, sdk.FailedPrecondition, sdk.StateSucceeded, sdk.FailedPrecondition, sdk.StateRunning, sdk.StateSucceeded}
	if sdk.Has(s.p, sdk.Cleaner().String()) && s.g.Found.Within == 0 && !s.g.KeepsEnded {
		gone := s.start(t, Do(Exit(0)))
		s.ended(t, gone.handle)
		s.cleanup(t, gone.handle)
		handles = append(handles, gone.handle, runs.handle)
		want = append(want, sdk.NotFound, sdk.StateRunning)
	}
	if s.info.BatchMax > 0 && len(handles) > s.info.BatchMax {
		handles, want = handles[:s.info.BatchMax], want[:s.info.BatchMax]
	}
	res, err := need(s.p, sdk.Batcher()).JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles})
	if err != nil {
		t.Fatalf("batch: %v", err)
	}
	if len(res.Items) != len(handles) {
		t.Fatalf("%d items for %d handles", len(res.Items), len(handles))
	}
	for i, it := range res.Items {
		switch w := want[i].(type) {
		case sdk.JobState:
			if it.Err != nil || it.Result.State != w {
				t.Errorf("item %d: got %s, %v; want %s", i, it.Result.State, it.Err, w)
			}
		case sdk.Code:
			if !errors.Is(it.Err, w) {
				t.Errorf("item %d: got %s, %v; want %s", i, it.Result.State, it.Err, w)
			}
		}
	}
}

func checkBatchLimits(s *suite, t T) {
	b := need(s.p, sdk.Batcher())
	res, err := b.JobStatuses(t.Context(), sdk.JobStatusesRequest{})
	if err != nil || len(res.Items) != 0 {
		t.Errorf("no handles: got %d items, %v", len(res.Items), err)
	}
	if s.info.BatchMax == 0 {
		return
	}
	h := s.start(t, Do()).handle
	handles := make([]sdk.JobHandle, s.info.BatchMax+1)
	for i := range handles {
		handles[i] = h
	}
	if _, err := b.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles}); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("%d handles where %d are allowed: got %v, want InvalidArgument", len(handles), s.info.BatchMax, err)
	}
	res, err = b.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles[1:]})
	if err != nil || len(res.Items) != s.info.BatchMax {
		t.Errorf("%d handles: got %d items, %v", s.info.BatchMax, len(res.Items), err)
	}
}

func checkWatch(s *suite, t T) {
	w := need(s.p, sdk.Watcher())
	ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually)
	defer cancel()
	owner := s.prepare(t, s.spec(t, Do())).Owner
	events := make(chan sdk.WatchEvent)
	failed := make(chan error, 1)
	go func() {
		defer close(events)
		for e, err := range w.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: owner}) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	told := func(id sdk.ID) bool {
		for {
			select {
			case e, ok := <-events:
				if !ok {
					return false
				}
				if e.AttemptID == id || e.AttemptID.IsZero() {
					return true
				}
			case <-ctx.Done():
				return false
			}
		}
	}
	// A watch may take a while to stand; events are hints, so several jobs are tried.
	heard := false
	for range 5 {
		j := s.start(t, Do(Sleep(s.h.Second/2), Exit(0)))
		if told(j.launch.AttemptID) {
			heard = true
			break
		}
	}
	if !heard {
		select {
		case err := <-failed:
			t.Fatalf("watch: %v", err)
		default:
			t.Fatalf("no event within %s", s.h.Eventually)
		}
	}
	cancel()
	s.eventually(t, "end of the watch that was cancelled", func() bool {
		select {
		case _, ok := <-events:
			return !ok
		default:
			return false
		}
	})
	s.frees(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), s.h.Second/5)
		defer cancel()
		for _, err := range w.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: owner, Resume: "now"}) {
			if err != nil && ctx.Err() == nil {
				// An unknown place to resume from may be refused; the watch ends.
				break
			}
		}
	})
}
