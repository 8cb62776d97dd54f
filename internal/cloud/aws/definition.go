package aws

import (
	"context"
	"errors"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// Definitions lets the jobs of a process share what their service wants defined
// before it runs them. Those who want the same definition wait for the first,
// which looks for it once and registers it at most once. It is safe for concurrent
// use; the zero value is ready.
type Definitions struct {
	mu sync.Mutex
	m  map[string]*definition
	// version is the last that was given to a definition.
	version int
}

type definition struct {
	// lock is held by whoever looks for the definition, registers it or takes it
	// away.
	lock chan struct{}
	// users is how many hold the lock or wait for it.
	users int
	// version isn't zero while the definition is known to be there. It is whose
	// holds the lock.
	version int
}

// Ensure makes sure that a definition is there, and returns its version, which is
// never zero. Find reports whether the service has it, and register makes it. A
// caller whose definition turned out to be gone passes its version as gone: unless
// somebody has registered it since, it is registered without another look, which
// may not know yet. Errors are those of find and register, and the context's.
func (d *Definitions) Ensure(ctx context.Context, name string, gone int, find func() (bool, error), register func() error) (version int, err error) {
	e, free, err := d.lock(ctx, name)
	if err != nil {
		return 0, err
	}
	defer free()
	if e.version != 0 && e.version != gone {
		return e.version, nil
	}
	e.version = 0
	found := false
	if gone == 0 {
		if found, err = find(); err != nil {
			return 0, err
		}
	}
	if !found {
		if err := register(); err != nil {
			return 0, err
		}
	}
	e.version = d.next()
	return e.version, nil
}

// Retire runs take, which may take a definition away, while nobody looks for it or
// registers it. Whoever wants it next looks again.
func (d *Definitions) Retire(ctx context.Context, name string, take func() error) error {
	e, free, err := d.lock(ctx, name)
	if err != nil {
		return err
	}
	defer free()
	e.version = 0
	return take()
}

// lock waits for a definition's lock. What nobody uses and isn't there is
// forgotten.
func (d *Definitions) lock(ctx context.Context, name string) (e *definition, free func(), err error) {
	d.mu.Lock()
	if d.m == nil {
		d.m = map[string]*definition{}
	}
	e, ok := d.m[name]
	if !ok {
		e = &definition{lock: make(chan struct{}, 1)}
		d.m[name] = e
	}
	e.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		e.users--
		if e.users == 0 && e.version == 0 {
			delete(d.m, name)
		}
	}
	select {
	case e.lock <- struct{}{}:
		return e, func() { <-e.lock; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, context.Cause(ctx)
	}
}

func (d *Definitions) next() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version++
	return d.version
}

// Refused says of a launch's call that it is the job's own request that was
// refused, or that it is somebody else's turn.
func Refused(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	switch c.Code {
	case sdk.ResourceExhausted:
		c.Retryable, c.Reason = true, sdk.ReasonQueued
	case sdk.InvalidArgument:
		c.Reason = sdk.ReasonInvalidSpec
	}
	return &c
}
