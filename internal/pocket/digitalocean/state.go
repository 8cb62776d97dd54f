package digitalocean

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/digitalocean/godo"
)

// stateFile is what Options.State holds. The key to its secrets is in it, too.
const stateFile = "pocket-digitalocean.json"

// kept is what outlives a server.
type kept struct {
	Account string
	Key     []byte
	Apps    []*app
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
	s.account, s.key, s.apps = k.Account, k.Key, k.Apps
	for _, a := range s.apps {
		for _, d := range a.Deployments {
			d.app, d.stop, d.done, d.pace = a, make(chan struct{}), make(chan struct{}), s.knobs.Pace
			close(d.done)
			if !d.ended() { // jobs don't outlive their server
				d.View.Phase = godo.DeploymentPhase_Error
			}
			for _, o := range d.Outputs {
				o.changed = make(chan struct{})
			}
		}
		for _, i := range a.Invocations {
			i.stop = make(chan struct{})
			i.Out.changed = make(chan struct{})
			if !i.ended() {
				i.View.Phase = godo.JOBINVOCATIONPHASE_Failed
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
	data, err := json.Marshal(kept{s.account, s.key, s.apps})
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("pocket digitalocean: save the state: %w", err)
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
		return errors.Join(fmt.Errorf("pocket digitalocean: save the state: %w", err), os.Remove(f.Name()))
	}
	return nil
}
