package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stateFile is what Options.State holds. Secrets are in it in the clear.
const stateFile = "pocket-azure.json"

// kept is what outlives a server.
type kept struct {
	CA, CAKey []byte
	Resources []*resourceGroup
	Groups    []*group
	Vaults    map[string]*vault
	Stores    map[string]*configStore
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
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.resources, s.groups = k.Resources, k.Groups
	s.identity = &identity{ca: k.CA, caKey: k.CAKey}
	if k.Vaults != nil {
		s.vaults = k.Vaults
	}
	if k.Stores != nil {
		s.stores = k.Stores
	}
	for _, g := range s.groups {
		for _, c := range g.Containers {
			for _, l := range c.Out.Lines {
				c.Out.size += len(l.Text)
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
	s.mu.Lock()
	s.prune()
	data, err := json.Marshal(kept{s.identity.ca, s.identity.caKey, s.resources, s.groups, s.vaults, s.stores})
	s.mu.Unlock()
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
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
