//go:build !linux && !darwin

package sqlite

import "math"

// networkFS can't tell here.
func networkFS(string) (string, error) { return "", nil }

// freeBytes can't tell here.
func freeBytes(string) (int64, error) { return math.MaxInt64, nil }

// syncDir has nothing to do where a directory can't be synced.
func syncDir(string) error { return nil }

// writable leaves it to the first write to find out.
func writable(string) error { return nil }
