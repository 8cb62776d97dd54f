package gcp

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// clients is the folder in which scripts/setup-test installs Google's clients
// for Node.js.
func clients(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	folder := filepath.Join(cache, "windlass", "npm", "gcp")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "@google-cloud", "run", "package.json")); err != nil {
		testneed.Missing(t, "Google's clients for Node.js", err, "run scripts/setup-test")
	}
	return folder
}

// seen is what testdata/npm/client.mjs prints.
type seen struct {
	Job struct {
		Name    string
		State   any // a name, or a number
		Retries int
	}
	Started    string
	Failure    problemSeen
	Executions []struct {
		Failed, Tasks int
		Reason        any
	}
	Tasks     []struct{ Exit, Code int }
	Cancelled int
	Missing   problemSeen
	Invalid   struct {
		Code  int
		Field string
	}
	Deleted bool

	Service, Scaled, Restarted serviceSeen
	Conflict                   problemSeen
	Listed                     []string
	Revisions                  int
	ServiceDeleted             bool
}

type serviceSeen struct {
	Name, Revision              string
	Count, Generation, Observed int
	Ready                       any // a name, or a number
}

type problemSeen struct {
	Code    int
	Message string
}

// TestNode lets clients that nobody here wrote go through a job's and a service's
// life: the
// generated one by gRPC and by REST, and the one made of the API's discovery
// document.
func TestNode(t *testing.T) {
	if testing.Short() {
		t.Skip("node's clients are slow: left out by -short")
	}
	node, folder := testneed.Program(t, "node"), clients(t)
	script, err := filepath.Abs("testdata/npm/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for mode, codes := range map[string]struct{ missing, invalid, conflict int }{"grpc": {5, 3, 10}, "rest": {5, 3, 10}, "discovery": {404, 400, 409}} {
		t.Run(mode, func(t *testing.T) {
			c := newCloud(t, Options{})
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), node, script, mode, u.Port(), parent)
			cmd.Dir = folder
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			var got seen
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Job.Name != parent+"/jobs/"+mode || got.Job.Retries != 0 || got.Job.State != "CONDITION_SUCCEEDED" && got.Job.State != 4.0 || got.Started != mode {
				t.Errorf("the job: %s", out)
			}
			if got.Failure.Code != 10 || !strings.Contains(got.Failure.Message, "failed with exit code: 4 and message: The container exited with an error.") {
				t.Errorf("the failure: %s", out)
			}
			if e := got.Executions; len(e) != 1 || e[0].Failed != 1 || e[0].Tasks != 1 || e[0].Reason != "NON_ZERO_EXIT_CODE" && e[0].Reason != 2.0 {
				t.Errorf("the execution: %s", out)
			}
			if len(got.Tasks) != 1 || got.Tasks[0].Exit != 4 || got.Tasks[0].Code != 10 {
				t.Errorf("the task: %s", out)
			}
			if got.Cancelled != 1 || !got.Deleted {
				t.Errorf("cancelled and deleted: %s", out)
			}
			if got.Missing.Code != codes.missing || !strings.Contains(got.Missing.Message, "does not exist") || got.Invalid.Code != codes.invalid || got.Invalid.Field != "CreateJobRequest.job_id" {
				t.Errorf("the refusals: %s", out)
			}
			name := parent + "/services/s-" + mode
			for i, v := range []serviceSeen{got.Service, got.Scaled, got.Restarted} {
				if v.Name != name || v.Count != min(i+1, 2) || v.Generation != i+1 || v.Observed != i+1 || v.Ready != "CONDITION_SUCCEEDED" && v.Ready != 4.0 ||
					(v.Revision == got.Service.Revision) != (i < 2) {
					t.Errorf("the service, change %d: %+v", i, v)
				}
			}
			if got.Conflict.Code != codes.conflict || !strings.Contains(got.Conflict.Message, "version 'stale' was specified") || !slices.Equal(got.Listed, []string{name}) || got.Revisions != 2 || !got.ServiceDeleted {
				t.Errorf("the services: %s", out)
			}
		})
	}
}
