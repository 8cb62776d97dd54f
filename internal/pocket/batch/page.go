package batch

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The bounds of pages: of descriptions and of lists by filter, and of lists by
// status. https://docs.aws.amazon.com/batch/latest/APIReference/API_ListJobs.html
const (
	maxPage   = 100
	maxListed = 1000
)

// page cuts one page out of a listing in a stable order. The lock is held.
func (s *Service) page(all []string, after *string, limit *int32, most int) (page []string, next *string, err error) {
	n := most
	if limit != nil {
		if *limit < 1 {
			return nil, nil, refuse(ruleMaxResults, "maxResults must be at least 1.")
		}
		n = min(n, int(*limit))
	}
	if s.knobs.PageSize > 0 {
		n = min(n, s.knobs.PageSize)
	}
	page, next, ok := awsjson.Page(all, after, n)
	if !ok {
		return nil, nil, refuse(ruleNextToken, "Invalid nextToken.")
	}
	return page, next, nil
}
