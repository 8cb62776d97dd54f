package gapi

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"

	"google.golang.org/grpc/codes"
)

// token is where a listing goes on. The real ones are opaque as well.
type token struct {
	// Query is a hash of the parameters that the listing was made with.
	Query uint64 `json:"q"`
	// After is the key of the last item of the page before.
	After string `json:"a"`
}

// Page cuts a page out of items, which are sorted by key in rising order, keys
// being unique. Query holds all parameters that must be the same from page to
// page: https://google.aip.dev/158
func Page[T any](items []T, key func(T) string, size int, pageToken string, query ...string) (page []T, next string, err error) {
	sum := hash(query)
	start := 0
	if pageToken != "" {
		after, err := ReadToken(pageToken, sum)
		if err != nil {
			return nil, "", err
		}
		for start < len(items) && key(items[start]) <= after {
			start++
		}
	}
	end := min(start+size, len(items))
	page = items[start:end]
	if end < len(items) {
		next = MakeToken(key(items[end-1]), sum)
	}
	return page, next, nil
}

// MakeToken makes the token of the page behind a key.
func MakeToken(after string, query uint64) string {
	data, err := json.Marshal(token{Query: query, After: after})
	if err != nil {
		panic("gapi: page token: " + err.Error()) // a number and a string
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// ReadToken returns the key in a token, which must be of the same query.
func ReadToken(text string, query uint64) (after string, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", Errorf(codes.InvalidArgument, "page_token is invalid.")
	}
	var t token
	if err := json.Unmarshal(data, &t); err != nil {
		return "", Errorf(codes.InvalidArgument, "page_token is invalid.")
	}
	if t.Query != query {
		return "", Errorf(codes.InvalidArgument, "page_token doesn't match the arguments from the request.")
	}
	return t.After, nil
}

// Query hashes the parameters of a listing.
func Query(parameters ...string) uint64 { return hash(parameters) }

func hash(parts []string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // it never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
