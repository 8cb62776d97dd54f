package batch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// output is a reply: a struct of the SDK, whose fields have the names of the
// wire but for their first letter. The SDK of AWS Batch has no encoder for
// outputs; its decoder, and botocore's model, judge this one.
type output struct{ v any }

// MarshalJSON implements json.Marshaler.
func (o output) MarshalJSON() ([]byte, error) {
	v, err := plain(reflect.ValueOf(o.v))
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// plain makes maps and lists of structs, without what is absent.
func plain(v reflect.Value) (any, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "ResultMetadata" || absent(v.Field(i)) {
				continue
			}
			member, err := plain(v.Field(i))
			if err != nil {
				return nil, err
			}
			out[strings.ToLower(f.Name[:1])+f.Name[1:]] = member
		}
		return out, nil
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			item, err := plain(v.Index(i))
			if err != nil {
				return nil, err
			}
			out[i] = item
		}
		return out, nil
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			item, err := plain(v.MapIndex(k))
			if err != nil {
				return nil, err
			}
			out[k.String()] = item
		}
		return out, nil
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int32, reflect.Int64:
		return v.Int(), nil
	default:
		return nil, fmt.Errorf("encode a reply: no member is of the kind %s", v.Kind())
	}
}

// absent says that a member isn't there: a nil, or an enum without a value.
func absent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return v.IsNil()
	case reflect.String:
		return v.Len() == 0
	default:
		return false
	}
}
