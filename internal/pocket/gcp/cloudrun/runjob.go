package cloudrun

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/genproto/googleapis/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// RunJob makes an execution. Its operation is done when the execution has
// ended, and its metadata is the execution from the start.
func (a jobsAPI) RunJob(_ context.Context, r *runpb.RunJobRequest) (*longrunningpb.Operation, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*", "run.jobs.run")
	if err != nil {
		return nil, err
	}
	if r.Overrides != nil {
		if err := s.o.Policy.Check("run.jobs.runWithOverrides", r.Name); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	j, err := s.findJob(id[0])
	if err == nil {
		err = j.mayChange(r.Etag)
	}
	var template *runpb.Job
	if err == nil {
		template = proto.CloneOf(j.view)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.override(template.Template, r.Overrides, template.LaunchStage); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j, err = s.findJob(id[0]); err != nil {
		return nil, err
	}
	if err := j.mayChange(r.Etag); err != nil {
		return nil, err
	}
	if err := s.checkRoom(); err != nil {
		return nil, err
	}
	if r.ValidateOnly {
		e := s.newExecution(j, s.freshID(j), template.Template)
		return s.newOperation(e.view).finish(s, e.view, nil).show(s), nil
	}
	e := s.launch(j, s.freshID(j), template.Template)
	if e == nil {
		return nil, gapi.Errorf(codes.Unavailable, "The pocket cloud was closed.")
	}
	return e.op.show(s), nil
}

// suffix is five characters out of an ID, as the platform appends them.
func suffix(id string) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	out := make([]byte, 5)
	for i := range out {
		out[i] = letters[(int(id[2*i])*31+int(id[2*i+1])*7+i)%len(letters)]
	}
	return string(out)
}

// freshID names an execution as none of the job's is. The lock is held.
func (s *Service) freshID(j *job) string {
	for {
		id := j.id + "-" + suffix(s.o.NewID())
		if !slices.ContainsFunc(j.executions, func(e *execution) bool { return e.id == id }) {
			return id
		}
	}
}

// checkRoom refuses an execution beyond the quota. The lock is held.
func (s *Service) checkRoom() error {
	if limit := cmp.Or(s.knobs.MaxExecutions, quotaExecutions); s.running >= limit {
		return refuse(ruleExecutions, "Quota exceeded for total allowable count of running executions per project per region: %d.", limit)
	}
	return nil
}

// override applies what a run wants otherwise.
func (s *Service) override(t *runpb.ExecutionTemplate, o *runpb.RunJobRequest_Overrides, stage api.LaunchStage) error {
	if o == nil {
		return nil
	}
	const field = "RunJobRequest.overrides"
	if o.GetDelayExecution() {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer delayed executions.")
	}
	if o.TaskCount != 0 {
		if o.TaskCount < 1 || o.TaskCount > maxTasks {
			return violation(ruleOverrideCount, field+".task_count", "%d is not between 1 and %d.", o.TaskCount, maxTasks)
		}
		t.TaskCount, t.Parallelism = o.TaskCount, min(t.Parallelism, o.TaskCount)
	}
	if o.Timeout != nil {
		if err := checkTimeout(ruleOverrideTime, field+".timeout", o.Timeout, stage); err != nil {
			return err
		}
		t.Template.Timeout = o.Timeout
	}
	seen := map[*runpb.Container]bool{}
	for i, c := range o.ContainerOverrides {
		at := fmt.Sprintf("%s.container_overrides[%d]", field, i)
		target := named(t.Template.Containers, c.Name)
		if target == nil || seen[target] {
			return violation(ruleOverrideName, at+".name", "the job has no container %q, or it is there twice.", c.Name)
		}
		seen[target] = true
		if c.ClearArgs && len(c.Args) > 0 {
			return violation(ruleOverrideArgs, at+".clear_args", "must not be set together with args.")
		}
		if err := checkArgs(at, c.Args); err != nil {
			return err
		}
		if c.ClearArgs || len(c.Args) > 0 {
			target.Args = slices.Clone(c.Args)
		}
		if err := s.checkEnv(at, forJobs, c.Env); err != nil {
			return err
		}
		target.Env = mergeEnv(target.Env, c.Env)
		if len(target.Env) > maxVariables {
			return violation(ruleEnvCount, at+".env", "there are %d with those of the job, at most %d are allowed.", len(target.Env), maxVariables)
		}
	}
	return nil
}

// named finds a container; a single one needs no name.
func named(list []*runpb.Container, name string) *runpb.Container {
	if name == "" && len(list) == 1 {
		return list[0]
	}
	if i := slices.IndexFunc(list, func(c *runpb.Container) bool { return c.Name == name }); i >= 0 {
		return list[i]
	}
	return nil
}

// mergeEnv puts variables over those of the job.
func mergeEnv(base, over []*runpb.EnvVar) []*runpb.EnvVar {
	out := slices.Clone(base)
	for _, v := range over {
		if i := slices.IndexFunc(out, func(o *runpb.EnvVar) bool { return o.Name == v.Name }); i >= 0 {
			out[i] = v
		} else {
			out = append(out, v)
		}
	}
	return out
}

// newExecution makes an execution of a job without storing it. The lock is held.
func (s *Service) newExecution(j *job, id string, t *runpb.ExecutionTemplate) *execution {
	now := s.stamp()
	name := j.view.Name + "/executions/" + id
	v := &runpb.Execution{Name: name, Uid: s.uuid(), Creator: s.o.Caller, Generation: 1, Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
		CreateTime: now, UpdateTime: now, LaunchStage: j.view.LaunchStage, Job: j.id, Parallelism: t.Parallelism, TaskCount: t.TaskCount, Template: t.Template,
		Reconciling: true, ObservedGeneration: 1, LogUri: s.logURI(j.id, id), Client: cmp.Or(t.Client, j.view.Client), ClientVersion: cmp.Or(t.ClientVersion, j.view.ClientVersion), Etag: s.etag()}
	for _, c := range []string{completed, resourcesAvailable, started, containerReady} {
		v.Conditions = append(v.Conditions, condition(c, runpb.Condition_CONDITION_PENDING, "", now))
	}
	e := &execution{id: id, job: j, view: v, born: s.o.Now(), mishap: s.mishap(j.id), pace: s.knobs.Pace, grace: s.knobs.Grace, late: s.knobs.TimeoutDelay, parallel: int(t.Parallelism),
		cancel: make(chan struct{}), done: make(chan struct{})}
	e.key = newestFirst(e.born, id)
	for i := range int(t.TaskCount) {
		e.tasks = append(e.tasks, s.newTask(e, i))
	}
	return e
}

func (s *Service) newTask(e *execution, i int) *task {
	now, t := e.view.CreateTime, e.view.Template
	return &task{index: i, view: &runpb.Task{Name: fmt.Sprintf("%s/tasks/%s-task%d", e.view.Name, e.id, i), Uid: s.uuid(), Generation: 1, Labels: e.view.Labels, Annotations: e.view.Annotations,
		CreateTime: now, UpdateTime: now, Job: e.job.id, Execution: e.id, Containers: t.Containers, Volumes: t.Volumes, MaxRetries: t.GetMaxRetries(), Timeout: t.Timeout,
		ServiceAccount: t.ServiceAccount, ExecutionEnvironment: t.ExecutionEnvironment, Reconciling: true, ObservedGeneration: 1, Index: int32(i), VpcAccess: t.VpcAccess, //nolint:gosec // up to 10,000
		LogUri: e.view.LogUri, Conditions: []*runpb.Condition{condition(completed, runpb.Condition_CONDITION_PENDING, "", now), condition(started, runpb.Condition_CONDITION_PENDING, "", now)}, Etag: s.etag()}}
}

// launch stores an execution of a job and starts its life. Nil for the template
// means the job's. It returns nil when the service is closed. The lock is held.
func (s *Service) launch(j *job, id string, t *runpb.ExecutionTemplate) *execution {
	if s.closed {
		return nil
	}
	if t == nil {
		t = proto.CloneOf(j.view.Template)
	}
	e := s.newExecution(j, id, t)
	e.op = s.newOperation(e.view)
	e.op.meta = func() proto.Message { return e.show() }
	j.executions = append(j.executions, e)
	s.retain(j)
	s.running++
	v := proto.CloneOf(j.view)
	v.ExecutionCount++
	v.LatestCreatedExecution = &runpb.ExecutionReference{Name: id, CreateTime: e.view.CreateTime, CompletionStatus: runpb.ExecutionReference_EXECUTION_PENDING}
	j.view = v
	s.live(func() { s.run(e) })
	return e
}

// logURI is the console's page of an execution's log.
func (s *Service) logURI(job, execution string) string {
	filter := []string{`resource.type="cloud_run_job"`, `resource.labels.job_name="` + job + `"`, `resource.labels.location="` + s.o.Location + `"`,
		`labels."run.googleapis.com/execution_name"="` + execution + `"`}
	return "https://console.cloud.google.com/logs/viewer?project=" + s.o.Project.ID + "&advancedFilter=" + url.QueryEscape(strings.Join(filter, "\n"))
}
