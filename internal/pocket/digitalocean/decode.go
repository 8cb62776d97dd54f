package digitalocean

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"time"
)

// read decodes a request's body into one of godo's types. A member that the type
// hasn't is refused, also one that differs only in case, and so is a value of
// another type. Null stands for absent.
func read(body []byte, into any) *Error {
	if len(bytes.TrimSpace(body)) == 0 {
		return refuse(ruleBody, "the request body is empty")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return refuse(ruleBody, "the request body is no JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return refuse(ruleBody, "the request body has more than one JSON value")
	}
	if e := fits(value, reflect.TypeOf(into).Elem(), ""); e != nil {
		return e
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(ruleType, "%v", err)
	}
	return nil
}

var timeType = reflect.TypeFor[time.Time]()

// fits checks a decoded value against the type that it is to become.
func fits(v any, t reflect.Type, path string) *Error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v == nil {
		return nil
	}
	wrong := func(want string) *Error {
		return refuse(ruleType, "invalid value for field %q: want %s", path, want)
	}
	switch v := v.(type) {
	case map[string]any:
		if t.Kind() == reflect.Map {
			for name, inner := range v {
				if e := fits(inner, t.Elem(), join(path, name)); e != nil {
					return e
				}
			}
			return nil
		}
		if t.Kind() != reflect.Struct || t == timeType {
			return wrong("a " + word(t))
		}
		members := membersOf(t)
		for name, inner := range v {
			member, ok := members[name]
			if !ok {
				return refuse(ruleUnknown, "unknown field %q", join(path, name))
			}
			if e := fits(inner, member, join(path, name)); e != nil {
				return e
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return wrong("a " + word(t))
		}
		for _, inner := range v {
			if e := fits(inner, t.Elem(), path); e != nil {
				return e
			}
		}
	case string:
		if t.Kind() != reflect.String && t != timeType {
			return wrong("a " + word(t))
		}
	case bool:
		if t.Kind() != reflect.Bool {
			return wrong("a " + word(t))
		}
	case json.Number:
		switch t.Kind() {
		case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		default:
			return wrong("a " + word(t))
		}
	}
	return nil
}

// membersOf returns a struct's members by their JSON names.
func membersOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = t.Field(i).Type
		}
	}
	return out
}

func word(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "message"
	case reflect.Slice:
		return "list"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		return "number"
	default:
		return t.Kind().String()
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// withoutZeroTimes leaves unknown times out of a reply: godo's types have times
// that encoding/json can't leave out; the API's examples leave most of them out,
// and godo reads both alike.
func withoutZeroTimes(data []byte) ([]byte, error) {
	if !bytes.Contains(data, []byte(zeroTime)) {
		return data, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	dropZeroTimes(value)
	return json.Marshal(value)
}

const zeroTime = "0001-01-01T00:00:00Z"

func dropZeroTimes(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if strings.HasSuffix(name, "_at") && inner == zeroTime {
				delete(v, name)
				continue
			}
			dropZeroTimes(inner)
		}
	case []any:
		for _, inner := range v {
			dropZeroTimes(inner)
		}
	}
}
