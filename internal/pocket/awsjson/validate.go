package awsjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/aws/smithy-go"
)

// validate checks a request's body: that it is one JSON object, that it has no
// member and no type that the input's schema hasn't (the model, where there is
// no schema), and that it keeps the model's constraints.
func (s *Service) validate(operation string, input *smithy.Schema, body []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return Errorf("SerializationException", "the body is no JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Errorf("SerializationException", "the body goes on after its JSON object")
	}
	if value == nil {
		return Errorf("SerializationException", "the body is no JSON object")
	}
	if input != nil {
		var union unionError
		if err := fits(input, value, ""); errors.As(err, &union) {
			return Errorf("ClientException", "The pocket cloud doesn't take %s.", union)
		} else if err != nil {
			return Errorf("SerializationException", "%v", err)
		}
	}
	for _, broken := range s.Model.CheckInput(operation, value) {
		switch {
		case broken.Kind != "unknown" && broken.Kind != "type":
			return s.Invalid(broken)
		case input == nil:
			return Errorf("SerializationException", "%s: %s", broken.Path, broken.Text)
		}
		// The SDK may be newer than the model: what its schema has is known.
	}
	return nil
}

// fits compares a decoded value with a schema. A null stands for an absent
// member, as in the real services.
func fits(schema *smithy.Schema, value any, at string) error {
	if value == nil {
		return nil
	}
	wrong := func(want string) error {
		return fmt.Errorf("%s: got %s, want %s", place(at), kind(value), want)
	}
	switch schema.Type() {
	case smithy.ShapeTypeUnion:
		return unionError(place(at))
	case smithy.ShapeTypeStructure:
		members, ok := value.(map[string]any)
		if !ok {
			return wrong("an object")
		}
		for _, name := range sorted(members) {
			member := schema.Member(name)
			if member == nil {
				return fmt.Errorf("%s: unknown member %q", place(at), name)
			}
			if err := fits(member, members[name], at+"."+name); err != nil {
				return err
			}
		}
	case smithy.ShapeTypeList, smithy.ShapeTypeSet:
		items, ok := value.([]any)
		if !ok {
			return wrong("a list")
		}
		for i, item := range items {
			if item == nil {
				return fmt.Errorf("%s[%d]: a list has no null", place(at), i)
			}
			if err := fits(schema.ListMember(), item, at+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	case smithy.ShapeTypeMap:
		members, ok := value.(map[string]any)
		if !ok {
			return wrong("an object")
		}
		for _, name := range sorted(members) {
			if err := fits(schema.MapValue(), members[name], at+"."+name); err != nil {
				return err
			}
		}
	case smithy.ShapeTypeString, smithy.ShapeTypeEnum, smithy.ShapeTypeBlob:
		if _, ok := value.(string); !ok {
			return wrong("a string")
		}
	case smithy.ShapeTypeBoolean:
		if _, ok := value.(bool); !ok {
			return wrong("true or false")
		}
	case smithy.ShapeTypeInteger, smithy.ShapeTypeIntEnum, smithy.ShapeTypeShort, smithy.ShapeTypeByte:
		n, ok := value.(json.Number)
		if !ok {
			return wrong("a number")
		}
		if i, err := n.Int64(); err != nil || i < math.MinInt32 || i > math.MaxInt32 {
			return wrong("a whole number of 32 bits")
		}
	case smithy.ShapeTypeLong:
		n, ok := value.(json.Number)
		if !ok {
			return wrong("a number")
		}
		if _, err := n.Int64(); err != nil {
			return wrong("a whole number of 64 bits")
		}
	case smithy.ShapeTypeFloat, smithy.ShapeTypeDouble, smithy.ShapeTypeTimestamp:
		if _, ok := value.(json.Number); !ok {
			return wrong("a number")
		}
	}
	return nil
}

// unionError is the place of a union, which encoding/json can't read. No member
// that a pocket cloud needs is one.
type unionError string

func (e unionError) Error() string { return string(e) + " is a union" }

func place(at string) string {
	if at == "" {
		return "the request"
	}
	return at[1:]
}

func kind(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case json.Number:
		return "the number " + v.String()
	case bool:
		return strconv.FormatBool(v)
	default:
		return "null"
	}
}

func sorted(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
