//go:build race && !failpoint

package failpoint

// raceEnviron has the race detector end a child at once: without it each
// sleeps for a second first, and a job's supervisor has no variables otherwise.
func raceEnviron() []string { return []string{"GORACE=atexit_sleep_ms=20"} }
