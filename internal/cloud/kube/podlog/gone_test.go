package podlog

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// sights are looks one behind the other, the last one for ever, at containers without a
// line.
type sights struct {
	all  []Sight
	seen int
}

func (s *sights) Look(context.Context) (Sight, error) {
	i := min(s.seen, len(s.all)-1)
	s.seen++
	return s.all[i], nil
}

func (*sights) Open(context.Context, Container, time.Time, bool) (io.ReadCloser, error) {
	return nil, sdk.Errorf(sdk.NotFound, "open", "no log yet")
}

// TestGoneBeforeItStarted: a pod that is deleted leaves a gap, unless it was seen to
// wait and nothing tells that it has run since.
func TestGoneBeforeItStarted(t *testing.T) {
	waits := Sight{Containers: []Container{{UID: "u", Pod: "p"}}}
	runs := Sight{Containers: []Container{{UID: "u", Pod: "p", Started: true}}}
	for _, x := range []struct {
		what    string
		looks   []Sight
		verdict sdk.Verdict
		gaps    int
	}{
		{"nothing tells of a start", []Sight{waits, {Over: true, Untold: true}}, sdk.VerdictQuiet, 0},
		{"it never started", []Sight{waits, {Over: true, Silent: true}}, sdk.VerdictComplete, 0},
		{"something tells of a start", []Sight{waits, {Over: true}}, sdk.VerdictGap, 1},
		{"it was seen to run", []Sight{waits, runs, {Over: true, Untold: true}}, sdk.VerdictGap, 1},
		{"nobody saw it wait", []Sight{{Over: true, Untold: true}}, sdk.VerdictUnavailable, 1},
		{"another may follow", []Sight{waits, {Untold: true}, {Over: true, Untold: true}}, sdk.VerdictUnavailable, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var verdicts []sdk.Verdict
			gaps := 0
			for it, err := range (Reader{Kind: "k", Op: "read", Source: &sights{all: x.looks}, Stall: time.Second}).Read(t.Context(), nil, true) {
				switch {
				case err != nil:
					t.Fatal(err)
				case it.Gap != nil:
					gaps++
				case it.End != nil:
					verdicts = append(verdicts, it.End.Verdict)
				}
			}
			if !slices.Equal(verdicts, []sdk.Verdict{x.verdict}) || gaps != x.gaps {
				t.Errorf("%s: %v, %d gaps", x.what, verdicts, gaps)
			}
		})
	}
}
