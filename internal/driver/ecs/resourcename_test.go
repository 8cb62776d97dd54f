package ecs

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestResourceProblems: names and values are checked without a provider, all at once.
func TestResourceProblems(t *testing.T) {
	table := map[string]sdk.ResourceType{}
	for _, row := range resourceTypes() {
		table[row.Type] = row
	}
	for _, c := range []struct{ typ, name, config, want string }{
		{typeLogGroup, "/app/web_1.2#x-y", `{"retention_days":7}`, ""},
		{typeLogGroup, "/aws/lambda/x", `{}`, ""},
		{typeLogGroup, "app web", `{"retention_days":8}`, "name config.retention_days"},
		{typeLogGroup, "aws/x", `{"retention_days":"x","tags":{"aws:x":"1"}}`, "config.retention_days name config.tags.aws:x"},
		{typeLogGroup, strings.Repeat("a", 513), `{}`, "name"},
		{typeLogGroup, strings.Repeat("a", 512), `{}`, ""},
		{typeCluster, "prod_1-A", `{}`, ""},
		{typeCluster, "prod.1", `{"settings":[]}`, "config.settings name"},
		{typeCluster, strings.Repeat("a", 256), `{}`, "name"},
	} {
		var got []string
		for _, p := range table[c.typ].Problems(sdk.ResourceSpec{Name: c.name, Type: c.typ, Config: json.RawMessage(c.config)}) {
			got = append(got, p.Field)
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s %q %s: %v, want %s", c.typ, c.name, c.config, got, c.want)
		}
	}
}
