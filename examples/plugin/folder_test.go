//go:build linux

package main

import (
	"path/filepath"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestOwnFolder: a job that is told no working directory runs in a folder of its own,
// never in the plugin's, whose files it could write over.
func TestOwnFolder(t *testing.T) {
	state := t.TempDir()
	p, err := driver().Open(t.Context(), sdk.OpenRequest{Name: "here", Owner: "test", LedgerID: "ledger", StateDir: state, Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock())})
	if err != nil {
		t.Fatal(err)
	}
	runner, _ := sdk.Of(p, sdk.Runner())
	ids := sdk.NewIDSource(sdk.SystemClock())
	attempt := ids.NewID()
	l, err := runner.PrepareJob(t.Context(), sdk.PrepareJobRequest{RunID: ids.NewID(), AttemptID: attempt, Attempt: 1, Spec: sdk.JobSpec{V: sdk.SpecVersion, Args: sdk.Argv{"pwd"}}})
	if err != nil || len(l.Problems) > 0 {
		t.Fatal(err, l.Problems)
	}
	job, err := runner.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		t.Fatal(err)
	}
	logger, _ := sdk.Of(p, sdk.Logger())
	out := ""
	for item, err := range logger.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: job.Handle, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Entry != nil {
			out += string(item.Entry.Data)
		}
	}
	if want := filepath.Join(state, "jobs", attempt.String(), "work") + "\n"; out != want {
		t.Errorf("it ran in %q, not in %q", out, want)
	}
}
