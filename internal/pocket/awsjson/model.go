package awsjson

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Model holds the constraints of a service's operations, in the form of AWS's
// own models as botocore publishes them (service-2.json).
type Model struct {
	Operations map[string]Operation `json:"operations"`
	Shapes     map[string]*Shape    `json:"shapes"`

	patterns map[string]*regexp.Regexp // nil for one that Go's syntax hasn't
}

// Operation names the shapes of an operation.
type Operation struct {
	Input  *Ref  `json:"input,omitempty"`
	Output *Ref  `json:"output,omitempty"`
	Errors []Ref `json:"errors,omitempty"`
}

// Ref refers to a shape.
type Ref struct {
	Shape string `json:"shape"`
}

// Shape is a type with its constraints.
type Shape struct {
	Type     string         `json:"type"`
	Required []string       `json:"required,omitempty"`
	Members  map[string]Ref `json:"members,omitempty"`
	Member   *Ref           `json:"member,omitempty"`
	Key      *Ref           `json:"key,omitempty"`
	Value    *Ref           `json:"value,omitempty"`
	Enum     []string       `json:"enum,omitempty"`
	Min      *float64       `json:"min,omitempty"`
	Max      *float64       `json:"max,omitempty"`
	Pattern  string         `json:"pattern,omitempty"`
}

// ParseModel reads a model.
func ParseModel(data []byte) (*Model, error) {
	m := &Model{patterns: map[string]*regexp.Regexp{}}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("parse the model: %w", err)
	}
	for _, s := range m.Shapes {
		if s.Pattern != "" {
			// Models are written for Java's syntax. The few patterns that Go
			// hasn't stay unchecked; a test lists them.
			m.patterns[s.Pattern], _ = regexp.Compile(`^(?:` + s.Pattern + `)$`)
		}
	}
	return m, nil
}

// Violation is a constraint that a value breaks.
type Violation struct {
	// Path is where, as "containerDefinitions.1.member.name"; empty for the
	// whole.
	Path string
	// Value is what stands there, as text.
	Value string
	// Kind is one of "required", "enum", "min", "max", "pattern", "type",
	// "unknown".
	Kind string
	// Text says what must hold, in the words of AWS's own validation: "Member
	// must not be null".
	Text string
}

// CheckInput returns what a request, decoded with numbers as json.Number,
// breaks.
func (m *Model) CheckInput(operation string, value any) []Violation {
	op, ok := m.Operations[operation]
	if !ok || op.Input == nil {
		return nil
	}
	return m.Check(op.Input.Shape, value)
}

// Check returns what a decoded value breaks of a shape.
func (m *Model) Check(shape string, value any) []Violation {
	var found []Violation
	m.check(shape, value, "", &found)
	return found
}

func (m *Model) check(name string, value any, at string, found *[]Violation) {
	shape, ok := m.Shapes[name]
	if !ok || value == nil {
		return
	}
	report := func(kind, text string, args ...any) {
		*found = append(*found, Violation{Path: at, Value: fmt.Sprint(value), Kind: kind, Text: fmt.Sprintf(text, args...)})
	}
	below := func(member string) string {
		if at == "" {
			return member
		}
		return at + "." + member
	}
	switch shape.Type {
	case "structure":
		members, ok := value.(map[string]any)
		if !ok {
			report("type", "Member must be a structure")
			return
		}
		for _, need := range shape.Required {
			if members[need] == nil {
				*found = append(*found, Violation{Path: below(need), Value: "null", Kind: "required", Text: "Member must not be null"})
			}
		}
		for _, member := range sorted(members) {
			ref, ok := shape.Members[member]
			if !ok {
				*found = append(*found, Violation{Path: below(member), Value: fmt.Sprint(members[member]), Kind: "unknown", Text: "Member must be known"})
				continue
			}
			m.check(ref.Shape, members[member], below(member), found)
		}
	case "list":
		items, ok := value.([]any)
		if !ok {
			report("type", "Member must be a list")
			return
		}
		m.length(shape, float64(len(items)), report)
		for i, item := range items {
			if item == nil {
				*found = append(*found, Violation{Path: below(strconv.Itoa(i+1) + ".member"), Value: "null", Kind: "type", Text: "Member must not be null"})
			}
			m.check(shape.Member.Shape, item, below(strconv.Itoa(i+1)+".member"), found)
		}
	case "map":
		members, ok := value.(map[string]any)
		if !ok {
			report("type", "Member must be a map")
			return
		}
		m.length(shape, float64(len(members)), report)
		for _, key := range sorted(members) {
			if members[key] == nil {
				*found = append(*found, Violation{Path: below(key + ".value"), Value: "null", Kind: "type", Text: "Member must not be null"})
			}
			m.check(shape.Key.Shape, key, below("key"), found)
			m.check(shape.Value.Shape, members[key], below(key+".value"), found)
		}
	case "string":
		text, ok := value.(string)
		if !ok {
			report("type", "Member must be a string")
			return
		}
		m.length(shape, float64(utf8.RuneCountInString(text)), report)
		if len(shape.Enum) > 0 && !slices.Contains(shape.Enum, text) {
			report("enum", "Member must satisfy enum value set: %v", shape.Enum)
		}
		if p := m.patterns[shape.Pattern]; p != nil && !p.MatchString(text) {
			report("pattern", "Member must satisfy regular expression pattern: %s", shape.Pattern)
		}
	case "integer", "long", "float", "double":
		number, ok := value.(json.Number)
		if !ok {
			report("type", "Member must be a number")
			return
		}
		n, err := number.Float64()
		if err != nil {
			report("type", "Member must be a number")
			return
		}
		if shape.Min != nil && n < *shape.Min {
			report("min", "Member must have value greater than or equal to %v", *shape.Min)
		}
		if shape.Max != nil && n > *shape.Max {
			report("max", "Member must have value less than or equal to %v", *shape.Max)
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			report("type", "Member must be true or false")
		}
	case "timestamp":
		if _, ok := value.(json.Number); !ok {
			report("type", "Member must be a number of seconds")
		}
	case "blob":
		if _, ok := value.(string); !ok {
			report("type", "Member must be a string in base64")
		}
	}
}

func (m *Model) length(shape *Shape, n float64, report func(kind, text string, args ...any)) {
	if shape.Min != nil && n < *shape.Min {
		report("min", "Member must have length greater than or equal to %v", *shape.Min)
	}
	if shape.Max != nil && n > *shape.Max {
		report("max", "Member must have length less than or equal to %v", *shape.Max)
	}
}
