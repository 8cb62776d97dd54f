package fake

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

func (m *memory) createResource(r *resource) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.things[r.Name] != nil {
		return false, nil
	}
	m.things[r.Name] = r
	return true, nil
}

func (m *memory) loadResource(name string) (*resource, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.things[name], nil
}

func (m *memory) replaceResource(r *resource) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.things[r.Name] = r
	return nil
}

func (m *memory) removeResource(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.things, name)
	return nil
}

// thing is the file of a resource. Any name is legal in it.
func (f *folder) thing(name string) string { return f.path("resources", fmt.Sprintf("%x", name)) }

func (f *folder) createResource(r *resource) (bool, error) {
	return f.writeOnce(f.thing(r.Name), r)
}

func (f *folder) loadResource(name string) (*resource, error) {
	var r resource
	ok, err := read(f.thing(name), &r)
	if err != nil || !ok {
		return nil, err
	}
	return &r, nil
}

func (f *folder) replaceResource(r *resource) error { return f.replace(f.thing(r.Name), r) }

func (f *folder) removeResource(name string) error {
	if err := os.Remove(f.thing(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
