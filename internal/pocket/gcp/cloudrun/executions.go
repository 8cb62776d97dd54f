package cloudrun

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// show is the execution for the wire. The lock is held.
func (e *execution) show() *runpb.Execution {
	v := proto.CloneOf(e.view)
	if e.mishap.Show != nil {
		e.mishap.Show(v)
	}
	return v
}

// GetExecution describes an execution.
func (a executionsAPI) GetExecution(_ context.Context, r *runpb.GetExecutionRequest) (*runpb.Execution, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*/executions/*", "run.executions.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.findExecution(id[0], id[1])
	if err != nil {
		return nil, err
	}
	return e.show(), nil
}

// anyJob in a parent stands for all jobs, or all executions.
const anyJob = "-"

// ListExecutions lists executions, the newest first.
func (a executionsAPI) ListExecutions(_ context.Context, r *runpb.ListExecutionsRequest) (*runpb.ListExecutionsResponse, error) {
	s := a.s
	id, err := s.parse(r.Parent, "/jobs/*", "run.executions.list")
	if err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.ShowDeleted); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id[0] != anyJob {
		if _, err := s.findJob(id[0]); err != nil {
			return nil, err
		}
	}
	list := s.listed(id[0])
	page, next, err := gapi.Page(list, (*execution).order, gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &runpb.ListExecutionsResponse{NextPageToken: next}
	for _, e := range page {
		out.Executions = append(out.Executions, e.show())
	}
	return out, nil
}

// listed returns the executions of a job, or of all, that lists show, the newest
// first. The lock is held.
func (s *Service) listed(jobID string) []*execution {
	var list []*execution
	now := s.o.Now()
	for _, j := range s.jobs {
		if jobID != anyJob && j.id != jobID {
			continue
		}
		for _, e := range j.executions {
			if !now.Before(e.born.Add(s.knobs.ListDelay)) {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, func(a, b *execution) int { return cmp.Compare(a.order(), b.order()) })
	return list
}

// order is a text by which newer executions come first.
func (e *execution) order() string { return e.key }

// newestFirst makes the key of something born then.
func newestFirst(born time.Time, id string) string {
	return fmt.Sprintf("%019d/%s", math.MaxInt64-born.UnixNano(), id)
}

// quotaRetained is how many completed executions a job keeps:
// https://cloud.google.com/run/quotas
const quotaRetained = 1000

// retain drops a job's oldest completed executions beyond the quota. The lock is
// held.
func (s *Service) retain(j *job) {
	completed := 0
	for _, e := range j.executions {
		if e.view.CompletionTime != nil {
			completed++
		}
	}
	excess := completed - cmp.Or(s.knobs.MaxRetained, quotaRetained)
	j.executions = slices.DeleteFunc(j.executions, func(e *execution) bool {
		if excess <= 0 || e.view.CompletionTime == nil {
			return false
		}
		excess--
		return true
	})
}

// Forget drops all completed executions at once, as if they were old.
func (s *Service) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		j.executions = slices.DeleteFunc(j.executions, func(e *execution) bool { return e.view.CompletionTime != nil })
	}
}

// CancelExecution stops an execution. Its operation is done, without an error,
// when all tasks have ended.
func (a executionsAPI) CancelExecution(_ context.Context, r *runpb.CancelExecutionRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*/executions/*", "run.executions.cancel")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.findExecution(id[0], id[1])
	if err != nil {
		return nil, err
	}
	if err := checkEtag(e.id, r.Etag, e.view.Etag); err != nil {
		return nil, err
	}
	if e.view.CompletionTime != nil {
		return nil, refuse(ruleFinished, "Execution '%s' has already completed.", e.id)
	}
	if r.ValidateOnly {
		return s.newOperation(e.view).finish(s, e.view, nil).show(s), nil
	}
	s.stop(e)
	op := s.newOperation(e.view)
	op.meta = func() proto.Message { return e.show() }
	s.live(func() {
		<-e.done
		s.finish(op, func() (proto.Message, error) { return e.show(), nil })
	})
	return op.show(s), nil
}

// stop has an execution end. The lock is held.
func (s *Service) stop(e *execution) {
	if e.cancelled || e.view.CompletionTime != nil {
		return
	}
	e.cancelled = true
	close(e.cancel)
	s.changeExecution(e, func(v *runpb.Execution) {
		v.Conditions = with(v.Conditions, executionReason(condition(completed, runpb.Condition_CONDITION_RECONCILING, "Cancelling the execution.", v.UpdateTime), runpb.Condition_CANCELLING))
	})
}

// changeExecution alters an execution. The lock is held.
func (s *Service) changeExecution(e *execution, f func(v *runpb.Execution)) {
	v := proto.CloneOf(e.view)
	v.UpdateTime, v.Etag = s.stamp(), s.etag()
	f(v)
	e.view = v
}

// DeleteExecution deletes an execution; one that runs is stopped.
func (a executionsAPI) DeleteExecution(_ context.Context, r *runpb.DeleteExecutionRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*/executions/*", "run.executions.delete")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.findExecution(id[0], id[1])
	if err != nil {
		return nil, err
	}
	if err := checkEtag(e.id, r.Etag, e.view.Etag); err != nil {
		return nil, err
	}
	if r.ValidateOnly {
		return s.newOperation(e.view).finish(s, e.view, nil).show(s), nil
	}
	s.stop(e)
	s.changeExecution(e, func(v *runpb.Execution) {
		v.DeleteTime, v.ExpireTime = v.UpdateTime, timestamppb.New(s.o.Now().AddDate(0, 0, 30))
	})
	op := s.newOperation(e.view)
	op.meta = func() proto.Message { return e.show() }
	pace := s.knobs.Pace
	s.live(func() {
		<-e.done
		if !s.pause(pace.Delete) {
			return
		}
		s.mu.Lock()
		e.job.executions = slices.DeleteFunc(e.job.executions, func(o *execution) bool { return o == e })
		s.mu.Unlock()
		s.finish(op, func() (proto.Message, error) { return e.show(), nil })
	})
	return op.show(s), nil
}
