package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../docs/cli/json-schema.json"

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := JSONSchema()
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("windlass.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("windlass.json")
})

// validate checks a document that a command printed against the published
// schema.
func validate(t *testing.T, text string) {
	t.Helper()
	s, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if err := s.Validate(doc); err != nil {
		t.Errorf("%v\nin %s", err, text)
	}
}

func TestPublishedSchema(t *testing.T) {
	want, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: go run ./internal/docgen", schemaFile)
	}
}

// TestSchemaRefuses checks that the schema isn't one that takes everything.
func TestSchemaRefuses(t *testing.T) {
	s, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		`{}`, `[]`, `{"status":"ok","data":null}`, `{"status":"fine","data":null,"error":null}`,
		`{"status":"ok","data":null,"error":{"id":"x","code":"y","message":"z","retryable":false}}`,
		`{"status":"error","data":{"version":"v"},"error":null}`, `{"status":"ok","data":{"unheard":1},"error":null}`,
		`{"status":"partial","data":[],"error":null}`, `{"status":"faults","data":[],"error":{"id":"x","code":"y","message":"z","retryable":false}}`,
	} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(bad))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(doc) == nil {
			t.Errorf("accepted: %s", bad)
		}
	}
}

// TestEverySchemaFieldIsSaid checks that each member is documented.
func TestEverySchemaFieldIsSaid(t *testing.T) {
	text, err := JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Defs map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"RunView", "AttemptView", "Event", "ErrorBody", "PlanView", "ReapView", "DescribeView", "VerifyView"} {
		if len(doc.Defs[name].Properties) == 0 {
			t.Errorf("%s isn't in the schema", name)
		}
		for field, p := range doc.Defs[name].Properties {
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
}
