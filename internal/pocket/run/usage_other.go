//go:build !linux

package run

// groupUsage can't be had here.
func groupUsage(int) (Usage, bool) { return Usage{}, false }
