package cloudrun

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// GetTask describes a task.
func (a tasksAPI) GetTask(_ context.Context, r *runpb.GetTaskRequest) (*runpb.Task, error) {
	s := a.s
	id, err := s.parse(r.Name, "/jobs/*/executions/*/tasks/*", "run.tasks.get")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.findExecution(id[0], id[1])
	if err != nil {
		return nil, err
	}
	for _, t := range e.tasks {
		if t.id(e) == id[2] {
			return proto.CloneOf(t.view), nil
		}
	}
	return nil, refuse(ruleTaskMissing, "Resource '%s' of kind 'TASK' in region '%s' in project '%s' does not exist.", id[2], s.o.Location, s.o.Project.ID)
}

func (t *task) id(e *execution) string { return fmt.Sprintf("%s-task%d", e.id, t.index) }

// ListTasks lists an execution's tasks by their index; a hyphen stands for all
// executions, or all jobs.
func (a tasksAPI) ListTasks(_ context.Context, r *runpb.ListTasksRequest) (*runpb.ListTasksResponse, error) {
	s := a.s
	id, err := s.parse(r.Parent, "/jobs/*/executions/*", "run.tasks.list")
	if err != nil {
		return nil, err
	}
	if err := checkList(r.PageSize, r.ShowDeleted); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var from []*execution
	if id[0] == anyJob || id[1] == anyJob {
		from = slices.DeleteFunc(s.listed(id[0]), func(e *execution) bool { return id[1] != anyJob && e.id != id[1] })
	} else {
		e, err := s.findExecution(id[0], id[1])
		if err != nil {
			return nil, err
		}
		from = []*execution{e}
	}
	type place struct {
		task *task
		key  string
	}
	var list []place
	for _, e := range from {
		for _, t := range e.tasks {
			list = append(list, place{t, fmt.Sprintf("%s/%05d", e.order(), t.index)})
		}
	}
	page, next, err := gapi.Page(list, func(p place) string { return p.key }, gapi.Size(r.PageSize, standardPage, maxPage, s.knobs.PageSize), r.PageToken, r.Parent)
	if err != nil {
		return nil, err
	}
	out := &runpb.ListTasksResponse{NextPageToken: next}
	for _, p := range page {
		out.Tasks = append(out.Tasks, proto.CloneOf(p.task.view))
	}
	return out, nil
}
