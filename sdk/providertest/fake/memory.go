package fake

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const shards = 64

// memory is the store of one process.
type memory struct {
	clock sdk.Clock
	seed  maphash.Seed
	shard [shards]memoryShard
	calls map[Op]*atomic.Int64

	mu     sync.Mutex
	kept   map[string]int
	claims map[string]bool
	log    []Body
	things map[string]*resource

	workloadMap map[sdk.WorkloadPath]*deployment
}

// memoryShard holds jobs by ID, and the index entries whose keys hash here.
type memoryShard struct {
	mu       sync.Mutex
	jobs     map[string]*view
	attempts map[sdk.ID][]string
	runs     map[sdk.ID][]string
	counts   map[sdk.ID]int
}

var _ store = (*memory)(nil)

func newMemory(clock sdk.Clock) *memory {
	m := &memory{clock: clock, seed: maphash.MakeSeed(), calls: map[Op]*atomic.Int64{}, kept: map[string]int{}, claims: map[string]bool{}, things: map[string]*resource{},
		workloadMap: map[sdk.WorkloadPath]*deployment{}}
	for i := range m.shard {
		m.shard[i] = memoryShard{jobs: map[string]*view{}, attempts: map[sdk.ID][]string{}, runs: map[sdk.ID][]string{}, counts: map[sdk.ID]int{}}
	}
	for _, op := range Ops() {
		m.calls[op] = &atomic.Int64{}
	}
	return m
}

func (m *memory) byName(id string) *memoryShard {
	return &m.shard[maphash.String(m.seed, id)%shards]
}

func (m *memory) byID(id sdk.ID) *memoryShard {
	return &m.shard[maphash.Bytes(m.seed, id[:])%shards]
}

func (m *memory) create(rec *record) (bool, error) {
	s := m.byName(rec.ID)
	s.mu.Lock()
	if _, ok := s.jobs[rec.ID]; ok {
		s.mu.Unlock()
		return false, nil
	}
	s.jobs[rec.ID] = newView(rec, nil, nil, rec.Expires)
	s.mu.Unlock()

	a := m.byID(rec.AttemptID)
	a.mu.Lock()
	a.attempts[rec.AttemptID] = append(a.attempts[rec.AttemptID], rec.ID)
	a.counts[rec.AttemptID]++
	a.mu.Unlock()

	r := m.byID(rec.RunID)
	r.mu.Lock()
	r.runs[rec.RunID] = append(r.runs[rec.RunID], rec.ID)
	r.mu.Unlock()
	return true, nil
}

func (m *memory) load(id string) (*view, error) {
	s := m.byName(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id], nil
}

// change replaces a job's view, if the job is there.
func (m *memory) change(id string, f func(v *view) *view) error {
	s := m.byName(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.jobs[id]; ok {
		s.jobs[id] = f(v)
	}
	return nil
}

func (m *memory) cancel(id string, f cancelFact) error {
	return m.change(id, func(v *view) *view {
		f.At = m.clock.Now()
		if v.cancel != nil {
			f = v.cancel.sooner(f)
			if f == *v.cancel {
				return v
			}
		}
		return newView(v.rec, &f, v.stdin, v.expires)
	})
}

func (m *memory) endStdin(id string, f stdinFact) error {
	return m.change(id, func(v *view) *view {
		if v.stdin != nil {
			return v
		}
		f.At = m.clock.Now()
		return newView(v.rec, v.cancel, &f, v.expires)
	})
}

func (m *memory) expire(id string, at time.Time) error {
	return m.change(id, func(v *view) *view {
		c := *v
		c.expires = at
		return &c
	})
}

func (m *memory) remove(id string) (bool, error) {
	s := m.byName(id)
	s.mu.Lock()
	v, ok := s.jobs[id]
	delete(s.jobs, id)
	s.mu.Unlock()
	if !ok {
		return false, nil
	}
	drop := func(index map[sdk.ID][]string, key sdk.ID) {
		rest := slices.DeleteFunc(index[key], func(x string) bool { return x == id })
		if len(rest) == 0 {
			delete(index, key)
		} else {
			index[key] = rest
		}
	}
	a := m.byID(v.rec.AttemptID)
	a.mu.Lock()
	drop(a.attempts, v.rec.AttemptID)
	a.mu.Unlock()
	r := m.byID(v.rec.RunID)
	r.mu.Lock()
	drop(r.runs, v.rec.RunID)
	r.mu.Unlock()
	return true, nil
}

func (m *memory) views(ids []string) []*view {
	slices.Sort(ids)
	var out []*view
	for _, id := range ids {
		if v, _ := m.load(id); v != nil {
			out = append(out, v)
		}
	}
	return out
}

func (m *memory) ofAttempt(attempt sdk.ID) ([]*view, error) {
	s := m.byID(attempt)
	s.mu.Lock()
	ids := slices.Clone(s.attempts[attempt])
	s.mu.Unlock()
	return m.views(ids), nil
}

func (m *memory) ofRun(run sdk.ID) ([]*view, error) {
	s := m.byID(run)
	s.mu.Lock()
	ids := slices.Clone(s.runs[run])
	s.mu.Unlock()
	return m.views(ids), nil
}

func (m *memory) all() ([]*view, error) {
	var out []*view
	for i := range m.shard {
		s := &m.shard[i]
		s.mu.Lock()
		for _, v := range s.jobs {
			out = append(out, v)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b *view) int { return strings.Compare(a.rec.ID, b.rec.ID) })
	return out, nil
}

func (m *memory) made(attempt sdk.ID) (int, error) {
	s := m.byID(attempt)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[attempt], nil
}

func (m *memory) marks(key string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[key], nil
}

func (m *memory) keepMarks(keys []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		m.kept[k]++
	}
	return nil
}

func (m *memory) count(op Op) (int64, error) { return m.calls[op].Add(1), nil }

func (m *memory) counted(op Op) (int64, error) { return m.calls[op].Load(), nil }

func (m *memory) claim(name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claims[name] {
		return false, nil
	}
	m.claims[name] = true
	return true, nil
}

func (m *memory) keepBody(b Body) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, b)
	return nil
}

func (m *memory) bodies() ([]Body, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log), nil
}

func (m *memory) blocked(Op) bool { return false }

func (m *memory) poll() bool { return false }
