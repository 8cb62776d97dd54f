package pluginhost

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestSecretsIn finds what a schema calls sensitive, at any depth, and what is called as
// a secret where no schema describes it.
func TestSecretsIn(t *testing.T) {
	schema := sdk.Schema{Fields: []sdk.SchemaField{
		{Name: "pin", Type: sdk.TypeString, Sensitive: true},
		{Name: "token_url", Type: sdk.TypeString},
		{Name: "list", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{{Name: "hidden", Type: sdk.TypeString, Sensitive: true}, {Name: "shown", Type: sdk.TypeString}}}},
		{Name: "all", Type: sdk.TypeObject, Sensitive: true, Fields: []sdk.SchemaField{{Name: "x", Type: sdk.TypeString}}},
		{Name: "any", Type: sdk.TypeAny, Sensitive: true},
	}}
	raw := json.RawMessage(`{"pin": "1", "token_url": "shown", "list": [{"hidden": "2", "shown": "shown"}], "all": {"x": "3", "y": ["4"]},
		"any": {"region": "shown", "auth": {"Password": "5"}, "client_secret": ["6"], "number": 7, "token_file": "shown", "passport": "shown"}}`)
	var got []string
	for _, v := range secretsIn(schema, raw) {
		got = append(got, string(v.Reveal()))
	}
	slices.Sort(got)
	if want := []string{"1", "2", "3", "4", "5", "6"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, raw := range []string{"", "[", "[1]", "null"} {
		if got := secretsIn(schema, json.RawMessage(raw)); len(got) > 0 {
			t.Errorf("%q has %d secrets", raw, len(got))
		}
	}
}
