package cloudmonitoring

import (
	"reflect"
	"testing"
)

// TestFilter reads what the language's examples look like.
func TestFilter(t *testing.T) {
	for text, want := range map[string]filter{
		`metric.type = "a/b"`: {"metric.type": {"a/b"}},
		`metric.type="a" AND resource.label.service_name = one_of("x", "y") AND metric.labels.state="idle"`: {
			"metric.type": {"a"}, "resource.labels.service_name": {"x", "y"}, "metric.labels.state": {"idle"}},
		`resource.labels.location = "q\"\\"`: {"resource.labels.location": {`q"\`}},
	} {
		if got, err := parseFilter(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "metric.type", `metric.type = a`, `metric.type = "a`, `nothing.type = "a"`, `metric.type = "a" OR metric.type = "b"`, `metric.type = one_of("a"`,
		`metric.type = "a" AND metric.type = "b"`, `metric.type = "a" AND `, `resource.labels. = "a"`} {
		if got, err := parseFilter(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// FuzzFilter: no text does harm.
func FuzzFilter(f *testing.F) {
	f.Add(`metric.type="a" AND resource.label.service_name = one_of("x", "y")`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFilter(text)
		if err == nil && len(got) == 0 {
			t.Errorf("%q is an empty filter", text)
		}
	})
}
