package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stateFile is what Options.State holds: secrets are in it, in the clear.
const stateFile = "pocket-aws.json"

// keeper is a service whose state outlives the server.
type keeper interface {
	Save() ([]byte, error)
	Load([]byte) error
}

func (s *Server) keepers() map[string]keeper {
	return map[string]keeper{"ecs": s.ecs, "batch": s.batch, "logs": s.logs, "secretsmanager": s.secrets, "ssm": s.ssm, "application-autoscaling": s.scaling}
}

// load reads what an earlier server left, if anything.
func (s *Server) load() error {
	if s.o.State == "" {
		return nil
	}
	name := filepath.Join(s.o.State, stateFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for service, k := range s.keepers() {
		if part, ok := parts[service]; ok {
			if err := k.Load(part); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// save leaves all for the next server.
func (s *Server) save() error {
	if s.o.State == "" {
		return nil
	}
	parts := map[string]json.RawMessage{}
	for service, k := range s.keepers() {
		part, err := k.Save()
		if err != nil {
			return fmt.Errorf("pocket aws: save %s: %w", service, err)
		}
		parts[service] = part
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.o.State, 0o700); err != nil {
		return err
	}
	// A reader sees the old state or the new one, never a half.
	f, err := os.CreateTemp(s.o.State, stateFile+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.o.State, stateFile))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("pocket aws: save the state: %w", err), os.Remove(f.Name()))
	}
	return nil
}
