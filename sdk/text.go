package sdk

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"
)

// checkText finds a string that is not UTF-8: encoding/json would replace its
// bytes in silence. Argv and Env travel as base64 and may hold any bytes.
func checkText(path string, v any) error { return walkText(path, reflect.ValueOf(v), 0) }

var (
	argvType = reflect.TypeFor[Argv]()
	envType  = reflect.TypeFor[Env]()
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

func walkText(path string, v reflect.Value, depth int) error {
	if !v.IsValid() || depth > maxDepth {
		return nil
	}
	switch v.Type() {
	case argvType, timeType, rawType:
		return nil
	case envType:
		for _, k := range v.MapKeys() {
			if !utf8.ValidString(k.String()) {
				return fmt.Errorf("%s: name %q is not UTF-8", path, k.String())
			}
		}
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("%s: %q is not UTF-8", path, v.String())
		}
	case reflect.Pointer, reflect.Interface:
		return walkText(path, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if err := walkText(joinPath(path, f.Name), v.Field(i), depth+1); err != nil {
					return err
				}
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := walkText(fmt.Sprintf("%s[%d]", path, i), v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		it := v.MapRange()
		for it.Next() {
			if err := walkText(path, it.Key(), depth+1); err != nil {
				return err
			}
			if err := walkText(fmt.Sprintf("%s[%v]", path, it.Key()), it.Value(), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func joinPath(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}
