package appplatform

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/registry"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/sdk"
)

// launchOf prepares a job as it stands.
func launchOf(t *testing.T, p *provider, spec sdk.JobSpec) sdk.Launch {
	t.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	l, err := p.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1, Expires: time.Unix(2e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestRefusals names field and value of what App Platform can't do, before any
// call.
func TestRefusals(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	p.entrypoint = func(context.Context, string, registry.Login) (sdk.Argv, error) { return nil, registry.ErrLogin }
	grace := 5 * time.Second
	for field, change := range map[string]func(s *sdk.JobSpec){
		"image":                        func(s *sdk.JobSpec) { s.Image = "" },
		"image_entrypoint":             func(s *sdk.JobSpec) { s.ImageEntrypoint = nil },
		"args[0]":                      func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} },
		"workdir":                      func(s *sdk.JobSpec) { s.Workdir = "/tmp" },
		"user":                         func(s *sdk.JobSpec) { s.User = "nobody" },
		"grace":                        func(s *sdk.JobSpec) { s.Grace = &grace },
		"timeout":                      func(s *sdk.JobSpec) { s.Timeout = 31 * time.Minute },
		"cpu":                          func(s *sdk.JobSpec) { s.CPU = 500 },
		"memory":                       func(s *sdk.JobSpec) { s.CPU, s.Memory = 1000, 8*gib },
		"network":                      func(s *sdk.JobSpec) { s.Network = "host" },
		"env.A-B":                      func(s *sdk.JobSpec) { s.Env = sdk.Env{"A-B": "x"} },
		"env.A":                        func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "${APP_ID}"} },
		"env.B":                        func(s *sdk.JobSpec) { s.Env = sdk.Env{"B": "\xff"} },
		"env.WINDLASS_RUN":             func(s *sdk.JobSpec) { s.Env = sdk.Env{"WINDLASS_RUN": "x"} },
		"labels":                       func(s *sdk.JobSpec) { s.Labels = map[string]string{"a": "${x}"} },
		"secrets.C":                    func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"C": "secret://aws-sm/c"} },
		"options.app":                  func(s *sdk.JobSpec) { s.Options = []byte(`{"app":"11111111-2222-3333-4444-555555555555"}`) },
		"options.region":               func(s *sdk.JobSpec) { s.Options = []byte(`{"region":"New York"}`) },
		"options.project":              func(s *sdk.JobSpec) { s.Options = []byte(`{"project":"mine"}`) },
		"options.instance_size":        func(s *sdk.JobSpec) { s.CPU, s.Options = 2000, []byte(`{"instance_size":"apps-s-1vcpu-1gb"}`) },
		"options.registry_credentials": func(s *sdk.JobSpec) { s.Options = []byte(`{"registry_credentials":"me:canary"}`) },
		"options.exit_code_in_log":     func(s *sdk.JobSpec) { s.Args, s.Options = nil, []byte(`{"exit_code_in_log":true}`) },
	} {
		spec := shell("true")
		spec.ImageEntrypoint = sdk.Argv{}
		change(&spec)
		l := launchOf(t, p, spec)
		if len(l.Problems) != 1 || l.Problems[0].Field != field || l.Problems[0].Message == "" || len(l.Request) > 0 || strings.Contains(sdk.JoinProblems(l.Problems), "canary") {
			t.Errorf("%s: %s", field, sdk.JoinProblems(l.Problems))
		}
		// In a job's own unit: whoever shows it writes it as it was typed.
		if field == "cpu" && l.Problems[0].Value != "500" {
			t.Errorf("cpu is shown as %q", l.Problems[0].Value)
		}
	}
	if n := w.Count("apps_create") + w.Count("apps_validate_appSpec"); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestImages: each reference names what an engine would fetch, or is refused.
func TestImages(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	w := newWorld(t, pocket.Options{}, map[string]any{"registry": "ours"})
	p := w.Open()
	for image, want := range map[string]string{
		"app":                                      "DOCKER_HUB library app:latest",
		"app:1":                                    "DOCKER_HUB library app:1",
		"docker.io/team/app@" + digest:             "DOCKER_HUB team app@" + digest,
		"team/app:1@" + digest:                     "DOCKER_HUB team app@" + digest,
		"ghcr.io/team/deep/app:1":                  "GHCR team deep/app:1",
		"registry.digitalocean.com/ours/app:1":     "DOCR  app:1",
		"registry.digitalocean.com/ours/deep/app":  "DOCR  deep/app:latest",
		"registry.digitalocean.com/theirs/app":     "",
		"ghcr.io/app":                              "",
		"quay.io/team/app":                         "",
		"localhost:5000/app":                       "",
		"App":                                      "",
		"app:1 --privileged":                       "",
		"public.ecr.aws/docker/library/busybox:1a": "",
	} {
		l := launchOf(t, p, sdk.JobSpec{Image: image})
		if want == "" {
			if len(l.Problems) != 1 || l.Problems[0].Field != "image" {
				t.Errorf("%s: %s", image, sdk.JoinProblems(l.Problems))
			}
			continue
		}
		r, err := decodeRequest(l.Request)
		if err != nil {
			t.Errorf("%s: %s, %v", image, sdk.JoinProblems(l.Problems), err)
			continue
		}
		i := r.App.Spec.Jobs[0].Image
		got := string(i.RegistryType) + " " + i.Registry + " " + i.Repository
		if i.Tag != "" {
			got += ":" + i.Tag
		}
		if i.Digest != "" {
			got += "@" + i.Digest
		}
		if got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

// TestSizes: what is set is kept, and the cheapest that has it is chosen.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		cpu, memory int64
		want, bad   string
	}{
		{0, 0, "apps-s-1vcpu-0.5gb", ""}, {1000, 0, "apps-s-1vcpu-0.5gb", ""}, {0, gib, "apps-s-1vcpu-1gb-fixed", ""}, {1000, 4 * gib, "apps-d-1vcpu-4gb", ""},
		{0, 4 * gib, "apps-d-1vcpu-4gb", ""}, {2000, 0, "apps-s-2vcpu-4gb", ""}, {8000, 32 * gib, "apps-d-8vcpu-32gb", ""},
		{500, 0, "apps-s-1vcpu-0.5gb", "cpu"}, {3000, 0, "apps-d-4vcpu-8gb", "cpu"}, {0, 3 * gib, "apps-d-1vcpu-4gb", "memory"}, {64000, 0, "apps-d-8vcpu-32gb", "cpu"},
		{1000, 8 * gib, "apps-d-2vcpu-8gb", "memory"}, {3000, 3 * gib, "apps-d-4vcpu-8gb", "cpu memory"}, {0, 1, "apps-s-1vcpu-0.5gb", "memory"},
	} {
		bad, said := "", ""
		got := fitSize(c.cpu, c.memory, func(field, message string) { bad, said = strings.TrimSpace(bad+" "+field), message })
		if got.slug != c.want || bad != c.bad || bad != "" && !strings.Contains(said, c.want) {
			t.Errorf("%d, %d: %s, bad %q: %s", c.cpu, c.memory, got.slug, bad, said)
		}
	}
	if !slices.IsSortedFunc(sizes(), func(a, b size) int { return a.dollars - b.dollars }) {
		t.Error("the sizes don't stand in the order of their prices")
	}
	w := newWorld(t, pocket.Options{}, map[string]any{"instance_size": "apps-s-1vcpu-2gb"})
	p := w.Open()
	for options, want := range map[string]string{`{}`: "apps-s-1vcpu-2gb", `{"instance_size":"apps-d-1vcpu-1gb"}`: "apps-d-1vcpu-1gb"} {
		r, err := decodeRequest(launchOf(t, p, sdk.JobSpec{Image: "app", Options: []byte(options)}).Request)
		if err != nil || r.App.Spec.Jobs[0].InstanceSizeSlug != want {
			t.Errorf("%s: %v, %v", options, r, err)
		}
	}
	// What a job sets comes before the provider's size.
	r, err := decodeRequest(launchOf(t, p, sdk.JobSpec{Image: "app", Memory: gib}).Request)
	if err != nil || r.App.Spec.Jobs[0].InstanceSizeSlug != "apps-s-1vcpu-1gb-fixed" {
		t.Errorf("with memory: %v, %v", r, err)
	}
}

// TestPage: the kind's page names the scopes and the states that there are.
func TestPage(t *testing.T) {
	drivertest.PageNames(t, Driver(), "account:read", "app:read", "app:create", "app:update", "app:delete", "SUPERSEDED", "SKIPPED", "UNKNOWN", "exit_code_in_log", "command_read_by", "max_apps")
}

// TestRefusalsInOneRound: nothing that is refused hides anything else.
func TestRefusalsInOneRound(t *testing.T) {
	spec := drivertest.Refusable(sdk.JobSpec{Image: "app", CPU: 3000, Memory: 3 << 30, Args: sdk.Argv{"\xff"}, ImageEntrypoint: sdk.Argv{}, Options: []byte(`{"zone":"1"}`)})
	drivertest.OneRound(t, newWorld(t, pocket.Options{}, nil).Open(), spec, "workdir", "user", "grace", "gpu", "ephemeral_storage", "pids", "network", "mounts[0]", "files[0]", "files[1]", "stdin", "profile", "cpu", "memory", "args[0]", "options.zone")
}
