package cloudrun

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The sizes of pages. Those of Cloud Run aren't documented.
const (
	standardPage = 100
	maxPage      = 1000
)

// Quotas: https://cloud.google.com/run/quotas
const (
	quotaJobs       = 1000
	quotaExecutions = 1000
)

// CreateJob makes a job. Its operation is done when the job is ready.
func (a jobsAPI) CreateJob(_ context.Context, r *runpb.CreateJobRequest) (*longrunningpb.Operation, error) {
	s := a.s
	if _, err := s.parse(r.Parent, "", "run.jobs.create"); err != nil {
		return nil, err
	}
	id := r.JobId
	if id == "" {
		id = "job-" + s.o.NewID()[:12]
	}
	if len(id) > maxJobID || !jobIDForm().MatchString(id) {
		return nil, violation(ruleJobID, "CreateJobRequest.job_id", "%q must have up to %d lowercase letters, numerals and hyphens, begin with a letter and not end with a hyphen.", id, maxJobID)
	}
	if n := r.Job.GetName(); n != "" && n != r.Parent+"/jobs/"+id {
		return nil, violation(ruleJobName, "CreateJobRequest.job.name", "%q must be empty or %s/jobs/%s.", n, r.Parent, id)
	}
	view := wanted(r.Job)
	if err := s.normalise("CreateJobRequest.job", id, view); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[id] != nil {
		return nil, refuse(ruleJobExists, "Resource '%s' already exists.", id)
	}
	if limit := cmp.Or(s.knobs.MaxJobs, quotaJobs); len(s.jobs) >= limit {
		return nil, refuse(ruleJobs1000, "Quota exceeded for total allowable count of jobs per project per region: %d.", limit)
	}
	return s.put(&job{id: id, born: s.o.Now()}, view, r.ValidateOnly)
}

// wanted copies what the caller decides of a job.
func wanted(j *runpb.Job) *runpb.Job {
	if j == nil {
		return &runpb.Job{}
	}
	j = proto.CloneOf(j)
	return &runpb.Job{Labels: j.Labels, Annotations: j.Annotations, Client: j.Client, ClientVersion: j.ClientVersion, LaunchStage: j.LaunchStage,
		BinaryAuthorization: j.BinaryAuthorization, Template: j.Template, CreateExecution: j.CreateExecution, FunctionalType: j.FunctionalType}
}

// put stores a job, new or changed, and starts its reconciliation. The lock is
// held.
func (s *Service) put(j *job, view *runpb.Job, validateOnly bool) (*longrunningpb.Operation, error) {
	now := s.stamp()
	view.Name, view.UpdateTime, view.LastModifier, view.Etag = s.jobName(j.id), now, s.o.Caller, s.etag()
	if old := j.view; old != nil {
		view.Uid, view.CreateTime, view.Creator, view.Generation, view.ObservedGeneration = old.Uid, old.CreateTime, old.Creator, old.Generation+1, old.ObservedGeneration
		view.ExecutionCount, view.LatestCreatedExecution = old.ExecutionCount, old.LatestCreatedExecution
	} else {
		view.Uid, view.CreateTime, view.Creator, view.Generation = s.uuid(), now, s.o.Caller, 1
	}
	view.Reconciling = true
	view.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_RECONCILING, "", now)
	view.Conditions = []*runpb.Condition{condition("ResourcesAvailable", runpb.Condition_CONDITION_RECONCILING, "", now)}
	if validateOnly {
		return s.newOperation(view).finish(s, view, nil).show(s), nil
	}
	if s.closed {
		return nil, gapi.Errorf(codes.Unavailable, "The pocket cloud was closed.")
	}
	token := view.GetStartExecutionToken() + view.GetRunExecutionToken()
	if token != "" {
		if err := s.checkRoom(); err != nil {
			return nil, err
		}
	}
	j.view = view
	s.jobs[j.id] = j
	op := s.newOperation(view)
	pace, generation := s.knobs.Pace, view.Generation
	s.live(func() {
		if !s.pause(pace.Reconcile) {
			return
		}
		s.mu.Lock()
		if j.view.Generation != generation || j.deleting {
			s.mu.Unlock()
			s.finish(op, func() (proto.Message, error) { return j.view, nil })
			return
		}
		s.ready(j)
		var e *execution
		if token != "" {
			e = s.launch(j, j.id+"-"+token, nil)
		}
		waitEnd := view.GetRunExecutionToken() != ""
		s.mu.Unlock()
		if e != nil && waitEnd {
			<-e.done
		}
		s.finish(op, func() (proto.Message, error) { return j.view, nil })
	})
	return op.show(s), nil
}

// ready ends a job's reconciliation. The lock is held.
func (s *Service) ready(j *job) {
	now := s.stamp()
	v := proto.CloneOf(j.view)
	v.Reconciling, v.ObservedGeneration = false, v.Generation
	v.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_SUCCEEDED, "", now)
	v.Conditions = []*runpb.Condition{condition("ResourcesAvailable", runpb.Condition_CONDITION_SUCCEEDED, "", now)}
	v.Etag = s.etag()
	j.view = v
}

// GetJob describes a job.
func (a jobsAPI) GetJob(_ context.Context, r *runpb.GetJobRequest) (*runpb.Job, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*", "run.jobs.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.findJob(id[0])
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(j.view), nil
}

// ListJobs lists jobs by their IDs.
func (a jobsAPI) ListJobs(_ context.Context, r *runpb.ListJobsRequest) (*runpb.ListJobsResponse, error) {
	s := a.s
	if _, err := s.parse(r.Parent, "", "run.jobs.list"); err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.ShowDeleted); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.jobs)), func(j *job) bool { return now.Before(j.born.Add(s.knobs.ListDelay)) })
	slices.SortFunc(list, func(a, b *job) int { return strings.Compare(a.id, b.id) })
	page, next, err := gapi.Page(list, func(j *job) string { return j.id }, gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &runpb.ListJobsResponse{NextPageToken: next}
	for _, j := range page {
		out.Jobs = append(out.Jobs, proto.CloneOf(j.view))
	}
	return out, nil
}

func checkList(size int32, deleted bool) error {
	if size < 0 {
		return violation(rulePageSize, "page_size", "%d must not be negative.", size)
	}
	if deleted {
		return refuse(ruleUnsupported, "The pocket cloud keeps no deleted resources.")
	}
	return nil
}

// UpdateJob replaces what the caller decides of a job.
func (a jobsAPI) UpdateJob(_ context.Context, r *runpb.UpdateJobRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.GetJob().GetName(), "/jobs/*", "run.jobs.update")
	if err != nil {
		return nil, err
	}
	view := wanted(r.Job)
	if err := s.normalise("UpdateJobRequest.job", id[0], view); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.findJob(id[0])
	if err != nil {
		if !r.AllowMissing {
			return nil, err
		}
		if len(id[0]) > maxJobID || !jobIDForm().MatchString(id[0]) {
			return nil, violation(ruleJobID, "UpdateJobRequest.job.name", "%q is no legal ID.", id[0])
		}
		if limit := cmp.Or(s.knobs.MaxJobs, quotaJobs); len(s.jobs) >= limit {
			return nil, refuse(ruleJobs1000, "Quota exceeded for total allowable count of jobs per project per region: %d.", limit)
		}
		return s.put(&job{id: id[0], born: s.o.Now()}, view, r.ValidateOnly)
	}
	if err := j.mayChange(r.Job.Etag); err != nil {
		return nil, err
	}
	return s.put(j, view, r.ValidateOnly)
}

// mayChange refuses changes of a job by a stale etag or during its deletion.
// The lock is held.
func (j *job) mayChange(etag string) error {
	if err := checkEtag(j.id, etag, j.view.Etag); err != nil {
		return err
	}
	if j.deleting {
		return refuse(ruleDeleting, "Resource '%s' is being deleted.", j.id)
	}
	return nil
}

func checkEtag(what, given, current string) error {
	if given != "" && given != current {
		return refuse(ruleEtag, "Conflict for resource '%s': version '%s' was specified but current version is '%s'.", what, given, current)
	}
	return nil
}

// DeleteJob deletes a job and its executions; those that run are stopped.
func (a jobsAPI) DeleteJob(_ context.Context, r *runpb.DeleteJobRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*", "run.jobs.delete")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.findJob(id[0])
	if err != nil {
		return nil, err
	}
	if err := j.mayChange(r.Etag); err != nil {
		return nil, err
	}
	v := proto.CloneOf(j.view)
	if r.ValidateOnly {
		return s.newOperation(v).finish(s, v, nil).show(s), nil
	}
	now := s.o.Now()
	v.DeleteTime, v.ExpireTime, v.UpdateTime, v.LastModifier = timestamppb.New(now), timestamppb.New(now.AddDate(0, 0, 30)), timestamppb.New(now), s.o.Caller
	v.Generation, v.Reconciling, v.Etag = v.Generation+1, true, s.etag()
	v.TerminalCondition = condition("Ready", runpb.Condition_CONDITION_RECONCILING, "", timestamppb.New(now))
	j.view, j.deleting = v, true
	op := s.newOperation(v)
	executions, pace := slices.Clone(j.executions), s.knobs.Pace
	for _, e := range executions {
		s.stop(e)
	}
	s.live(func() {
		for _, e := range executions {
			<-e.done
		}
		if !s.pause(pace.Delete) {
			return
		}
		s.mu.Lock()
		delete(s.jobs, j.id)
		s.mu.Unlock()
		s.finish(op, func() (proto.Message, error) { return j.view, nil })
	})
	return op.show(s), nil
}
