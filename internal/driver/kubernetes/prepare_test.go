package kubernetes

import (
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk"
)

var update = flag.Bool("update", false, "rewrite testdata")

func offline(t testing.TB, change map[string]any) *provider {
	t.Helper()
	return drivertest.Offline[*provider](t, Driver(), map[string]string{"KUBECONFIG": kubeconfig(t, "http://127.0.0.1:1", "jobs")}, map[string]any{}, change)
}

// TestF25Golden shows what is sent: never another start of what has ended.
func TestF25Golden(t *testing.T) {
	grace := 5 * time.Second
	for name, spec := range map[string]sdk.JobSpec{
		"least": {Image: "busybox:1"},
		"most": {Name: "migrate the data", Image: "app:1", Entrypoint: sdk.Argv{"/app"}, Args: sdk.Argv{"$(HOME)", "$$", "a b"}, Env: sdk.Env{"A": "$(B)", "B": "b"},
			Secrets: map[string]sdk.SecretRef{"K": "secret://k8s/db/password", "E": "secret://env/TOKEN"}, Workdir: "/srv", User: "1000:1001", CPU: 1500, Memory: 512 << 20,
			GPU: 1, EphemeralStorage: 1 << 30, Timeout: time.Hour, StartTimeout: time.Minute, Grace: &grace, Labels: map[string]string{"team": "a"},
			Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/scratch", Size: 1 << 20}, {Type: sdk.MountVolume, Source: "data", Target: "/data", ReadOnly: true}}, TTL: time.Hour,
			Options: []byte(`{"service_account":"jobs","node_selector":{"disk":"ssd"},"tolerations":[{"key":"gpu","operator":"Exists"}],"runtime_class":"gvisor","priority_class":"high",
				"image_pull_secrets":["registry"],"image_pull_policy":"Always","annotations":{"a.example/b":"c"},"affinity":{"nodeAffinity":{}},"pod":{"hostAliases":[{"ip":"10.0.0.1","hostnames":["db"]}]}}`)},
		"strict": {Image: "busybox:1", Args: sdk.Argv{"true"}, Profile: sdk.ProfileStrict},
	} {
		t.Run(name, func(t *testing.T) {
			l := drivertest.Launch(t, offline(t, nil), spec)
			drivertest.GoldenRequest(t, *update, name, l, decodeRequest)
			req, err := decodeRequest(l.Request)
			if err != nil {
				t.Fatal(err)
			}
			if s := req.Job.Spec; *s.BackoffLimit != 0 || s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || *s.PodReplacementPolicy != "Failed" {
				t.Errorf("the Job may start its container again: %+v", s)
			}
		})
	}
}

// TestKubeconfig: a provider's config names its kubeconfig by a whole path, which
// comes before KUBECONFIG.
func TestKubeconfig(t *testing.T) {
	open := func(file string) (*provider, error) {
		config, err := json.Marshal(map[string]string{"kubeconfig": file})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "p", Config: config, Credentials: map[string]string{"KUBECONFIG": kubeconfig(t, "http://127.0.0.1:1", "other")}})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return p.(*provider), nil
	}
	p, err := open(kubeconfig(t, "http://127.0.0.1:2", "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	if id := p.Info().Identity; id.Endpoint != "http://127.0.0.1:2" || id.Region != "jobs" {
		t.Errorf("it leads to %+v", id)
	}
	if _, err := open("kubeconfig"); sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), "config.kubeconfig") || !strings.Contains(err.Error(), "whole path") {
		t.Errorf("a relative path: %v", err)
	}
}

// TestRefusals: what Kubernetes can't do is refused by field.
func TestRefusals(t *testing.T) {
	second, odd := time.Second, 2500*time.Millisecond
	for field, change := range map[string]func(s *sdk.JobSpec){
		"image":             func(s *sdk.JobSpec) { s.Image = "" },
		"user":              func(s *sdk.JobSpec) { s.User = "nobody" },
		"grace":             func(s *sdk.JobSpec) { s.Grace = &second },
		"pids":              func(s *sdk.JobSpec) { s.PIDs = 1 },
		"mounts[0]":         func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{{Type: sdk.MountBind, Source: "/", Target: "/host"}} },
		"labels.job-name":   func(s *sdk.JobSpec) { s.Labels = map[string]string{"job-name": "x"} },
		"secrets.S":         func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://k8s/only-a-name"} },
		"secrets.V":         func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"V": "secret://vault/x"} },
		"args[0]":           func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} },
		"env.A":             func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "\xff"} },
		"options.pod":       func(s *sdk.JobSpec) { s.Options = []byte(`{"pod":{"containers":[]}}`) },
		"options.affinity":  func(s *sdk.JobSpec) { s.Options = []byte(`{"affinity":{"nodeAfinity":{}}}`) },
		"options.tolerance": func(s *sdk.JobSpec) { s.Options = []byte(`{"tolerance":[]}`) },
		"workdir":           func(s *sdk.JobSpec) { s.Workdir = "srv" },
	} {
		spec := sdk.JobSpec{Image: "busybox:1"}
		change(&spec)
		l := drivertest.Launch(t, offline(t, nil), spec)
		found := false
		for _, p := range l.Problems {
			found = found || p.Field == field
		}
		if !found {
			t.Errorf("%s: the problems are %s", field, sdk.JoinProblems(l.Problems))
		}
	}
	if l := drivertest.Launch(t, offline(t, nil), sdk.JobSpec{Image: "x", Grace: &odd}); len(l.Problems) != 1 {
		t.Errorf("a grace of %s: %s", odd, sdk.JoinProblems(l.Problems))
	}
	l := drivertest.Launch(t, offline(t, nil), sdk.JobSpec{Image: "x", Profile: sdk.ProfileStrict, Options: []byte(`{"pod":{"hostNetwork":true}}`)})
	if len(l.Problems) != 1 || !strings.Contains(l.Problems[0].Message, "strict") {
		t.Errorf("a patch beside the profile strict: %s", sdk.JoinProblems(l.Problems))
	}
}
