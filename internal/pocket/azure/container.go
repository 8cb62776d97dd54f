package azure

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// container is one container of a group. Its exported fields are kept from one
// server to the next.
type container struct {
	Name string
	// Current and Previous are nil before there is one.
	Current, Previous *arm.ContainerState
	Restarts          int32
	Events            []*arm.Event
	Out               *output

	// process is what runs at the moment, nil for nothing.
	process  run.Container
	readings []reading

	// replaces is what it was before a restart in place, until that has ended.
	replaces *container
}

// The states of a container.
const (
	waiting    = "Waiting"
	terminated = "Terminated"
)

// What a terminated container's detailed status says. The first two are seen in
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-restart-policy
const (
	detailCompleted = "Completed"
	detailError     = "Error"
	detailOOM       = "OOMKilled"
	detailCrash     = "CrashLoopBackOff: Back-off restarting failed"
	detailPull      = "ImagePullBackOff"
)

// The exit codes of a container that was stopped for maintenance, and those of
// one that couldn't be started, which "correspond to those from the docker run
// command". See
// https://learn.microsoft.com/en-us/troubleshoot/azure/azure-container-instances/management/container-group-restart-killing-event-interruption
const (
	codeMaintenance = 7147
	codeNotFound    = 127
	codeNoExec      = 126
	codeCreate      = 125
)

func (c *container) view() *arm.ContainerPropertiesInstanceView {
	return &arm.ContainerPropertiesInstanceView{CurrentState: c.Current, PreviousState: c.Previous, RestartCount: &c.Restarts, Events: append([]*arm.Event{}, c.Events...)}
}

func (c *container) event(name, text string, now time.Time) {
	c.Events = addEvent(c.Events, name, text, now)
}

// set changes a container under the lock.
func (s *Server) set(f func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.o.Now().UTC())
}

// runContainer runs a container, and again as the restart policy says. It tells
// once whether the container ran.
func (s *Server) runContainer(l *life, c *container, spec *arm.Container, begun chan<- bool) {
	if old := c.replaces; old != nil { // its last run has ended by now
		s.set(func(time.Time) {
			c.Previous, c.Restarts, c.Events, c.replaces = old.Current, old.Restarts+1, old.Events, nil
		})
	}
	tell := func(ran bool) {
		if begun != nil {
			begun <- ran
			begun = nil
		}
	}
	defer tell(false)
	policy := *l.body.Properties.RestartPolicy
	struck := false
	for {
		s.set(func(time.Time) { c.Current = &arm.ContainerState{State: to.Ptr(waiting), DetailStatus: to.Ptr("")} })
		if !s.pull(l, c, *spec.Properties.Image) {
			return
		}
		end, ok := s.runOnce(l, c, spec, struck, tell)
		if !ok {
			return
		}
		again := policy == arm.ContainerGroupRestartPolicyAlways || policy == arm.ContainerGroupRestartPolicyOnFailure && (end.ExitCode == nil || *end.ExitCode != 0)
		if l.mishap.Stage == StageMaintenance && !struck {
			struck, again = true, true
		}
		if !again {
			return
		}
		s.set(func(now time.Time) {
			c.Previous, c.Restarts = end, c.Restarts+1
			c.Current = &arm.ContainerState{State: to.Ptr(waiting), DetailStatus: to.Ptr(detailCrash)}
			if s.knobs.RestartDropsLog {
				c.Out = newOutput()
			}
		})
		if !s.pause(l, l.pace.Backoff) {
			s.set(func(time.Time) { c.Current = end })
			return
		}
	}
}

// pull is where a container gets its image. It is false if it has none in the
// end.
func (s *Server) pull(l *life, c *container, image string) bool {
	s.set(func(now time.Time) { c.event("Pulling", `pulling image "`+image+`"`, now) })
	if l.mishap.Stage == StagePull {
		s.unpulled(l, c, image, "manifest unknown: manifest unknown")
		return false
	}
	return s.pause(l, l.pace.Pull)
}

// pulled says that a container has its image, which only the start has shown.
func (s *Server) pulled(c *container, image string) {
	s.set(func(now time.Time) { c.event("Pulled", `Successfully pulled image "`+image+`"`, now) })
}

// unpulled leaves a container without its image until its group is ended, or the
// platform gives up. Its events are Pulling, Failed and BackOff, in these words:
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-troubleshooting#unable-to-pull-image
func (s *Server) unpulled(l *life, c *container, image, why string) {
	s.set(func(now time.Time) {
		c.event("Failed", `Failed to pull image "`+image+`": rpc error: code = Unknown desc = Error response from daemon: `+why, now)
		c.event("BackOff", `Back-off pulling image "`+image+`"`, now)
		c.Current = &arm.ContainerState{State: to.Ptr(waiting), DetailStatus: to.Ptr(detailPull)}
	})
	s.pause(l, l.pace.PullTimeout)
}

// runOnce runs a container to its end. It isn't ok when the container has to
// stay as it is.
func (s *Server) runOnce(l *life, c *container, spec *arm.Container, struck bool, tell func(bool)) (end *arm.ContainerState, ok bool) {
	s.mu.Lock()
	job := s.spec(l, spec)
	out := c.Out
	delay, every := s.knobs.LogDelay, s.knobs.MeterEvery
	s.mu.Unlock()
	job.Stdout, job.Stderr = out.open(delay, s.o.Now)
	process, err := s.executor.Start(context.Background(), job)
	if err != nil {
		out.close()
		var start *run.StartError
		if errors.As(err, &start) && start.Phase == run.Pull {
			s.unpulled(l, c, *spec.Properties.Image, start.Text)
			return nil, false
		}
		s.pulled(c, *spec.Properties.Image)
		return s.unstarted(c, err, tell), true
	}
	s.pulled(c, *spec.Properties.Image)
	began := s.o.Now().UTC()
	s.set(func(now time.Time) {
		c.event("Started", "Started container", now)
		c.Current, c.process = &arm.ContainerState{State: to.Ptr(running), DetailStatus: to.Ptr(""), StartTime: &began}, process
	})
	var meter sync.WaitGroup
	meter.Go(func() { s.meter(c, process, every) })
	tell(true)
	code, cut := s.watch(l, c, process, struck)
	out.close()
	meter.Wait()
	exit := process.Exit()
	state := &arm.ContainerState{State: to.Ptr(terminated), StartTime: &began, ExitCode: to.Ptr(int32(exit.Code)), DetailStatus: to.Ptr(detailCompleted)}
	if code != 0 {
		state.ExitCode = to.Ptr(int32(code))
	}
	switch {
	case exit.OOM || l.mishap.Stage == StageOOM && code != 0:
		state.DetailStatus = to.Ptr(detailOOM)
	case *state.ExitCode != 0:
		state.DetailStatus = to.Ptr(detailError)
	}
	if l.mishap.Stage == StageNoCode {
		state.ExitCode = nil
	}
	s.set(func(now time.Time) {
		state.FinishTime = &now
		c.Current, c.process = state, nil
	})
	return state, !cut
}

// unstarted is the end of a container whose command can't be run.
func (s *Server) unstarted(c *container, err error, tell func(bool)) *arm.ContainerState {
	text, code := err.Error(), codeCreate
	switch {
	case strings.Contains(text, "not found") || strings.Contains(text, "no such file"):
		code = codeNotFound
	case strings.Contains(text, "permission denied"):
		code = codeNoExec
	}
	now := s.o.Now().UTC()
	state := &arm.ContainerState{State: to.Ptr(terminated), ExitCode: to.Ptr(int32(code)), DetailStatus: to.Ptr(detailError), StartTime: &now, FinishTime: &now}
	s.set(func(now time.Time) {
		c.event("Failed", "Error: Failed to start container "+c.Name+", Error response: to create containerd task: failed to create shim task: OCI runtime create failed: "+text, now)
		c.Current = state
	})
	tell(true)
	return state
}

// watch waits for the end of a running container, and ends it for what comes
// from outside. A code is one that takes the place of the process's own; cut
// says that the container has to stay as it is.
func (s *Server) watch(l *life, c *container, process run.Container, struck bool) (code int, cut bool) {
	var strike <-chan struct{}
	switch l.mishap.Stage {
	case StageOOM, StageHost, StageMaintenance:
		if !struck {
			var stop func()
			strike, stop = l.mishap.strikes()
			defer stop()
		}
	}
	select {
	case <-process.Done():
		return 0, false
	case <-strike:
		code = codeMaintenance
		if l.mishap.Code != 0 {
			code = l.mishap.Code
		}
		if l.mishap.Stage == StageOOM {
			code = 137
		} else {
			s.set(func(now time.Time) { c.event("Killing", "Killing container with id "+s.o.NewID()+".", now) })
		}
		process.Stop(0)
	case <-l.stop:
		cut = true
		s.set(func(now time.Time) { c.event("Killing", "Killing container with id "+s.o.NewID()+".", now) })
		process.Stop(l.pace.Grace)
	case <-s.end:
		cut = true
		process.Stop(0)
	}
	select {
	case <-process.Done():
	case <-s.end:
		cut = true
		process.Stop(0)
		<-process.Done()
	}
	return code, cut
}

// spec says what an executor is to run. The lock is held.
func (s *Server) spec(l *life, c *arm.Container) run.Spec {
	v := c.Properties
	memory := *v.Resources.Requests.MemoryInGB
	if most := v.Resources.Limits; most != nil && most.MemoryInGB != nil {
		memory = *most.MemoryInGB
	}
	out := run.Spec{Name: *l.body.Name + "-" + *c.Name + "-" + s.o.NewID()[:8], Image: *v.Image, MemoryMiB: int64(math.Round(memory * 1024))}
	for _, word := range v.Command {
		out.Entrypoint = append(out.Entrypoint, *word)
	}
	values := map[string]string{}
	var names []string
	for _, e := range v.EnvironmentVariables {
		if !slices.Contains(names, *e.Name) {
			names = append(names, *e.Name)
		}
		if e.Value != nil {
			values[*e.Name] = *e.Value
		} else {
			values[*e.Name] = l.sealed[*c.Name][*e.Name]
		}
	}
	for _, name := range names {
		out.Env = append(out.Env, name+"="+values[name])
	}
	return out
}
