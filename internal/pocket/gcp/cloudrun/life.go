package cloudrun

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// outcome is why an execution ends.
type outcome struct {
	// failed names the condition that failed, empty for success.
	failed  string
	message string
	reason  runpb.Condition_ExecutionReason
	common  runpb.Condition_CommonReason
	code    codes.Code
	// cancelled says that tasks were stopped on request.
	cancelled bool
}

// run takes an execution through its life.
func (s *Service) run(e *execution) {
	why := s.prepare(e)
	if why == nil {
		why = s.runTasks(e)
		s.pause(e.pace.Finish)
	}
	s.complete(e, *why)
}

// change alters an execution from its own goroutine.
func (s *Service) change(e *execution, f func(v *runpb.Execution)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changeExecution(e, f)
	s.refer(e)
}

// refer brings the job's reference to its latest execution up to date. The lock
// is held.
func (s *Service) refer(e *execution) {
	if e.job.view.GetLatestCreatedExecution().GetName() != e.id {
		return
	}
	v := proto.CloneOf(e.job.view)
	v.LatestCreatedExecution.CompletionTime, v.LatestCreatedExecution.CompletionStatus = e.view.CompletionTime, completionStatus(e.view)
	e.job.view = v
}

func completionStatus(v *runpb.Execution) runpb.ExecutionReference_CompletionStatus {
	switch {
	case v.CompletionTime == nil && v.StartTime == nil:
		return runpb.ExecutionReference_EXECUTION_PENDING
	case v.CompletionTime == nil:
		return runpb.ExecutionReference_EXECUTION_RUNNING
	case v.SucceededCount == v.TaskCount:
		return runpb.ExecutionReference_EXECUTION_SUCCEEDED
	case v.CancelledCount > 0 && v.FailedCount == 0:
		return runpb.ExecutionReference_EXECUTION_CANCELLED
	default:
		return runpb.ExecutionReference_EXECUTION_FAILED
	}
}

// await lets time pass in the execution's life. It returns why it has to end, if
// so.
func (s *Service) await(e *execution, d time.Duration) *outcome {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-e.cancel:
		return &outcome{cancelled: true}
	case <-s.end:
		return &outcome{cancelled: true}
	case <-timer.C:
		return nil
	}
}

// prepare imports the image and provides resources.
func (s *Service) prepare(e *execution) *outcome {
	begin := s.o.Now()
	s.change(e, func(v *runpb.Execution) {
		v.Conditions = with(v.Conditions, condition(completed, runpb.Condition_CONDITION_RECONCILING, "Waiting for execution to complete.", v.UpdateTime))
		v.Conditions = with(v.Conditions, condition(containerReady, runpb.Condition_CONDITION_RECONCILING, "Importing the container image.", v.UpdateTime))
	})
	m := e.mishap
	if why := s.await(e, e.pace.Import); why != nil {
		return why
	}
	if m.Stage == StageImage {
		if why := s.await(e, m.After); why != nil {
			return why
		}
		return imageMissing(e.tasks[0], m.Message)
	}
	s.change(e, func(v *runpb.Execution) {
		v.Conditions = with(v.Conditions, condition(containerReady, runpb.Condition_CONDITION_SUCCEEDED, fmt.Sprintf("Imported container image in %s.", since(s, begin)), v.UpdateTime))
		v.Conditions = with(v.Conditions, condition(resourcesAvailable, runpb.Condition_CONDITION_RECONCILING, "Provisioning imported containers.", v.UpdateTime))
	})
	if why := s.await(e, e.pace.Provision); why != nil {
		return why
	}
	if m.Stage == StageResources {
		if why := s.await(e, m.After); why != nil {
			return why
		}
		return &outcome{failed: resourcesAvailable, message: words(m, "The request was aborted because there was no available instance."), common: runpb.Condition_INTERNAL, code: codes.ResourceExhausted}
	}
	s.change(e, func(v *runpb.Execution) {
		v.Conditions = with(v.Conditions, condition(resourcesAvailable, runpb.Condition_CONDITION_SUCCEEDED, "Provisioned imported containers.", v.UpdateTime))
		v.Conditions = with(v.Conditions, condition(started, runpb.Condition_CONDITION_RECONCILING, "Starting execution.", v.UpdateTime))
	})
	if why := s.await(e, e.pace.Start); why != nil {
		return why
	}
	s.change(e, func(v *runpb.Execution) {
		v.StartTime = v.UpdateTime
		v.Conditions = with(v.Conditions, condition(started, runpb.Condition_CONDITION_SUCCEEDED, fmt.Sprintf("Started deployed execution in %s.", since(s, begin)), v.UpdateTime))
	})
	return nil
}

// imageMissing is the end of an execution whose image isn't there.
func imageMissing(t *task, message string) *outcome {
	text := cmp.Or(message, "Image '"+t.view.Containers[0].Image+"' not found.")
	return &outcome{failed: containerReady, message: text, common: runpb.Condition_CONTAINER_MISSING, code: codes.NotFound}
}

func since(s *Service, begin time.Time) string {
	return fmt.Sprintf("%.2fs", s.o.Now().Sub(begin).Seconds())
}

func words(m Mishap, standard string) string {
	if m.Message != "" {
		return m.Message
	}
	return standard
}

// runTasks runs the tasks, so many at a time as parallelism allows. The first
// that fails for good has the others cancelled.
func (s *Service) runTasks(e *execution) *outcome {
	parallel := cmp.Or(e.parallel, standardParallelism)
	queue := make(chan *task)
	abort := make(chan struct{})
	var once sync.Once
	var first *outcome
	var workers sync.WaitGroup
	for range min(parallel, len(e.tasks)) {
		workers.Go(func() {
			for t := range queue {
				if why := s.runTask(e, t, abort); why != nil {
					once.Do(func() {
						first = why
						close(abort)
					})
				}
			}
		})
	}
	for _, t := range e.tasks {
		queue <- t
	}
	close(queue)
	workers.Wait()
	if first != nil {
		return first
	}
	return &outcome{}
}

// standardParallelism is how many tasks run at once when the job doesn't say.
// The real number depends on the project's quota of CPUs.
const standardParallelism = 100

// complete ends an execution.
func (s *Service) complete(e *execution, why outcome) {
	s.mu.Lock()
	op := e.op
	for _, t := range e.tasks {
		if t.view.CompletionTime == nil { // none of them has started
			s.endTask(e, t, result{cancelled: why.failed == "" || why.cancelled, message: why.message, code: why.code})
		}
	}
	s.changeExecution(e, func(v *runpb.Execution) {
		v.CompletionTime, v.Reconciling, v.RunningCount = v.UpdateTime, false, 0
		success := v.SucceededCount == v.TaskCount
		switch {
		case success:
			took := s.o.Now().Sub(v.CreateTime.AsTime()).Seconds()
			v.Conditions = with(v.Conditions, condition(completed, runpb.Condition_CONDITION_SUCCEEDED, fmt.Sprintf("Execution completed successfully in %.2fs.", took), v.UpdateTime))
		case why.failed == "" || why.cancelled:
			why.cancelled = true
			c := executionReason(condition(completed, runpb.Condition_CONDITION_FAILED, "Execution cancelled.", v.UpdateTime), runpb.Condition_CANCELLED)
			v.Conditions = with(v.Conditions, c)
		default:
			if why.failed != completed {
				v.Conditions = with(v.Conditions, commonReason(condition(why.failed, runpb.Condition_CONDITION_FAILED, why.message, v.UpdateTime), why.common))
			}
			c := executionReason(condition(completed, runpb.Condition_CONDITION_FAILED, why.message, v.UpdateTime), why.reason)
			if why.reason == runpb.Condition_EXECUTION_REASON_UNDEFINED {
				c = commonReason(c, why.common)
			}
			v.Conditions = with(v.Conditions, c)
		}
	})
	s.refer(e)
	s.running--
	failed := why.failed != "" && !why.cancelled && e.view.SucceededCount != e.view.TaskCount
	close(e.done)
	s.mu.Unlock()
	s.finish(op, func() (proto.Message, error) {
		if failed {
			return nil, failure(why.code, why.message)
		}
		// A cancelled execution is no error of the operation.
		return e.show(), nil
	})
}

// changeTask alters a task. The lock is held.
func (s *Service) changeTask(t *task, f func(v *runpb.Task)) {
	v := proto.CloneOf(t.view)
	v.UpdateTime, v.Etag = s.stamp(), s.etag()
	f(v)
	t.view = v
}
