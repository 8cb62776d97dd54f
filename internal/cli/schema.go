package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// JSONSchema returns the JSON schema of everything that --json prints, indented:
// the envelope, the data of each command, and the lines of streams. It is made
// from the types that are printed, so that it can't differ from them.
func JSONSchema() ([]byte, error) {
	g := &schemaMaker{defs: map[string]any{}}
	commands := map[string]any{}
	data := []any{map[string]any{"type": "null"}}
	for _, c := range jsonCommands() {
		s := g.of(reflect.TypeOf(c.data))
		commands[c.name] = s
		data = append(data, s)
	}
	g.defs["commands"] = map[string]any{"description": "The data of each command, by its name.", "properties": commands}
	g.of(reflect.TypeFor[ErrorBody]())
	g.defs["Envelope"] = map[string]any{
		"type": "object", "description": "What a command prints with --json.", "additionalProperties": false,
		"required": []string{"status", "data", "error"},
		"properties": map[string]any{
			"status": map[string]any{"enum": []string{statusOK, statusFaults, statusPartial, statusError}},
			"data":   map[string]any{"anyOf": data},
			"error":  map[string]any{"anyOf": []any{map[string]any{"type": "null"}, ref("ErrorBody")}},
		},
		"oneOf": []any{
			map[string]any{"properties": map[string]any{"status": map[string]any{"enum": []string{statusOK, statusFaults}}, "error": map[string]any{"type": "null"}}},
			map[string]any{"properties": map[string]any{"status": map[string]any{"const": statusPartial}, "error": ref("ErrorBody")}},
			map[string]any{"properties": map[string]any{"status": map[string]any{"const": statusError}, "data": map[string]any{"type": "null"}}},
		},
	}
	root := map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "windlass --json",
		"description": "A command prints one Envelope. windlass run, rerun, logs, svc logs and step run print an Event a line instead, and ledger export an ExportLine.",
		"oneOf":       []any{ref("Envelope"), g.of(reflect.TypeFor[Event]()), g.of(reflect.TypeFor[TopEvent]()), g.of(reflect.TypeFor[ledger.ExportLine]())},
		"$defs":       g.defs,
	}
	b, err := json.MarshalIndent(root, "", "  ")
	return append(b, '\n'), err
}

// jsonCommand is a command with the type of its data.
type jsonCommand struct {
	name string
	data any
}

func jsonCommands() []jsonCommand {
	return []jsonCommand{
		{"run -d", RunView{}}, {"run --dry-run", PlanView{}}, {"rerun -d", RunView{}}, {"rerun --dry-run", PlanView{}},
		{"ps", []RunView{}}, {"status", RunView{}}, {"status --on", RemoteView{}}, {"wait", []RunView{}},
		{"cancel", []RunView{}}, {"cancel --on", []RemoteCancelView{}}, {"abandon", RunView{}}, {"adopt", RunView{}}, {"rm", RemovedView{}},
		{"ledger log", []RunView{}}, {"ledger log --events", []ledger.ExportEvent{}}, {"ledger verify", VerifyView{}}, {"ledger prune", PrunedView{}},
		{"reap", []ReapView{}},
		{"resource read", []ResourceView{}}, {"resource diff", []ResourcePlanView{}}, {"resource apply", []ResourceChangeView{}},
		{"resource apply --dry-run", []ResourcePlanView{}}, {"resource delete", []ResourceChangeView{}}, {"resource scale", []ResourceChangeView{}},
		{"resource health", []ResourceHealthView{}}, {"resource troubleshoot", []ResourceTroubleView{}},
		{"provider ls", []ProviderView{}}, {"provider ls --kinds", []KindView{}}, {"provider check", []CheckView{}},
		{"plugin ls", []PluginView{}}, {"plugin check", []CheckView{}}, {"plugin install", PluginInstalledView{}},
		{"provider describe", DescribeView{}}, {"doctor", []CheckView{}}, {"config show", []SettingView{}}, {"config validate", ValidateView{}},
		{"svc ls", WorkloadsView{}}, {"svc status", WorkloadView{}}, {"svc start", ChangeView{}}, {"svc stop", ChangeView{}}, {"svc restart", ChangeView{}},
		{"svc scale", ChangeView{}}, {"svc config", ChangeView{}}, {"svc exec", ExecView{}},
		{"init", InitView{}}, {"debug bundle", BundleView{}}, {"version", VersionView{}}, {"explain", []ExplainView{}}, {"explain ID", ExplainView{}},
	}
}

// schemaMaker makes schemas of Go types; those of structs go into defs.
type schemaMaker struct{ defs map[string]any }

func ref(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

func (g *schemaMaker) of(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]():
		return map[string]any{}
	case reflect.TypeFor[sdk.ID]():
		return map[string]any{"type": "string", "pattern": "^([0-9a-hjkmnp-tv-z]{26})?$"}
	case reflect.TypeFor[EventName]():
		return enumOf(eventNames())
	case reflect.TypeFor[TopName]():
		return enumOf(topNames())
	case reflect.TypeFor[sdk.JobState]():
		return enumOf(sdk.JobStates())
	case reflect.TypeFor[sdk.Verdict]():
		return enumOf(append(sdk.Verdicts(), ""))
	case reflect.TypeFor[sdk.Reason]():
		list := []sdk.Reason{""}
		for _, r := range sdk.ReasonRules() {
			list = append(list, r.Reason)
		}
		return enumOf(list)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{map[string]any{"type": "null"}, g.of(t.Elem())}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": g.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.of(t.Elem())}
	case reflect.Struct:
		return g.object(t)
	default:
		return map[string]any{"type": "integer"}
	}
}

func enumOf[T any](list []T) any { return map[string]any{"enum": list} }

func (g *schemaMaker) object(t reflect.Type) any {
	name := t.Name()
	if _, ok := g.defs[name]; ok {
		return ref(name)
	}
	props := map[string]any{}
	required := []string{}
	g.defs[name] = nil // so that a type may hold itself
	for i := range t.NumField() {
		f := t.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || tag == "-" || tag == "" {
			continue
		}
		s := g.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			s = map[string]any{"description": doc, "allOf": []any{s}}
		}
		props[tag] = s
		if !strings.Contains(options, "omit") {
			required = append(required, tag)
		}
	}
	g.defs[name] = map[string]any{"type": "object", "properties": props, "required": required}
	return ref(name)
}
