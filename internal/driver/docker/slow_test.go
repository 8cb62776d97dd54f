//go:build linux

package docker

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testneed/dockerd"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// The tests of this file belong to the slow group: they start engines of their
// own, to be able to stop them.

// An engine that is restarted in the middle of a run ends the job; the run's end
// says what happened, its log is whole, and nobody took the outage for an end.
func TestSlowEngineRestarted(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			e := dockerd.Start(t)
			b := openTest(t, e.Host)
			spec := sh(`i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.1; done`)
			spec.Network = networkNone
			h := b.run(t, spec)
			over := b.run(t, sdk.JobSpec{Image: testneed.Image, Network: networkNone, Args: sdk.Argv{"sh", "-c", "echo done; exit 3"}})
			b.ended(t, over)
			testwait.Until(t, patience, "output", func() bool { return len(b.logs(t, h, false, nil).out) > 30 })
			followed := make(chan output, 1)
			go func() {
				o, err := b.readLogs(t.Context(), h, true, nil)
				if err != nil {
					t.Error(err)
				}
				followed <- o
			}()
			e.Stop(signal)
			if _, err := b.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); !sdk.IsRetryable(err) || sdk.IsClear(err) {
				t.Errorf("status without an engine: %v", err)
			}
			e.Start()
			st := b.ended(t, h)
			if st.State != sdk.StateFailed || *st.ExitCode != killedCode {
				t.Errorf("got %+v", st)
			}
			// An engine that shuts down answers to the last, so that only its
			// sudden death is seen as what ended the job.
			if signal == syscall.SIGKILL && (st.Reason != sdk.ReasonInfrastructure || st.Message == "") {
				t.Errorf("got %+v", st)
			}
			o := testwait.Receive(t, patience, "end of the log", followed)
			lines := strings.Split(strings.TrimSuffix(o.out, "\n"), "\n")
			for i, l := range lines {
				if want := fmt.Sprintf("line %d", i); l != want {
					t.Fatalf("line %d is %q", i, l)
				}
			}
			if o.verdict != sdk.VerdictComplete || o.gaps != 0 {
				t.Errorf("%d lines, %d gaps, %s", len(lines), o.gaps, o.verdict)
			}
			// What had ended before is as it was.
			if st := b.ended(t, over); st.Reason != sdk.ReasonNonzeroExit || *st.ExitCode != 3 {
				t.Errorf("a job that had ended: %+v", st)
			}
			if o := b.logs(t, over, true, nil); o.out != "done\n" || o.verdict != sdk.VerdictComplete {
				t.Errorf("its log: %+v", o)
			}
			b.clean(t, h)
			b.clean(t, over)
		})
	}
}

// A start whose engine dies under it is cleared up once the engine is back.
func TestSlowEngineDiesAtTheStart(t *testing.T) {
	e := dockerd.Start(t)
	b := openTest(t, e.Host, func(r *sdk.OpenRequest) { r.CallTimeout = 5 * time.Second })
	spec := sh(`echo once; exit 5`)
	spec.Network = networkNone
	l := b.prepare(t, spec)
	e.Signal(syscall.SIGSTOP)
	if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
		t.Errorf("run on an engine that hangs: %v", err)
	}
	e.Signal(syscall.SIGCONT)
	h := b.send(t, l)
	if st := b.ended(t, h); *st.ExitCode != 5 {
		t.Errorf("got %+v", st)
	}
	if o := b.logs(t, h, true, nil); o.out != "once\n" {
		t.Errorf("got %+v", o)
	}
	found, err := b.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: l.RunID})
	if err != nil || len(found.Jobs) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	b.clean(t, h)
}
