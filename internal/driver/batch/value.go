package batch

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// optional returns a pointer to what is set, and nil for what isn't.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// at is a time of AWS Batch's, in milliseconds; zero and absent are unknown.
func at(millis *int64) time.Time {
	if millis == nil || *millis <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(*millis).UTC()
}
