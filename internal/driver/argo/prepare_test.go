package argo

import (
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk"
)

var update = flag.Bool("update", false, "rewrite testdata")

func offline(t testing.TB, change map[string]any) *provider {
	t.Helper()
	return drivertest.Offline[*provider](t, Driver(), map[string]string{"KUBECONFIG": kubeconfig(t, "http://127.0.0.1:1", "jobs"), "ARGO_TOKEN": "t"}, map[string]any{}, change)
}

// TestF25Golden shows what is sent: one step without a retry.
func TestF25Golden(t *testing.T) {
	grace := 5 * time.Second
	for name, k := range map[string]struct {
		change map[string]any
		spec   sdk.JobSpec
	}{
		"least": {spec: sdk.JobSpec{Image: "busybox:1"}},
		"most": {change: map[string]any{"executor_service_account": "executor", "archive_logs": true, "instance_id": "blue"},
			spec: sdk.JobSpec{Name: "migrate the data", Image: "app:1", Entrypoint: sdk.Argv{"/app"}, Args: sdk.Argv{"$(HOME)", "{{workflow.name}}", "{{{", "a b"}, Env: sdk.Env{"A": "{{=1+1}}", "B": "b"},
				Secrets: map[string]sdk.SecretRef{"K": "secret://k8s/db/password", "E": "secret://env/TOKEN"}, Workdir: "/srv", User: "1000:1001", CPU: 1500, Memory: 512 << 20,
				GPU: 1, EphemeralStorage: 1 << 30, Timeout: time.Hour, StartTimeout: time.Minute, Grace: &grace, Labels: map[string]string{"team": "a"},
				Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/scratch", Size: 1 << 20}, {Type: sdk.MountVolume, Source: "data", Target: "/data", ReadOnly: true}}, TTL: 5 * time.Minute,
				Options: []byte(`{"node_selector":{"disk":"ssd"},"tolerations":[{"key":"gpu","operator":"Exists"}],"runtime_class":"gvisor","priority_class":"high",
				"image_pull_secrets":["registry"],"image_pull_policy":"Always","annotations":{"a.example/b":"c"},"affinity":{"nodeAffinity":{}}}`)}},
		"permissive": {spec: sdk.JobSpec{Image: "busybox:1", ImageEntrypoint: sdk.Argv{}, Args: sdk.Argv{"true"}, Profile: sdk.ProfilePermissive, Options: []byte(`{"service_account":"jobs"}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := drivertest.Launch(t, offline(t, k.change), k.spec)
			drivertest.GoldenRequest(t, *update, name, l, decodeRequest)
			if strings.Contains(string(l.Request), `"retryStrategy"`) || strings.Contains(string(l.Request), `"generateName"`) {
				t.Errorf("the Workflow may start its container again, or have another name: %s", l.Request)
			}
		})
	}
}

// TestRefusals: what Argo can't do is refused by field.
func TestRefusals(t *testing.T) {
	second := time.Second
	for field, change := range map[string]func(s *sdk.JobSpec){
		"image":                              func(s *sdk.JobSpec) { s.Image = "a{{workflow.name}}" },
		"profile":                            func(s *sdk.JobSpec) { s.Profile = sdk.ProfileStrict },
		"user":                               func(s *sdk.JobSpec) { s.User = "nobody" },
		"grace":                              func(s *sdk.JobSpec) { s.Grace = &second },
		"network":                            func(s *sdk.JobSpec) { s.Network = "none" },
		"mounts[0]":                          func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{{Type: sdk.MountBind, Source: "/", Target: "/host"}} },
		"mounts[0].target":                   func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/{{x}}"}} },
		"labels.workflows.argoproj.io/phase": func(s *sdk.JobSpec) { s.Labels = map[string]string{"workflows.argoproj.io/phase": "x"} },
		"secrets.V":                          func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"V": "secret://vault/x"} },
		"args":                               func(s *sdk.JobSpec) { s.Args = sdk.Argv{strings.Repeat("x", maxArgs)} },
		"env.WINDLASS_EMPTY":                 func(s *sdk.JobSpec) { s.Env = sdk.Env{"WINDLASS_EMPTY": "x"} },
		"env.{{x}}":                          func(s *sdk.JobSpec) { s.Env = sdk.Env{"{{x}}": "x"} },
		"options.pod":                        func(s *sdk.JobSpec) { s.Options = []byte(`{"pod":{}}`) },
		"options.annotations.a/b":            func(s *sdk.JobSpec) { s.Options = []byte(`{"annotations":{"a/b":"{{x}}"}}`) },
		"workdir":                            func(s *sdk.JobSpec) { s.Workdir = "/{{x}}" },
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
	server := offline(t, map[string]any{"endpoint": "http://127.0.0.1:1", "namespace": "jobs"})
	l := drivertest.Launch(t, server, sdk.JobSpec{Image: "x", Secrets: map[string]sdk.SecretRef{"E": "secret://env/TOKEN"}})
	if len(l.Problems) != 1 || !strings.Contains(l.Problems[0].Message, "Argo Server makes no Secret") {
		t.Errorf("a value through Argo Server: %s", sdk.JoinProblems(l.Problems))
	}
}

// TestConfig: what can't go together is refused when a provider is opened.
func TestConfig(t *testing.T) {
	for field, text := range map[string]string{
		"context":                  `{"endpoint":"https://argo:2746","context":"c","namespace":"n"}`,
		"namespace":                `{"endpoint":"https://argo:2746"}`,
		"ca_file":                  `{"ca_file":"/x"}`,
		"config.kubeconfig":        `{"kubeconfig":"here.yaml"}`,
		"kubeconfig":               `{"endpoint":"https://argo:2746","namespace":"n","kubeconfig":"/x"}`,
		"endpoint":                 `{"endpoint":"argo:2746","namespace":"n"}`,
		"executor_service_account": `{"executor_service_account":"A B"}`,
		"instance_id":              `{"instance_id":"a b"}`,
		"annotations.a":            `{"annotations":{"a":"{{x}}"}}`,
	} {
		_, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "p", Config: []byte(text), Credentials: map[string]string{"KUBECONFIG": kubeconfig(t, "http://127.0.0.1:1", "jobs"), "ARGO_TOKEN": "t"}})
		if err == nil || sdk.CodeOf(err) != sdk.InvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	_, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "p", Config: []byte(`{"endpoint":"https://argo:2746","namespace":"n"}`)})
	if sdk.CodeOf(err) != sdk.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
}

// FuzzF14Escape: whatever an argument or a variable holds, Argo finds nothing to
// substitute in it, and Kubernetes makes of it what it was.
func FuzzF14Escape(f *testing.F) {
	f.Add("{{workflow.name}}", "$(HOME)")
	f.Add("{{{{", "}}{{=1}}$$")
	f.Fuzz(func(t *testing.T, arg, value string) {
		c := corev1.Container{Args: []string{kube.Escape(arg)}, Env: []corev1.EnvVar{{Name: "V", Value: kube.Escape(value)}}}
		escape(&c)
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), tag) {
			t.Errorf("Argo would substitute in %s", raw)
		}
		vars := map[string]string{}
		for _, e := range c.Env {
			vars[e.Name] = expanded(e.Value, vars)
		}
		if got := expanded(c.Args[0], vars); got != arg {
			t.Errorf("the argument %q becomes %q", arg, got)
		}
		if vars["V"] != value {
			t.Errorf("the value %q becomes %q", value, vars["V"])
		}
	})
}

// expanded is Kubernetes' expansion, for known variables.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/third_party/forked/golang/expansion/expand.go
func expanded(s string, vars map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		rest := s[i:]
		switch {
		case strings.HasPrefix(rest, "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$(") && strings.Contains(rest, ")"):
			name := rest[2:strings.IndexByte(rest, ')')]
			v, ok := vars[name]
			if !ok {
				v = "$(" + name + ")"
			}
			b.WriteString(v)
			i += len(name) + 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
