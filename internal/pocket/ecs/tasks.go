package ecs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// The states of a task, in their order:
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html
const (
	provisioning   = "PROVISIONING"
	pending        = "PENDING"
	activating     = "ACTIVATING"
	running        = "RUNNING"
	deactivating   = "DEACTIVATING"
	stopping       = "STOPPING"
	deprovisioning = "DEPROVISIONING"
	stopped        = "STOPPED"
)

// missing is the failure's reason for a thing that isn't there:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_failures_messages.html
const missing = "MISSING"

// task is one task.
type task struct {
	id      string
	cluster string
	def     *types.TaskDefinition
	created time.Time
	pace    Pace
	mishap  Mishap
	// From when on ListTasks, DescribeTasks and the list of containers show it.
	listed, described, contained time.Time

	// What follows is guarded by the service's lock. What pointers and slices
	// of view lead to is replaced, never changed.
	view     types.Task
	past     []moment      // what it was, when the knob Stale asks for it
	stop     chan struct{} // closed by the first StopTask
	stopping bool
	code     types.TaskStopCode // why it was asked to stop
	reason   string             // the words to that
	// service and deployment are whose it is, nil for a task of RunTask.
	service    *service
	deployment *deployment
	// counted: it was counted as one that never came up.
	counted bool
	// boxes are its containers that run, by name.
	boxes map[string]run.Container
	usage usage
}

// moment is a task as it was from some time on.
type moment struct {
	from time.Time
	view types.Task
}

// show returns what a call that answers from memory may see of a task, in the
// worst case that the knobs allow. The lock is held.
func (s *Service) show(t *task, tags bool) types.Task {
	v := t.view
	if s.knobs.Stale > 0 && len(t.past) > 0 {
		v = t.past[0].view
		for _, m := range t.past {
			if m.from.Add(s.knobs.Stale).After(s.o.Now()) {
				break
			}
			v = m.view
		}
		v.Tags = t.view.Tags
	}
	return s.shown(t, v, tags)
}

// shown takes out of a task what isn't to be seen. The lock is held.
func (s *Service) shown(t *task, v types.Task, tags bool) types.Task {
	if s.o.Now().Before(t.contained) {
		v.Containers = []types.Container{}
	}
	if v.EnableExecuteCommand {
		v.Containers = s.withAgents(t, v.Containers)
	}
	if !tags {
		v.Tags = nil
	}
	return v
}

// find returns a task of a cluster by ID or ARN. The lock is held.
func (s *Service) find(c *cluster, name string) *task {
	bare, ok := s.fromARN("task", name)
	if !ok {
		return nil
	}
	if i := strings.LastIndexByte(bare, '/'); i >= 0 {
		if bare[:i] != c.Name {
			return nil
		}
		bare = bare[i+1:]
	}
	t := s.tasks[bare]
	if t == nil || t.cluster != c.Name {
		return nil
	}
	return t
}

// sweep drops the stopped tasks that aren't shown any more. It looks at all
// tasks, and so not at every call. The lock is held.
func (s *Service) sweep() {
	keep := s.knobs.KeepStopped
	if keep == 0 {
		keep = keepStopped
	}
	now := s.o.Now()
	if since := now.Sub(s.swept); since >= 0 && since < min(time.Second, keep/100) {
		return
	}
	s.swept = now
	old := now.Add(-keep)
	s.forget(func(t *task) bool { return t.view.StoppedAt != nil && !t.view.StoppedAt.After(old) })
}

func (s *Service) forget(which func(*task) bool) {
	if !slices.ContainsFunc(s.order, which) {
		return
	}
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(t *task) bool {
		if !which(t) {
			return false
		}
		delete(s.tasks, t.id)
		return true
	})
}

func (s *Service) describeTasks(_ context.Context, _ awsjson.Call, in *ecs.DescribeTasksInput) (*ecs.DescribeTasksOutput, error) {
	if len(in.Tasks) == 0 {
		return nil, refuse(ruleTasksEmpty, "Tasks cannot be empty.")
	}
	if len(in.Tasks) > maxDescribe {
		return nil, refuse(ruleTasks100, "Tasks cannot have more than %d elements.", maxDescribe)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	s.sweep()
	now := s.o.Now()
	out := &ecs.DescribeTasksOutput{Tasks: []types.Task{}, Failures: []types.Failure{}}
	for _, name := range in.Tasks {
		if strings.HasPrefix(name, "arn:") {
			if bare, ok := s.fromARN("task", name); !ok || !strings.HasPrefix(bare, c.Name+"/") {
				return nil, refuse(ruleTaskARN, "Invalid identifier: Identifier is for %s. Your cluster is %s", name, c.Name)
			}
		}
		t := s.find(c, name)
		if t == nil || now.Before(t.described) {
			arn := name
			if !strings.HasPrefix(name, "arn:") {
				arn = s.arn("task", c.Name+"/"+name)
			}
			out.Failures = append(out.Failures, failure(arn, missing))
			continue
		}
		out.Tasks = append(out.Tasks, s.show(t, slices.Contains(in.Include, types.TaskFieldTags)))
	}
	return out, nil
}

func (s *Service) listTasks(_ context.Context, _ awsjson.Call, in *ecs.ListTasksInput) (*ecs.ListTasksOutput, error) {
	if in.StartedBy != nil && (in.DesiredStatus != "" || in.Family != nil || in.ServiceName != nil || in.ContainerInstance != nil || in.LaunchType != "" || in.DaemonName != nil) {
		return nil, refuse(ruleStartedByAlone, "When you specify startedBy as the filter, it must be the only filter that you use.")
	}
	if in.Family != nil && in.ServiceName != nil {
		return nil, refuse(ruleFamilyOrService, "Cannot specify both serviceName and family.")
	}
	if in.DaemonName != nil {
		return nil, unsupported("daemonName")
	}
	desired := string(in.DesiredStatus)
	if desired == "" {
		desired = running
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	var of *service
	if in.ServiceName != nil {
		if of = s.service(c, *in.ServiceName); of == nil {
			return nil, refuse(ruleServiceGone, "Service not found.")
		}
	}
	s.sweep()
	now := s.o.Now()
	var all []string
	for _, t := range s.order {
		if t.cluster != c.Name || of != nil && t.service != of || now.Before(t.listed) || *t.view.DesiredStatus != desired ||
			in.StartedBy != nil && text(t.view.StartedBy) != *in.StartedBy ||
			in.Family != nil && *t.def.Family != *in.Family ||
			in.LaunchType != "" && t.view.LaunchType != in.LaunchType ||
			in.ContainerInstance != nil && !strings.HasSuffix(text(t.view.ContainerInstanceArn), *in.ContainerInstance) {
			continue
		}
		all = append(all, *t.view.TaskArn)
	}
	page, next, err := s.page(all, in.NextToken, in.MaxResults)
	if err != nil {
		return nil, err
	}
	return &ecs.ListTasksOutput{TaskArns: page, NextToken: next}, nil
}

// maxReason bounds StopTask's reason:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_StopTask.html
const maxReason = 1024

func (s *Service) stopTask(_ context.Context, _ awsjson.Call, in *ecs.StopTaskInput) (*ecs.StopTaskOutput, error) {
	if len(text(in.Reason)) > maxReason {
		return nil, refuse(ruleStopReason, "reason must not be longer than %d characters.", maxReason)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	s.sweep()
	t := s.find(c, *in.Task)
	if t == nil {
		return nil, refuse(ruleStopGone, "The referenced task was not found.")
	}
	reason := text(in.Reason)
	if reason == "" {
		reason = "Task stopped by user"
	}
	s.halt(t, types.TaskStopCodeUserInitiated, reason)
	return &ecs.StopTaskOutput{Task: ptr(s.shown(t, t.view, true))}, nil
}

// halt asks a task to stop, once. The lock is held.
func (s *Service) halt(t *task, code types.TaskStopCode, reason string) {
	if t.stopping || *t.view.DesiredStatus == stopped {
		return
	}
	t.stopping, t.code, t.reason = true, code, reason
	t.view.DesiredStatus = ptr(stopped)
	t.view.StopCode, t.view.StoppedReason = code, &t.reason
	now := s.o.Now()
	t.view.StoppingAt = &now
	t.view.Version++
	s.keep(t)
	if t.service != nil {
		t.service.nudge()
	}
	close(t.stop)
}
