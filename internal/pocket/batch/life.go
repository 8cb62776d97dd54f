package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// The reasons of ends that are the same for all jobs.
const (
	exited   = "Essential container in task exited"
	overtime = "Job attempt duration exceeded timeout"
	noStart  = "Task failed to start"
)

// end is why an attempt is over.
type end struct {
	// status is the statusReason, container the container's reason.
	status, container string
	// final: no further attempt is made.
	final bool
	// failed: whatever the exit code says.
	failed bool
	// lost says that the host is gone: the container ends without a trace.
	lost bool
	// oom says that the container was killed for its memory.
	oom bool
	// now says that the service closes: nothing is waited for.
	now bool
}

// live takes a job through its life.
func (s *Service) live(j *job) {
	if why := s.queued(j); why != nil {
		s.finish(j, *why)
		return
	}
	attempts := int32(1)
	if r := j.view.RetryStrategy; r != nil && r.Attempts != nil { // it never changes
		attempts = *r.Attempts
	}
	for n := int32(1); ; n++ {
		why := s.attempt(j, n)
		if why.final || n >= attempts || !why.failed {
			s.finish(j, why)
			return
		}
		s.change(j, func(v *types.JobDetail, _ time.Time) {
			v.Status, v.StartedAt, v.StatusReason = types.JobStatusRunnable, ptr(int64(0)), nil
		})
		if why := s.wait(j, j.pace.Runnable); why != nil {
			s.finish(j, *why)
			return
		}
	}
}

// wait lets time pass in a state. It returns why the job has to end, if so.
func (s *Service) wait(j *job, d time.Duration) *end {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return nil
	case <-j.stop:
		return s.asked(j)
	case <-s.end:
		return closing()
	}
}

// asked is the end by TerminateJob or CancelJob.
func (s *Service) asked(j *job) *end {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &end{status: j.reason, final: true, failed: true}
}

// closing is the end with the service.
func closing() *end {
	return &end{status: "The pocket cloud was closed.", final: true, failed: true, now: true}
}

// change alters what is shown of a job.
func (s *Service) change(j *job, f func(v *types.JobDetail, now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&j.view, s.o.Now())
}

func (s *Service) state(j *job, state types.JobStatus) {
	s.change(j, func(v *types.JobDetail, _ time.Time) { v.Status = state })
}

// container alters what is shown of the container.
func container(v *types.JobDetail, f func(c *types.ContainerDetail)) {
	c := *v.Container
	f(&c)
	v.Container = &c
}

// queued goes from SUBMITTED to the end of RUNNABLE.
func (s *Service) queued(j *job) *end {
	if why := s.wait(j, j.pace.Submitted); why != nil {
		return why
	}
	if j.pace.Pending > 0 {
		s.state(j, types.JobStatusPending)
		if why := s.wait(j, j.pace.Pending); why != nil {
			return why
		}
	}
	s.state(j, types.JobStatusRunnable)
	if j.mishap.Stage == StageStuck {
		return s.wait(j, -1)
	}
	return s.wait(j, j.pace.Runnable)
}

// attempt runs the container once.
func (s *Service) attempt(j *job, n int32) end {
	task := s.o.NewID()
	arn := fmt.Sprintf("arn:aws:ecs:%s:%s:task/%s/%s", s.o.Region, s.o.Account, s.cluster(j.queue.environment()), task)
	if j.overrides > maxOverrides {
		return end{status: "Container Overrides length must be at most 8192", failed: true, final: true}
	}
	s.change(j, func(v *types.JobDetail, _ time.Time) {
		v.Status = types.JobStatusStarting
		container(v, func(c *types.ContainerDetail) { c.TaskArn, c.LogStreamName, c.ExitCode, c.Reason = &arn, nil, nil, nil })
	})
	if why := s.wait(j, j.pace.Starting); why != nil {
		return s.record(j, *why, nil)
	}
	c, driver, why := s.launch(j, task, n)
	if why != nil {
		why.failed = true
		return s.record(j, *why, nil)
	}
	s.change(j, func(v *types.JobDetail, now time.Time) {
		v.Status, v.StartedAt = types.JobStatusRunning, ptr(now.UnixMilli())
		container(v, func(c *types.ContainerDetail) { c.LogStreamName = ptr(driver.stream) })
	})
	w := s.watch(j, c)
	if w.lost || w.oom || w.now {
		c.Stop(0)
	} else {
		c.Stop(j.grace)
	}
	select {
	case <-c.Done():
	case <-s.end:
		c.Stop(0)
		<-c.Done()
	}
	driver.Close()
	exit := c.Exit()
	return s.record(j, w, &exit)
}

// watch waits until something ends the running container.
func (s *Service) watch(j *job, c run.Container) end {
	var struck, late <-chan time.Time
	m := j.mishap
	switch m.Stage {
	case StageSpot, StageHost, StageOOM:
		t := time.NewTimer(m.After)
		defer t.Stop()
		struck = t.C
	}
	if o := j.view.Timeout; o != nil && o.AttemptDurationSeconds != nil { // it never changes
		t := time.NewTimer(time.Duration(*o.AttemptDurationSeconds) * j.second)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c.Done():
		return end{status: exited}
	case <-j.stop:
		return *s.asked(j)
	case <-s.end:
		return *closing()
	case <-late:
		return end{status: overtime, final: true, failed: true}
	case <-struck:
	}
	switch m.Stage {
	case StageSpot:
		return end{status: "Your Spot Task was interrupted.", failed: true}
	case StageHost:
		return end{status: "Host EC2 (instance i-0123456789abcdef0) terminated.", failed: true, lost: true}
	default:
		return end{status: exited, oom: true}
	}
}

// record closes an attempt: what the container says, and a line in attempts.
func (s *Service) record(j *job, why end, exit *run.Exit) end {
	m := j.mishap
	if m.Stage != 0 && m.StatusReason != "" && !why.now {
		why.status = m.StatusReason
	}
	if m.Stage != 0 && m.Reason != "" {
		why.container = m.Reason
	}
	var code *int32
	if exit != nil && !why.lost {
		code = ptr(int32(exit.Code))
		if why.oom {
			code = ptr(int32(137))
			if m.ExitCode != nil {
				code = m.ExitCode
			}
		}
		if (exit.OOM || why.oom) && why.container == "" {
			why.container = "OutOfMemoryError: Container killed due to memory usage"
		}
		why.failed = why.failed || *code != 0
	}
	if m.NoExitCode {
		code, why.failed = nil, why.failed || code == nil || *code != 0
	}
	s.change(j, func(v *types.JobDetail, now time.Time) {
		container(v, func(c *types.ContainerDetail) {
			c.ExitCode = code
			if why.container != "" {
				c.Reason = &why.container
			}
		})
		a := types.AttemptDetail{StatusReason: &why.status, StoppedAt: ptr(now.UnixMilli()), Container: &types.AttemptContainerDetail{
			ExitCode: code, Reason: v.Container.Reason, LogStreamName: v.Container.LogStreamName, TaskArn: v.Container.TaskArn}}
		if *v.StartedAt > 0 {
			a.StartedAt = v.StartedAt
		}
		v.Attempts = append(slices.Clone(v.Attempts), a)
	})
	return why
}

// finish brings the job to its last state.
func (s *Service) finish(j *job, why end) {
	if !why.now && j.pace.Ending > 0 {
		t := time.NewTimer(j.pace.Ending)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.end:
		}
	}
	s.change(j, func(v *types.JobDetail, now time.Time) {
		v.Status, v.StatusReason, v.StoppedAt = types.JobStatusSucceeded, &why.status, ptr(now.UnixMilli())
		if why.failed {
			v.Status = types.JobStatusFailed
		}
	})
}

// maxOverrides is the most characters of a task's overrides, which AWS Batch
// finds out only when it starts the task:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_TaskOverride.html
const maxOverrides = 8192

// overridesSize counts the characters of what a task of ECS is given as its
// overrides.
func overridesSize(o types.ContainerOverrides) int {
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type one struct {
		Name        string   `json:"name"`
		Command     []string `json:"command,omitempty"`
		Environment []pair   `json:"environment,omitempty"`
	}
	c := one{Name: "default", Command: o.Command}
	for _, e := range o.Environment {
		c.Environment = append(c.Environment, pair{text(e.Name), text(e.Value)})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"containerOverrides": []one{c}}); err != nil {
		panic("batch: overrides: " + err.Error()) // they came as JSON
	}
	return utf8.RuneCount(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
