package drivertest

import (
	"slices"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// OneRound checks that exactly these fields of a spec are refused, all at once:
// what is wrong with one hides nothing that is wrong with another. The values of
// numbers are those that the spec holds.
func OneRound(t testing.TB, p sdk.JobRunner, spec sdk.JobSpec, fields ...string) {
	t.Helper()
	l := Launch(t, p, spec)
	var got []string
	for _, problem := range l.Problems {
		got = append(got, problem.Field)
		if v := spec.Value(problem.Field); v != problem.Value && v != "" {
			t.Errorf("%s: the value is %q, want %q", problem.Field, problem.Value, v)
		}
	}
	slices.Sort(got)
	slices.Sort(fields)
	if !slices.Equal(got, fields) {
		t.Errorf("refused are %q, want %q: %s", got, fields, sdk.JoinProblems(l.Problems))
	}
}

// Refusable sets all fields that some cloud refuses, to values that the others take.
func Refusable(s sdk.JobSpec) sdk.JobSpec {
	grace := 5 * time.Second
	s.Workdir, s.User, s.GPU, s.EphemeralStorage, s.PIDs, s.Network, s.Grace = "/srv", "1000", 1, 3<<29, 100, "private", &grace
	s.Mounts = []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/scratch"}}
	s.Files = []sdk.InputFile{{Path: "/etc/a"}, {Path: "/etc/b"}}
	s.Stdin, s.Profile = sdk.StdinSpooled, sdk.ProfileStrict
	return s
}
