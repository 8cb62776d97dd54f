package iac

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// defaultQuiet is how long a log is silent until it is taken as whole. The wire proves
// no end, and says nothing of how late a line may be.
const defaultQuiet = 3 * time.Second

var (
	errNoObject = errors.New("wants an object")
	errNoQuiet  = errors.New("a log that is never silent can't be taken as whole")
)

// target is the resource that a job runs beside.
type target struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	ProviderID string `json:"provider_id"`
}

func (t *target) proto() *pb.ResourceRef {
	if t == nil {
		return nil
	}
	return &pb.ResourceRef{Name: t.Name, Type: t.Type, ProviderId: t.ProviderID}
}

// config is what stands under a provider's config.
type config struct {
	Account  string          `json:"account"`
	LogQuiet sdk.Duration    `json:"log_quiet"`
	Plugin   json.RawMessage `json:"plugin"`
	Target   *target         `json:"target"`
}

func configSchema() sdk.Schema {
	return sdk.Schema{Doc: "A use of a published plugin.", Fields: []sdk.SchemaField{
		{Name: "account", Type: sdk.TypeString, Doc: "What the plugin's own configuration leads to, such as an account or a cluster: a run that was made with another is refused. The plugin can't tell."},
		{Name: "log_quiet", Type: sdk.TypeDuration, Default: defaultQuiet.String(), Doc: "How long a log is silent after a job's end until it is taken as whole; more than the plugin's backend needs for a late line."},
		{Name: "plugin", Type: sdk.TypeAny, Sensitive: true, Doc: "An object whose members the plugin is told in the place of those under config of its entry in plugins. Both go to it as they stand."},
		targetField("The resource that jobs run beside, where they name no other."),
	}}
}

// options are a job's.
type options struct {
	Target *target `json:"target"`
}

func optionSchema() sdk.Schema {
	return sdk.Schema{Doc: "What the published wire has beside the job's own fields.", Fields: []sdk.SchemaField{
		targetField("The resource that the job runs beside; the provider's config by default."),
	}}
}

func targetField(doc string) sdk.SchemaField {
	return sdk.SchemaField{Name: "target", Type: sdk.TypeObject, Doc: doc, Fields: []sdk.SchemaField{
		{Name: "name", Type: sdk.TypeString, Required: true, Doc: "The resource's name."},
		{Name: "type", Type: sdk.TypeString, Required: true, Doc: "Its type, such as infra.container_service."},
		{Name: "provider_id", Type: sdk.TypeString, Doc: "Its ID at the provider."},
	}}
}

func readConfig(schema sdk.Schema, raw json.RawMessage) (config, error) {
	c := config{LogQuiet: sdk.Duration(defaultQuiet)}
	if err := schema.Decode("config", raw, &c); err != nil {
		return c, err
	}
	if c.LogQuiet <= 0 {
		return c, &sdk.Error{Code: sdk.InvalidArgument, Op: "read config", Field: "config.log_quiet", Remedy: "leave it out, or write how long",
			Err: errNoQuiet}
	}
	return c, nil
}

// Settings returns what a plugin is initialized with: config of its entry, with the
// members that a provider's own config has for it.
func Settings(base, provider json.RawMessage) (json.RawMessage, error) {
	c, err := readConfig(configSchema(), provider)
	if err != nil {
		return nil, err
	}
	return merged(base, c.Plugin)
}

// merged returns the plugin's configuration with a provider's own members in it. Where
// there are none it stays byte for byte.
func merged(base, own json.RawMessage) (json.RawMessage, error) {
	if len(base) == 0 {
		base = json.RawMessage("{}")
	}
	if len(own) == 0 {
		return base, nil
	}
	var all, members map[string]json.RawMessage
	if json.Unmarshal(own, &members) != nil || members == nil {
		// It may be sensitive, so it isn't shown.
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "read config", Field: "config.plugin", Err: errNoObject}
	}
	if err := json.Unmarshal(base, &all); err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "read the plugin's config", Err: errNoObject}
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, members)
	return json.Marshal(all)
}
