//go:build linux

package main

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestRelativeFolder: where the plugin stands, which an install replaces, is no place for jobs.
func TestRelativeFolder(t *testing.T) {
	state, elsewhere := t.TempDir(), t.TempDir()
	for dir, want := range map[string]string{"": filepath.Join(state, "jobs"), "kept": filepath.Join(state, "kept"), elsewhere: elsewhere} {
		r := sdk.OpenRequest{Name: "here", StateDir: state}
		if dir != "" {
			r.Config = json.RawMessage(strconv.AppendQuote([]byte(`{"dir":`), dir))
			r.Config = append(r.Config, '}')
		}
		p, err := driver().Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Info().Identity.Endpoint; got != want {
			t.Errorf("dir %q is %s, not %s", dir, got, want)
		}
	}
}

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
