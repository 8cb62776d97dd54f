package sdk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// declared returns the values of this package's constants of a type.
func declared(t *testing.T, file, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == typ {
			for _, x := range v.Values {
				s, err := strconv.Unquote(x.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
			}
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("%s declares no %s", file, typ)
	}
	slices.Sort(out)
	return out
}

func texts[T ~string](list []T) []string {
	var out []string
	for _, x := range list {
		out = append(out, string(x))
	}
	slices.Sort(out)
	return out
}

// TestTablesAreWhole holds the tables against the constants.
func TestTablesAreWhole(t *testing.T) {
	if got, want := texts(sdk.JobStates()), declared(t, "state.go", "JobState"); !slices.Equal(got, want) {
		t.Errorf("JobStates is %q, declared are %q", got, want)
	}
	var reasons []sdk.Reason
	for _, r := range sdk.ReasonRules() {
		reasons = append(reasons, r.Reason)
	}
	if got, want := texts(reasons), declared(t, "state.go", "Reason"); !slices.Equal(got, want) {
		t.Errorf("ReasonRules has %q, declared are %q", got, want)
	}
	if got, want := texts(sdk.Verdicts()), declared(t, "log.go", "Verdict"); !slices.Equal(got, want) {
		t.Errorf("Verdicts is %q, declared are %q", got, want)
	}
}

func TestReasonsTimesStates(t *testing.T) {
	for _, st := range sdk.JobStates() {
		if !st.Valid() {
			t.Errorf("%s is not valid", st)
		}
		some := false
		for _, rule := range sdk.ReasonRules() {
			legal := sdk.LegalReason(st, rule.Reason)
			if legal != slices.Contains(rule.States, st) {
				t.Errorf("%s: %s: legal is %t", st, rule.Reason, legal)
			}
			some = some || legal
		}
		if !some && st != sdk.StateRunning {
			t.Errorf("no reason may stand beside %s", st)
		}
		if got, want := sdk.LegalReason(st, ""), st == sdk.StatePending || st == sdk.StateRunning; got != want {
			t.Errorf("%s without a reason: legal is %t", st, got)
		}
		if sdk.LegalReason(st, "no_such_reason") {
			t.Errorf("%s: a reason that doesn't exist is legal", st)
		}
	}
	if sdk.LegalReason("no_such_state", sdk.ReasonUnknown) || sdk.JobState("x").Valid() || sdk.JobState("").Valid() || sdk.JobState("x").Terminal() {
		t.Error("a state that doesn't exist is legal")
	}
	for _, rule := range sdk.ReasonRules() {
		if rule.Doc == "" || !strings.HasSuffix(rule.Doc, ".") || len(rule.States) == 0 {
			t.Errorf("%s has no sentence or no state", rule.Reason)
		}
		if rule.Retry && !slices.Contains(rule.States, sdk.StateFailed) {
			t.Errorf("%s is tried again and never a failure", rule.Reason)
		}
		if got, ok := rule.Reason.Rule(); !ok || got.Doc != rule.Doc {
			t.Errorf("%s has another rule", rule.Reason)
		}
	}
	if _, ok := sdk.Reason("x").Rule(); ok {
		t.Error("a reason that doesn't exist has a rule")
	}
}

// TestRetriedReasons: what is tried again is a promise, in DESIGN and in the
// documents; nothing else is.
func TestRetriedReasons(t *testing.T) {
	var got []sdk.Reason
	for _, r := range sdk.ReasonRules() {
		if r.Retry {
			got = append(got, r.Reason)
		}
	}
	want := []sdk.Reason{sdk.ReasonNonzeroExit, sdk.ReasonSignaled, sdk.ReasonOOMKilled, sdk.ReasonPreempted, sdk.ReasonEvicted, sdk.ReasonNodeLost,
		sdk.ReasonInfrastructure, sdk.ReasonFailedToStart, sdk.ReasonStartTimeout}
	if !slices.Equal(texts(got), texts(want)) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTerminalStates(t *testing.T) {
	terminal := []sdk.JobState{sdk.StateSucceeded, sdk.StateFailed, sdk.StateCancelled, sdk.StateLost}
	for _, st := range sdk.JobStates() {
		if st.Terminal() != slices.Contains(terminal, st) {
			t.Errorf("%s: terminal is %t", st, st.Terminal())
		}
	}
}

func TestWorseVerdict(t *testing.T) {
	all := sdk.Verdicts()
	for i, a := range all {
		for j, b := range all {
			if got := a.Worse(b); got != all[max(i, j)] {
				t.Errorf("%s and %s: got %s", a, b, got)
			}
		}
		if a.Worse("") != a || sdk.Verdict("").Worse(a) != a {
			t.Errorf("%s and nothing is not %s", a, a)
		}
	}
}
