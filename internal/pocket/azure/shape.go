package azure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
)

// shapes are the JSON members that Azure's own types know. The types have no
// tags: their names are found by writing one that has everything.
type shapes struct {
	group, update, exec, setSecret, updateSecret any
}

func newShapes() (shapes, error) {
	var s shapes
	var errs [5]error
	s.group, errs[0] = shapeOf[arm.ContainerGroup]()
	s.update, errs[1] = shapeOf[arm.Resource]()
	s.setSecret, errs[2] = shapeOf[azsecrets.SetSecretParameters]()
	s.updateSecret, errs[3] = shapeOf[azsecrets.UpdateSecretPropertiesParameters]()
	s.exec, errs[4] = shapeOf[arm.ContainerExecRequest]()
	return s, errors.Join(errs[:]...)
}

// anyName is the one name in the shape of a map, whose names are free.
const anyName = "*"

func shapeOf[T any]() (any, error) {
	var full T
	fill(reflect.ValueOf(&full).Elem())
	data, err := json.Marshal(full)
	if err != nil {
		return nil, fmt.Errorf("write a full %T: %w", full, err)
	}
	var out any
	return out, json.Unmarshal(data, &out)
}

// fill sets every field of a value, and of what it holds.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		inner := reflect.New(v.Type().Elem()).Elem()
		fill(inner)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(anyName).Convert(v.Type().Key()), inner)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{}))
	default: // the zero value shows its kind
	}
}

// read decodes a request's body. A member that the shape hasn't is refused, also
// one that differs only in case, and so is a value of another type. Null stands
// for absent.
func read(body []byte, shape, into any) *Error {
	if len(bytes.TrimSpace(body)) == 0 {
		return refuse(ruleBody, "The request content was invalid and could not be deserialized: 'the body is empty'.")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return refuse(ruleBody, "The request content was invalid and could not be deserialized: '%v'.", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return refuse(ruleBody, "The request content was invalid and could not be deserialized: 'more than one JSON value'.")
	}
	if e := fits(value, shape, ""); e != nil {
		return e
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refuse(ruleType, "The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return nil
}

// fits checks a decoded value against a shape.
func fits(v, shape any, path string) *Error {
	if v == nil {
		return nil
	}
	wrong := func(want string) *Error {
		return refuse(ruleType, "The request content was invalid and could not be deserialized: 'the value of %q is no %s'.", path, want)
	}
	switch shape := shape.(type) {
	case map[string]any:
		object, ok := v.(map[string]any)
		if !ok {
			return wrong("object")
		}
		if len(shape) == 0 { // anything
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			inner, ok := shape[name]
			if free, isMap := shape[anyName]; isMap {
				inner, ok = free, true
			}
			if !ok {
				return refuse(ruleUnknown, "The request content was invalid and could not be deserialized: 'Could not find member '%s' on object of type '%s'.'", join(path, name), typeName(path))
			}
			if e := fits(object[name], inner, join(path, name)); e != nil {
				return e
			}
		}
	case []any:
		list, ok := v.([]any)
		if !ok {
			return wrong("array")
		}
		for i, inner := range list {
			if inner == nil {
				return refuse(ruleType, "The request content was invalid and could not be deserialized: 'null in %q'.", path)
			}
			if e := fits(inner, shape[0], fmt.Sprintf("%s[%d]", path, i)); e != nil {
				return e
			}
		}
	case string:
		if _, ok := v.(string); !ok {
			return wrong("string")
		}
	case bool:
		if _, ok := v.(bool); !ok {
			return wrong("boolean")
		}
	case float64:
		if _, ok := v.(json.Number); !ok {
			return wrong("number")
		}
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// typeName words the place of an unknown member.
func typeName(path string) string {
	if path == "" {
		return "ContainerGroup"
	}
	return path
}

// encode writes a reply.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("pocket azure: encode a reply: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// clone copies one of Azure's values, with all that it holds.
func clone[T any](v *T) *T {
	data, err := json.Marshal(v)
	if err != nil {
		panic("azure: copy: " + err.Error()) // it came out of JSON, or was made here
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		panic("azure: copy: " + err.Error())
	}
	return out
}
