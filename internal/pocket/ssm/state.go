package ssm

import (
	"encoding/json"
	"fmt"
)

// Save returns the service's state, the parameters' values included.
func (s *Service) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.parameters)
}

// Load puts a saved state over the service's own.
func (s *Service) Load(data []byte) error {
	var parameters map[string]*parameter
	if err := json.Unmarshal(data, &parameters); err != nil {
		return fmt.Errorf("load the state of Parameter Store: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range parameters {
		s.parameters[name] = p
	}
	return nil
}
