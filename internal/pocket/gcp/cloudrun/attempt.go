package cloudrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	ltype "google.golang.org/genproto/googleapis/logging/type"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// result is how an attempt of a task ended.
type result struct {
	// message is empty for success.
	message string
	code    codes.Code
	// exit is the container's exit code, nil where it has none.
	exit *int
	// signal is the one by which the platform ended it.
	signal int
	// cancelled says that the attempt was stopped on request.
	cancelled bool
	// missing says that the image isn't there, so that nothing is tried again.
	missing bool
	reason  runpb.Condition_ExecutionReason
}

func (r result) success() bool { return r.message == "" && !r.cancelled }

// The messages of attempts. The first two were seen in the wild:
// https://github.com/PrefectHQ/prefect/pull/14497
const (
	messageExit    = "The container exited with an error."
	messageTimeout = "The configured timeout was reached."
)

// runTask runs a task with its retries. It returns why the execution fails, nil
// when the task succeeded or was cancelled.
func (s *Service) runTask(e *execution, t *task, abort <-chan struct{}) *outcome {
	if stopped(e.cancel, abort, s.end) {
		s.mu.Lock()
		s.endTask(e, t, result{cancelled: true})
		s.mu.Unlock()
		return nil
	}
	s.mu.Lock()
	s.changeTask(t, func(v *runpb.Task) {
		v.ScheduledTime, v.StartTime = v.UpdateTime, v.UpdateTime
		v.Conditions = with(v.Conditions, condition(started, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime))
		v.Conditions = with(v.Conditions, condition(completed, runpb.Condition_CONDITION_RECONCILING, "", v.UpdateTime))
	})
	s.changeExecution(e, func(v *runpb.Execution) { v.RunningCount++ })
	s.mu.Unlock()

	for n := 0; ; n++ {
		r := s.attempt(e, t, n, abort)
		again := !r.success() && !r.cancelled && !r.missing && n < int(t.view.MaxRetries) && !stopped(e.cancel, abort, s.end)
		s.mu.Lock()
		if again {
			s.retryTask(e, t, r)
			s.mu.Unlock()
			continue
		}
		s.changeExecution(e, func(v *runpb.Execution) { v.RunningCount-- })
		s.endTask(e, t, r)
		s.mu.Unlock()
		if r.success() || r.cancelled {
			return nil
		}
		if r.missing {
			return imageMissing(t, "")
		}
		text := fmt.Sprintf("Task %s failed with message: %s", t.id(e), r.message)
		if r.exit != nil {
			text = fmt.Sprintf("Task %s failed with exit code: %d and message: %s", t.id(e), *r.exit, r.message)
		}
		return &outcome{failed: completed, message: text, reason: r.reason, code: r.code}
	}
}

func stopped(signals ...<-chan struct{}) bool {
	for _, c := range signals {
		select {
		case <-c:
			return true
		default:
		}
	}
	return false
}

// retryTask reports an attempt that is followed by another. The lock is held.
func (s *Service) retryTask(e *execution, t *task, r result) {
	if t.view.Retried == 0 {
		s.changeExecution(e, func(v *runpb.Execution) { v.RetriedCount++ })
	}
	s.changeTask(t, func(v *runpb.Task) {
		v.Retried++
		v.LastAttemptResult = r.view(e.mishap)
	})
}

// endTask reports a task's end. The lock is held.
func (s *Service) endTask(e *execution, t *task, r result) {
	s.changeTask(t, func(v *runpb.Task) {
		v.CompletionTime, v.Reconciling = v.UpdateTime, false
		if v.StartTime != nil {
			v.LastAttemptResult = r.view(e.mishap)
		}
		c := condition(completed, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime)
		switch {
		case r.cancelled:
			c = executionReason(condition(completed, runpb.Condition_CONDITION_FAILED, "Task cancelled.", v.UpdateTime), runpb.Condition_CANCELLED)
		case !r.success():
			c = executionReason(condition(completed, runpb.Condition_CONDITION_FAILED, r.message, v.UpdateTime), r.reason)
		}
		v.Conditions = with(v.Conditions, c)
	})
	s.changeExecution(e, func(v *runpb.Execution) {
		switch {
		case r.cancelled:
			v.CancelledCount++
		case r.success():
			v.SucceededCount++
		default:
			v.FailedCount++
		}
	})
}

// view is the result for the wire.
func (r result) view(m Mishap) *runpb.TaskAttemptResult {
	out := &runpb.TaskAttemptResult{Status: &statuspb.Status{Code: int32(r.code), Message: r.message}, TermSignal: int32(r.signal)} //nolint:gosec // signals and codes are small
	if r.cancelled {
		out.Status = &statuspb.Status{Code: int32(codes.Canceled), Message: "The task was cancelled."}
	}
	if r.exit != nil && !m.NoExitCode {
		out.ExitCode = int32(*r.exit) //nolint:gosec // exit codes are small
	}
	return out
}

// attempt runs a task's container once.
func (s *Service) attempt(e *execution, t *task, n int, abort <-chan struct{}) result {
	c := t.view.Containers[0]
	log := s.openLog(e, t, n)
	defer log.close()
	env, err := s.environment(e, t, n, c)
	if err != nil {
		text := "Application failed to start: " + err.Error()
		log.system(ltype.LogSeverity_ERROR, text)
		return result{message: text, code: codes.FailedPrecondition}
	}
	box, err := s.o.Executor.Start(context.Background(), containerSpec(fmt.Sprintf("%s-%d", t.id(e), n), c, env, log))
	if err != nil {
		var start *run.StartError
		text := err.Error()
		if errors.As(err, &start) && start.Phase == run.Pull {
			return result{message: imageMissing(t, "").message, code: codes.NotFound, missing: true}
		}
		text = "Application failed to start: " + text
		log.system(ltype.LogSeverity_ERROR, text)
		return result{message: text, code: codes.FailedPrecondition}
	}
	r := s.watch(e, t, box, abort)
	log.close()
	if r.exit != nil {
		log.exited(*r.exit)
	} else if r.signal != 0 {
		log.system(ltype.LogSeverity_WARNING, fmt.Sprintf("Container terminated on signal %d.", r.signal))
	}
	return r
}

// watch waits for a container's end, or brings it about.
func (s *Service) watch(e *execution, t *task, box run.Container, abort <-chan struct{}) result {
	deadline := time.NewTimer(t.view.Timeout.AsDuration() + e.late)
	defer deadline.Stop()
	var struck <-chan time.Time
	if m := e.mishap; m.Stage == StageOOM || m.Stage == StageInternal {
		timer := time.NewTimer(m.After)
		defer timer.Stop()
		struck = timer.C
	}
	select {
	case <-box.Done():
		return ended(box.Exit(), t)
	case <-deadline.C:
		exit := s.stopContainer(box, e.grace)
		return terminated(exit, result{message: messageTimeout, code: codes.DeadlineExceeded})
	case <-struck:
		s.stopContainer(box, 0)
		if e.mishap.Stage == StageOOM {
			return result{message: words(e.mishap, memoryMessage(t)), code: codes.ResourceExhausted, signal: 9}
		}
		return result{message: words(e.mishap, "Internal error."), code: codes.Internal}
	case <-e.cancel:
	case <-abort:
	case <-s.end:
	}
	exit := s.stopContainer(box, e.grace)
	return terminated(exit, result{cancelled: true})
}

// stopContainer sends TERM and after the grace KILL, and waits for the end.
func (s *Service) stopContainer(box run.Container, grace time.Duration) run.Exit {
	box.Stop(grace)
	select {
	case <-box.Done():
	case <-s.end:
		box.Stop(0)
		<-box.Done()
	}
	return box.Exit()
}

// ended is the result of a container that ended by itself.
func ended(exit run.Exit, t *task) result {
	switch {
	case exit.OOM:
		return result{message: memoryMessage(t), code: codes.ResourceExhausted, signal: 9}
	case exit.Code == 0:
		return result{exit: &exit.Code}
	default:
		return result{message: messageExit, code: codes.Aborted, exit: &exit.Code, reason: runpb.Condition_NON_ZERO_EXIT_CODE}
	}
}

// terminated adds how a container ended that was stopped: a signal of the
// platform, or a code of its own.
func terminated(exit run.Exit, r result) result {
	const signalled = 128
	switch exit.Code {
	case signalled + 9, signalled + 15:
		r.signal = exit.Code - signalled
	default:
		r.exit = &exit.Code
	}
	return r
}

// memoryMessage is what the platform writes of a container above its memory:
// https://cloud.google.com/run/docs/troubleshooting
func memoryMessage(t *task) string {
	return fmt.Sprintf("Memory limit of %d MiB exceeded with %[1]d MiB used. Consider increasing the memory limit, see https://cloud.google.com/run/docs/configuring/memory-limits",
		memoryMiB(t.view.Containers[0]))
}

// environment is what a task's container gets: its own variables, then those of
// the platform, which can't be overridden.
func (s *Service) environment(e *execution, t *task, n int, c *runpb.Container) ([]string, error) {
	env, err := s.variables(c)
	return append(env, varJob+"="+e.job.id, varExecution+"="+e.id, fmt.Sprintf("%s=%d", varIndex, t.index),
		fmt.Sprintf("%s=%d", varAttempt, n), fmt.Sprintf("%s=%d", varCount, len(e.tasks))), err
}

// variables are a container's own, the values of secrets among them.
func (s *Service) variables(c *runpb.Container) ([]string, error) {
	var env []string
	for _, v := range c.Env {
		value := v.GetValue()
		if ref := v.GetValueSource().GetSecretKeyRef(); ref != nil {
			data, err := s.o.Secret(ref.Secret, ref.Version)
			if err != nil {
				return nil, fmt.Errorf("secret %s/versions/%s: %w", s.secretName(ref.Secret), ref.Version, err)
			}
			value = string(data)
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// output is where an attempt's output goes.
type output struct {
	container      *cloudlogging.Container // nil for nowhere
	stdout, stderr io.Writer
}

func (s *Service) openLog(e *execution, t *task, n int) output {
	return s.openOutput(cloudlogging.Source{Location: s.o.Location, Job: e.job.id, Execution: e.id, Task: t.index, Attempt: n, Instance: s.o.NewID()})
}

func (s *Service) openOutput(from cloudlogging.Source) output {
	if s.o.Logs == nil {
		return output{stdout: io.Discard, stderr: io.Discard}
	}
	c := s.o.Logs.Open(from)
	return output{container: c, stdout: c.Stdout(), stderr: c.Stderr()}
}

// close writes what is left of unfinished lines.
func (o output) close() {
	if o.container != nil {
		o.container.Close()
	}
}

func (o output) system(severity ltype.LogSeverity, text string) {
	if o.container != nil {
		o.container.System(severity, text)
	}
}

// exited says that a container ended by itself.
func (o output) exited(code int) {
	severity := ltype.LogSeverity_INFO
	if code != 0 {
		severity = ltype.LogSeverity_WARNING
	}
	o.system(severity, fmt.Sprintf("Container called exit(%d).", code))
}

// containerSpec is how the executor is asked for a container.
func containerSpec(name string, c *runpb.Container, env []string, log output) run.Spec {
	spec := run.Spec{Name: name, Image: c.Image, Env: env, Dir: c.WorkingDir, MemoryMiB: memoryMiB(c), Stdout: log.stdout, Stderr: log.stderr}
	if len(c.Command) > 0 {
		spec.Entrypoint = c.Command
	}
	if len(c.Args) > 0 {
		spec.Command = c.Args
	}
	return spec
}
