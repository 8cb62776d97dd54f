package cloudrun

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// saved is the service between two servers.
type saved struct {
	Jobs       []savedJob        `json:"jobs"`
	Services   []savedService    `json:"services,omitempty"`
	Operations []json.RawMessage `json:"operations"`
}

type savedJob struct {
	Job        json.RawMessage  `json:"job"`
	Born       time.Time        `json:"born"`
	Executions []savedExecution `json:"executions"`
}

type savedExecution struct {
	Execution json.RawMessage   `json:"execution"`
	Born      time.Time         `json:"born"`
	Tasks     []json.RawMessage `json:"tasks"`
}

// Save returns all jobs, services and operations, with what belongs to them, as JSON. The service
// is closed. Operations that weren't done are then, and what was being deleted is
// gone.
func (s *Service) Save() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out saved
	for _, j := range s.jobs {
		if j.deleting {
			continue
		}
		if j.view.Reconciling {
			s.ready(j)
		}
		view, err := protojson.Marshal(j.view)
		if err != nil {
			return nil, fmt.Errorf("save jobs: %w", err)
		}
		kept := savedJob{Job: view, Born: j.born}
		for _, e := range j.executions {
			execution, err := saveExecution(e)
			if err != nil {
				return nil, err
			}
			kept.Executions = append(kept.Executions, execution)
		}
		out.Jobs = append(out.Jobs, kept)
	}
	var err error
	if out.Services, err = s.saveServices(); err != nil {
		return nil, err
	}
	for _, op := range s.operations {
		data, err := protojson.Marshal(op.finish(s, op.meta(), nil).show(s))
		if err != nil {
			return nil, fmt.Errorf("save operations: %w", err)
		}
		out.Operations = append(out.Operations, data)
	}
	return json.Marshal(out)
}

func saveExecution(e *execution) (savedExecution, error) {
	view, err := protojson.Marshal(e.view)
	if err != nil {
		return savedExecution{}, fmt.Errorf("save executions: %w", err)
	}
	out := savedExecution{Execution: view, Born: e.born}
	for _, t := range e.tasks {
		data, err := protojson.Marshal(t.view)
		if err != nil {
			return savedExecution{}, fmt.Errorf("save tasks: %w", err)
		}
		out.Tasks = append(out.Tasks, data)
	}
	return out, nil
}

// Load takes back what Save returned, in a new service.
func (s *Service) Load(data json.RawMessage) error {
	var in saved
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("load jobs: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kept := range in.Jobs {
		j := &job{view: &runpb.Job{}, born: kept.Born}
		if err := protojson.Unmarshal(kept.Job, j.view); err != nil {
			return fmt.Errorf("load jobs: %w", err)
		}
		j.id = last(j.view.Name)
		for _, k := range kept.Executions {
			e, err := loadExecution(j, k)
			if err != nil {
				return err
			}
			j.executions = append(j.executions, e)
		}
		s.jobs[j.id] = j
	}
	if err := s.loadServices(in.Services); err != nil {
		return err
	}
	for _, data := range in.Operations {
		var view longrunningpb.Operation
		if err := protojson.Unmarshal(data, &view); err != nil {
			return fmt.Errorf("load operations: %w", err)
		}
		op := &operation{name: view.Name, err: view.GetError(), done: make(chan struct{})}
		close(op.done)
		about := view.GetResponse()
		if about == nil {
			about = view.Metadata
		}
		m, err := about.UnmarshalNew()
		if err != nil {
			return fmt.Errorf("load operations: %w", err)
		}
		op.meta = func() proto.Message { return m }
		if op.err == nil {
			op.response = m
		}
		s.operations = append(s.operations, op)
		s.byName[op.name] = op
	}
	return nil
}

func loadExecution(j *job, k savedExecution) (*execution, error) {
	e := &execution{job: j, view: &runpb.Execution{}, born: k.Born, cancel: make(chan struct{}), done: make(chan struct{})}
	if err := protojson.Unmarshal(k.Execution, e.view); err != nil {
		return nil, fmt.Errorf("load executions: %w", err)
	}
	e.id = last(e.view.Name)
	e.key = newestFirst(e.born, e.id)
	close(e.done)
	for i, data := range k.Tasks {
		t := &task{index: i, view: &runpb.Task{}}
		if err := protojson.Unmarshal(data, t.view); err != nil {
			return nil, fmt.Errorf("load tasks: %w", err)
		}
		e.tasks = append(e.tasks, t)
	}
	return e, nil
}

// last is the last part of a name.
func last(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
