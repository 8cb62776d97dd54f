package kube

import "net/url"

// pageSize is how many objects one call of a list returns.
const pageSize = "500"

// maxRestarts bounds how often a list is begun again.
const maxRestarts = 5

// List reads all pages of a list by get, and of gives a page's items and the place
// of the next. Where its place is forgotten in between it begins again.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
func List[L, T any](selector string, get func(query url.Values, page *L) error, of func(*L) ([]T, string)) ([]T, error) {
	var out []T
	query := url.Values{"labelSelector": {selector}, "limit": {pageSize}}
	for restarts := 0; ; {
		page := new(L)
		err := get(query, page)
		if Expired(err) && restarts < maxRestarts {
			restarts, out = restarts+1, nil
			query.Del("continue")
			continue
		}
		if err != nil {
			return nil, err
		}
		items, next := of(page)
		out = append(out, items...)
		if next == "" {
			return out, nil
		}
		query.Set("continue", next)
	}
}
