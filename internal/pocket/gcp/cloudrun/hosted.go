package cloudrun

import (
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The types of conditions of a service and a revision beside Ready:
// https://cloud.google.com/run/docs/reference/rest/v2/Condition
const (
	routesReady         = "RoutesReady"
	configurationsReady = "ConfigurationsReady"
	active              = "Active"
	containerHealthy    = "ContainerHealthy"
)

// hosted is a service with its revisions.
type hosted struct {
	id        string
	view      *runpb.Service
	born      time.Time
	revisions []*revision // by age
	made      int         // revisions that were ever made
	// force: a new revision is wanted though the template is the same.
	force    bool
	deleting bool
	turn     chan struct{} // holds a value while a reconciliation is at work
}

// revision is one configuration of a service with its instances.
type revision struct {
	id   string
	view *runpb.Revision
	born time.Time
	// template and scaling are what it was made of; the template has no name.
	template *runpb.RevisionTemplate
	scaling  *runpb.ServiceScaling
	// failed is why it can't serve; nil where it can, or isn't known to.
	failed   *outcome
	ready    bool
	replicas []*replica
}

func newHosted(id string, born time.Time) *hosted {
	return &hosted{id: id, born: born, turn: make(chan struct{}, 1)}
}

// take waits for the turn to reconcile. It returns false when the service closes.
func (h *hosted) take(end <-chan struct{}) bool {
	select {
	case h.turn <- struct{}{}:
		return true
	case <-end:
		return false
	}
}

func (h *hosted) release() { <-h.turn }

// latest is the newest revision, nil before there is one. The lock is held.
func (h *hosted) latest() *revision {
	if len(h.revisions) == 0 {
		return nil
	}
	return h.revisions[len(h.revisions)-1]
}

func unnamed(t *runpb.RevisionTemplate) *runpb.RevisionTemplate {
	t = proto.CloneOf(t)
	t.Revision = ""
	return t
}

func (s *Service) serviceName(id string) string { return s.prefix() + "/services/" + id }

// findService returns a service that can be seen. The lock is held.
func (s *Service) findService(id string) (*hosted, error) {
	h, ok := s.services[id]
	if !ok || s.o.Now().Before(h.born.Add(s.knobs.GetDelay)) {
		return nil, refuse(ruleServiceMissing, "Resource '%s' of kind 'SERVICE' in region '%s' in project '%s' does not exist.", id, s.o.Location, s.o.Project.ID)
	}
	return h, nil
}

// copyField copies the field that a path leads to, or clears it where from has
// none. It returns false for a path that leads nowhere.
func copyField(to, from protoreflect.Message, path []string) bool {
	field := to.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	switch {
	case field == nil:
		return false
	case len(path) == 1:
		if from.Has(field) {
			to.Set(field, from.Get(field))
		} else {
			to.Clear(field)
		}
		return true
	case field.Message() == nil || field.IsList() || field.IsMap():
		return false
	}
	return copyField(to.Mutable(field).Message(), from.Get(field).Message(), path[1:])
}
