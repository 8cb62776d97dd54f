package pluginhost

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// knowing is a resolver whose values a plugin's host learns before the plugin does: the
// plugin may say them.
type knowing struct {
	sdk.SecretResolver
	know func(value sdk.SecretValue)
}

// ResolveSecret implements sdk.SecretResolver.
func (k knowing) ResolveSecret(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, err := k.SecretResolver.ResolveSecret(ctx, ref)
	if err == nil {
		k.know(v)
	}
	return v, err
}

// tell has a host learn what a plugin is told of secrets when a provider is opened, and
// returns the request with a resolver that tells it of each that follows.
func tell(l *Lease, schema sdk.Schema, r sdk.OpenRequest) sdk.OpenRequest {
	for _, name := range slices.Sorted(maps.Keys(r.Credentials)) {
		if hides(name) {
			l.Know(sdk.NewSecretValue([]byte(r.Credentials[name])))
		}
	}
	for _, v := range secretsIn(schema, r.Config) {
		l.Know(v)
	}
	if r.Secrets != nil {
		r.Secrets = knowing{r.Secrets, l.Know}
	}
	return r
}

// secretsIn returns the texts of a configuration that its schema calls sensitive, and, of
// what the schema doesn't describe, those whose names say that they hide something.
func secretsIn(schema sdk.Schema, raw json.RawMessage) []sdk.SecretValue {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil // refused elsewhere
	}
	var out []sdk.SecretValue
	gather(&out, v, &sdk.SchemaField{Type: sdk.TypeObject, Fields: schema.Fields}, false)
	return out
}

// gather adds the texts in v that hide; field is nil where no schema describes it.
func gather(out *[]sdk.SecretValue, v any, field *sdk.SchemaField, hidden bool) {
	// Of what may be anything the names decide: all of it hides for people, and a log
	// without the name of a region can't be read.
	if field != nil && field.Type == sdk.TypeAny {
		field = nil
	}
	hidden = hidden || field != nil && field.Sensitive
	switch v := v.(type) {
	case string:
		if hidden {
			*out = append(*out, sdk.NewSecretValue([]byte(v)))
		}
	case []any:
		var elem *sdk.SchemaField
		if field != nil {
			elem = field.Elem
		}
		for _, e := range v {
			gather(out, e, elem, hidden)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			var member *sdk.SchemaField
			if field != nil {
				if i := slices.IndexFunc(field.Fields, func(f sdk.SchemaField) bool { return f.Name == name }); i >= 0 {
					member = &field.Fields[i]
				}
			}
			gather(out, v[name], member, hidden || member == nil && hides(name))
		}
	}
}

// hides reports whether a name is one of something secret.
func hides(name string) bool {
	name = strings.ToLower(name)
	return !strings.HasSuffix(name, "_file") && slices.ContainsFunc([]string{"secret", "token", "password", "passwd", "passphrase", "credential", "apikey", "api_key", "api-key",
		"access_key", "accesskey", "private_key", "privatekey", "dsn", "connection_string"}, func(s string) bool { return strings.Contains(name, s) })
}
