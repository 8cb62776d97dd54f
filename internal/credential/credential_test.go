package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

func TestResolve(t *testing.T) {
	all := []string{"HOME=/home/ann", "DOCKER_HOST=tcp://engine", "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=canary", "AWS_PROFILE=p", "AWS_REGION=r",
		"AWS_WEB_IDENTITY_TOKEN_FILE=/f", "AWS_ROLE_ARN=arn", "KUBECONFIG=/k", "OTHER=x", "DOCKER_CONFIG="}
	for _, c := range []struct {
		name, kind string
		mode       config.CredentialMode
		env        []string
		conf       string
		want       map[string]string
		err        string
		code       sdk.Code
	}{
		{name: "local takes nothing", kind: "local", env: all, want: map[string]string{}},
		{name: "a kind without a row takes nothing", kind: "plugin", env: all, want: map[string]string{}},
		{name: "docker", kind: "docker", env: all, want: map[string]string{"DOCKER_HOST": "tcp://engine"}},
		{name: "docker, ambient", kind: "docker", mode: config.CredentialsAmbient, env: all, want: map[string]string{"DOCKER_HOST": "tcp://engine", "HOME": "/home/ann"}},
		{name: "docker without variables", kind: "docker", want: map[string]string{}},
		{name: "the first whole set", kind: "aws-ecs", mode: config.CredentialsEnv, env: all,
			want: map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "canary", "AWS_REGION": "r"}},
		{name: "the other set", kind: "aws-ecs", env: all[6:],
			want: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/f", "AWS_ROLE_ARN": "arn"}},
		{name: "with a session", kind: "aws-batch", env: []string{"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=s", "AWS_SESSION_TOKEN=t"},
			want: map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}},
		{name: "ambient without a set", kind: "aws-ecs", mode: config.CredentialsAmbient, env: []string{"AWS_PROFILE=p", "HOME=/h", "AWS_ACCESS_KEY_ID=half"},
			want: map[string]string{"AWS_PROFILE": "p", "HOME": "/h"}},
		{name: "none", kind: "aws-ecs", code: sdk.Unauthenticated,
			err: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN; or write credentials: ambient"},
		{name: "half", kind: "aws-ecs", env: []string{"AWS_ACCESS_KEY_ID=canary"}, code: sdk.Unauthenticated,
			err: "AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY; set AWS_SECRET_ACCESS_KEY too"},
		{name: "two of three", kind: "azure-aci", env: []string{"AZURE_TENANT_ID=t", "AZURE_CLIENT_ID=canary"}, code: sdk.Unauthenticated,
			err: "AZURE_TENANT_ID and AZURE_CLIENT_ID are set, but not AZURE_CLIENT_SECRET, or AZURE_CLIENT_CERTIFICATE_PATH, or AZURE_FEDERATED_TOKEN_FILE; set AZURE_CLIENT_SECRET, or"},
		{name: "set to nothing", kind: "digitalocean", env: []string{"DIGITALOCEAN_TOKEN="}, code: sdk.Unauthenticated, err: "set DIGITALOCEAN_TOKEN, or DIGITALOCEAN_ACCESS_TOKEN"},
		{name: "kubeconfig", kind: "kubernetes", env: all, want: map[string]string{"KUBECONFIG": "/k"}},
		{name: "no kubeconfig", kind: "argo", code: sdk.Unauthenticated, err: "set KUBECONFIG"},
		{name: "Argo Server's token", kind: "argo", env: []string{"ARGO_TOKEN=t"}, want: map[string]string{"ARGO_TOKEN": "t"}},
		{name: "kubeconfig beside a token", kind: "argo", env: []string{"ARGO_TOKEN=t", "KUBECONFIG=/k"}, want: map[string]string{"ARGO_TOKEN": "t", "KUBECONFIG": "/k"}},
		{name: "a kubeconfig of the config", kind: "kubernetes", conf: `{"kubeconfig":"/c"}`, want: map[string]string{}},
		{name: "a kubeconfig of the config, for Argo", kind: "argo", conf: `{"kubeconfig":"/c"}`, env: all, want: map[string]string{"KUBECONFIG": "/k"}},
		{name: "an empty one of the config", kind: "kubernetes", conf: `{"kubeconfig":""}`, code: sdk.Unauthenticated, err: "set KUBECONFIG, or kubeconfig in the provider's config; or write"},
		{name: "no kind for it", kind: "aws-ecs", conf: `{"kubeconfig":"/c"}`, code: sdk.Unauthenticated, err: "set AWS_ACCESS_KEY_ID"},
		{name: "a cluster of EKS", kind: "kubernetes", conf: `{"eks":{"cluster":"c"}}`, env: all,
			want: map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "canary", "AWS_REGION": "r"}},
		{name: "one of AKS, without credentials", kind: "kubernetes", conf: `{"aks":{"cluster":"c"}}`, env: all, code: sdk.Unauthenticated, err: "set AZURE_TENANT_ID"},
		{name: "one of GKE, ambient", kind: "kubernetes", mode: config.CredentialsAmbient, conf: `{"gke":{"cluster":"c"}}`, env: all, want: map[string]string{"HOME": "/home/ann"}},
		{name: "one of EKS, for Argo", kind: "argo", conf: `{"eks":{"cluster":"c"}}`, env: all, want: map[string]string{"KUBECONFIG": "/k"}},
		{name: "bad mode", kind: "docker", mode: "all", code: sdk.InvalidArgument, err: `no mode is called "all"`},
	} {
		got, err := FromEnv(config.EnvOf(c.env), nil).ResolveCredentials(t.Context(), ResolveRequest{Provider: "prod", Kind: c.kind, Mode: c.mode, Config: json.RawMessage(c.conf)})
		if c.err != "" {
			if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "provider prod") || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: got %v, want %s with %q", c.name, err, c.code, c.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got.Reveal(), c.want) || got.Ambient() != (c.mode == config.CredentialsAmbient) {
			t.Errorf("%s: %v, %v; want %v", c.name, got.Reveal(), err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := FromEnv(config.EnvOf(nil), nil).ResolveCredentials(ctx, ResolveRequest{Kind: "local"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call gave %v", err)
	}
}

// TestMissingNamesAllVariables: of each kind that needs credentials, a missing one
// names all the variables that would supply it; of a set that is there in part, the
// rest of it.
func TestMissingNamesAllVariables(t *testing.T) {
	needed := 0
	for _, row := range Table() {
		if !row.Needed {
			continue
		}
		needed++
		resolve := func(env []string) error {
			_, err := FromEnv(config.EnvOf(env), nil).ResolveCredentials(t.Context(), ResolveRequest{Provider: "prod", Kind: row.Kind})
			return err
		}
		err := resolve(nil)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.Unauthenticated || e.ID != ErrMissing || e.Provider != "prod" || !strings.Contains(e.Remedy, "credentials: ambient") {
			t.Errorf("%s: %v", row.Kind, err)
			continue
		}
		for _, set := range row.Sets {
			for _, name := range set.Names {
				if !strings.Contains(e.Remedy, name) {
					t.Errorf("%s: %s isn't named: %s", row.Kind, name, e.Remedy)
				}
			}
			for i := range set.Names {
				err := resolve([]string{set.Names[i] + "=canary"})
				if len(set.Names) == 1 {
					if err != nil {
						t.Errorf("%s with %s: %v", row.Kind, set.Names[i], err)
					}
					continue
				}
				if !errors.Is(err, sdk.Unauthenticated) || !strings.Contains(err.Error(), set.Names[i]+" is set, but not ") || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s with %s: %v", row.Kind, set.Names[i], err)
				}
			}
		}
	}
	if needed < 7 {
		t.Errorf("only %d kinds need credentials", needed)
	}
}

func TestPocket(t *testing.T) {
	for _, c := range []struct{ kind, conf, err string }{
		{"aws-ecs", `{"endpoint":"http://127.0.0.1:4566"}`, ""},
		{"aws-ecs", `{"endpoint":"http://[::1]:4566"}`, ""},
		{"aws-ecs", `{"endpoint":"https://ecs.eu-west-1.amazonaws.com"}`, "endpoint is elsewhere"},
		{"aws-ecs", `{"endpoint":5}`, "endpoint is elsewhere"},
		{"aws-ecs", `{}`, "needs an endpoint"},
		{"aws-ecs", ``, "needs an endpoint"},
		{"aws-ecs", `[`, "config is no mapping"},
		{"kubernetes", `{"eks":{"endpoint":"http://127.0.0.1:4566"}}`, ""},
		{"kubernetes", `{"eks":{"endpoint":"https://eks.eu-west-1.amazonaws.com"}}`, "endpoint is elsewhere"},
		{"kubernetes", `{"eks":{},"endpoint":"http://127.0.0.1:4566"}`, "needs an endpoint"},
		{"kubernetes", `{}`, "no pocket cloud speaks for the kind kubernetes"},
		{"docker", `{"endpoint":"http://127.0.0.1"}`, "no pocket cloud speaks for the kind docker"},
	} {
		r := ResolveRequest{Provider: "p", Kind: c.kind, Mode: config.CredentialsPocket, Config: json.RawMessage(c.conf)}
		got, err := FromEnv(config.EnvOf([]string{"AWS_ACCESS_KEY_ID=real", "AWS_SECRET_ACCESS_KEY=real"}), nil).ResolveCredentials(t.Context(), r)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s %s: got %v, want %q", c.kind, c.conf, err, c.err)
			}
		case err != nil || got.Ambient() || got.Reveal()["AWS_SECRET_ACCESS_KEY"] == "":
			t.Errorf("%s %s: got %v, %v", c.kind, c.conf, got.Reveal(), err)
		}
	}
}

// TestPocketValues: what is kept out of messages is nothing that people write: no
// word of the made-up values stands in a sentence or in a folder's name.
func TestPocketValues(t *testing.T) {
	kinds := 0
	for _, row := range Table() {
		for name, v := range row.Pocket {
			if len(v) < 16 || !strings.ContainsAny(v, "0123456789") {
				t.Errorf("%s: %s is %q, which people may write", row.Kind, name, v)
			}
		}
		if row.Pocket != nil {
			kinds++
		}
	}
	if kinds != 5 {
		t.Errorf("%d kinds have pocket clouds", kinds)
	}
}

// TestFarEndpointRemedy: the remedy names the scheme that the kind's pocket cloud
// speaks, and no port that is somebody else's.
func TestFarEndpointRemedy(t *testing.T) {
	for kind, want := range map[string]string{"aws-ecs": "http://127.0.0.1:PORT", "gcp-cloudrun": "http://127.0.0.1:PORT", "azure-aci": "https://127.0.0.1:PORT", "digitalocean": "http://127.0.0.1:PORT"} {
		for _, conf := range []string{`{"endpoint":"https://example.com"}`, `{}`} {
			_, err := FromEnv(config.EnvOf(nil), nil).ResolveCredentials(t.Context(), ResolveRequest{Provider: "p", Kind: kind, Mode: config.CredentialsPocket, Config: json.RawMessage(conf)})
			var e *sdk.Error
			if !errors.As(err, &e) || !strings.Contains(e.Remedy, " "+want+",") || !strings.Contains(e.Remedy, "windlass pocket up --write") {
				t.Errorf("%s %s: %v", kind, conf, err)
			}
		}
	}
}

func TestLoopback(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://127.0.0.1:80": true, "127.0.0.1:80": true, "https://localhost/x": true, "http://127.9.9.9": true, "unix:///run/x.sock": true, "grpc://[::1]:9": true,
		"http://[::ffff:127.0.0.1]": true,
		"":                          false, "http://": false, "http://10.0.0.1": false, "http://localhost.evil.com": false, "http://127.0.0.1.evil.com": false, "http://evil.com#127.0.0.1": false,
		"http://127.0.0.1@evil.com": false, "http://user@127.0.0.1": false, "ftp://127.0.0.1": false, "http://0.0.0.0": false, "http://2130706433": false, "unix://host/x": false,
		"http://[fe80::1%25lo]": false, "npipe:////./pipe/x": false,
	} {
		if got := Loopback(endpoint); got != want {
			t.Errorf("Loopback(%q) is %v", endpoint, got)
		}
	}
}

// TestF84NothingPrints prints credentials in every way that there is.
func TestF84NothingPrints(t *testing.T) {
	c := New(map[string]string{"TOKEN": "canary"}, true)
	marshalled, err := json.Marshal(map[string]any{"c": c, "p": &c})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q %x", c, c, c, c, c, c), fmt.Sprintf("%v", struct{ C Credentials }{c}),
		fmt.Sprintf("%+v", &c), string(marshalled), c.String(), c.GoString()} {
		if strings.Contains(s, "canary") || strings.Contains(s, fmt.Sprintf("%x", "canary")) || !strings.Contains(s, "TOKEN") {
			t.Errorf("prints %q", s)
		}
	}
}

// TestSecrets checks which values a redactor must know.
func TestSecrets(t *testing.T) {
	c := New(map[string]string{"AWS_SECRET_ACCESS_KEY": "s", "DIGITALOCEAN_TOKEN": "t", "AZURE_CLIENT_CERTIFICATE_PASSWORD": "p", "AWS_WEB_IDENTITY_TOKEN_FILE": "/f", "AWS_REGION": "r", "HOME": "/h"}, false)
	var got []string
	for _, v := range c.Secrets() {
		got = append(got, string(v.Reveal()))
	}
	if !slices.Equal(got, []string{"s", "p", "t"}) {
		t.Errorf("got %q", got)
	}
}

// TestTable checks that the rows make sense.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table() {
		if seen[r.Kind] || r.Needed && len(r.Sets) == 0 || r.Pocket != nil && len(r.Endpoints) == 0 {
			t.Errorf("row %+v", r)
		}
		seen[r.Kind] = true
		if r.Pocket == nil {
			continue
		}
		complete := slices.ContainsFunc(r.Sets, func(s Set) bool {
			return !slices.ContainsFunc(s.Names, func(n string) bool { return r.Pocket[n] == "" })
		})
		if !complete {
			t.Errorf("the made-up values of %s are no whole set", r.Kind)
		}
	}
	ids := Explanations()
	for _, id := range []string{ErrMissing, ErrNotLoopback, ErrNoPocket} {
		if !slices.ContainsFunc(ids, func(e config.Explanation) bool { return e.ID == id && e.What != "" }) {
			t.Errorf("%s has no explanation", id)
		}
	}
}
