package control

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// masker hides what nobody is to see of a type's configs and outputs.
type masker struct {
	// all hides every value: it isn't known which are sensitive.
	all  bool
	keys []string
}

// maskerOf hides what the driver names and what its schema marks.
func maskerOf(d *sdk.Driver, typ string, keys []string) masker {
	m := masker{keys: slices.Clone(keys)}
	if d == nil {
		return m
	}
	for _, t := range d.Resources {
		if t.Type == typ {
			m.add(t.Config.Fields)
		}
	}
	return m
}

func (m *masker) add(fields []sdk.SchemaField) {
	for _, f := range fields {
		if f.Sensitive {
			m.keys = append(m.keys, f.Name)
		}
		m.add(f.Fields)
		if f.Elem != nil {
			m.add(f.Elem.Fields)
		}
	}
}

// with also hides these members.
func (m masker) with(more map[string]bool) masker {
	m.keys = slices.Clone(m.keys)
	for k, sensitive := range more {
		if sensitive {
			m.keys = append(m.keys, k)
		}
	}
	return m
}

// hides reports whether a member's value is hidden. Names are compared without case:
// a key that was spelled otherwise isn't shown for that.
func (m masker) hides(key string) bool {
	return m.all || slices.ContainsFunc(m.keys, func(k string) bool { return strings.EqualFold(k, key) })
}

// output hides an output's sensitive members.
func (m masker) output(o sdk.ResourceOutput) sdk.ResourceOutput {
	o.Outputs = m.with(o.Sensitive).json(o.Outputs)
	return o
}

// changes hides the values of changes below sensitive members.
func (m masker) changes(list []sdk.FieldChange) []sdk.FieldChange {
	out := slices.Clone(list)
	for i := range out {
		c := &out[i]
		hidden := m.all || slices.ContainsFunc(strings.FieldsFunc(c.Path, func(r rune) bool { return strings.ContainsRune(".[]/", r) }), m.hides)
		for _, v := range []*json.RawMessage{&c.Old, &c.New} {
			switch {
			case *v == nil:
			case hidden:
				*v = json.RawMessage(`"` + sdk.Redacted + `"`)
			default:
				*v = m.json(*v)
			}
		}
	}
	return out
}

// json hides sensitive members wherever they stand in raw, which else stays the same
// value. What can't be read is hidden as a whole.
func (m masker) json(raw json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	hidden := json.RawMessage(`"` + sdk.Redacted + `"`)
	if dec.Decode(&v) != nil {
		return hidden
	}
	if _, err := dec.Token(); err != io.EOF {
		return hidden
	}
	if m.all {
		if _, ok := v.(map[string]any); !ok {
			return hidden
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(m.value(v)) != nil {
		return hidden
	}
	return bytes.TrimSpace(b.Bytes())
}

func (m masker) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if m.hides(k) {
				out[k] = sdk.Redacted
			} else {
				out[k] = m.value(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = m.value(e)
		}
		return out
	}
	return v
}
