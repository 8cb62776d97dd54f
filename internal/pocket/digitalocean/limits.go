package digitalocean

import (
	"net/http"
	"strconv"
	"time"
)

// Limits are how many calls a token may make, 0 for any number.
type Limits struct {
	PerHour, PerMinute int
}

// APILimits are the documented ones, for each token:
// https://docs.digitalocean.com/reference/api/intro/
func APILimits() Limits { return Limits{PerHour: 5000, PerMinute: 250} }

// SetLimits puts limits in force, none at first, and forgets what was called.
func (s *Server) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.spent = l, map[string][]time.Time{}
}

// take counts a call, and refuses one that is beyond a limit. It sets the
// headers that tell what is left. The lock is held.
func (s *Server) take(token string, now time.Time, h http.Header) *Error {
	limit, left, reset := APILimits().PerHour, APILimits().PerHour-1, now.Add(time.Hour)
	var refused *Error
	if s.limits != (Limits{}) {
		calls := s.spent[token]
		for len(calls) > 0 && !calls[0].After(now.Add(-time.Hour)) {
			calls = calls[1:]
		}
		minute := 0
		for i := len(calls) - 1; i >= 0 && calls[i].After(now.Add(-time.Minute)); i-- {
			minute++
		}
		switch {
		case s.limits.PerHour > 0 && len(calls) >= s.limits.PerHour:
			refused = refuse(ruleRateHour, "API Rate limit exceeded.")
		case s.limits.PerMinute > 0 && minute >= s.limits.PerMinute:
			refused = refuse(ruleRateMinute, "API Rate limit exceeded.")
			wait := calls[len(calls)-s.limits.PerMinute].Add(time.Minute).Sub(now)
			h.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		default:
			calls = append(calls, now)
		}
		s.spent[token] = calls
		if s.limits.PerHour > 0 {
			limit, left = s.limits.PerHour, max(0, s.limits.PerHour-len(calls))
		}
		if len(calls) > 0 {
			reset = calls[0].Add(time.Hour)
		}
	}
	h.Set("Ratelimit-Limit", strconv.Itoa(limit))
	h.Set("Ratelimit-Remaining", strconv.Itoa(left))
	h.Set("Ratelimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	return refused
}
