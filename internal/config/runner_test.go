package config

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func TestRunner(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, FileName), `runners:
  build:
    address: build.example:9443
    ca: certs/ca.pem
    cert: certs/me.pem
    key: /etc/me.key
    server_name: build
  tokens: {address: '[::1]:9443', token_env: BUILD_TOKEN}
`)
	c := load(t, LoadRequest{Env: env("BUILD_TOKEN=canary"), Dir: dir})
	r, err := c.Runner("build")
	want := Runner{Name: "build", Address: "build.example:9443", ServerName: "build", CA: filepath.Join(dir, "certs", "ca.pem"),
		Cert: filepath.Join(dir, "certs", "me.pem"), Key: "/etc/me.key", Origin: Origin{Kind: FromFile, Name: path, Line: 3, Column: 5}}
	if err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, ok := c.Token(r); ok {
		t.Error("a runner without token_env has a token")
	}
	r, _ = c.Runner("tokens")
	if token, ok := c.Token(r); token != "canary" || !ok {
		t.Errorf("token %q, %v", token, ok)
	}
	for _, row := range c.Show(nil) {
		if strings.Contains(row.Value, "canary") {
			t.Errorf("%s shows the token", row.Name)
		}
	}
	_, err = c.Runner("biuld")
	if sdk.CodeOf(err) != sdk.NotFound || !strings.Contains(err.Error(), `did you mean "build"`) {
		t.Errorf("an unknown name: %v", err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestRunnerProblems(t *testing.T) {
	for _, x := range []struct{ in, want string }{
		{"runners: {a: {token_env: T}}\n", "runners.a: has no address"},
		{"runners: {a: {address: host, token_env: T}}\n", `runners.a.address: "host" is no HOST:PORT`},
		{"runners: {a: {address: ':80', token_env: T}}\n", `":80" is no HOST:PORT`},
		{"runners: {a: {address: 'h:0', token_env: T}}\n", `"h:0" has no port`},
		{"runners: {a: {address: 'h:1'}}\n", "says not how to prove who we are"},
		{"runners: {a: {address: 'h:1', cert: c}}\n", "has only one of cert and key"},
		{"runners: {ephemeral: {address: 'h:1', token_env: T}}\n", "runners.ephemeral: is the name of an environment that is always there"},
		{"runners: {a: {address: 'h:1', tokenenv: T}}\n", `runners.a.tokenenv: is not known (did you mean "token_env"?)`},
		{"runners: {'a b': {address: 'h:1', token_env: T}}\n", "a name has letters"},
		{"runners: {a: }\n", "runners.a: wants a mapping"},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, FileName), x.in)
		_, err := Load(t.Context(), LoadRequest{Env: env(), Dir: dir})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s%v", x.in, err)
		}
	}
}
