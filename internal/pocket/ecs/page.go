package ecs

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// maxDescribe is the bound of a page, and of how many things one call may name.
const maxDescribe = 100

// page cuts one page out of a listing in a stable order. A token names the last
// entry of the page before it, so entries that go away meanwhile do no harm.
// The lock is held.
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
	if after != nil {
		at, last, ok := openToken(*after)
		if !ok {
			return nil, nil, refuse(ruleNextToken, "Invalid token")
		}
		for i, name := range all {
			if name == last {
				at = i + 1
				break
			}
		}
		all = all[min(at, len(all)):]
		if len(all) > n {
			next = sealToken(at+n, all[n-1])
		}
	} else if len(all) > n {
		next = sealToken(n, all[n-1])
	}
	if len(all) > n {
		all = all[:n]
	}
	return append([]string{}, all...), next, nil
}

func sealToken(at int, last string) *string {
	token := base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(at) + " " + last))
	return &token
}

func openToken(token string) (at int, last string, ok bool) {
	data, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return 0, "", false
	}
	number, last, ok := strings.Cut(string(data), " ")
	at, err = strconv.Atoi(number)
	return at, last, ok && err == nil && at > 0
}
