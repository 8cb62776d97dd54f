//go:build !unix

package joblog

// openLimit is how many files the process may have open: here memory is the bound.
func openLimit() int { return 4 * DefaultMaxOpen }
