package cloudrun

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/sdk"
)

// TestF14LongNames: what a label can't hold as it is stays whole in an annotation,
// and is found again.
func TestF14LongNames(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.Owner = "Team Ω " + strings.Repeat("long", 30)
	p := w.Open()
	spec := shell("true")
	spec.Name = strings.Repeat("Name ", 40)
	l := w.Plan(p, spec)
	if id := l.Names["job"]; len(id) > maxJobID || len(executionID(id)) > 62 {
		t.Errorf("job %s, execution %s", id, executionID(id))
	}
	h := w.Run(p, l)
	w.Ended(p, h)
	res, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: l.RunID, Owner: w.Owner})
	if err != nil || len(res.Jobs) != 1 || res.Jobs[0].Owner != w.Owner || res.Jobs[0].Handle.ID != h.ID {
		t.Errorf("found %+v, %v", res, err)
	}
}

// TestRefusals names field and value of what Cloud Run can't do.
func TestRefusals(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	grace := time.Second
	for field, change := range map[string]func(s *sdk.JobSpec){
		"image":                       func(s *sdk.JobSpec) { s.Image = "" },
		"user":                        func(s *sdk.JobSpec) { s.User = "nobody" },
		"grace":                       func(s *sdk.JobSpec) { s.Grace = &grace },
		"timeout":                     func(s *sdk.JobSpec) { s.Timeout = 25 * time.Hour },
		"cpu":                         func(s *sdk.JobSpec) { s.CPU = 500 },
		"memory":                      func(s *sdk.JobSpec) { s.CPU, s.Memory = 1000, 8*gib },
		"network":                     func(s *sdk.JobSpec) { s.Network = "host" },
		"args":                        func(s *sdk.JobSpec) { s.Args = sdk.Argv{} },
		"args[0]":                     func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} },
		"env.CLOUD_RUN_JOB":           func(s *sdk.JobSpec) { s.Env = sdk.Env{"CLOUD_RUN_JOB": "x"} },
		"env.BIG":                     func(s *sdk.JobSpec) { s.Env = sdk.Env{"BIG": strings.Repeat("x", maxVariable+1)} },
		"labels":                      func(s *sdk.JobSpec) { s.Labels = map[string]string{"Team": "x"} },
		"secrets.A":                   func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"A": "secret://env/A"} },
		"secrets.B":                   func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"B": "secret://gcp-sm/b#key"} },
		"secrets.C":                   func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"C": "secret://aws-sm/c"} },
		"options.connector":           func(s *sdk.JobSpec) { s.Options = []byte(`{"connector":"c"}`) },
		"options.service_account":     func(s *sdk.JobSpec) { s.Options = []byte(`{"service_account":"name"}`) },
		"options.labels.windlass-run": func(s *sdk.JobSpec) { s.Options = []byte(`{"labels":{"windlass-run":"x"}}`) },
	} {
		spec := shell("true")
		change(&spec)
		l := w.Prepare(p, spec)
		if len(l.Problems) != 1 || l.Problems[0].Field != field || l.Problems[0].Message == "" || len(l.Request) > 0 {
			t.Errorf("%s: %s", field, sdk.JoinProblems(l.Problems))
		}
		// In a job's own unit: whoever shows it writes it as it was typed.
		if field == "cpu" && l.Problems[0].Value != "500" {
			t.Errorf("cpu is shown as %q", l.Problems[0].Value)
		}
	}
	if n := w.Count("run:CreateJob"); n != 0 {
		t.Errorf("%d jobs were made", n)
	}
}

// TestRefusalsInOneRound: nothing that is refused hides anything else.
func TestRefusalsInOneRound(t *testing.T) {
	spec := drivertest.Refusable(sdk.JobSpec{Image: "app", CPU: 3000, Memory: 1<<30 + 1, Options: []byte(`{"zone":"1"}`)})
	drivertest.OneRound(t, newWorld(t, pocket.Options{}, nil).Open(), spec, "user", "grace", "gpu", "ephemeral_storage", "pids", "network", "mounts[0]", "files[0]", "files[1]", "stdin", "profile", "cpu", "memory", "options.zone")
}
