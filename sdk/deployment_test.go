package sdk_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func wholeDeployment() sdk.DeploymentSpec {
	n := 3
	return sdk.DeploymentSpec{V: 1, Name: "api", Image: "shop/api:1.4", Command: sdk.Argv{"serve", "-x=\xff"}, Env: sdk.Env{"A": "1\xff"},
		Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}, Ports: []sdk.Port{{Name: "http", Port: 8080}, {Port: 8080, Protocol: sdk.ProtocolUDP}},
		Replicas: &n, Resources: sdk.Limits{CPU: 500, Memory: 64 << 20}, Config: map[string]string{"MODE": "fast"},
		Health:  &sdk.HealthCheck{HTTPPath: "/ready", Port: 8080, Interval: time.Second, Timeout: time.Second, StartPeriod: time.Minute, Failures: 3},
		Options: json.RawMessage(`{"a":1}`)}
}

func TestDeploymentEncoding(t *testing.T) {
	s := wholeDeployment()
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := sdk.DecodeDeployment(b)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `{"v":1,"image":"i","name":"n","x":1}`, `{"image":"i","name":"n","v":1} `} {
		if _, err := sdk.DecodeDeployment([]byte(bad)); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := sdk.DecodeDeployment([]byte(`{"image":"i","name":"n","v":2}`)); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a newer version: %v", err)
	}
}

func FuzzDecodeDeployment(f *testing.F) {
	b, err := wholeDeployment().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"image":"i","name":"n","replicas":0,"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := sdk.DecodeDeployment(data)
		if err != nil {
			return
		}
		sdk.ValidateDeployment(s)
		again, err := s.Encode()
		if err != nil || string(again) != string(data) {
			t.Fatalf("%s is written as %s, %v", data, again, err)
		}
	})
}

func fields(ps []sdk.Problem) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Field)
	}
	return out
}

func TestValidateDeployment(t *testing.T) {
	if ps := sdk.ValidateDeployment(wholeDeployment()); len(ps) > 0 {
		t.Fatalf("refused: %v", ps)
	}
	minus := -1
	for want, change := range map[string]func(s *sdk.DeploymentSpec){
		"v":                          func(s *sdk.DeploymentSpec) { s.V = 2 },
		"name":                       func(s *sdk.DeploymentSpec) { s.Name = "a/b" },
		"image":                      func(s *sdk.DeploymentSpec) { s.Image = "" },
		"command":                    func(s *sdk.DeploymentSpec) { s.Command = sdk.Argv{} },
		"command[1]":                 func(s *sdk.DeploymentSpec) { s.Command[1] = "a\x00" },
		"env":                        func(s *sdk.DeploymentSpec) { s.Env["A=B"] = "" },
		"env.A":                      func(s *sdk.DeploymentSpec) { s.Env["A"] = "\x00" },
		"secrets":                    func(s *sdk.DeploymentSpec) { s.Env["TOKEN"] = "x" },
		"secrets.TOKEN":              func(s *sdk.DeploymentSpec) { s.Secrets["TOKEN"] = "plain" },
		"config":                     func(s *sdk.DeploymentSpec) { s.Config["A"] = "x" },
		"config.MODE":                func(s *sdk.DeploymentSpec) { s.Config["MODE"] = "\xff" },
		"ports[0].port":              func(s *sdk.DeploymentSpec) { s.Ports[0].Port = 0 },
		"ports[1]":                   func(s *sdk.DeploymentSpec) { s.Ports[1].Protocol = "tcp" },
		"ports[0].protocol":          func(s *sdk.DeploymentSpec) { s.Ports[0].Protocol = "sctp" },
		"ports[1].name":              func(s *sdk.DeploymentSpec) { s.Ports[1].Name = "http" },
		"replicas":                   func(s *sdk.DeploymentSpec) { s.Replicas = &minus },
		"resources.memory":           func(s *sdk.DeploymentSpec) { s.Resources.Memory = -1 },
		"health":                     func(s *sdk.DeploymentSpec) { s.Health.TCP = true },
		"health.port":                func(s *sdk.DeploymentSpec) { s.Health.Port = 0 },
		"health.http_path":           func(s *sdk.DeploymentSpec) { s.Health.HTTPPath = "ready" },
		"health.interval":            func(s *sdk.DeploymentSpec) { s.Health.Interval = -1 },
		"health.failures":            func(s *sdk.DeploymentSpec) { s.Health.Failures = -1 },
		"options":                    func(s *sdk.DeploymentSpec) { s.Options = json.RawMessage(`{"a":1.5}`) },
		"health.command health.port": func(s *sdk.DeploymentSpec) { *s.Health = sdk.HealthCheck{Command: sdk.Argv{""}, Port: 1} },
	} {
		s := wholeDeployment()
		change(&s)
		if got := strings.Join(fields(sdk.ValidateDeployment(s)), " "); got != want {
			t.Errorf("%s: problems with %q", want, got)
		}
	}
	// No value of a plain variable or of config may come back in a problem.
	s := wholeDeployment()
	s.Env["A"], s.Config["MODE"] = "canary\x00", "canary\x00"
	for _, p := range sdk.ValidateDeployment(s) {
		if strings.Contains(p.String(), "canary") {
			t.Errorf("a value is shown: %s", p)
		}
	}
}

func TestValidateConfig(t *testing.T) {
	set, sec := map[string]string{"A": "1"}, map[string]sdk.SecretRef{"B": "secret://env/B"}
	if ps := sdk.ValidateConfig(set, sec, []string{"C"}); len(ps) > 0 {
		t.Errorf("refused: %v", ps)
	}
	if got := fields(sdk.ValidateConfig(nil, nil, nil)); !slices.Equal(got, []string{"config"}) {
		t.Errorf("nothing: %q", got)
	}
	if got := fields(sdk.ValidateConfig(set, sec, []string{"A", "B", "C", "C", ""})); !slices.Equal(got, []string{"unset", "unset", "unset", "unset"}) {
		t.Errorf("twice: %q", got)
	}
}

func TestExpect(t *testing.T) {
	two, three := 2, 3
	st := sdk.DeploymentStatus{Path: "api", Desired: &two, Generation: "7"}
	for _, e := range []sdk.Expect{{}, {Replicas: &two}, {Generation: "7"}, {Replicas: &two, Generation: "7"}} {
		if err := e.Check("scale", st); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	for _, e := range []sdk.Expect{{Replicas: &three}, {Generation: "6"}, {Replicas: &two, Generation: "6"}} {
		var got *sdk.Error
		if err := e.Check("scale", st); !errors.As(err, &got) || got.Code != sdk.FailedPrecondition || got.ID != sdk.ErrExpect {
			t.Errorf("%+v: %v", e, err)
		}
	}
	st.Desired = nil
	if err := (sdk.Expect{Replicas: &two}).Check("scale", st); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a count that isn't known: %v", err)
	}
}
