package control

import "context"

// Crash ends an engine as a kill would: nothing is released, the lease stays,
// and only the kernel's lock is gone.
func (e *Engine) Crash() {
	e.mu.Lock()
	e.closed = true
	for _, r := range e.runners {
		r.crashed.Store(true)
		r.stop()
	}
	idle := e.idle
	e.mu.Unlock()
	<-idle
	e.endAll()
	e.wg.Wait()
	if e.joined {
		_ = e.lock.Unlock()
	}
}

// Stall is a holder that is stopped past its lease: its lock stays.
func (e *Engine) Renew(ctx context.Context) { e.renew(ctx) }
