package logs

import (
	"encoding/json"
	"fmt"
)

// Save returns the service's state.
func (s *Service) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.groups)
}

// Load puts a saved state over the service's own.
func (s *Service) Load(data []byte) error {
	var groups map[string]*group
	if err := json.Unmarshal(data, &groups); err != nil {
		return fmt.Errorf("load the state of the logs: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, g := range groups {
		s.groups[name] = g
	}
	return nil
}
