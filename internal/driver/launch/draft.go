// Package launch makes launches and reads them again, in the way that is the same
// for every backend: what a spec may not ask is said all at once, and a stored
// launch is sent only by the provider that it was made for.
package launch

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

// Draft is a launch in the making. It collects what keeps a spec from running, so
// that a user reads all of it in one round.
type Draft struct {
	Spec     sdk.JobSpec
	Problems []sdk.Problem
	Fitted   []sdk.Fitted
	Warnings []string
}

// New begins a draft with what no backend takes, and with what the driver's table
// of fields refuses.
func New(s sdk.JobSpec, table []sdk.FieldSupport) Draft {
	return Draft{Spec: s, Problems: append(sdk.ValidateSpec(s), sdk.Refused(s, table)...)}
}

// For begins the launch of an attempt.
func For(r sdk.PrepareJobRequest, by sdk.SubmitBy, id sdk.Identity, owner, ledgerID string) sdk.Launch {
	return sdk.Launch{V: sdk.LaunchVersion, Kind: id.Kind, Identity: id, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: owner, LedgerID: ledgerID, Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires, Resubmit: sdk.ResubmitRule{By: by}}
}

// Bad adds a problem. Value is as sdk.Problem has it; Wrong knows that of a field
// of one value.
func (d *Draft) Bad(code sdk.Code, field, value, format string, args ...any) {
	d.Problems = append(d.Problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

// Wrong adds that the value of a field, such as cpu or grace, isn't one that the
// backend has.
func (d *Draft) Wrong(field, format string, args ...any) {
	d.Bad(sdk.InvalidArgument, field, d.Spec.Value(field), format, args...)
}

// Lacks adds that the backend can't do what a field, such as gpu or network, asks.
func (d *Draft) Lacks(field, format string, args ...any) {
	d.Bad(sdk.Unimplemented, field, d.Spec.Value(field), format, args...)
}

// Fit adds a default as the backend gets it.
func (d *Draft) Fit(field, value, why string) {
	d.Fitted = append(d.Fitted, sdk.Fitted{Field: field, Value: value, Why: why})
}

// Has reports whether a field, or a part of it, has a problem.
func (d *Draft) Has(field string) bool {
	return slices.ContainsFunc(d.Problems, func(p sdk.Problem) bool {
		rest, ok := strings.CutPrefix(p.Field, field)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Options reads the job's options into a struct with JSON tags, once they are
// right; else it adds what isn't. Beside names that it doesn't know the others are
// read, so that what a driver finds wrong with them is told in the same round.
func (d *Draft) Options(schema sdk.Schema, into any) {
	ps := schema.Validate("options", d.Spec.Options)
	raw := d.Spec.Options
	if len(ps) > 0 {
		raw = onlyKnown(schema, raw)
	}
	if len(schema.Validate("options", raw)) == 0 {
		if err := schema.Decode("options", raw, into); err != nil {
			ps = append(ps, sdk.Problem{Field: "options", Message: err.Error(), Code: sdk.InvalidArgument})
		}
	}
	d.Problems = append(d.Problems, ps...)
}

// onlyKnown leaves out the members that a schema doesn't have.
func onlyKnown(schema sdk.Schema, raw json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return raw
	}
	for name := range all {
		if !slices.ContainsFunc(schema.Fields, func(f sdk.SchemaField) bool { return f.Name == name }) {
			delete(all, name)
		}
	}
	known, err := json.Marshal(all)
	if err != nil {
		return raw
	}
	return known
}

// Within adds problems that have names below a field.
func (d *Draft) Within(field string, ps []sdk.Problem) {
	for _, p := range ps {
		p.Field = field + "." + p.Field
		d.Problems = append(d.Problems, p)
	}
}

// Image refuses a missing image and a reference with spaces.
func (d *Draft) Image(backend string) {
	switch {
	case d.Spec.Image == "":
		d.Wrong("image", "%s runs images, and none is given", backend)
	case strings.ContainsAny(d.Spec.Image, " \t\n"):
		d.Wrong("image", "an image's reference has no spaces")
	}
}

// Permissive refuses profiles that a backend can't keep, which bounds no processes
// and takes no network away.
func (d *Draft) Permissive(backend string) {
	if p := d.Spec.Profile; p == sdk.ProfileStrict || p == sdk.ProfileStandard {
		d.Lacks("profile", "%s can't bound processes or take the network away; leave it out, or choose permissive", backend)
	}
}

// Workdir refuses a relative working folder.
func (d *Draft) Workdir() {
	if w := d.Spec.Workdir; w != "" && !path.IsAbs(w) {
		d.Wrong("workdir", "needs an absolute path")
	}
}

// TextArgv refuses arguments that a backend of text can't carry.
func (d *Draft) TextArgv(backend string) {
	for _, f := range []struct {
		name string
		list sdk.Argv
	}{{"entrypoint", d.Spec.Entrypoint}, {"args", d.Spec.Args}, {"image_entrypoint", d.Spec.ImageEntrypoint}} {
		for i, a := range f.list {
			if !utf8.ValidString(a) {
				d.Bad(sdk.Unimplemented, fmt.Sprintf("%s[%d]", f.name, i), "", "is not UTF-8, and %s takes text alone", backend)
			}
		}
	}
}

// TextEnv refuses values of variables that a backend of text can't carry.
func (d *Draft) TextEnv(backend string) {
	for _, k := range slices.Sorted(maps.Keys(d.Spec.Env)) {
		if !utf8.ValidString(d.Spec.Env[k]) {
			d.Bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and %s takes text alone", backend)
		}
	}
}

// Command returns entrypoint and arguments for a backend that replaces both of the
// image's, and for which an empty list is the same as none: a cleared entrypoint
// moves the command's first word into its place, and cleared arguments follow from
// a set entrypoint, which drops the image's own.
func (d *Draft) Command(backend string) (entrypoint, args []string) {
	s := d.Spec
	entrypoint, args = s.Entrypoint, s.Args
	if s.Entrypoint == nil && s.Args != nil && len(s.Args) == 0 {
		if s.ImageEntrypoint == nil {
			d.Bad(sdk.FailedPrecondition, "args", "[]", "%s can't clear the image's arguments; say entrypoint, or image_entrypoint, which is then used", backend)
			return nil, nil
		}
		entrypoint = s.ImageEntrypoint
	}
	if len(entrypoint) == 0 && len(args) == 0 && (s.Entrypoint != nil || s.Args != nil) {
		d.Bad(sdk.InvalidArgument, "args", "", "nothing is left to run: entrypoint and args are both empty")
		return nil, nil
	}
	if s.Entrypoint != nil && len(entrypoint) == 0 {
		return args[:1], args[1:]
	}
	return entrypoint, args
}
