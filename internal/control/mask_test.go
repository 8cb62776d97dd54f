package control

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func TestMask(t *testing.T) {
	m := masker{keys: []string{"Key"}}
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{`{"a":1.5e400,"big":12345678901234567890}`, `{"a":1.5e400,"big":12345678901234567890}`},
		{`{"key":{"deep":1},"list":[{"KEY":"v","b":"<&>"}]}`, `{"key":"` + sdk.Redacted + `","list":[{"KEY":"` + sdk.Redacted + `","b":"<&>"}]}`},
		{`"text"`, `"text"`},
		{`{"a":`, `"` + sdk.Redacted + `"`},
		{`{} {"key":1}`, `"` + sdk.Redacted + `"`},
	} {
		if got := string(m.json(json.RawMessage(c.in))); got != c.want {
			t.Errorf("%s became %s, want %s", c.in, got, c.want)
		}
	}
	all := masker{all: true}
	for in, want := range map[string]string{`{"a":1}`: `{"a":"` + sdk.Redacted + `"}`, `[1]`: `"` + sdk.Redacted + `"`, `"x"`: `"` + sdk.Redacted + `"`} {
		if got := string(all.json(json.RawMessage(in))); got != want {
			t.Errorf("all of %s became %s", in, got)
		}
	}
	got := m.changes([]sdk.FieldChange{{Path: "env[0].key", Old: json.RawMessage(`1`)}, {Path: "a", Old: json.RawMessage(`1`), New: json.RawMessage(`{"key":2}`)}})
	if string(got[0].Old) != `"`+sdk.Redacted+`"` || got[0].New != nil || string(got[1].Old) != "1" || strings.Contains(string(got[1].New), "2") {
		t.Errorf("changes %+v", got)
	}
}

// FuzzMask: whatever an output is, no value of a sensitive member is shown.
func FuzzMask(f *testing.F) {
	f.Add(`{"key":"canary"}`)
	f.Add(`{"a":[{"key":["canary"]}],"key":null}`)
	f.Add(`{"key":"canary"`)
	f.Fuzz(func(t *testing.T, in string) {
		out := masker{keys: []string{"key"}}.json(json.RawMessage(in))
		if len(out) > 0 && !json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		var v map[string]json.RawMessage
		if json.Unmarshal(out, &v) == nil && v["key"] != nil && string(v["key"]) != `"`+sdk.Redacted+`"` {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
