package kubernetes

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestNamespaceNames: a name that no namespace can have is told without a cluster.
func TestNamespaceNames(t *testing.T) {
	row := resourceTypes()[0]
	for name, ok := range map[string]bool{"web": true, "web-1": true, "1": true, "Web": false, "web_1": false, "-web": false, "web-": false, "a.b": false,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false} {
		ps := row.Problems(sdk.ResourceSpec{Name: name, Type: typeNamespace})
		if wrong := len(ps) == 1 && ps[0].Field == "name" && ps[0].Value == name; wrong == ok || ok && len(ps) > 0 {
			t.Errorf("%q: %v", name, ps)
		}
	}
}
