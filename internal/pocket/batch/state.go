package batch

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"
)

// state is what outlives a server.
type state struct {
	Definitions map[string]*family
	Jobs        []jobState
	Tags        map[string]map[string]string
}

type jobState struct {
	ID         string
	Queue      Queue
	Definition types.JobDefinition
	Created    time.Time
	View       types.JobDetail
}

// Save returns the service's state. After Close all its jobs have ended.
func (s *Service) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := state{Definitions: s.definitions, Tags: s.tags}
	for _, j := range s.order {
		out.Jobs = append(out.Jobs, jobState{ID: j.id, Queue: j.queue, Definition: *j.def, Created: j.created, View: j.view})
	}
	return json.Marshal(out)
}

// Load puts a saved state in place of the service's own. A job that hadn't ended
// when it was saved has lost its container, and is FAILED now.
func (s *Service) Load(data []byte) error {
	var in state
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("load the state of AWS Batch: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.Definitions != nil {
		s.definitions = in.Definitions
	}
	if in.Tags != nil {
		s.tags = in.Tags
	}
	for _, saved := range in.Jobs {
		j := &job{id: saved.ID, queue: saved.Queue, def: &saved.Definition, created: saved.Created, view: saved.View, stop: make(chan struct{})}
		if !j.ended() {
			j.view.Status, j.view.StatusReason, j.view.StoppedAt = types.JobStatusFailed, &closing().status, ptr(s.o.Now().UnixMilli())
		}
		s.jobs[j.id] = j
		s.order = append(s.order, j)
	}
	return nil
}
