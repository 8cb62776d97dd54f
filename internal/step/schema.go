package step

import (
	"encoding/json"

	"github.com/windlass-run/windlass/internal/sandbox"
)

// Schema returns the JSON schema of a step file, indented, for editors. Read
// and the environments decide.
func Schema() ([]byte, error) {
	config := objectOf(entries(), map[string]any{
		"exec_env": map[string]any{
			"description": find(entries(), "exec_env").doc,
			"default":     sandbox.LocalDocker,
			"anyOf": []any{
				map[string]any{"enum": sandbox.Reserved()},
				map[string]any{"type": "string", "minLength": 1, "description": "The name of a remote runner, which stands under runners: in windlass.yaml."},
			},
		},
	})
	kinds := names(nil)
	for _, x := range stepEntries() {
		if x.name == "type" {
			kinds = x.enum
		}
	}
	step := objectOf(stepEntries(), map[string]any{
		"name":   map[string]any{"type": "string", "pattern": "^[A-Za-z0-9][-A-Za-z0-9_]{0,62}$", "description": find(stepEntries(), "name").doc},
		"type":   map[string]any{"enum": kinds, "description": find(stepEntries(), "type").doc},
		"config": config,
	})
	step["required"] = append(step["required"].([]string), "config")
	root := map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Windlass step file",
		"description":          "Steps that run one after the other. Texts of a config may be Go templates over the outputs of earlier steps, such as {{ .steps.build.stdout | trim }}.",
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"steps"},
		"properties": map[string]any{
			"steps": map[string]any{"type": "array", "minItems": 1, "items": step},
		},
	}
	b, err := json.MarshalIndent(root, "", "  ")
	return append(b, '\n'), err
}

// objectOf is the schema of a mapping with the entries' keys. Special has
// schemas that the table's shapes don't give, and further keys.
func objectOf(es []entry, special map[string]any) map[string]any {
	props := map[string]any{}
	required := []string{}
	for _, e := range es {
		props[e.name] = schemaOf(e)
		if e.required {
			required = append(required, e.name)
		}
	}
	for k, v := range special {
		props[k] = v
	}
	o := map[string]any{"type": "object", "additionalProperties": false, "properties": props}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

const templatePattern = `\{\{`

// schemaOf is the schema of one value. A template may stand for a quantity.
func schemaOf(e entry) map[string]any {
	doc := e.doc
	if e.fallback != "" {
		doc += " Default: " + e.fallback + "."
	}
	text := map[string]any{"type": "string"}
	var o map[string]any
	switch e.shape {
	case shapeList:
		o = map[string]any{"type": "array", "minItems": 1, "items": text}
	case shapeWords:
		o = map[string]any{"type": "array", "items": text}
	case shapeMap:
		o = map[string]any{"type": "object", "additionalProperties": text}
	case shapeBool:
		o = map[string]any{"type": "boolean"}
	case shapeSize:
		o = map[string]any{"type": []string{"string", "integer"}, "pattern": `^[0-9]+(\.[0-9]+)?(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$|` + templatePattern, "exclusiveMinimum": 0}
	case shapeCores:
		o = map[string]any{"type": []string{"string", "number"}, "pattern": `^[0-9]*\.?[0-9]+m?$|` + templatePattern, "exclusiveMinimum": 0}
	case shapeDuration:
		o = map[string]any{"type": "string", "minLength": 1, "pattern": `^([0-9]+w)?([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$|` + templatePattern}
	case shapeMounts:
		o = map[string]any{"type": "array", "items": objectOf(mountEntries(), nil)}
	case shapeTmpfs:
		o = map[string]any{"type": "array", "items": objectOf(tmpfsEntries(), nil)}
	default:
		o = map[string]any{"type": "string", "minLength": 1}
		if len(e.enum) > 0 {
			o = map[string]any{"enum": e.enum}
		}
	}
	o["description"] = doc
	return o
}
