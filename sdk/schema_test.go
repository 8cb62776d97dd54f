package sdk_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

func testSchema() sdk.Schema {
	return sdk.Schema{Fields: []sdk.SchemaField{
		{Name: "cluster", Type: sdk.TypeString, Required: true, Doc: "The cluster."},
		{Name: "launch_type", Type: sdk.TypeString, Enum: []string{"FARGATE", "EC2"}},
		{Name: "priority", Type: sdk.TypeInt, Min: 1, Max: 9},
		{Name: "count", Type: sdk.TypeInt},
		{Name: "public", Type: sdk.TypeBool},
		{Name: "wait", Type: sdk.TypeDuration},
		{Name: "subnets", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeString}},
		{Name: "tags", Type: sdk.TypeMap},
		{Name: "token", Type: sdk.TypeString, Sensitive: true, Enum: []string{"a"}},
		{Name: "auth", Type: sdk.TypeObject, Sensitive: true, Fields: []sdk.SchemaField{{Name: "key", Type: sdk.TypeInt}}},
		{Name: "network", Type: sdk.TypeObject, Fields: []sdk.SchemaField{{Name: "name", Type: sdk.TypeString, Required: true, Doc: "Its name."}}},
		{Name: "extra", Type: sdk.TypeAny},
	}}
}

func TestSchemaAccepts(t *testing.T) {
	for _, raw := range []string{
		`{"cluster":"c"}`,
		`{"cluster":"","launch_type":"EC2","priority":9,"count":-5,"public":false,"wait":"1m30s","subnets":[],"tags":{},"network":{"name":"n"},"extra":null}`,
		` {"cluster":"c","subnets":["a","b"],"tags":{"a":"b"},"extra":{"x":[1.5]}} `,
	} {
		if ps := testSchema().Validate("options", json.RawMessage(raw)); len(ps) > 0 {
			t.Errorf("%s: %s", raw, sdk.JoinProblems(ps))
		}
	}
	for _, raw := range []string{"", " ", "null", "{}"} {
		if ps := (sdk.Schema{}).Validate("options", json.RawMessage(raw)); len(ps) > 0 {
			t.Errorf("%q: %s", raw, sdk.JoinProblems(ps))
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                            "options.cluster",
		`{"cluster":1}`:                 "options.cluster",
		`{"cluster":null}`:              "options.cluster",
		`{"cluster":"c","Cluster":"d"}`: "options.Cluster",
		`{"cluster":"c","launch_type":"fargate"}`:       "options.launch_type",
		`{"cluster":"c","priority":0}`:                  "options.priority",
		`{"cluster":"c","priority":10}`:                 "options.priority",
		`{"cluster":"c","count":1.5}`:                   "options.count",
		`{"cluster":"c","count":"1"}`:                   "options.count",
		`{"cluster":"c","count":null}`:                  "options.count",
		`{"cluster":"c","count":99999999999999999999}`:  "options.count",
		`{"cluster":"c","public":"true"}`:               "options.public",
		`{"cluster":"c","wait":90}`:                     "options.wait",
		`{"cluster":"c","wait":"90"}`:                   "options.wait",
		`{"cluster":"c","wait":"-1s"}`:                  "options.wait",
		`{"cluster":"c","subnets":"a"}`:                 "options.subnets",
		`{"cluster":"c","subnets":["a",2]}`:             "options.subnets[1]",
		`{"cluster":"c","subnets":[null]}`:              "options.subnets[0]",
		`{"cluster":"c","tags":{"a":1}}`:                "options.tags",
		`{"cluster":"c","network":{}}`:                  "options.network.name",
		`{"cluster":"c","network":{"name":"n","x":1}}`:  "options.network.x",
		`{"cluster":"c","network":[]}`:                  "options.network",
		`[]`:                                            "options",
		`"x"`:                                           "options",
		`{"cluster":"c"`:                                "options",
		`{"cluster":"c","unknown":{"deep":[1,2,3]}}`:    "options.unknown",
		`{"cluster":"c","auth":{"key":"x"}}`:            "options.auth.key",
		`{"cluster":"c","token":"not one of the enum"}`: "options.token",
	} {
		ps := testSchema().Validate("options", json.RawMessage(raw))
		if len(ps) != 1 || ps[0].Field != want || ps[0].Message == "" || ps[0].Code != sdk.InvalidArgument {
			t.Errorf("%s: got %+v, want one problem with %s", raw, ps, want)
		}
	}
}

func TestSchemaTellsAllAtOnce(t *testing.T) {
	ps := testSchema().Validate("config", json.RawMessage(`{"clustr":"c","priority":100,"subnets":[1,2],"publik":true}`))
	var fields []string
	for _, p := range ps {
		fields = append(fields, p.Field)
	}
	for _, want := range []string{"config.cluster", "config.clustr", "config.priority", "config.subnets[0]", "config.subnets[1]", "config.publik"} {
		if !slices.Contains(fields, want) {
			t.Errorf("%s is missing among %q", want, fields)
		}
	}
	for _, p := range ps {
		if p.Field == "config.clustr" && !strings.Contains(p.Message, `"cluster"`) || p.Field == "config.publik" && !strings.Contains(p.Message, `"public"`) {
			t.Errorf("no near name: %s", p)
		}
	}
	var into struct{}
	err := testSchema().Decode("config", json.RawMessage(`{"clustr":"c"}`), &into)
	if !errors.Is(err, sdk.InvalidArgument) || !strings.Contains(err.Error(), "config.cluster") || !strings.Contains(err.Error(), "config.clustr") {
		t.Errorf("got %v", err)
	}
}

// TestSchemaKeepsSecrets: a sensitive value is in no message, however deep.
func TestSchemaKeepsSecrets(t *testing.T) {
	for _, raw := range []string{`{"cluster":"c","token":"hunter2"}`, `{"cluster":"c","auth":"hunter2"}`, `{"cluster":"c","auth":{"key":"hunter2"}}`, `{"cluster":"c","token":["hunter2"]}`} {
		ps := testSchema().Validate("options", json.RawMessage(raw))
		if len(ps) == 0 || strings.Contains(sdk.JoinProblems(ps), "hunter2") {
			t.Errorf("%s: %s", raw, sdk.JoinProblems(ps))
		}
	}
}

func TestProblemsAreText(t *testing.T) {
	raw := json.RawMessage(`{"cluster":"c","count":"` + strings.Repeat("é", 100) + `"}`)
	for _, p := range testSchema().Validate("options", raw) {
		if !utf8.ValidString(p.Value) || len(p.Value) > 90 {
			t.Errorf("value %q", p.Value)
		}
	}
}

func TestSchemaDecode(t *testing.T) {
	var into struct {
		Cluster  string `json:"cluster"`
		Priority int    `json:"priority"`
	}
	if err := testSchema().Decode("config", json.RawMessage(`{"cluster":"c","priority":3}`), &into); err != nil || into.Cluster != "c" || into.Priority != 3 {
		t.Errorf("got %+v, %v", into, err)
	}
	if err := (sdk.Schema{}).Decode("config", nil, &into); err != nil || into.Cluster != "c" {
		t.Errorf("got %+v, %v", into, err)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"cluster", "launch_type", "subnets", "cpu", "memory"}
	for word, want := range map[string]string{
		"clustr": "cluster", "cluter": "cluster", "lcuster": "cluster", "CLUSTER": "cluster", "launchtype": "launch_type", "launchType": "launch_type",
		"subnet": "subnets", "cpus": "cpu", "mem": "", "zzz": "", "": "", "memroy": "memory", "something_else": "",
	} {
		if got := sdk.Nearest(word, names); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := sdk.Nearest("x", nil); got != "" {
		t.Errorf("got %q of nothing", got)
	}
}

func FuzzSchemaValidate(f *testing.F) {
	for _, s := range []string{`{"cluster":"c"}`, `{"cluster":1,"subnets":[[]],"network":{"name":null}}`, `[]`, `{"extra":1e999}`, "{\"\xff\":1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ps := testSchema().Validate("options", raw)
		for _, p := range ps {
			if !strings.HasPrefix(p.Field, "options") || p.Message == "" || p.Code != sdk.InvalidArgument {
				t.Fatalf("%q: %+v", raw, p)
			}
		}
		// Problems stand in a launch, which must be storable with them.
		if _, err := (sdk.Launch{V: 1, Kind: "k", Problems: ps}).Encode(); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if len(ps) == 0 && len(raw) > 0 && !json.Valid(raw) {
			t.Fatalf("%q was taken", raw)
		}
	})
}
