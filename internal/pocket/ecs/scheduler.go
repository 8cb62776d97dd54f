package ecs

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// The bounds of how many failed tasks trip the circuit breaker: half of what is
// wanted, within them.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/deployment-circuit-breaker.html
const (
	breakerLeast = 3
	breakerMost  = 200
)

// The pause after a task that failed to start doubles from the first to the last.
const (
	retryFirst = 10 * time.Millisecond
	retryLast  = time.Second
)

// nudge has the scheduler look at the service.
func (v *service) nudge() {
	select {
	case v.wake <- struct{}{}:
	default: // it is to look already
	}
}

// schedule starts the service's scheduler. The lock is held.
func (s *Service) schedule(v *service) {
	s.lives.Go(func() {
		for {
			wait, over := s.look(v)
			if over {
				return
			}
			var timer <-chan time.Time
			if wait > 0 {
				timer = time.After(wait)
			}
			select {
			case <-v.wake:
			case <-timer:
			case <-s.end:
				return
			}
		}
	})
}

// look brings a service nearer to what is wanted, and says when to look again
// where nothing happens before.
func (s *Service) look(v *service) (wait time.Duration, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, true
	}
	s.bury(v)
	if !v.Active && len(v.tasks) == 0 {
		return 0, true
	}
	if d := time.Until(v.due); d > 0 {
		return d, false
	}
	s.breaks(v)
	wait = s.fill(v)
	s.drain(v)
	s.conclude(v)
	return wait, false
}

// counts are a deployment's tasks that are to run.
type counts struct{ running, pending int32 }

func (c counts) live() int32 { return c.running + c.pending }

func (v *service) tally(d *deployment) counts {
	var n counts
	for _, t := range v.tasks {
		switch {
		case t.deployment != d || *t.view.DesiredStatus != running:
		case *t.view.LastStatus == running:
			n.running++
		default:
			n.pending++
		}
	}
	return n
}

// bury takes the tasks out that have ended. One that never ran, and that nobody
// stopped, counts as failed as soon as it is on its way down: no other is started
// in its place before that.
func (s *Service) bury(v *service) {
	for _, t := range v.tasks {
		if t.counted || *t.view.DesiredStatus != stopped || t.view.StartedAt != nil || t.stopping {
			continue
		}
		t.counted = true
		d := t.deployment
		pause := min(retryFirst<<min(d.Failed, 10), retryLast)
		d.Failed++
		d.Updated, d.retry = s.o.Now(), time.Now().Add(pause)
		s.tell(v, fmt.Sprintf("(service %s) was unable to start a task: %s", v.Name, text(t.view.StoppedReason)))
	}
	v.tasks = slices.DeleteFunc(v.tasks, func(t *task) bool { return *t.view.LastStatus == stopped })
}

// breaks trips the circuit breaker.
func (s *Service) breaks(v *service) {
	d, b := v.Deployments[0], v.Config.DeploymentCircuitBreaker
	most := min(max((v.Desired+1)/2, breakerLeast), breakerMost)
	if !b.Enable || d.State != types.DeploymentRolloutStateInProgress || d.Failed < most {
		return
	}
	now := s.o.Now()
	d.State, d.Reason, d.Updated = types.DeploymentRolloutStateFailed, "ECS deployment circuit breaker: tasks failed to start.", now
	s.tell(v, fmt.Sprintf("(service %s) (deployment %s) deployment failed: tasks failed to start.", v.Name, d.ID))
	back := v.Stable
	if !b.Rollback || back == nil || back.ID == d.ID {
		return
	}
	s.tell(v, fmt.Sprintf("(service %s) rolling back to deployment %s.", v.Name, back.ID))
	back.State, back.Updated, back.Failed = types.DeploymentRolloutStateInProgress, now, 0
	back.Reason = "ECS deployment circuit breaker: rolling back to deploymentId " + back.ID + "."
	v.Deployments = append([]*deployment{back}, slices.DeleteFunc(v.Deployments, func(o *deployment) bool { return o.ID == back.ID })...)
	v.Shape = back.Shape
}

// fill starts the tasks that are missing, as far as maximumPercent lets it.
func (s *Service) fill(v *service) (wait time.Duration) {
	d := v.Deployments[0]
	if d.State == types.DeploymentRolloutStateFailed || !v.Active {
		return 0
	}
	total := int32(0)
	for _, o := range v.Deployments {
		total += v.tally(o).live()
	}
	n := min(v.Desired-v.tally(d).live(), v.Desired*(*v.Config.MaximumPercent)/100-total)
	if pause := time.Until(d.retry); n > 0 && pause > 0 {
		return pause
	}
	c := s.clusters[v.Cluster]
	for range n {
		if !s.startFor(c, v, d) {
			return 0
		}
	}
	return 0
}

// startFor starts one task of a service.
func (s *Service) startFor(c *cluster, v *service, d *deployment) bool {
	def, err := s.definition(d.Shape.Definition)
	if err != nil {
		s.tell(v, fmt.Sprintf("(service %s) was unable to place a task because its task definition is gone.", v.Name))
		return false
	}
	in := d.Shape.task()
	where, err := s.place(c, def, in)
	if err != nil {
		s.tell(v, fmt.Sprintf("(service %s) was unable to place a task: %v", v.Name, err))
		return false
	}
	in.StartedBy, in.Group = ptr(d.ID), ptr("service:"+v.Name)
	switch v.Propagate {
	case types.PropagateTagsTaskDefinition:
		in.PropagateTags = types.PropagateTagsTaskDefinition
	case types.PropagateTagsService:
		in.Tags = v.Tags
	}
	t := s.newTask(c, def, in, where)
	t.service, t.deployment = v, d
	v.tasks = append(v.tasks, t)
	s.lives.Go(func() { s.live(t) })
	return true
}

// drain stops tasks that are too many: of the primary deployment above what is
// wanted, of older ones as far as minimumHealthyPercent lets it.
func (s *Service) drain(v *service) {
	d := v.Deployments[0]
	now := v.tally(d)
	reason := fmt.Sprintf("Scaling activity initiated by (deployment %s)", d.ID)
	for surplus := now.live() - v.Desired; surplus > 0; surplus-- {
		s.stopOne(v, d, reason)
	}
	healthy := int32(0)
	for _, o := range v.Deployments {
		healthy += v.tally(o).running
	}
	least := (v.Desired*(*v.Config.MinimumHealthyPercent) + 99) / 100
	for _, o := range v.Deployments[1:] {
		n := v.tally(o)
		for ; n.pending > 0; n.pending-- {
			s.stopOne(v, o, reason)
		}
		for ; n.running > 0 && healthy > least; n.running-- {
			s.stopOne(v, o, reason)
			healthy--
		}
	}
}

// stopOne stops a task of a deployment, first one that isn't up yet.
func (s *Service) stopOne(v *service, d *deployment, reason string) {
	var chosen *task
	for _, t := range v.tasks {
		if t.deployment != d || *t.view.DesiredStatus != running {
			continue
		}
		if chosen == nil || *t.view.LastStatus != running {
			chosen = t
		}
	}
	if chosen != nil {
		s.halt(chosen, types.TaskStopCodeServiceSchedulerInitiated, reason)
	}
}

// conclude ends a deployment that has all its tasks, and forgets older ones that
// have none. As at AWS, tasks that are still stopping don't hold it up, and a
// change of the count alone begins no deployment: the state stays COMPLETED.
func (s *Service) conclude(v *service) {
	d := v.Deployments[0]
	old := int32(0)
	kept := []*deployment{d}
	for _, o := range v.Deployments[1:] {
		n := v.tally(o).live()
		old += n
		if n > 0 || o.State == types.DeploymentRolloutStateFailed && d.State == types.DeploymentRolloutStateInProgress {
			kept = append(kept, o)
		}
	}
	v.Deployments = kept
	n := v.tally(d)
	if d.State != types.DeploymentRolloutStateInProgress || n.running != v.Desired || n.pending > 0 || old > 0 {
		return
	}
	d.State, d.Updated, d.Reason = types.DeploymentRolloutStateCompleted, s.o.Now(), "ECS deployment "+d.ID+" completed."
	v.Stable, v.Deployments = d, v.Deployments[:1]
	s.tell(v, fmt.Sprintf("(service %s) (deployment %s) deployment completed.", v.Name, d.ID))
	s.tell(v, fmt.Sprintf("(service %s) has reached a steady state.", v.Name))
}

// tell adds an event, the newest first.
func (s *Service) tell(v *service, message string) {
	e := types.ServiceEvent{Id: ptr(uuid(s.o.NewID())), CreatedAt: ptr(s.o.Now()), Message: &message}
	v.Events = append([]types.ServiceEvent{e}, v.Events[:min(len(v.Events), maxEvents-1)]...)
}
