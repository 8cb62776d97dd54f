package gcp

import (
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// Limit is a quota of calls. Google counts them by the minute, for a project,
// and for Cloud Run a location: https://cloud.google.com/run/quotas
type Limit struct {
	// Name is what a refusal calls it.
	Name string
	// Actions are patterns of path.Match over names like "run:RunJob". The calls
	// of all of them are counted together.
	Actions []string
	// PerMinute is how many are carried out.
	PerMinute int
}

// limits count the calls of each quota in force, none at first.
type limits struct {
	mu     sync.Mutex
	list   []Limit
	minute time.Time
	counts []int
}

// SetLimits puts quotas in force, in place of all before. That of entries.list
// is one of Logging's knobs.
func (s *Server) SetLimits(list ...Limit) {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	s.limits.list, s.limits.counts = slices.Clone(list), make([]int, len(list))
}

// take counts a call, and refuses it beyond a quota.
func (l *limits) take(action, number string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(l.minute) {
		l.minute = minute
		clear(l.counts)
	}
	for i, limit := range l.list {
		if !slices.ContainsFunc(limit.Actions, func(pattern string) bool { ok, err := path.Match(pattern, action); return ok && err == nil }) {
			continue
		}
		if l.counts[i] >= limit.PerMinute {
			rules := gapi.Table{{ID: "quota", Code: codes.ResourceExhausted}}
			return rules.QuotaExceeded("quota", limit.Name, limit.Name+" per minute", "run.googleapis.com", "project_number:"+number)
		}
		l.counts[i]++
	}
	return nil
}
