package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// layer is what Windlass adds to a service of a project, or the whole of one that
// `svc start -f` made. It stands in a Compose file of its own, which Compose
// merges behind the project's.
type layer struct {
	// config are plain variables, secrets files with their references.
	config  map[string]string
	secrets map[string]secretFile
	// service is the definition of one that was made here; nil adds to one of the
	// project's files.
	service map[string]any
}

// secretFile is a secret that a container finds under /run/secrets.
type secretFile struct {
	Ref sdk.SecretRef `json:"ref"`
	// File is the name of the file with the value, in the service's folder.
	File string `json:"file"`
}

func (l layer) made() bool { return l.service != nil }

// The parts of a layer's file. What Compose ignores begins with x-.
type layerDoc struct {
	Note     string                    `json:"x-note"`
	Windlass layerNote                 `json:"x-windlass"`
	Services map[string]any            `json:"services"`
	Secrets  map[string]map[string]any `json:"secrets,omitempty"`
}

// layerNote says which variables of the service are settings, and whether the
// service is only defined here.
type layerNote struct {
	V       int                   `json:"v"`
	Config  []string              `json:"config"`
	Secrets map[string]secretFile `json:"secrets,omitempty"`
	Made    bool                  `json:"made,omitempty"`
}

const (
	layerVersion = 1
	layerWords   = "Written by windlass svc config. Compose merges it when it is named by --file behind the project's own files."
	secretsDir   = "secrets"
	// fileSuffix ends the variable that names a secret's file.
	fileSuffix = "_FILE"
)

// readLayer returns an empty layer where there is no file.
func readLayer(path string) (layer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return layer{}, nil
	}
	var doc layerDoc
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err == nil && doc.Windlass.V != layerVersion {
		err = fmt.Errorf("%s: version %d isn't known", path, doc.Windlass.V)
	}
	if err != nil {
		return layer{}, err
	}
	l := layer{config: map[string]string{}, secrets: map[string]secretFile{}}
	for _, raw := range doc.Services {
		svc, _ := unescape(raw).(map[string]any)
		env, _ := svc["environment"].(map[string]any)
		for _, name := range doc.Windlass.Config {
			l.config[name], _ = env[name].(string)
			delete(env, name)
		}
		for name, s := range doc.Windlass.Secrets {
			l.secrets[name] = secretFile{Ref: sdk.SecretRef(unescapeText(string(s.Ref))), File: s.File}
			delete(env, name+fileSuffix)
		}
		delete(svc, "secrets")
		if doc.Windlass.Made {
			l.service = svc
		}
	}
	return l, nil
}

// encode returns the layer as a Compose file. folder is the service's.
func (l layer) encode(name, folder string) ([]byte, error) {
	svc, env := map[string]any{}, map[string]any{}
	maps.Copy(svc, l.service)
	if e, ok := svc["environment"].(map[string]any); ok {
		maps.Copy(env, e)
	}
	doc := layerDoc{Note: layerWords, Windlass: layerNote{V: layerVersion, Config: slices.Sorted(maps.Keys(l.config)), Made: l.made()}}
	for k, v := range l.config {
		env[k] = v
	}
	var list []any
	for _, k := range slices.Sorted(maps.Keys(l.secrets)) {
		s := l.secrets[k]
		// The service's hash has the source's name and not what is in the file, so a
		// new value needs a new name.
		source := "windlass-" + name + "-" + s.File
		if doc.Secrets == nil {
			doc.Secrets, doc.Windlass.Secrets = map[string]map[string]any{}, map[string]secretFile{}
		}
		doc.Secrets[source] = map[string]any{"file": escapeText(filepath.Join(folder, secretsDir, s.File))}
		doc.Windlass.Secrets[k] = secretFile{Ref: sdk.SecretRef(escapeText(string(s.Ref))), File: s.File}
		list = append(list, map[string]any{"source": source, "target": k})
		env[k+fileSuffix] = "/run/secrets/" + k
	}
	if len(env) > 0 {
		svc["environment"] = env
	}
	if len(list) > 0 {
		svc["secrets"] = list
	}
	doc.Services = map[string]any{name: escape(svc)}
	return json.MarshalIndent(doc, "", "  ")
}

// revision names the settings: of different ones it differs.
func (l layer) revision() string {
	refs := map[string]string{}
	for k, s := range l.secrets {
		refs[k] = string(s.Ref) + "\x00" + s.File
	}
	config := map[string]string{}
	maps.Copy(config, l.config)
	data, err := json.Marshal([]any{config, refs})
	if err != nil {
		return ""
	}
	return sdk.HashCanonical(data)[:16]
}

// Compose substitutes variables in all text of a file. A dollar that is meant is
// doubled.
// https://docs.docker.com/reference/compose-file/interpolation/
func escapeText(s string) string   { return strings.ReplaceAll(s, "$", "$$") }
func unescapeText(s string) string { return strings.ReplaceAll(s, "$$", "$") }

func escape(v any) any   { return mapText(v, escapeText) }
func unescape(v any) any { return mapText(v, unescapeText) }

// mapText applies f to all text within maps and lists; keys aren't substituted.
func mapText(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = mapText(x, f)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = mapText(x, f)
		}
		return out
	}
	return v
}
