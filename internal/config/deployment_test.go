package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const wholeDeployment = `target: prod/shop/api
image: shop/api:1.4
command: [serve, --port, "8080"]
env: {A: "1"}
secrets: {TOKEN: secret://env/TOKEN}
ports:
  - {name: http, port: 8080}
replicas: 3
resources: {cpu: 500m, memory: 128Mi}
health: {http_path: /ready, port: 8080, interval: 5s}
config: {MODE: fast}
options: {n: 1}
`

func TestParseDeployment(t *testing.T) {
	got, err := ParseDeployment("api.yaml", []byte(wholeDeployment))
	if err != nil {
		t.Fatal(err)
	}
	three := 3
	want := Deployment{Target: sdk.Target{Provider: "prod", Path: "shop/api"}, Spec: sdk.DeploymentSpec{V: 1, Name: "api", Image: "shop/api:1.4",
		Command: sdk.Argv{"serve", "--port", "8080"}, Env: sdk.Env{"A": "1"}, Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"},
		Ports: []sdk.Port{{Name: "http", Port: 8080}}, Replicas: &three, Resources: sdk.Limits{CPU: 500, Memory: 128 << 20},
		Health: &sdk.HealthCheck{HTTPPath: "/ready", Port: 8080, Interval: 5 * time.Second}, Config: map[string]string{"MODE": "fast"}, Options: []byte(`{"n":1}`)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if ps := sdk.ValidateDeployment(got.Spec); len(ps) > 0 {
		t.Errorf("refused: %v", ps)
	}
	for text, places := range map[string][]string{
		"":                               {"f:1:1: image"},
		"[1]":                            {"f:1:1: a deployment"},
		"image: a\n  b: c":               {"f:1:8"},
		"image: a\nimag: b\n":            {"f:2:7: imag"},
		"image: a\nreplicas: -1\nenv: 5": {"f:2:11: replicas", "f:3:6: env"},
		"image: a\nresources: {memory: 5m, cpu: x}\ntarget: prod\n": {"f:2:21: resources.memory", "f:2:30: resources.cpu", "f:3:9: target"},
		"image: a\nimage: b\n": {"f:2:1"},
	} {
		_, err := ParseDeployment("f", []byte(text))
		ps := ProblemsOf(err)
		for _, place := range places {
			found := false
			for _, p := range ps {
				found = found || strings.HasPrefix(p.String(), place)
			}
			if !found {
				t.Errorf("%q: %v lacks a problem at %s", text, ps, place)
			}
		}
	}
}

func FuzzParseDeployment(f *testing.F) {
	f.Add(wholeDeployment)
	f.Add("image: a\nports: [1]\n")
	f.Add("a: &x [*x]")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDeployment("f", []byte(text))
		if err != nil {
			return
		}
		if d.Spec.Image == "" && !strings.Contains(text, "image") {
			t.Fatalf("%q is a deployment without an image", text)
		}
		sdk.ValidateDeployment(d.Spec)
	})
}
