package ecs

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// What a container on an instance gets that says no memory: ECS wants some.
	defaultInstanceMemory = 512
	// The least memory of a container.
	minInstanceMemory = 6
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

func positive(n int32) *int32 {
	if n <= 0 {
		return nil
	}
	return &n
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
