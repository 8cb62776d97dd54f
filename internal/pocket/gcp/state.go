package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stateVersion is the form of the state's file.
const stateVersion = 1

// stateFile holds all that is kept between two servers.
type stateFile struct {
	Version int             `json:"v"`
	Project string          `json:"project"`
	Run     json.RawMessage `json:"run"`
	Logging json.RawMessage `json:"logging"`
	Secrets json.RawMessage `json:"secrets"`
}

func (s *Server) statePath() string { return filepath.Join(s.o.State, "pocket-gcp.json") }

// load reads the state of the server before, if there was one.
func (s *Server) load() error {
	if s.o.State == "" {
		return nil
	}
	data, err := os.ReadFile(s.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("%s: %w", s.statePath(), err)
	}
	if f.Version != stateVersion || f.Project != s.o.Project {
		return fmt.Errorf("%s: it is of version %d and project %s; want %d and %s: use another folder", s.statePath(), f.Version, f.Project, stateVersion, s.o.Project)
	}
	return errors.Join(s.run.Load(f.Run), s.logging.Load(f.Logging), s.secrets.Load(f.Secrets))
}

// save writes the state, for its owner alone: secrets are in it.
func (s *Server) save() error {
	if s.o.State == "" {
		return nil
	}
	f := stateFile{Version: stateVersion, Project: s.o.Project}
	var errs [3]error
	f.Run, errs[0] = s.run.Save()
	f.Logging, errs[1] = s.logging.Save()
	f.Secrets, errs[2] = s.secrets.Save()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	temporary := s.statePath() + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.statePath())
}
