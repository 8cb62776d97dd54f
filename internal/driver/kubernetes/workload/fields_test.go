package workload

import (
	"encoding/json"
	"reflect"
	"testing"
)

func parsed(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExtract: what is ours of an object is what its managed fields name, lists by
// their keys, and nothing else.
func TestExtract(t *testing.T) {
	live := parsed(t, `{"metadata":{"annotations":{"a":"1","b":"2"},"finalizers":["x","y"]},"spec":{"replicas":3,"template":{"spec":{
		"containers":[{"name":"app","image":"i","env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"k":1}}],"ports":[{"containerPort":80,"protocol":"TCP"}]},{"name":"other","image":"j"}],
		"volumes":[{"name":"v","emptyDir":{}}]}}}}`)
	fields := parsed(t, `{"f:metadata":{"f:annotations":{"f:b":{},"f:gone":{}},"f:finalizers":{"v:\"y\"":{}}},"f:spec":{"f:replicas":{},"f:template":{"f:spec":{
		"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:name":{},"f:env":{"k:{\"name\":\"B\"}":{".":{},"f:name":{},"f:valueFrom":{}}},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}},
		"f:volumes":{"k:{\"name\":\"v\"}":{".":{},"f:name":{},"f:emptyDir":{}}}}}}}`)
	want := parsed(t, `{"metadata":{"annotations":{"b":"2"},"finalizers":["y"]},"spec":{"replicas":3,"template":{"spec":{
		"containers":[{"name":"app","env":[{"name":"B","valueFrom":{"k":1}}],"ports":[{"containerPort":80,"protocol":"TCP"}]}],
		"volumes":[{"name":"v","emptyDir":{}}]}}}}`)
	if got := extract(live, fields); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// FuzzExtract: whatever stands in the managed fields, nothing is extracted that isn't
// in the object.
func FuzzExtract(f *testing.F) {
	f.Add([]byte(`{"a":[{"name":"x","v":1}]}`), []byte(`{"f:a":{"k:{\"name\":\"x\"}":{"f:v":{}}}}`))
	f.Add([]byte(`{"a":1}`), []byte(`{"f:a":{"f:b":{}},"v:1":3,"k:":{}}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var live, fields any
		if json.Unmarshal(a, &live) != nil || json.Unmarshal(b, &fields) != nil {
			t.Skip("isn't JSON")
		}
		if got := extract(live, fields); !within(got, live) {
			t.Errorf("got %v of %v", got, live)
		}
	})
}

// within reports whether a is a part of b.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for k, v := range a {
			if w, there := b[k]; !there || !within(v, w) {
				return false
			}
		}
		return ok
	case []any:
		b, ok := b.([]any)
		for _, v := range a {
			found := false
			for _, w := range b {
				found = found || within(v, w)
			}
			if !found {
				return false
			}
		}
		return ok
	}
	return reflect.DeepEqual(a, b)
}
