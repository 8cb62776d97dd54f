package ecs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// state is what outlives a server.
type state struct {
	Clusters map[string]*cluster
	Families map[string]*family
	Tasks    []taskState
	Tokens   []tokenState
	Services []*service
}

type taskState struct {
	ID, Cluster string
	Definition  types.TaskDefinition
	Created     time.Time
	View        types.Task
}

type tokenState struct {
	tokenKey
	token
}

// Save returns the service's state. After Close all its tasks are STOPPED.
func (s *Service) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := state{Clusters: s.clusters, Families: s.families}
	for _, t := range s.order {
		out.Tasks = append(out.Tasks, taskState{ID: t.id, Cluster: t.cluster, Definition: *t.def, Created: t.created, View: t.view})
	}
	for key, tok := range s.tokens {
		out.Tokens = append(out.Tokens, tokenState{key, *tok})
	}
	for _, key := range slices.Sorted(maps.Keys(s.services)) {
		if v := s.services[key]; v.Active {
			out.Services = append(out.Services, v)
		}
	}
	slices.SortFunc(out.Tokens, func(a, b tokenState) int { return a.Made.Compare(b.Made) })
	return json.Marshal(out)
}

// Load puts a saved state in place of the service's own. A task that wasn't
// STOPPED when it was saved has lost its containers, and is STOPPED now.
func (s *Service) Load(data []byte) error {
	var in state
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("load the state of ECS: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range in.Clusters {
		s.clusters[name] = c
	}
	s.families = in.Families
	for _, saved := range in.Tasks {
		t := &task{id: saved.ID, cluster: saved.Cluster, def: &saved.Definition, created: saved.Created, view: saved.View, stop: make(chan struct{})}
		if t.view.StoppedAt == nil {
			now := s.o.Now()
			why := closing()
			t.view.LastStatus, t.view.DesiredStatus, t.view.StoppedAt, t.view.StoppingAt = ptr(stopped), ptr(stopped), &now, &now
			t.view.StopCode, t.view.StoppedReason = why.code, &why.reason
			for i := range t.view.Containers {
				t.view.Containers[i].LastStatus = ptr(stopped)
			}
		}
		s.tasks[t.id] = t
		s.order = append(s.order, t)
	}
	for _, saved := range in.Tokens {
		s.tokens[saved.tokenKey] = &saved.token
	}
	// Services go on: their tasks are started anew.
	for _, v := range in.Services {
		v.wake = make(chan struct{}, 1)
		s.services[serviceKey(v.Cluster, v.Name)] = v
		s.schedule(v)
	}
	return nil
}
