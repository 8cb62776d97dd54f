package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"
)

// Schema describes a JSON object strictly: a member that it doesn't name is an
// error. The zero Schema is the empty object.
type Schema struct {
	Doc    string
	Fields []SchemaField
}

// FieldType is the type of a schema's field.
type FieldType string

// The types. Durations are text such as "90s"; objects are described by Fields
// and lists by their element in Elem; maps have text values; any is not looked
// into.
const (
	TypeString   FieldType = "string"
	TypeInt      FieldType = "int"
	TypeBool     FieldType = "bool"
	TypeDuration FieldType = "duration"
	TypeList     FieldType = "list"
	TypeMap      FieldType = "map"
	TypeObject   FieldType = "object"
	TypeAny      FieldType = "any"
)

// SchemaField is one member.
type SchemaField struct {
	Name string
	Type FieldType
	// Doc is one sentence, with the unit.
	Doc string
	// Default is shown in the documents; the driver applies it.
	Default  string
	Required bool
	// Sensitive values are redacted wherever they are shown.
	Sensitive bool
	// Enum lists the permitted texts; empty permits all.
	Enum []string
	// Min and Max bound an int when Max > 0.
	Min, Max int64
	// Elem describes a list's elements, Fields an object's members.
	Elem   *SchemaField
	Fields []SchemaField
}

// Validate returns everything that is wrong with raw under the schema, with
// field names below prefix. Nil, empty and null raw count as {}.
func (s Schema) Validate(prefix string, raw json.RawMessage) []Problem {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	f := SchemaField{Name: prefix, Type: TypeObject, Fields: s.Fields}
	return f.validate(prefix, raw)
}

func (f SchemaField) validate(at string, raw json.RawMessage) []Problem {
	wrong := func(format string, args ...any) []Problem {
		v := string(raw)
		if f.Sensitive {
			v = Redacted
		}
		if len(v) > 80 {
			v = v[:77] + "..."
		}
		v = plainText(v)
		return []Problem{{Field: at, Value: v, Message: fmt.Sprintf(format, args...), Code: InvalidArgument}}
	}
	if f.Type != TypeAny && bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return wrong("wants a value; leave it out to leave it unset")
	}
	switch f.Type {
	case TypeString, TypeDuration:
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return wrong("wants text")
		}
		if f.Type == TypeDuration {
			if d, err := time.ParseDuration(s); err != nil || d < 0 {
				return wrong("wants a duration such as 90s or 5m")
			}
		}
		if len(f.Enum) > 0 && !contains(f.Enum, s) {
			return wrong("is none of %s", strings.Join(f.Enum, ", "))
		}
	case TypeInt:
		var n int64
		if json.Unmarshal(raw, &n) != nil {
			return wrong("wants a whole number")
		}
		if f.Max > 0 && (n < f.Min || n > f.Max) {
			return wrong("is outside %d to %d", f.Min, f.Max)
		}
	case TypeBool:
		var b bool
		if json.Unmarshal(raw, &b) != nil {
			return wrong("wants true or false")
		}
	case TypeList:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return wrong("wants a list")
		}
		var ps []Problem
		for i, e := range list {
			if f.Elem != nil {
				el := *f.Elem
				el.Sensitive = el.Sensitive || f.Sensitive
				ps = append(ps, el.validate(fmt.Sprintf("%s[%d]", at, i), e)...)
			}
		}
		return ps
	case TypeMap:
		var m map[string]string
		if json.Unmarshal(raw, &m) != nil {
			return wrong("wants a map of text to text")
		}
	case TypeObject:
		return f.validateObject(at, raw, wrong)
	}
	return nil
}

func (f SchemaField) validateObject(at string, raw json.RawMessage, wrong func(string, ...any) []Problem) []Problem {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return wrong("wants an object")
	}
	var ps []Problem
	known := make([]string, 0, len(f.Fields))
	for _, sub := range f.Fields {
		known = append(known, sub.Name)
		v, ok := m[sub.Name]
		if !ok {
			if sub.Required {
				ps = append(ps, Problem{Field: joinPath(at, sub.Name), Message: "is missing: " + sub.Doc, Code: InvalidArgument})
			}
			continue
		}
		sub.Sensitive = sub.Sensitive || f.Sensitive
		ps = append(ps, sub.validate(joinPath(at, sub.Name), v)...)
	}
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		if !contains(known, k) {
			msg := "is not known"
			if near := Nearest(k, known); near != "" {
				msg += fmt.Sprintf(" (did you mean %q?)", near)
			}
			if len(known) > 0 {
				msg += "; here may stand " + strings.Join(byDistance(k, known), ", ")
			}
			ps = append(ps, Problem{Field: joinPath(at, k), Message: msg, Code: InvalidArgument})
		}
	}
	return ps
}

// Decode checks raw and reads it into a struct with JSON tags. The problems
// come back as one InvalidArgument error, in which errors.As finds Problems.
func (s Schema) Decode(prefix string, raw json.RawMessage, into any) error {
	if ps := s.Validate(prefix, raw); len(ps) > 0 {
		return &Error{Code: InvalidArgument, Op: "read " + prefix, Field: ps[0].Field, Err: Problems(ps)}
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &Error{Code: InvalidArgument, Op: "read " + prefix, Err: err}
	}
	return nil
}

// JoinProblems returns problems in one line.
func JoinProblems(ps []Problem) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return strings.Join(out, "; ")
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// Nearest returns the candidate that a typing mistake most likely meant, or
// nothing when none is near.
func Nearest(word string, candidates []string) string {
	best, bestDist := "", len(word)/3+2
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// byDistance returns candidates with the nearest to word first.
func byDistance(word string, candidates []string) []string {
	out := append([]string(nil), candidates...)
	far := func(c string) int { return editDistance(strings.ToLower(word), strings.ToLower(c)) }
	sort.SliceStable(out, func(i, j int) bool { return far(out[i]) < far(out[j]) })
	return out
}

// editDistance is the optimal string alignment distance: a swap of two
// neighbours counts as one.
func editDistance(a, b string) int {
	prev2, prev, cur := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, make([]int, len(b)+1)
	}
	return prev[len(b)]
}
