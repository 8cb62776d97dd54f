package secretsmanager

import (
	"encoding/json"
	"fmt"
)

// Save returns the service's state, the secrets' values included.
func (s *Service) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.secrets)
}

// Load puts a saved state over the service's own.
func (s *Service) Load(data []byte) error {
	var secrets map[string]*secret
	if err := json.Unmarshal(data, &secrets); err != nil {
		return fmt.Errorf("load the state of Secrets Manager: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, sec := range secrets {
		s.secrets[name] = sec
	}
	return nil
}
