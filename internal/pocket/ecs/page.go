package ecs

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// maxDescribe is the bound of a page, and of how many things one call may name.
const maxDescribe = 100

// page cuts one page out of a listing in a stable order. The lock is held.
func (s *Service) page(all []string, after *string, limit *int32) (page []string, next *string, err error) {
	n := maxDescribe
	if limit != nil {
		if *limit < 1 || *limit > maxDescribe {
			return nil, nil, refuse(ruleMaxResults, "maxResults must be between 1 and %d", maxDescribe)
		}
		n = int(*limit)
	}
	if s.knobs.PageSize > 0 {
		n = min(n, s.knobs.PageSize)
	}
	page, next, ok := awsjson.Page(all, after, n)
	if !ok {
		return nil, nil, refuse(ruleNextToken, "Invalid token")
	}
	return page, next, nil
}
