package cloudrun

import (
	"context"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// CreateService makes a service. Its operation is done when the service serves.
func (a servicesAPI) CreateService(_ context.Context, r *runpb.CreateServiceRequest) (*longrunningpb.Operation, error) {
	s, id := a.s, r.ServiceId
	if _, err := s.parse(r.Parent, "", "run.services.create"); err != nil {
		return nil, err
	}
	if len(id) > maxJobID || !jobIDForm().MatchString(id) {
		return nil, violation(ruleServiceID, "CreateServiceRequest.service_id", "%q must have up to %d lowercase letters, numerals and hyphens, begin with a letter and not end with a hyphen.", id, maxJobID)
	}
	if n := r.Service.GetName(); n != "" {
		return nil, violation(ruleServiceName, "CreateServiceRequest.service.name", "%q must be empty.", n)
	}
	view := desired(r.Service)
	if err := s.normaliseService("CreateServiceRequest.service", id, view); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.services[id] != nil {
		return nil, refuse(ruleServiceExists, "Resource '%s' already exists.", id)
	}
	return s.host(newHosted(id, s.o.Now()), view, false, r.ValidateOnly)
}

// desired copies what the caller decides of a service.
func desired(in *runpb.Service) *runpb.Service {
	v := proto.CloneOf(in)
	if v == nil {
		v = &runpb.Service{}
	}
	return &runpb.Service{Description: v.Description, Labels: v.Labels, Annotations: v.Annotations, Client: v.Client, ClientVersion: v.ClientVersion, Ingress: v.Ingress,
		LaunchStage: v.LaunchStage, BinaryAuthorization: v.BinaryAuthorization, Template: v.Template, Traffic: v.Traffic, Scaling: v.Scaling, InvokerIamDisabled: v.InvokerIamDisabled,
		DefaultUriDisabled: v.DefaultUriDisabled, IapEnabled: v.IapEnabled, SshEnabled: v.SshEnabled, MultiRegionSettings: v.MultiRegionSettings, CustomAudiences: v.CustomAudiences,
		ThreatDetectionEnabled: v.ThreatDetectionEnabled, BuildConfig: v.BuildConfig, FunctionalType: v.FunctionalType}
}

// UpdateService changes a service: all of it, or what a mask names.
func (a servicesAPI) UpdateService(_ context.Context, r *runpb.UpdateServiceRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.GetService().GetName(), "/services/*", "run.services.update")
	if err != nil {
		return nil, err
	}
	if r.AllowMissing {
		return nil, refuse(ruleUnsupported, "The pocket cloud doesn't make services by an update.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.findService(id[0])
	if err != nil {
		return nil, err
	}
	if err := h.mayChange(r.Service.Etag); err != nil {
		return nil, err
	}
	view := desired(r.Service)
	if paths := r.GetUpdateMask().GetPaths(); len(paths) > 0 && !slices.Equal(paths, []string{"*"}) {
		merged := desired(h.view)
		for _, path := range paths {
			if !copyField(merged.ProtoReflect(), r.Service.ProtoReflect(), strings.Split(path, ".")) {
				return nil, violation(ruleMask, "UpdateServiceRequest.update_mask", "%q is no field of a service.", path)
			}
		}
		view = merged
	}
	if err := s.normaliseService("UpdateServiceRequest.service", id[0], view); err != nil {
		return nil, err
	}
	if err := h.checkRevisionName(view); err != nil {
		return nil, err
	}
	return s.host(h, view, r.ForceNewRevision, r.ValidateOnly)
}

// mayChange refuses changes of a service by a stale etag or during its deletion.
// The lock is held.
func (h *hosted) mayChange(etag string) error {
	if err := checkEtag(h.id, etag, h.view.Etag); err != nil {
		return err
	}
	if h.deleting {
		return refuse(ruleDeleting, "Resource '%s' is being deleted.", h.id)
	}
	return nil
}

// checkRevisionName refuses the name of a revision that is there for anything
// else than what it was made of; a changed scaling counts, though it makes no
// revision: https://github.com/googleapis/google-cloud-python/issues/14259
func (h *hosted) checkRevisionName(view *runpb.Service) error {
	name := view.GetTemplate().GetRevision()
	i := slices.IndexFunc(h.revisions, func(r *revision) bool { return r.id == name })
	if i >= 0 && !(proto.Equal(h.revisions[i].template, unnamed(view.Template)) && proto.Equal(h.revisions[i].scaling, view.Scaling)) {
		return refuse(ruleRevisionTaken, "Revision named '%s' with different configuration already exists.", name)
	}
	return nil
}

// host stores a service, new or changed, and starts its reconciliation. The lock
// is held.
func (s *Service) host(h *hosted, view *runpb.Service, force, validateOnly bool) (*longrunningpb.Operation, error) {
	now := s.stamp()
	view.Name, view.UpdateTime, view.LastModifier, view.Etag = s.serviceName(h.id), now, s.o.Caller, s.etag()
	if old := h.view; old != nil {
		view.Uid, view.CreateTime, view.Creator, view.Generation, view.ObservedGeneration = old.Uid, old.CreateTime, old.Creator, old.Generation+1, old.ObservedGeneration
		view.LatestReadyRevision, view.LatestCreatedRevision, view.TrafficStatuses = old.LatestReadyRevision, old.LatestCreatedRevision, old.TrafficStatuses
		view.Uri, view.Urls = old.Uri, old.Urls
	} else {
		view.Uid, view.CreateTime, view.Creator, view.Generation = s.uuid(), now, s.o.Caller, 1
	}
	view.Reconciling = true
	view.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_RECONCILING, "", now)
	view.Conditions = []*runpb.Condition{condition(routesReady, runpb.Condition_CONDITION_RECONCILING, "", now), condition(configurationsReady, runpb.Condition_CONDITION_RECONCILING, "", now)}
	if validateOnly {
		return s.newOperation(view).finish(s, view, nil).show(s), nil
	}
	if s.closed {
		return nil, gapi.Errorf(codes.Unavailable, "The pocket cloud was closed.")
	}
	h.view, h.force = view, h.force || force
	s.services[h.id] = h
	op := s.newOperation(view)
	op.meta = func() proto.Message { return h.view }
	generation := view.Generation
	s.live(func() { s.reconcile(h, generation, op) })
	return op.show(s), nil
}

// GetService describes a service.
func (a servicesAPI) GetService(_ context.Context, r *runpb.GetServiceRequest) (*runpb.Service, error) {
	s := a.s
	id, err := s.parse(r.Name, "/services/*", "run.services.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.findService(id[0])
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(h.view), nil
}

// ListServices lists services by their IDs.
func (a servicesAPI) ListServices(_ context.Context, r *runpb.ListServicesRequest) (*runpb.ListServicesResponse, error) {
	s := a.s
	if _, err := s.parse(r.Parent, "", "run.services.list"); err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.ShowDeleted); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.services)), func(h *hosted) bool { return now.Before(h.born.Add(s.knobs.ListDelay)) })
	slices.SortFunc(list, func(a, b *hosted) int { return strings.Compare(a.id, b.id) })
	page, next, err := gapi.Page(list, func(h *hosted) string { return h.id }, gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &runpb.ListServicesResponse{NextPageToken: next}
	for _, h := range page {
		out.Services = append(out.Services, proto.CloneOf(h.view))
	}
	return out, nil
}

// DeleteService deletes a service with its revisions, and ends its instances.
func (a servicesAPI) DeleteService(_ context.Context, r *runpb.DeleteServiceRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.Name, "/services/*", "run.services.delete")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.findService(id[0])
	if err != nil {
		return nil, err
	}
	if err := h.mayChange(r.Etag); err != nil {
		return nil, err
	}
	v := proto.CloneOf(h.view)
	if r.ValidateOnly {
		return s.newOperation(v).finish(s, v, nil).show(s), nil
	}
	now := s.o.Now()
	v.DeleteTime, v.ExpireTime, v.UpdateTime, v.LastModifier = timestamppb.New(now), timestamppb.New(now.AddDate(0, 0, 30)), timestamppb.New(now), s.o.Caller
	v.Generation, v.Reconciling, v.Etag = v.Generation+1, true, s.etag()
	v.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_RECONCILING, "", timestamppb.New(now))
	h.view, h.deleting = v, true
	op, pace := s.newOperation(v), s.knobs.Pace
	s.live(func() {
		if !h.take(s.end) {
			return
		}
		defer h.release()
		s.mu.Lock()
		var ended []*replica
		for _, rev := range h.revisions {
			ended = append(ended, s.shrink(rev, 0)...)
		}
		s.mu.Unlock()
		for _, p := range ended {
			<-p.gone
		}
		if !s.pause(pace.Delete) {
			return
		}
		s.mu.Lock()
		delete(s.services, h.id)
		s.mu.Unlock()
		s.finish(op, func() (proto.Message, error) { return h.view, nil })
	})
	return op.show(s), nil
}

// TestIamPermissions tells which of some permissions on a service the caller has.
// The service need not exist.
func (a servicesAPI) TestIamPermissions(_ context.Context, r *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	if _, err := a.s.parse(r.Resource, "/services/*", ""); err != nil {
		return nil, err
	}
	return &iampb.TestIamPermissionsResponse{Permissions: a.s.o.Policy.Granted(r.Permissions)}, nil
}
