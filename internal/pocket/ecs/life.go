package ecs

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// end is why a task stops.
type end struct {
	code   types.TaskStopCode
	reason string
	// container is the reason of its containers that have none of their own.
	container string
	// lost says that the host is gone: containers end without a trace.
	lost bool
	// oom says that the main container was killed for its memory; code is what
	// it then reports, 137 when nil.
	oom      bool
	exitCode *int32
	// now says that the service closes: nothing is waited for.
	now bool
}

// live takes a task through its life.
func (s *Service) live(t *task) {
	why := s.begin(t)
	if why == nil {
		var boxes []*box
		boxes, why = s.launch(t)
		if why == nil {
			why = s.watch(t, boxes)
		}
		if len(boxes) > 0 {
			s.finish(t, boxes, *why)
		}
	}
	s.settle(t, *why)
}

// wait lets time pass in a state. It returns why the task has to stop, if so.
func (s *Service) wait(t *task, d time.Duration) *end {
	if d <= 0 {
		select {
		case <-t.stop:
			return s.asked(t)
		case <-s.end:
			return closing()
		default:
			return nil
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.stop:
		return s.asked(t)
	case <-s.end:
		return closing()
	}
}

// asked is the end by StopTask, or by a service's scheduler.
func (s *Service) asked(t *task) *end {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &end{code: t.code, reason: t.reason}
}

// closing is the end with the service.
func closing() *end {
	return &end{code: types.TaskStopCodeTerminationNotice, reason: "The pocket cloud was closed.", now: true}
}

// failed is the end of a task that never ran, by a mishap or for real.
func failed(m Mishap, reason, container string) *end {
	e := &end{code: types.TaskStopCodeTaskFailedToStart, reason: reason, container: container}
	e.override(m)
	return e
}

// override puts the words of a mishap over the usual ones.
func (e *end) override(m Mishap) {
	if m.StopCode != "" {
		e.code = types.TaskStopCode(m.StopCode)
	}
	if m.StoppedReason != "" {
		e.reason = m.StoppedReason
	}
	if m.Reason != "" {
		e.container = m.Reason
	}
}

// change alters what is shown of a task.
func (s *Service) change(t *task, f func(v *types.Task, now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.view.Version++
	f(&t.view, s.o.Now())
	s.keep(t)
	if t.service != nil {
		t.service.nudge()
	}
}

// keep remembers what a task is now, if the knobs want its past. The lock is
// held.
func (s *Service) keep(t *task) {
	if s.knobs.Stale > 0 {
		t.past = append(t.past, moment{s.o.Now(), t.view})
	}
}

func (s *Service) state(t *task, state string) {
	s.change(t, func(v *types.Task, _ time.Time) { v.LastStatus = &state })
}

// begin goes from PROVISIONING to PENDING.
func (s *Service) begin(t *task) *end {
	m := t.mishap
	if m.Stage == StagePlace {
		if why := s.wait(t, m.After); why != nil {
			return why
		}
		return failed(m, "Unable to place the task: no capacity became available in the capacity provider.", "")
	}
	if why := s.wait(t, t.pace.Provisioning); why != nil {
		return why
	}
	if m.Stage == StageENI {
		if why := s.wait(t, m.After); why != nil {
			return why
		}
		return failed(m, "Timeout waiting for network interface provisioning to complete.", "")
	}
	s.change(t, func(v *types.Task, now time.Time) {
		v.LastStatus, v.Connectivity, v.ConnectivityAt = ptr(pending), types.ConnectivityConnected, &now
		v.Attachments = s.attached(v.Attachments, "ATTACHED")
		v.Containers = nil
		for _, cd := range t.def.ContainerDefinitions {
			v.Containers = append(v.Containers, s.newContainer(t, cd))
		}
	})
	return s.wait(t, t.pace.Pending)
}

// attached returns the attachments in another state.
func (s *Service) attached(list []types.Attachment, state string) []types.Attachment {
	out := slices.Clone(list)
	for i := range out {
		out[i].Status = &state
		if state == "ATTACHED" {
			out[i].Details = append(slices.Clone(out[i].Details), types.KeyValuePair{Name: ptr("networkInterfaceId"), Value: ptr("eni-" + s.o.NewID()[:17])},
				types.KeyValuePair{Name: ptr("macAddress"), Value: ptr("0a:00:00:00:00:01")}, types.KeyValuePair{Name: ptr("privateIPv4Address"), Value: ptr("10.0.0.1")})
		}
	}
	return out
}

// watch waits until something ends the running task.
func (s *Service) watch(t *task, boxes []*box) *end {
	if why := s.wait(t, t.pace.Activating); why != nil {
		return why
	}
	s.change(t, func(v *types.Task, now time.Time) { v.LastStatus, v.StartedAt = ptr(running), &now })
	exited := make(chan *box, len(boxes))
	stopWatching := make(chan struct{})
	defer close(stopWatching)
	for _, b := range boxes {
		go func() {
			select {
			case <-b.container.Done():
				exited <- b
			case <-stopWatching:
			}
		}()
	}
	var struck <-chan time.Time
	m := t.mishap
	switch m.Stage {
	case StageSpot, StageHost, StageOOM:
		timer := time.NewTimer(m.After)
		defer timer.Stop()
		struck = timer.C
	}
	for {
		select {
		case <-t.stop:
			return s.asked(t)
		case <-s.end:
			return closing()
		case <-struck:
			return strike(m)
		case b := <-exited:
			if b.essential {
				e := &end{code: types.TaskStopCodeEssentialContainerExited, reason: "Essential container in task exited"}
				if m.Stage == StageExit {
					e.override(m)
				}
				return e
			}
			s.ended(t, b, end{})
		}
	}
}

// strike is the end that a mishap brings to a running task.
func strike(m Mishap) *end {
	var e *end
	switch m.Stage {
	case StageSpot:
		e = &end{code: types.TaskStopCodeSpotInterruption, reason: "Your Spot Task was interrupted."}
	case StageHost:
		e = &end{code: types.TaskStopCodeTerminationNotice, reason: "Host EC2 (instance i-0123456789abcdef0) terminated.", lost: true}
	default:
		e = &end{code: types.TaskStopCodeEssentialContainerExited, reason: "Essential container in task exited", oom: true, exitCode: m.ExitCode}
	}
	e.override(m)
	return e
}

// finish stops the containers that still run, and waits for their ends.
func (s *Service) finish(t *task, boxes []*box, why end) {
	s.change(t, func(v *types.Task, now time.Time) {
		v.DesiredStatus = ptr(stopped)
		if v.StoppingAt == nil {
			v.StoppingAt = &now
		}
		v.LastStatus = ptr(deactivating)
	})
	s.pause(t.pace.Deactivating, why)
	s.state(t, stopping)
	s.pause(t.pace.Stopping, why)
	for _, b := range boxes {
		grace := b.stopTimeout
		if why.lost || why.oom || why.now {
			grace = 0
		}
		b.container.Stop(grace)
	}
	for _, b := range boxes {
		select {
		case <-b.container.Done():
		case <-s.end:
			b.container.Stop(0)
			<-b.container.Done()
		}
		s.ended(t, b, why)
	}
	s.change(t, func(v *types.Task, now time.Time) { v.ExecutionStoppedAt = &now })
}

// ended reports a container's end.
func (s *Service) ended(t *task, b *box, why end) {
	b.log()
	exit := b.container.Exit()
	s.change(t, func(v *types.Task, _ time.Time) {
		v.Containers = slices.Clone(v.Containers)
		c := &v.Containers[b.index]
		if *c.LastStatus == stopped {
			return
		}
		c.LastStatus = ptr(stopped)
		if why.container != "" {
			c.Reason = &why.container
		}
		oom := exit.OOM || why.oom && b.essential
		if oom && why.container == "" {
			c.Reason = ptr("OutOfMemoryError: Container killed due to memory usage")
		}
		if !why.lost && !t.mishap.NoExitCode {
			c.ExitCode = ptr(int32(exit.Code))
			if why.oom && b.essential {
				c.ExitCode = ptr(int32(137))
				if why.exitCode != nil {
					c.ExitCode = why.exitCode
				}
			}
		}
	})
}

// pause lets time pass on the way down, where nothing can turn the task.
func (s *Service) pause(d time.Duration, why end) {
	if d <= 0 || why.now {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.end:
	}
}

// settle brings the task to STOPPED.
func (s *Service) settle(t *task, why end) {
	s.change(t, func(v *types.Task, now time.Time) {
		v.DesiredStatus, v.LastStatus = ptr(stopped), ptr(deprovisioning)
		if v.StoppingAt == nil {
			v.StoppingAt = &now
		}
		v.Containers = slices.Clone(v.Containers)
		for i := range v.Containers {
			c := &v.Containers[i]
			if *c.LastStatus != stopped {
				c.LastStatus = ptr(stopped)
				if why.container != "" && c.Reason == nil {
					c.Reason = &why.container
				}
			}
		}
		if v.StopCode == "" || why.code != t.code {
			v.StopCode, v.StoppedReason = why.code, &why.reason
		}
	})
	s.pause(t.pace.Deprovisioning, why)
	s.change(t, func(v *types.Task, now time.Time) {
		v.LastStatus, v.StoppedAt = ptr(stopped), &now
		v.Attachments = s.attached(v.Attachments, "DELETED")
	})
}

// startFailure words the failure of a container to start: Fargate's agent passes
// on containerd's words, that of an instance Docker's.
func startFailure(fargate bool, image string, err *run.StartError) string {
	switch err.Phase {
	case run.Pull:
		return fmt.Sprintf("CannotPullContainerError: pull image manifest has been retried 1 time(s): failed to resolve ref %s: %s", image, err.Text)
	case run.Create:
		if fargate {
			return "CannotCreateContainerError: " + err.Text
		}
		return "CannotCreateContainerError: Error response from daemon: " + err.Text
	default:
		const shim = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
		if fargate {
			return "CannotStartContainerError: ResourceInitializationError: failed to create new container runtime task: " + shim + err.Text + ": unknown"
		}
		return "CannotStartContainerError: Error response from daemon: failed to create task for container: " + shim + err.Text + ": unknown"
	}
}
