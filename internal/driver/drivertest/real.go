package drivertest

import (
	"slices"
	"testing"

	"github.com/windlass-run/windlass/sdk/providertest"
)

// oursAlone are the checks of the suite in which a real backend has no say, by the
// reason. The driver's fake has them all. What isn't named here runs on the real thing,
// a new check too.
func oursAlone() map[string][]string {
	return map[string][]string{
		"decided before anything is sent": {"info", "image", "config-unknown-member", "options-unknown-member", "nul-refused", "problems-at-once", "support-table",
			"unset-or-set", "prepare-deterministic", "prepare-changes-nothing", "newer-version", "foreign-identity", "batch-limits", "context-ended", "handle-round-trip",
			"secret-visible", "secret-missing", "argv-bytes", "files", "user"},
		"a fault that is made before the backend":              {"context-blocked", "throttled", "lost-request", "find-hidden"},
		"the reader's own doing":                               {"log-break", "log-looks", "owned-break", "run-returns", "fresh-process", "status-no-side-effects", "exit-code-evidence"},
		"said by a selector or a name that other checks prove": {"cancel-one", "cleanup-one", "cleanup-running"},
		"waived": {"log-apart", "log-bytes"},
	}
}

// RealShards are the checks of the suite that a real backend can prove and a fake
// can't, in so many parts, to run at once. Without are further ones to leave out: those
// that the driver's own tests of the real backend make too. An unknown name fails t.
func RealShards(t testing.TB, shards int, without ...string) [][]string {
	t.Helper()
	for _, names := range oursAlone() {
		without = append(without, names...)
	}
	parts := make([][]string, shards)
	n := 0
	for _, c := range providertest.Checks() {
		if i := slices.Index(without, c.Name); i >= 0 {
			without = slices.Delete(without, i, i+1)
			continue
		}
		parts[n%shards] = append(parts[n%shards], c.Name)
		n++
	}
	if len(without) > 0 {
		t.Fatalf("checks that the suite doesn't have, or that are left out twice: %q", without)
	}
	return parts
}
