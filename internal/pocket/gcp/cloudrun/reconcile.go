package cloudrun

import (
	"cmp"
	"fmt"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// reconcile brings a service to what it is to be, unless a later change does. One
// reconciliation of a service is at work at a time.
func (s *Service) reconcile(h *hosted, generation int64, op *operation) {
	if !h.take(s.end) {
		return
	}
	defer h.release()
	defer s.finish(op, func() (proto.Message, error) {
		if c := h.view.TerminalCondition; h.view.Generation == generation && c.GetState() == runpb.Condition_CONDITION_FAILED {
			return nil, failure(codes.FailedPrecondition, c.GetMessage())
		}
		return h.view, nil
	})
	s.mu.Lock()
	pace := s.knobs.Pace
	s.mu.Unlock()
	if !s.pause(pace.Reconcile) {
		return
	}
	s.mu.Lock()
	if h.superseded(generation) {
		s.mu.Unlock()
		return
	}
	r, name := h.latest(), h.view.Template.Revision
	// A new name is wanted as much as a new template.
	if r == nil || h.force || name != "" && name != r.id || !proto.Equal(r.template, unnamed(h.view.Template)) {
		r, h.force = s.newRevision(h), false
		s.changeService(h, func(v *runpb.Service) { v.LatestCreatedRevision = r.view.Name })
	}
	manualZero := h.view.Scaling.ScalingMode == runpb.ServiceScaling_MANUAL && h.view.Scaling.GetManualInstanceCount() == 0
	s.mu.Unlock()

	if !r.ready && r.failed == nil {
		s.deploy(h, r, pace, manualZero)
	}
	s.mu.Lock()
	if r.failed != nil {
		s.deployFailed(h, r)
		s.mu.Unlock()
		return
	}
	if h.superseded(generation) {
		s.mu.Unlock()
		return
	}
	var unknown string
	for _, t := range h.view.Traffic {
		if t.Revision != "" && h.named(t.Revision) == nil {
			unknown = t.Revision
		}
	}
	if unknown != "" {
		s.routesFailed(h, fmt.Sprintf("Revision '%s' is not found.", unknown))
		s.mu.Unlock()
		return
	}
	s.changeService(h, func(v *runpb.Service) { v.LatestReadyRevision = r.view.Name })
	want := h.shares()
	var fresh []*replica
	for _, rev := range h.revisions {
		fresh = append(fresh, s.grow(h, rev, want[rev])...)
	}
	s.mu.Unlock()
	// Traffic moves once there is who takes it.
	for _, p := range fresh {
		select {
		case <-p.up:
		case <-p.gone:
		case <-s.end:
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.superseded(generation) {
		return
	}
	for _, rev := range h.revisions {
		s.shrink(rev, want[rev])
		s.settle(rev, want[rev])
	}
	s.serviceReady(h)
}

// superseded reports whether a later change is to be worked on. The lock is held.
func (h *hosted) superseded(generation int64) bool {
	return h.view.Generation != generation || h.deleting
}

// deploy imports a revision's image and starts its first instance. Without any
// instance to be, its health isn't looked at.
func (s *Service) deploy(h *hosted, r *revision, pace Pace, untried bool) {
	if !s.pause(pace.Import) {
		return
	}
	if untried {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.ready = true
		s.changeRevision(r, func(v *runpb.Revision) {
			v.Conditions = with(v.Conditions, revisionReason(condition(containerHealthy, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime), runpb.Condition_HEALTH_CHECK_SKIPPED))
		})
		return
	}
	s.mu.Lock()
	probes := s.grow(h, r, 1)
	s.mu.Unlock()
	for _, p := range probes {
		select {
		case <-p.up:
			s.mu.Lock()
			r.ready = true
			s.changeRevision(r, func(v *runpb.Revision) {
				v.Conditions = with(v.Conditions, condition(containerReady, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime))
				v.Conditions = with(v.Conditions, condition(containerHealthy, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime))
			})
			s.mu.Unlock()
		case <-p.gone:
			s.mu.Lock()
			r.failed = cmp.Or(p.failed, r.failed)
			s.shrink(r, 0)
			s.mu.Unlock()
		case <-s.end:
		}
	}
}

// deployFailed ends a reconciliation whose revision can't serve: what served
// before goes on. The lock is held.
func (s *Service) deployFailed(h *hosted, r *revision) {
	why := r.failed
	s.changeRevision(r, func(v *runpb.Revision) {
		v.Reconciling, v.ObservedGeneration = false, v.Generation
		for _, kind := range []string{why.failed, "Ready"} {
			c := commonReason(condition(kind, runpb.Condition_CONDITION_FAILED, why.message, v.UpdateTime), why.common)
			if why.common == runpb.Condition_COMMON_REASON_UNDEFINED {
				c = revisionReason(c, runpb.Condition_HEALTH_CHECK_CONTAINER_ERROR)
			}
			v.Conditions = with(v.Conditions, c)
		}
	})
	text := fmt.Sprintf("Revision '%s' is not ready and cannot serve traffic. %s", r.id, why.message)
	s.changeService(h, func(v *runpb.Service) {
		now := s.stamp()
		v.Reconciling = false
		v.TerminalCondition = commonReason(condition("Ready", runpb.Condition_CONDITION_FAILED, text, now), runpb.Condition_REVISION_FAILED)
		v.Conditions = with(v.Conditions, commonReason(condition(configurationsReady, runpb.Condition_CONDITION_FAILED, text, now), runpb.Condition_REVISION_FAILED))
	})
}

// routesFailed ends a reconciliation whose traffic leads nowhere. The lock is held.
func (s *Service) routesFailed(h *hosted, text string) {
	s.changeService(h, func(v *runpb.Service) {
		now := s.stamp()
		v.Reconciling = false
		v.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_FAILED, text, now)
		v.Conditions = with(v.Conditions, condition(routesReady, runpb.Condition_CONDITION_FAILED, text, now))
	})
}

// serviceReady ends a reconciliation. The lock is held.
func (s *Service) serviceReady(h *hosted) {
	s.changeService(h, func(v *runpb.Service) {
		now := s.stamp()
		v.Reconciling, v.ObservedGeneration = false, v.Generation
		v.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_SUCCEEDED, "", now)
		v.Conditions = []*runpb.Condition{condition(routesReady, runpb.Condition_CONDITION_SUCCEEDED, "", now), condition(configurationsReady, runpb.Condition_CONDITION_SUCCEEDED, "", now)}
		v.Uri = fmt.Sprintf("https://%s-%s.%s.run.app", h.id, s.o.Project.Number, s.o.Location)
		v.Urls = []string{v.Uri}
		v.TrafficStatuses = nil
		for _, t := range v.Traffic {
			v.TrafficStatuses = append(v.TrafficStatuses, &runpb.TrafficTargetStatus{Type: t.Type, Revision: t.Revision, Percent: t.Percent, Tag: t.Tag})
		}
	})
}

// changeService alters a service from its reconciliation. The lock is held.
func (s *Service) changeService(h *hosted, f func(v *runpb.Service)) {
	v := proto.CloneOf(h.view)
	v.Etag = s.etag()
	f(v)
	h.view = v
}

// settle says of a revision how many instances it has. The lock is held.
func (s *Service) settle(r *revision, n int) {
	if r.failed != nil {
		return
	}
	s.changeRevision(r, func(v *runpb.Revision) {
		v.Reconciling, v.ObservedGeneration = false, v.Generation
		v.ScalingStatus = &runpb.RevisionScalingStatus{DesiredMinInstanceCount: int32(n)} //nolint:gosec // a count of processes
		for _, kind := range []string{"Ready", resourcesAvailable} {
			v.Conditions = with(v.Conditions, condition(kind, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime))
		}
		c := condition(active, runpb.Condition_CONDITION_SUCCEEDED, "", v.UpdateTime)
		if n == 0 {
			c = revisionReason(condition(active, runpb.Condition_CONDITION_FAILED, "Revision retired.", v.UpdateTime), runpb.Condition_RETIRED)
		}
		v.Conditions = with(v.Conditions, c)
	})
}

// traffic is how many percent of the requests a revision gets. The lock is held.
func (h *hosted) traffic(r *revision) int {
	sum := 0
	for _, t := range h.view.Traffic {
		if t.Revision == r.id || t.Revision == "" && r == h.latest() {
			sum += int(t.Percent)
		}
	}
	return sum
}

// shares divides the service's instances among the revisions that get traffic, by
// how much they get; what doesn't come out even goes to the older ones first.
// https://cloud.google.com/run/docs/configuring/services/manual-scaling
func (h *hosted) shares() map[*revision]int {
	c := h.view.Scaling
	manual := c.ScalingMode == runpb.ServiceScaling_MANUAL
	total := int(c.MinInstanceCount)
	if manual {
		total = int(c.GetManualInstanceCount())
	}
	out := map[*revision]int{}
	var serving []*revision
	left := total
	for _, r := range h.revisions {
		if percent := h.traffic(r); percent > 0 && r.failed == nil {
			serving = append(serving, r)
			out[r] = total * percent / 100
			left -= out[r]
		}
	}
	for i := 0; left > 0 && len(serving) > 0; i++ {
		out[serving[i%len(serving)]]++
		left--
	}
	for _, r := range serving {
		if !manual {
			out[r] = max(out[r], int(r.template.GetScaling().GetMinInstanceCount()))
		}
	}
	return out
}

// instances counts those that serve. The lock is held.
func (r *revision) instances() int {
	n := 0
	for _, p := range r.replicas {
		if p.box != nil {
			n++
		}
	}
	return n
}

// Instances counts a service's instances that serve, of all revisions.
func (s *Service) Instances(serviceID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, n := s.services[serviceID], 0
	if h != nil {
		for _, r := range h.revisions {
			n += r.instances()
		}
	}
	return n
}
