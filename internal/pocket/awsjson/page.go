package awsjson

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Page cuts one page of at most n entries out of a listing in a stable order. A
// token names the last entry of the page before it, so entries that go away
// meanwhile do no harm. ok is false for what is no token.
func Page(all []string, after *string, n int) (page []string, next *string, ok bool) {
	from := 0
	if after != nil {
		at, last, ok := openToken(*after)
		if !ok {
			return nil, nil, false
		}
		from = at
		if i := slices.Index(all, last); i >= 0 {
			from = i + 1
		}
	}
	from = min(from, len(all))
	to := min(from+n, len(all))
	if to < len(all) {
		token := base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(to) + " " + all[to-1]))
		next = &token
	}
	return append([]string{}, all[from:to]...), next, true
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
