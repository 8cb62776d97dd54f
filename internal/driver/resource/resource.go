// Package resource is what drivers' resources share: the checks that come before each
// verb, the marks of what is ours, and the comparison of configs.
package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// What is being done, as errors say it.
const (
	OpCreate = "create resource"
	OpRead   = "read resource"
	OpUpdate = "update resource"
	OpDelete = "delete resource"
	OpDiff   = "compare resource"
	OpScale  = "scale resource"
	OpHealth = "check resource"
	OpKeys   = "read sensitive keys"
)

// Table is a driver's table of resources, with the provider for errors.
type Table struct {
	Provider string
	Types    []sdk.ResourceType
}

// fail makes an error of the provider.
func (t Table) fail(code sdk.Code, op, field, format string, args ...any) error {
	return &sdk.Error{Code: code, Op: op, Provider: t.Provider, Field: field, Err: fmt.Errorf(format, args...)}
}

// Verb checks that a type is there and can do the verb; an empty verb is any. An
// unknown type is InvalidArgument, a verb that it lacks Unimplemented.
func (t Table) Verb(op, typ string, v sdk.ResourceVerb) error {
	var names []string
	for _, row := range t.Types {
		if row.Type != typ {
			names = append(names, row.Type)
			continue
		}
		if why := row.Refusal(v); v != "" && why != "" {
			return t.fail(sdk.Unimplemented, op, "type", "%s", why)
		}
		return nil
	}
	near := ""
	if n := sdk.Nearest(typ, names); n != "" {
		near = fmt.Sprintf(" (did you mean %q?)", n)
	}
	return t.fail(sdk.InvalidArgument, op, "type", "%q is no type here%s; there are %s", typ, near, strings.Join(names, ", "))
}

// Change is Verb for a call that changes something, which has an ID.
func (t Table) Change(op, typ string, v sdk.ResourceVerb, id sdk.ID) error {
	if err := t.Verb(op, typ, v); err != nil {
		return err
	}
	if id.IsZero() {
		return t.fail(sdk.InvalidArgument, op, "op_id", "is missing")
	}
	return nil
}

// Spec is a spec that was read, and what is wrong with it.
type Spec struct {
	table    Table
	op       string
	problems sdk.Problems
	err      error
}

// Decode checks a spec of a type that is there, and reads its config into a struct. No
// resource here goes by a size or by hints, so both are refused.
func (t Table) Decode(op string, s sdk.ResourceSpec, into any) *Spec {
	out := &Spec{table: t, op: op}
	i := slices.IndexFunc(t.Types, func(r sdk.ResourceType) bool { return r.Type == s.Type })
	if i < 0 {
		out.err = t.Verb(op, s.Type, "")
		return out
	}
	if s.Name == "" {
		out.Bad("name", "", "is missing")
	}
	if s.Size != "" {
		out.Bad("size", s.Size, "isn't taken: %s has no size", s.Type)
	}
	if s.Hints != (sdk.ResourceHints{}) {
		out.Bad("hints", "", "aren't taken: %s goes by none", s.Type)
	}
	var wrong sdk.Problems
	err := t.Types[i].Config.Decode("config", s.Config, into)
	if errors.As(err, &wrong) {
		out.problems = append(out.problems, wrong...)
		// What stands beside a wrong member is looked at all the same.
		if err := json.Unmarshal(without(s.Config, wrong), into); err != nil {
			out.err = t.fail(sdk.InvalidArgument, op, "config", "%w", err)
		}
	} else {
		out.err = err
	}
	return out
}

// without is a config less its members that have problems.
func without(config json.RawMessage, wrong sdk.Problems) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(config, &members) != nil {
		return json.RawMessage("{}")
	}
	for k := range members {
		if wrongWith(wrong, "config."+k) {
			delete(members, k)
		}
	}
	return raw(members)
}

// wrongWith reports whether there are problems with a field, or with what is in it.
func wrongWith(ps sdk.Problems, field string) bool {
	return slices.ContainsFunc(ps, func(p sdk.Problem) bool {
		rest, in := strings.CutPrefix(p.Field, field)
		return in && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Wrong reports whether something is wrong with a field, which then isn't read.
func (s *Spec) Wrong(field string) bool { return wrongWith(s.problems, field) }

// Problems returns all that is wrong.
func (s *Spec) Problems() []sdk.Problem {
	if s.err != nil {
		return append(slices.Clone(s.problems), sdk.Problem{Field: "config", Message: s.err.Error(), Code: sdk.InvalidArgument})
	}
	return s.problems
}

// Bad adds what is wrong with a field's value, which may be empty.
func (s *Spec) Bad(field, value, format string, args ...any) {
	s.problems = append(s.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: sdk.InvalidArgument})
}

// Labels refuses labels of a user's that would pass for ours.
func (s *Spec) Labels(field string, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k == "" || strings.HasPrefix(k, sdk.LabelPrefix) {
			s.Bad(field+"."+k, "", "a name that is empty or begins with %s is not for users", sdk.LabelPrefix)
		}
	}
}

// Err returns all that is wrong as one error, nil where nothing is.
func (s *Spec) Err() error {
	if s.err != nil || len(s.problems) == 0 {
		return s.err
	}
	return &sdk.Error{Code: sdk.InvalidArgument, Op: s.op, Provider: s.table.Provider, Field: s.problems[0].Field, Err: s.problems}
}

// CheckRef wants a name or an ID.
func (t Table) CheckRef(op string, r sdk.ResourceRef) error {
	if r.Name == "" && r.ProviderID == "" {
		return t.fail(sdk.InvalidArgument, op, "ref", "has neither a name nor an ID")
	}
	return nil
}

// Mark is what a resource of ours carries in its labels or tags.
type Mark struct {
	Owner, LedgerID string
	OpID            sdk.ID
}

// Onto returns labels with the mark.
func (m Mark) Onto(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[sdk.LabelOwner], out[sdk.LabelLedger], out[sdk.LabelOp] = m.Owner, m.LedgerID, m.OpID.String()
	return out
}

// Split takes the mark out of labels: what is left is the user's, nil where it is none.
func Split(labels map[string]string) (Mark, map[string]string) {
	m := Mark{Owner: labels[sdk.LabelOwner], LedgerID: labels[sdk.LabelLedger]}
	// A label that isn't an ID leaves the zero ID.
	m.OpID, _ = sdk.ParseID(labels[sdk.LabelOp])
	var rest map[string]string
	for k, v := range labels {
		if strings.HasPrefix(k, sdk.LabelPrefix) {
			continue
		}
		if rest == nil {
			rest = map[string]string{}
		}
		rest[k] = v
	}
	return m, rest
}

// Ours refuses to change what the owner didn't make. A resource without the ID of a
// change is none of resources, but of a job.
func (t Table) Ours(op string, m Mark, owner, what string) error {
	switch {
	case m.Owner == owner && owner != "" && !m.OpID.IsZero():
		return nil
	case m.Owner == "" || m.OpID.IsZero():
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: t.Provider, Remedy: "change it where it was made",
			Err: fmt.Errorf("%s wasn't made by windlass resource", what)}
	}
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: t.Provider, Remedy: "change it from there",
		Err: fmt.Errorf("%s belongs to the owner %q", what, m.Owner)}
}

// Diff collects what differs.
type Diff struct{ sdk.DiffResourceResult }

// Value compares a member. force says that another value needs another resource.
func (d *Diff) Value(path string, old, want any, force bool) {
	a, b := raw(old), raw(want)
	if bytes.Equal(a, b) {
		return
	}
	d.Changes = append(d.Changes, sdk.FieldChange{Path: path, Old: a, New: b, ForceNew: force})
	d.NeedsReplace = d.NeedsReplace || force
	d.NeedsUpdate = d.NeedsUpdate || !force
}

// Map compares a map member by member.
func (d *Diff) Map(path string, old, want map[string]string, force bool) {
	keys := maps.Clone(old)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, want)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		d.Value(path+"."+k, member(old, k), member(want, k), force)
	}
}

func member(m map[string]string, k string) any {
	if v, ok := m[k]; ok {
		return v
	}
	return nil
}

// raw is v as JSON; nil is not there.
func raw(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil // text, numbers and lists of them can always be written
	}
	return b
}

// Outputs returns a struct of outputs as JSON.
func Outputs(v any) json.RawMessage { return raw(v) }

// Current reads the outputs of a resource as ReadResource gave them.
func (t Table) Current(op string, o sdk.ResourceOutput, into any) error {
	if len(o.Outputs) == 0 {
		return nil
	}
	if err := json.Unmarshal(o.Outputs, into); err != nil {
		return t.fail(sdk.InvalidArgument, op, "current.outputs", "are not those of %s: %w", o.Type, err)
	}
	return nil
}
