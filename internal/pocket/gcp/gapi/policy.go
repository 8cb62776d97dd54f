package gapi

import "sync"

// Policy is what the caller may do: all but what is denied. Its zero value
// allows everything. Its methods may be used at the same time.
type Policy struct {
	mu     sync.Mutex
	denied map[string]bool
}

// Deny takes permissions away, like "run.jobs.run", in place of all that were
// denied before.
func (p *Policy) Deny(permissions ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.denied = map[string]bool{}
	for _, permission := range permissions {
		p.denied[permission] = true
	}
}

// Check refuses what the caller may not do. A nil policy allows everything.
func (p *Policy) Check(permission, resource string) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.denied[permission] {
		return PermissionDenied(permission, resource)
	}
	return nil
}

// Granted returns those of the permissions that the caller has, in their order.
func (p *Policy) Granted(permissions []string) []string {
	var out []string
	for _, permission := range permissions {
		if p.Check(permission, "") == nil {
			out = append(out, permission)
		}
	}
	return out
}
