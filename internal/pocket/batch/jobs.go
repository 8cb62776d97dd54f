package batch

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// job is one job.
type job struct {
	id        string
	queue     Queue
	def       *types.JobDefinition
	created   time.Time
	pace      Pace
	mishap    Mishap
	overrides int // characters
	// second and grace are how long a second of the time-out, and the time
	// between TERM and KILL, last.
	second, grace time.Duration
	// From when on ListJobs and DescribeJobs show it.
	listed, described time.Time

	// What follows is guarded by the service's lock. What pointers and slices
	// of view lead to is replaced, never changed.
	view     types.JobDetail
	looks    int
	stop     chan struct{} // closed by the first TerminateJob, or CancelJob that counts
	stopping bool
	reason   string
}

// ended says whether a job is over. The lock is held.
func (j *job) ended() bool {
	return j.view.Status == types.JobStatusSucceeded || j.view.Status == types.JobStatusFailed
}

// placed says whether a job is STARTING or further. The lock is held.
func (j *job) placed() bool {
	return !slices.Contains([]types.JobStatus{types.JobStatusSubmitted, types.JobStatusPending, types.JobStatusRunnable}, j.view.Status)
}

// sweep drops the ended jobs that aren't shown any more. The lock is held.
func (s *Service) sweep() {
	keep := s.knobs.KeepEnded
	if keep == 0 {
		keep = keepEnded
	}
	old := s.o.Now().Add(-keep).UnixMilli()
	s.forget(func(j *job) bool { return j.view.StoppedAt != nil && *j.view.StoppedAt <= old })
}

func (s *Service) forget(which func(*job) bool) {
	if !slices.ContainsFunc(s.order, which) {
		return
	}
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(j *job) bool {
		if !which(j) {
			return false
		}
		delete(s.jobs, j.id)
		return true
	})
}

// show returns what a call may see of a job. The lock is held.
func (s *Service) show(j *job) types.JobDetail {
	v := j.view
	if s.knobs.Waiting != "" && v.Status == types.JobStatusRunnable {
		if j.looks++; j.looks%2 == 1 {
			v.StatusReason = &s.knobs.Waiting
		}
	}
	return v
}

func (s *Service) describeJobs(_ context.Context, _ awsjson.Call, in *batch.DescribeJobsInput) (*batch.DescribeJobsOutput, error) {
	if len(in.Jobs) > maxPage {
		return nil, refuse(ruleJobs100, "Maximum number of jobs supported is  %d .", maxPage)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	now := s.o.Now()
	out := &batch.DescribeJobsOutput{Jobs: []types.JobDetail{}}
	for _, id := range in.Jobs {
		if j := s.jobs[id]; j != nil && !now.Before(j.described) {
			out.Jobs = append(out.Jobs, s.show(j))
		}
	}
	return out, nil
}

// filter is what a listing chooses by.
type filter struct {
	status types.JobStatus
	match  func(*job) bool
	// named says that jobs of one name stand together.
	named bool
}

// readFilter reads the one filter that a listing may have.
func (s *Service) readFilter(in *batch.ListJobsInput) (filter, error) {
	if len(in.Filters) == 0 {
		f := filter{status: in.JobStatus, match: func(*job) bool { return true }}
		f.status = cmp.Or(f.status, types.JobStatusRunning)
		return f, nil
	}
	if len(in.Filters) > 1 {
		return filter{}, refuse(ruleFilterOne, "Only one filter can be used at a time.")
	}
	if len(in.Filters[0].Values) != 1 {
		return filter{}, refuse(ruleFilterValue, "A filter must have one value.")
	}
	value := in.Filters[0].Values[0]
	millis := func() (int64, error) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return 0, refuse(ruleFilterValue, "%s is no time in milliseconds.", value)
		}
		return n, nil
	}
	switch text(in.Filters[0].Name) {
	case "JOB_NAME":
		want, prefix := strings.CutSuffix(strings.ToLower(value), "*")
		return filter{named: true, match: func(j *job) bool { return matches(strings.ToLower(*j.view.JobName), want, prefix) }}, nil
	case "JOB_DEFINITION":
		if strings.HasPrefix(value, "arn:") {
			return filter{match: func(j *job) bool { return *j.view.JobDefinition == value }}, nil
		}
		want, prefix := strings.CutSuffix(value, "*")
		return filter{match: func(j *job) bool { return matches(*j.def.JobDefinitionName, want, prefix) }}, nil
	case "BEFORE_CREATED_AT":
		n, err := millis()
		return filter{match: func(j *job) bool { return *j.view.CreatedAt < n }}, err
	case "AFTER_CREATED_AT":
		n, err := millis()
		return filter{match: func(j *job) bool { return *j.view.CreatedAt > n }}, err
	}
	return filter{}, refuse(ruleFilterName, "%s is no filter.", text(in.Filters[0].Name))
}

func matches(name, want string, prefix bool) bool {
	return name == want || prefix && strings.HasPrefix(name, want)
}

func (s *Service) listJobs(_ context.Context, _ awsjson.Call, in *batch.ListJobsInput) (*batch.ListJobsOutput, error) {
	if in.JobQueue == nil || in.ArrayJobId != nil || in.MultiNodeJobId != nil {
		if in.JobQueue == nil && (in.ArrayJobId != nil) != (in.MultiNodeJobId != nil) {
			return nil, unsupported("arrayJobId and multiNodeJobId")
		}
		return nil, refuse(ruleListOne, "Exactly one of jobQueue, arrayJobId and multiNodeJobId must be specified.")
	}
	f, err := s.readFilter(in)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.queue(*in.JobQueue)
	if err != nil {
		return nil, err
	}
	s.sweep()
	now := s.o.Now()
	var found []*job
	for _, j := range slices.Backward(s.order) {
		if j.queue.Name == q.Name && !now.Before(j.listed) && f.match(j) && (f.status == "" || f.status == j.view.Status) {
			found = append(found, j)
		}
	}
	if f.named {
		slices.SortStableFunc(found, func(a, b *job) int { return cmp.Compare(*a.view.JobName, *b.view.JobName) })
	}
	ids := make([]string, len(found))
	for i, j := range found {
		ids[i] = j.id
	}
	most := maxListed
	if len(in.Filters) > 0 {
		most = maxPage
	}
	page, next, err := s.page(ids, in.NextToken, in.MaxResults, most)
	if err != nil {
		return nil, err
	}
	out := &batch.ListJobsOutput{JobSummaryList: []types.JobSummary{}, NextToken: next}
	for _, id := range page {
		out.JobSummaryList = append(out.JobSummaryList, summary(s.show(s.jobs[id])))
	}
	return out, nil
}

// summary is a job in a list. It has no definition there, whatever AWS's
// documents say: https://github.com/aws/aws-sdk/issues/588.
func summary(v types.JobDetail) types.JobSummary {
	out := types.JobSummary{JobArn: v.JobArn, JobId: v.JobId, JobName: v.JobName, CreatedAt: v.CreatedAt, Status: v.Status, StatusReason: v.StatusReason, StoppedAt: v.StoppedAt}
	if *v.StartedAt > 0 {
		out.StartedAt = v.StartedAt
	}
	if c := v.Container; c.ExitCode != nil || c.Reason != nil {
		out.Container = &types.ContainerSummary{ExitCode: c.ExitCode, Reason: c.Reason}
	}
	return out
}

// maxReason bounds a reason:
// https://docs.aws.amazon.com/batch/latest/APIReference/API_TerminateJob.html
const maxReason = 1024

var idForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func checkStop(id, reason string) error {
	if reason == "" || len(reason) > maxReason {
		return refuse(ruleTerminateReason, "reason must have 1 to %d characters.", maxReason)
	}
	if !idForm.MatchString(id) {
		return refuse(ruleTerminateMissing, "%s is no job ID.", id)
	}
	return nil
}

func (s *Service) terminateJob(_ context.Context, _ awsjson.Call, in *batch.TerminateJobInput) (*batch.TerminateJobOutput, error) {
	if err := checkStop(*in.JobId, *in.Reason); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if j := s.jobs[*in.JobId]; j != nil && !j.ended() {
		if !j.placed() {
			j.view.IsCancelled = ptr(true)
		}
		j.view.IsTerminated = ptr(true)
		j.halt(*in.Reason)
	}
	return &batch.TerminateJobOutput{}, nil
}

func (s *Service) cancelJob(_ context.Context, _ awsjson.Call, in *batch.CancelJobInput) (*batch.CancelJobOutput, error) {
	if err := checkStop(*in.JobId, *in.Reason); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if j := s.jobs[*in.JobId]; j != nil && !j.placed() {
		j.view.IsCancelled = ptr(true)
		j.halt(*in.Reason)
	}
	return &batch.CancelJobOutput{}, nil
}

// halt ends a job's life; the first to ask gives the reason. The lock is held.
func (j *job) halt(reason string) {
	if !j.stopping {
		j.stopping, j.reason = true, reason
		close(j.stop)
	}
}
