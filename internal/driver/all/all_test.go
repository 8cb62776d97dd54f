package all

import "testing"

// TestDrivers checks what every driver owes to those who list and choose it.
func TestDrivers(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Drivers() {
		switch {
		case d.Kind == "" || d.Doc == "" || d.Open == nil:
			t.Errorf("driver %q lacks its kind, a sentence on it, or Open", d.Kind)
		case seen[d.Kind]:
			t.Errorf("kind %s stands twice", d.Kind)
		}
		seen[d.Kind] = true
	}
	for _, kind := range []string{"local", "docker", "compose", "kubernetes", "argo", "aws-ecs", "aws-batch", "gcp-cloudrun", "azure-aci", "digitalocean", "fake"} {
		if !seen[kind] {
			t.Errorf("no driver of kind %s", kind)
		}
	}
}
