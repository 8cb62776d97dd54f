package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// Patterns of texts, for editors; ParseDuration and ParseMemoryQuantity decide.
const (
	durationPattern = `^([0-9]+w)?([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`
	sizePattern     = `^[0-9]+(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$`
	namePattern     = `^[A-Za-z0-9][-A-Za-z0-9_.]{0,62}$`
)

// schemaDialect is the version of JSON Schema that is written.
const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Schema returns the JSON schema of windlass.yaml, indented, with the config of
// each driver's kind; what those of plugins take is known to them alone. `config
// schema` prints it, for editors.
func Schema(drivers []sdk.Driver, plugins ...string) ([]byte, error) {
	root := object{
		{"$schema", schemaDialect},
		{"title", FileName},
		{"description", "The configuration of Windlass."},
	}
	root = append(root, shapeSchema(fileShape(Settings()), kinds{drivers, plugins}, "")...)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// kinds are what a provider's kind may be.
type kinds struct {
	drivers []sdk.Driver
	plugins []string
}

func shapeSchema(s *shape, k kinds, path string) object {
	if s.setting != nil {
		return settingSchema(*s.setting)
	}
	if named := s.named(); named != nil {
		entry := shapeSchema(named, k, path)
		o := object{{"type", []string{"object", "null"}}, {"propertyNames", object{{"pattern", namePattern}}}}
		switch path {
		case "providers":
		case "plugins":
			entry[0].value = []string{"object", "null"}
			return append(o, member{"additionalProperties", entry})
		case "runners":
			return append(o, member{"additionalProperties", append(append(object{}, entry...), member{"required", []string{"address"}})})
		default:
			return append(o, member{"additionalProperties", entry})
		}
		// The two that need no kind.
		own := object{}
		for _, name := range builtin() {
			own = append(own, member{name, append(object{{"type", []string{"object", "null"}}}, withKind(entry, k, name)...)})
		}
		return append(o, member{"properties", own},
			member{"additionalProperties", append(object{{"type", "object"}, {"required", []string{"kind"}}}, withKind(entry, k, "")...)})
	}
	props := object{}
	for _, key := range s.order {
		props = append(props, member{key, shapeSchema(s.keys[key], k, strings.TrimPrefix(path+"."+key, "."))})
	}
	o := object{{"type", "object"}, {"properties", props}, {"additionalProperties", false}}
	if path == "" || path == "providers" {
		return o
	}
	o[0].value = []string{"object", "null"}
	return o
}

// withKind adds to the schema of a provider's entry what its kind allows under
// config. Without is the kind of an entry that names none.
func withKind(entry object, k kinds, without string) object {
	var o object
	for _, m := range entry {
		if m.name != "type" {
			o = append(o, m)
		}
	}
	names := slices.Clone(k.plugins)
	var all []object
	for _, d := range k.drivers {
		names = append(names, d.Kind)
		cond := object{{"properties", object{{"kind", object{{"const", d.Kind}}}}}}
		if d.Kind != without {
			cond = append(cond, member{"required", []string{"kind"}})
		}
		then := object{{"properties", object{{"config", fieldSchema(sdk.SchemaField{Type: sdk.TypeObject, Doc: d.Config.Doc, Fields: d.Config.Fields})}}}}
		all = append(all, object{{"if", cond}, {"then", then}})
	}
	slices.Sort(names)
	if len(names) > 0 {
		all = append([]object{{{"properties", object{{"kind", object{{"enum", names}}}}}}}, all...)
		o = append(o, member{"allOf", all})
	}
	return o
}

func settingSchema(s Setting) object {
	var o object
	switch s.Type {
	case TypeBool:
		o = object{{"type", "boolean"}}
	case TypeInt:
		o = object{{"type", "integer"}}
	case TypeNumber:
		o = object{{"type", "number"}}
	case TypeDuration:
		o = object{{"type", "string"}, {"pattern", durationPattern}}
	case TypeSize:
		o = object{{"type", []string{"string", "integer"}}, {"pattern", sizePattern}}
	case TypeList:
		o = object{{"type", "array"}, {"items", object{{"type", "string"}}}}
	case TypeMap:
		o = object{{"type", "object"}}
	default:
		o = object{{"type", "string"}}
	}
	if s.Doc != "" {
		o = append(o, member{"description", s.Doc})
	}
	if len(s.Enum) > 0 {
		o = append(o, member{"enum", s.Enum})
	}
	if s.Max > 0 && (s.Type == TypeInt || s.Type == TypeNumber) {
		o = append(o, member{"minimum", s.Min}, member{"maximum", s.Max})
	}
	switch {
	case s.Default == "":
	case s.Type == TypeInt || s.Type == TypeNumber || s.Type == TypeBool:
		o = append(o, member{"default", json.RawMessage(s.Default)})
	default:
		o = append(o, member{"default", s.Default})
	}
	return o
}

// FieldSchema returns the JSON schema of what an sdk.Schema describes.
func FieldSchema(s sdk.Schema) json.Marshaler {
	return fieldSchema(sdk.SchemaField{Type: sdk.TypeObject, Doc: s.Doc, Fields: s.Fields})
}

func fieldSchema(f sdk.SchemaField) object {
	var o object
	switch f.Type {
	case sdk.TypeInt:
		o = object{{"type", "integer"}}
		if f.Max > 0 {
			o = append(o, member{"minimum", f.Min}, member{"maximum", f.Max})
		}
	case sdk.TypeBool:
		o = object{{"type", "boolean"}}
	case sdk.TypeDuration:
		o = object{{"type", "string"}, {"pattern", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}}
	case sdk.TypeList:
		o = object{{"type", "array"}}
		if f.Elem != nil {
			o = append(o, member{"items", fieldSchema(*f.Elem)})
		}
	case sdk.TypeMap:
		o = object{{"type", "object"}, {"additionalProperties", object{{"type", "string"}}}}
	case sdk.TypeObject:
		props, required := object{}, []string{}
		for _, sub := range f.Fields {
			props = append(props, member{sub.Name, fieldSchema(sub)})
			if sub.Required {
				required = append(required, sub.Name)
			}
		}
		o = object{{"type", "object"}, {"properties", props}, {"additionalProperties", false}}
		if len(required) > 0 {
			o = append(o, member{"required", required})
		}
	case sdk.TypeAny:
		o = object{}
	default:
		o = object{{"type", "string"}}
	}
	if f.Doc != "" {
		o = append(o, member{"description", f.Doc})
	}
	if len(f.Enum) > 0 {
		o = append(o, member{"enum", f.Enum})
	}
	if f.Sensitive {
		o = append(o, member{"writeOnly", true})
	}
	return o
}
