package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/windlass-run/windlass/sdk"
)

func TestShow(t *testing.T) {
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, FileName), `owner: team
providers:
  prod:
    kind: docker
    poll_interval: 500ms
    config:
      host: tcp://engine
      token: canary-token
      log: {every: 5s}
      registries:
        - {server: a, password: canary-password}
      unknown: canary-unknown
  other: {kind: plugin, config: {a: canary-other}}
plugins: {p: {path: bin/p, env: [TOKEN, HOME], config: {key: canary-plugin}}}
`)
	c := load(t, LoadRequest{Env: env("HOME=/home/ann", "WINDLASS_KEEPER=off"), Dir: dir})
	rows := map[string]string{}
	for _, r := range c.Show(testDrivers()) {
		rows[r.Name] = r.Value + " | " + strings.TrimPrefix(r.Origin.String(), path+":")
		if strings.Contains(r.Value, "canary") {
			t.Errorf("%s shows %q", r.Name, r.Value)
		}
	}
	for name, want := range map[string]string{
		"owner": "team | 1:8", "keeper": "off | WINDLASS_KEEPER", "state": filepath.FromSlash("/home/ann/.local/state/windlass") + " | default", "retention.logs": "30d | default",
		"actor": "ann@box | default", "default_provider": " | default",
		"providers.prod.kind": "docker | 4:11", "providers.prod.poll_interval": "500ms | 5:20", "providers.prod.call_timeout": "30s | default",
		"providers.prod.config.host": "tcp://engine | 7:13", "providers.prod.config.token": sdk.Redacted + " | 8:14", "providers.prod.config.log.every": "5s | 9:20",
		"providers.prod.config.registries": sdk.Redacted + " | 11:9", "providers.prod.config.unknown": sdk.Redacted + " | 12:16",
		"providers.other.config.a": sdk.Redacted + " | 13:37", "plugins.p.config": sdk.Redacted + " | 14:15", "plugins.p.path": filepath.Join(dir, "bin", "p") + " | 14:15", "plugins.p.env": "TOKEN, HOME | 14:15", "providers.local.kind": "local | default",
	} {
		if rows[name] != want {
			t.Errorf("%s is %q, want %q", name, rows[name], want)
		}
	}
	p, _ := c.Provider("prod")
	for _, s := range []string{fmt.Sprint(p), fmt.Sprintf("%v", p), p.String()} {
		if strings.Contains(s, "canary") {
			t.Errorf("a provider prints as %s", s)
		}
	}
}

// TestProviderAsJSON carries a provider as the background process gets it.
func TestProviderAsJSON(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), "providers: {prod: {kind: docker, submit_rate: 2, config: {port: 0}}}\n")
	p, err := load(t, LoadRequest{Env: env(), Dir: dir}).Provider("prod")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q Provider
	if err := json.Unmarshal(data, &q); err != nil {
		t.Fatal(err)
	}
	if q.String() != p.String() || q.SubmitRate != 2 || string(q.Config) != `{"port":0}` || q.CallTimeout != p.CallTimeout {
		t.Errorf("got %+v from %s", q, data)
	}
	err = q.Validate(testDrivers())
	if err == nil || !strings.Contains(err.Error(), FileName+":1:20: providers.prod.config.port: 0 is outside") {
		t.Errorf("got %v", err)
	}
}

// TestSchema compiles the JSON schema, and compares its verdict on whole files
// with Load's own.
func TestSchema(t *testing.T) {
	raw, err := Schema(testDrivers())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	comp := jsonschema.NewCompiler()
	if err := comp.AddResource("windlass.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := comp.Compile("windlass.json")
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	for _, c := range []struct {
		yaml string
		ok   bool
	}{
		{"{}", true},
		{"default_provider: local\nowner: a\nretention: {logs: 30d, runs: 1w2d}\nlog: {max_bytes: 512Mi}\n", true},
		{"log: {max_bytes: 1048576}\n", true},
		{"providers:\n", true},
		{"providers: {docker: , local: {max_in_flight: 2}}\n", true},
		{"providers: {docker: {config: {host: a, port: 80}}}\n", true},
		{"providers: {prod: {kind: docker, submit_rate: 0.5, config: {registries: [{server: a}]}}}\n", true},
		{"providers: {docker: {kind: local}}\n", true},
		{"plugins: {a: {path: b, env: [A], config: {b: [1]}}, c: }\n", true},
		{"plugins: {a: {b: [1]}}\n", false},
		{"plugins: {a: {env: A}}\n", false},
		{"plugins: {a: {env: [1]}}\n", false},
		{"ownr: a\n", false},
		{"owner: 1\n", false},
		{"retention: {logs: 30}\n", false},
		{"retention: {logs: soon}\n", false},
		{"log: {max_bytes: 512m}\n", false},
		{"providers: {prod: {}}\n", false},
		{"providers: {prod: }\n", false},
		{"providers: {prod: {kind: nope}}\n", false},
		{"providers: {x y: {kind: docker}}\n", false},
		{"providers: {docker: {kidn: docker}}\n", false},
		{"providers: {docker: {config: {port: 70000}}}\n", false},
		{"providers: {docker: {config: {hots: a}}}\n", false},
		{"providers: {docker: {kind: local, config: {host: a}}}\n", false},
		{"providers: {prod: {kind: docker, config: {registries: [{}]}}}\n", false},
		{"providers: {local: {config: {a: 1}}}\n", false},
		{"providers: {local: {credentials: some}}\n", false},
		{"providers: {local: {max_in_flight: -1}}\n", false},
		{"plugins: {a: 1}\n", false},
	} {
		var v any
		if err := yaml.Unmarshal([]byte(c.yaml), &v); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(inst); (err == nil) != c.ok {
			t.Errorf("%q: the schema says %v, want ok %v", c.yaml, err, c.ok)
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, FileName), c.yaml)
		conf, err := Load(t.Context(), LoadRequest{Env: env(), Dir: dir})
		if err == nil {
			err = conf.Validate(testDrivers())
		}
		if (err == nil) != c.ok {
			t.Errorf("%q: load says %v, want ok %v", c.yaml, err, c.ok)
		}
	}
}

// TestSettingsTable checks that the table contradicts neither itself nor the
// code that reads it.
func TestSettingsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Settings() {
		for _, key := range []string{"name " + s.Name, "flag " + s.Flag, "variable " + s.Env, "path " + s.YAML} {
			if strings.HasSuffix(key, " ") {
				continue
			}
			if seen[key] {
				t.Errorf("%s stands twice", key)
			}
			seen[key] = true
		}
		if s.Flag == "" && s.Env == "" && s.YAML == "" || s.Doc == "" || (s.Default == "") == (s.DefaultDoc == "") {
			t.Errorf("row %+v lacks something", s)
		}
		if s.Env != "" && s.Env != "NO_COLOR" && !strings.HasPrefix(s.Env, EnvPrefix) {
			t.Errorf("%s is read from %s", s.Name, s.Env)
		}
		if s.Default != "" {
			if _, msg, _ := s.parse(s.Default); msg != "" {
				t.Errorf("the default of %s %s", s.Name, msg)
			}
		}
	}
	for _, name := range []string{SettingConfig, SettingState, SettingProvider, SettingOwner, SettingActor, SettingKeeper, SettingLogBytes, SettingKeepLogs, SettingKeepRuns} {
		if !seen["name "+name] {
			t.Errorf("no row is called %s", name)
		}
	}
}
