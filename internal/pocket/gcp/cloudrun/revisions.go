package cloudrun

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// findRevision returns a revision of a service. The lock is held.
func (s *Service) findRevision(serviceID, id string) (*hosted, *revision, error) {
	if h, ok := s.services[serviceID]; ok {
		if r := h.named(id); r != nil {
			return h, r, nil
		}
	}
	return nil, nil, refuse(ruleRevisionMissing, "Resource '%s' of kind 'REVISION' in region '%s' in project '%s' does not exist.", id, s.o.Location, s.o.Project.ID)
}

// named finds a revision, nil for none. The lock is held.
func (h *hosted) named(id string) *revision {
	i := slices.IndexFunc(h.revisions, func(r *revision) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return h.revisions[i]
}

// GetRevision describes a revision.
func (a revisionsAPI) GetRevision(_ context.Context, r *runpb.GetRevisionRequest) (*runpb.Revision, error) {
	s := a.s
	id, err := s.parse(r.Name, "/services/*/revisions/*", "run.revisions.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rev, err := s.findRevision(id[0], id[1])
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(rev.view), nil
}

// ListRevisions lists revisions, the newest first.
func (a revisionsAPI) ListRevisions(_ context.Context, r *runpb.ListRevisionsRequest) (*runpb.ListRevisionsResponse, error) {
	s := a.s
	id, err := s.parse(r.Parent, "/services/*", "run.revisions.list")
	if err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.ShowDeleted); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.findService(id[0])
	if err != nil {
		return nil, err
	}
	list := slices.Clone(h.revisions)
	slices.Reverse(list)
	page, next, err := gapi.Page(list, func(v *revision) string { return newestFirst(v.born, v.id) }, gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &runpb.ListRevisionsResponse{NextPageToken: next}
	for _, rev := range page {
		out.Revisions = append(out.Revisions, proto.CloneOf(rev.view))
	}
	return out, nil
}

// DeleteRevision deletes a revision that isn't in use.
func (a revisionsAPI) DeleteRevision(_ context.Context, r *runpb.DeleteRevisionRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.Name, "/services/*/revisions/*", "run.revisions.delete")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h, rev, err := s.findRevision(id[0], id[1])
	if err != nil {
		return nil, err
	}
	if err := checkEtag(rev.id, r.Etag, rev.view.Etag); err != nil {
		return nil, err
	}
	if rev == h.latest() || h.traffic(rev) > 0 {
		return nil, refuse(ruleRevisionServes, "Revision '%s' is the latest, or gets traffic, and can't be deleted.", rev.id)
	}
	if r.ValidateOnly {
		return s.newOperation(rev.view).finish(s, rev.view, nil).show(s), nil
	}
	s.changeRevision(rev, func(v *runpb.Revision) {
		v.DeleteTime, v.ExpireTime = v.UpdateTime, timestamppb.New(s.o.Now().AddDate(0, 0, 30))
	})
	s.shrink(rev, 0)
	h.revisions = slices.DeleteFunc(h.revisions, func(o *revision) bool { return o == rev })
	return s.newOperation(rev.view).finish(s, rev.view, nil).show(s), nil
}

// newRevision adds a revision of the service's template. The lock is held.
func (s *Service) newRevision(h *hosted) *revision {
	t, now := unnamed(h.view.Template), s.stamp()
	h.made++
	id := h.view.Template.Revision
	if id == "" {
		// https://cloud.google.com/run/docs/managing/revisions
		id = fmt.Sprintf("%s-%05d-%s", h.id, h.made, suffix(s.o.NewID())[:3])
	}
	v := &runpb.Revision{Name: h.view.Name + "/revisions/" + id, Uid: s.uuid(), Generation: 1, Labels: t.Labels, Annotations: t.Annotations, CreateTime: now, UpdateTime: now,
		LaunchStage: h.view.LaunchStage, Service: h.view.Name, Scaling: t.Scaling, VpcAccess: t.VpcAccess, MaxInstanceRequestConcurrency: t.MaxInstanceRequestConcurrency,
		Timeout: t.Timeout, ServiceAccount: t.ServiceAccount, Containers: t.Containers, Volumes: t.Volumes, ExecutionEnvironment: t.ExecutionEnvironment, Reconciling: true,
		SessionAffinity: t.SessionAffinity, Creator: s.o.Caller, Client: h.view.Client, ClientVersion: h.view.ClientVersion, Etag: s.etag(),
		LogUri: "https://console.cloud.google.com/run/detail/" + s.o.Location + "/" + h.id + "/logs?project=" + s.o.Project.ID}
	v.Conditions = []*runpb.Condition{condition("Ready", runpb.Condition_CONDITION_RECONCILING, "", now), condition(containerReady, runpb.Condition_CONDITION_PENDING, "", now),
		condition(containerHealthy, runpb.Condition_CONDITION_PENDING, "", now), condition(resourcesAvailable, runpb.Condition_CONDITION_PENDING, "", now), condition(active, runpb.Condition_CONDITION_PENDING, "", now)}
	r := &revision{id: id, view: v, born: s.o.Now(), template: t, scaling: proto.CloneOf(h.view.Scaling)}
	h.revisions = append(h.revisions, r)
	return r
}

// changeRevision alters a revision. The lock is held.
func (s *Service) changeRevision(r *revision, f func(v *runpb.Revision)) {
	v := proto.CloneOf(r.view)
	v.UpdateTime, v.Etag = s.stamp(), s.etag()
	f(v)
	r.view = v
}

// revisionReason adds why a revision is as it is.
func revisionReason(c *runpb.Condition, r runpb.Condition_RevisionReason) *runpb.Condition {
	c.Reasons = &runpb.Condition_RevisionReason_{RevisionReason: r}
	return c
}
