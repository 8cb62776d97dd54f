package docker

import (
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func TestRun(t *testing.T) {
	b := realEngine(t)
	h := b.run(t, sh(`echo hello; echo oops >&2; exit 3`))
	o := b.logs(t, h, true, nil)
	if o.out != "hello\n" || o.err != "oops\n" || o.verdict != sdk.VerdictComplete {
		t.Errorf("got %+v", o)
	}
	st := b.ended(t, h)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonNonzeroExit || st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("got %+v", st)
	}
	t.Logf("%+v", st)
	res, err := b.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
	t.Log(res, err)
}
