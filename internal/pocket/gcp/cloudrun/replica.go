package cloudrun

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	ltype "google.golang.org/genproto/googleapis/logging/type"

	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// replica is a place for one instance of a revision: an instance that ends by
// itself is replaced.
type replica struct {
	stop chan struct{} // closed to end it
	up   chan struct{} // closed once an instance serves
	gone chan struct{} // closed at its end
	// failed is why its first instance didn't come up; read it when gone is closed.
	failed *outcome
	// box is the instance that serves, nil between two.
	box run.Container
}

// messageStart is what the platform writes of a container that doesn't come up:
// https://cloud.google.com/run/docs/troubleshooting#container-failed-to-start
const messageStart = "The user-provided container failed to start and listen on the port defined provided by the PORT=8080 environment variable within the allocated timeout."

// grow adds places to a revision until there are n, and returns those that are
// new. The lock is held.
func (s *Service) grow(h *hosted, r *revision, n int) (fresh []*replica) {
	for len(r.replicas) < n {
		p := &replica{stop: make(chan struct{}), up: make(chan struct{}), gone: make(chan struct{})}
		if !s.live(func() { s.keep(h, r, p) }) {
			break
		}
		r.replicas = append(r.replicas, p)
		fresh = append(fresh, p)
	}
	return fresh
}

// shrink ends places of a revision until n are left, and returns those that end.
// The lock is held.
func (s *Service) shrink(r *revision, n int) (ended []*replica) {
	if len(r.replicas) <= n {
		return nil
	}
	ended = slices.Clone(r.replicas[n:])
	r.replicas = slices.Clone(r.replicas[:n])
	for _, p := range ended {
		close(p.stop)
	}
	return ended
}

// keep runs one instance after the other. The first that a revision ever starts
// has to come up, or the revision fails.
func (s *Service) keep(h *hosted, r *revision, p *replica) {
	defer close(p.gone)
	for {
		why := s.instance(h, r, p)
		s.mu.Lock()
		p.box = nil
		trial, pace := !r.ready, s.knobs.Pace
		s.mu.Unlock()
		if why != nil && trial {
			p.failed = why
			return
		}
		timer := time.NewTimer(pace.Restart)
		select {
		case <-p.stop:
		case <-s.end:
		case <-timer.C:
			continue
		}
		timer.Stop()
		return
	}
}

// instance runs a container to its end. It returns why it never served.
func (s *Service) instance(h *hosted, r *revision, p *replica) *outcome {
	if stopped(p.stop, s.end) {
		return nil
	}
	s.mu.Lock()
	c, id := r.template.Containers[0], s.o.NewID()
	pace, grace := s.knobs.Pace, s.knobs.Grace
	mishap := s.mishap(h.id)
	s.mu.Unlock()
	log := s.openOutput(cloudlogging.Source{Location: s.o.Location, Service: h.id, Revision: r.id, Instance: id})
	defer log.close()
	if mishap.Stage == StageImage {
		return serviceImage(c, mishap.Message)
	}
	env, err := s.variables(c)
	if err != nil {
		return &outcome{failed: containerHealthy, message: err.Error(), common: runpb.Condition_SECRETS_ACCESS_CHECK_FAILED}
	}
	env = append(env, varPort+"="+strconv.Itoa(int(c.Ports[0].ContainerPort)), varService+"="+h.id, varRevision+"="+r.id, varConfiguration+"="+h.id)
	box, err := s.o.Executor.Start(context.Background(), containerSpec(r.id+"-"+id[:8], c, env, log))
	if err != nil {
		var start *run.StartError
		if errors.As(err, &start) && start.Phase == run.Pull {
			return serviceImage(c, "")
		}
		log.system(ltype.LogSeverity_ERROR, "Application failed to start: "+err.Error())
		return &outcome{failed: containerHealthy, message: messageStart}
	}
	timer := time.NewTimer(pace.Ready)
	defer timer.Stop()
	select {
	case <-box.Done():
		log.exited(box.Exit().Code)
		return &outcome{failed: containerHealthy, message: messageStart}
	case <-p.stop:
		s.stopContainer(box, grace)
		return nil
	case <-s.end:
		s.stopContainer(box, 0)
		return nil
	case <-timer.C:
	}
	s.mu.Lock()
	p.box = box
	s.measureFrom()
	if !stopped(p.up) {
		close(p.up)
	}
	s.mu.Unlock()
	select {
	case <-box.Done():
		log.exited(box.Exit().Code)
	case <-p.stop:
		s.stopContainer(box, grace)
	case <-s.end:
		s.stopContainer(box, 0)
	}
	return nil
}

func serviceImage(c *runpb.Container, message string) *outcome {
	if message == "" {
		message = "Image '" + c.Image + "' not found."
	}
	return &outcome{failed: containerReady, message: message, common: runpb.Condition_CONTAINER_MISSING}
}
