package drivertest

import (
	"github.com/windlass-run/windlass/sdk"
)

// Unrunnable checks that a command that isn't there, and one that can't be run, end
// as such: that is what `run` makes 127 and 126 of, whatever code the platform gives
// it.
func (w *World[P]) Unrunnable(p P) {
	t := w.T
	t.Helper()
	for command, want := range map[string]string{"no-such-program": sdk.ExecNotFound, "/no/such/path": sdk.ExecNotFound, "/etc/passwd": sdk.ExecNotExecutable} {
		spec := Shell("")
		spec.Args = sdk.Argv{command}
		st := w.Ended(p, w.Run(p, w.Plan(p, spec)))
		if st.State != sdk.StateFailed || st.Reason != sdk.ReasonInvalidSpec || st.Raw[sdk.RawExec] != want || st.Message == "" {
			t.Errorf("%s: got %s (%s), exec %q, want %q: %s", command, st.State, st.Reason, st.Raw[sdk.RawExec], want, st.Message)
		}
	}
}
