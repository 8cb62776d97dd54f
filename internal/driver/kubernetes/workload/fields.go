package workload

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// declared is what we declared of an object and still holds: the fields that are
// managed in our name, with their values. Applied again with a change it changes that
// alone; what is missing from it then is given up.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
func (o *object) declared() (map[string]any, error) {
	out := map[string]any{}
	for _, m := range o.meta.ManagedFields {
		if !ours(m) {
			continue
		}
		var live, fields any
		if err := json.Unmarshal(o.raw, &live); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(m.FieldsV1.Raw, &fields); err != nil {
			return nil, fmt.Errorf("read the managed fields: %w", err)
		}
		if v, ok := extract(live, fields).(map[string]any); ok {
			out = v
		}
	}
	return out, nil
}

func ours(m metav1.ManagedFieldsEntry) bool {
	return m.Manager == manager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" && m.FieldsV1 != nil
}

// extract is the part of a value that a set of fields names: f: is a member, k: the
// item of a list with these keys, v: the item of that value, a dot the value itself.
// https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.0/fieldpath/serialize-pe.go
func extract(live, fields any) any {
	set, _ := fields.(map[string]any)
	if len(set) == 0 {
		return live // a leaf is owned as a whole
	}
	switch live := live.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, sub := range set {
			if name, ok := strings.CutPrefix(key, "f:"); ok {
				if v, there := live[name]; there {
					out[name] = extract(v, sub)
				}
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range live {
			if v, ok := extractItem(item, set); ok {
				out = append(out, v)
			}
		}
		return out
	}
	return live
}

// extractItem is the part of a list's item that a set names, ok false where it names
// none.
func extractItem(item any, set map[string]any) (any, bool) {
	for key, sub := range set {
		var want any
		if text, ok := strings.CutPrefix(key, "v:"); ok {
			if json.Unmarshal([]byte(text), &want) == nil && reflect.DeepEqual(want, item) {
				return item, true
			}
		}
		text, ok := strings.CutPrefix(key, "k:")
		is, isMap := item.(map[string]any)
		if !ok || !isMap || json.Unmarshal([]byte(text), &want) != nil {
			continue
		}
		keys, _ := want.(map[string]any)
		if !has(is, keys) {
			continue
		}
		v := extract(is, sub)
		if part, ok := v.(map[string]any); ok {
			for k, val := range keys {
				part[k] = val // a default that is a key is needed to name the item
			}
		}
		return v, true
	}
	return nil, false
}

func has(item, keys map[string]any) bool {
	for k, v := range keys {
		if !reflect.DeepEqual(item[k], v) {
			return false
		}
	}
	return len(keys) > 0
}

// others are the managers that have a field besides us: one that they declared comes
// back with their next apply, and one that they set stays when we give it up. The path is
// as in the managed fields, such as f:spec, f:replicas.
func others(m metav1.ObjectMeta, path ...string) (declared, all []string) {
	for _, e := range m.ManagedFields {
		if ours(e) || e.FieldsV1 == nil {
			continue
		}
		var at any
		if json.Unmarshal(e.FieldsV1.Raw, &at) != nil {
			continue
		}
		there := true
		for _, p := range path {
			set, _ := at.(map[string]any)
			if at, there = set[p]; !there {
				break
			}
		}
		if there {
			all = append(all, e.Manager)
			if e.Operation == metav1.ManagedFieldsOperationApply {
				declared = append(declared, e.Manager)
			}
		}
	}
	return declared, all
}

// at returns the member of a tree that a path names, made where it isn't there.
func at(tree map[string]any, path ...string) map[string]any {
	for _, p := range path {
		next, ok := tree[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[p] = next
		}
		tree = next
	}
	return tree
}
