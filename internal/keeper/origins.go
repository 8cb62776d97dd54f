package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sort"
	"sync"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type originKey [sha256.Size]byte

// origins opens providers from the surroundings of the commands that handed
// their runs over. A run uses those of its own command, else any in which its
// provider has its identity, the newest first: that is how renewed credentials
// reach it.
type origins struct {
	open func(ctx context.Context, o Origin) (Opened, error)

	mu    sync.Mutex
	byKey map[originKey]*entry
	order []originKey // oldest use first
	runs  map[sdk.ID]originKey
}

type entry struct {
	opened Opened
	once   sync.Once
	err    error
}

var _ control.Providers = (*origins)(nil)

func newOrigins(open func(ctx context.Context, o Origin) (Opened, error)) *origins {
	return &origins{open: open, byKey: map[originKey]*entry{}, runs: map[sdk.ID]originKey{}}
}

// add opens an origin once and marks it as the newest.
func (s *origins) add(ctx context.Context, o Origin) (originKey, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return originKey{}, err
	}
	key := originKey(sha256.Sum256(b))
	s.mu.Lock()
	e := s.byKey[key]
	if e == nil {
		e = &entry{}
		s.byKey[key] = e
	}
	s.touch(key)
	s.mu.Unlock()
	e.once.Do(func() { e.opened, e.err = s.open(context.WithoutCancel(ctx), o) })
	if e.err != nil {
		s.mu.Lock()
		if s.byKey[key] == e {
			delete(s.byKey, key)
			s.forget(key)
		}
		s.mu.Unlock()
		return key, e.err
	}
	return key, nil
}

func (s *origins) touch(key originKey) {
	s.forget(key)
	s.order = append(s.order, key)
}

func (s *origins) forget(key originKey) {
	for i, k := range s.order {
		if k == key {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

// bind notes which origin a run came from.
func (s *origins) bind(run sdk.ID, key originKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[run] = key
}

// spareOrigins is how many surroundings that drive nothing stay open.
const spareOrigins = 4

// prune closes the surroundings of runs that are over, oldest first.
func (s *origins) prune(held []sdk.ID) error {
	s.mu.Lock()
	used := map[originKey]bool{}
	live := map[sdk.ID]originKey{}
	for _, id := range held {
		if k, ok := s.runs[id]; ok {
			used[k], live[id] = true, k
		}
	}
	s.runs = live
	var gone []*entry
	for i := 0; i < len(s.order)-spareOrigins; {
		k := s.order[i]
		if used[k] {
			i++
			continue
		}
		gone = append(gone, s.byKey[k])
		delete(s.byKey, k)
		s.order = append(s.order[:i], s.order[i+1:]...)
	}
	s.mu.Unlock()
	var errs []error
	for _, e := range gone {
		if e != nil && e.opened != nil {
			errs = append(errs, e.opened.Close())
		}
	}
	return errors.Join(errs...)
}

// candidates are the opened origins for a run, best first.
func (s *origins) candidates(run sdk.ID) []Opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Opened
	own, bound := s.runs[run]
	if e := s.byKey[own]; bound && e != nil && e.opened != nil {
		out = append(out, e.opened)
	}
	for i := len(s.order) - 1; i >= 0; i-- {
		if e := s.byKey[s.order[i]]; e != nil && e.opened != nil && (!bound || s.order[i] != own) {
			out = append(out, e.opened)
		}
	}
	return out
}

// Backend opens a provider of the newest origin that has it.
func (s *origins) Backend(ctx context.Context, name string) (control.Backend, error) {
	return s.first(s.candidates(sdk.ID{}), func(o Opened) (control.Backend, error) { return o.Backend(ctx, name) })
}

// BackendFor opens the provider of a run.
func (s *origins) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	return s.first(s.candidates(run.ID), func(o Opened) (control.Backend, error) { return o.BackendFor(ctx, run) })
}

func (s *origins) first(from []Opened, get func(Opened) (control.Backend, error)) (control.Backend, error) {
	var errs []error
	for _, o := range from {
		b, err := get(o)
		if err == nil {
			return b, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return control.Backend{}, sdk.Errorf(sdk.Unauthenticated, "open provider", "no command has handed its surroundings over yet")
	}
	return control.Backend{}, errs[0]
}

// Names lists the providers of all origins.
func (s *origins) Names() []string {
	seen := map[string]bool{}
	for _, o := range s.candidates(sdk.ID{}) {
		for _, n := range o.Names() {
			seen[n] = true
		}
	}
	out := make([]string, 0, len(seen))
	for n := range seen {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

func (s *origins) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, e := range s.byKey {
		if e.opened != nil {
			errs = append(errs, e.opened.Close())
		}
	}
	return errors.Join(errs...)
}
