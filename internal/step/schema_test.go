package step

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestSchemaGolden(t *testing.T) {
	b, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.golden", string(b))
}

// TestSchemaAgrees: an editor that goes by the schema takes what Read takes, and
// refuses what has a wrong shape.
func TestSchemaAgrees(t *testing.T) {
	b, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("step.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("step.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		j, err := json.Marshal(v)
		if err != nil {
			return err
		}
		x, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
		if err != nil {
			return err
		}
		return schema.Validate(x)
	}
	for _, good := range []string{
		one("image: i"), one("image: i\nexec_env: ephemeral"), one("image: i\nexec_env: a-runner"), one("image: i\nmemory_limit: 64Mi\ncpu_limit: 0.5"),
		one("image: i\nmemory_limit: 1048576\ncpu_limit: 2"), one("image: i\nmemory_limit: '{{ .x }}'"), one("image: i\ntimeout: 1d12h\ntmpfs: [{target: /t}]"),
		one("image: i\nmounts: [{source: a, target: /a, read_only: true}]\nenv: {A: b}\ncommand: [a]"),
		one("image: i\nimage_entrypoint: []\nallow_visible_secret: true"),
	} {
		if err := check(good); err != nil {
			t.Errorf("%s%v", good, err)
		}
	}
	for _, bad := range []string{
		"{}\n", "steps: []\n", one("imag: i"), one("image: i\nmemory_limit: 64m"), one("image: i\ntimeout: 90"), one("image: i\ntimeout: ''"), one("image: i\nsecurity_profile: none"),
		one("image: i\nenv: {A: 1}"), one("image: i\ncommand: echo"), one("image: i\ncommand: []"), one("image: i\nimage_entrypoint: x"), one("image: i\nallow_visible_secret: 1"), one("image: i\nexec_env: ''"), one("image: i\nfail_on_error: 'no'"),
		one("image: i\nmounts: [{source: a}]"), "steps: [{name: a, type: step.argo_submit, config: {}}]\n", "steps: [{name: '-a', type: step.sandbox_exec, config: {}}]\n",
	} {
		if check(bad) == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}
