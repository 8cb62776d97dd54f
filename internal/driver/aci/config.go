package aci

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

// placement is what the config gives for all jobs, and the options for one.
type placement struct {
	Subnet     string            `json:"subnet"`
	Identities []string          `json:"identities"`
	System     bool              `json:"system_identity"`
	Registries []login           `json:"registries"`
	Zone       string            `json:"zone"`
	Priority   string            `json:"priority"`
	Tags       map[string]string `json:"tags"`
}

// login is how the images of one registry are fetched: as a user whose
// password is a secret, or by one of the group's identities.
type login struct {
	Server   string        `json:"server"`
	Username string        `json:"username"`
	Password sdk.SecretRef `json:"password"`
	Identity string        `json:"identity"`
}

// config is what stands under `config:` of a provider.
type config struct {
	placement
	Subscription  string       `json:"subscription"`
	ResourceGroup string       `json:"resource_group"`
	Location      string       `json:"location"`
	Cloud         string       `json:"cloud"`
	Endpoint      string       `json:"endpoint"`
	CAFile        string       `json:"ca_file"`
	LogPoll       sdk.Duration `json:"log_poll"`
	LogQuiet      sdk.Duration `json:"log_quiet"`
	LogMax        sdk.Duration `json:"log_max"`
	VisibleWithin sdk.Duration `json:"visible_within"`
	ReadRate      int          `json:"read_rate"`
	WriteRate     int          `json:"write_rate"`
	ExecShell     string       `json:"exec_shell"`
	AppConfig     string       `json:"app_configuration"`
}

// options is what stands in JobSpec.Options.
type options struct {
	placement
}

const (
	// Resource Manager refills 25 reads and 10 writes a second for a subscription
	// in a region.
	// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling
	defaultReadRate  = 1200
	defaultWriteRate = 480
	defaultLogPoll   = sdk.Duration(2 * time.Second)
	// Nothing that Azure publishes says how late output may show.
	defaultLogQuiet = sdk.Duration(10 * time.Second)
	defaultLogMax   = sdk.Duration(time.Minute)
	// A call has 30 s here, and Resource Manager gives up on a provider that
	// doesn't answer in 60 s; so no request takes effect past 90 s.
	// https://github.com/cloud-and-ai-microsoft/resource-provider-contract/blob/master/v1.0/common-api-details.md
	defaultVisibleWithin = sdk.Duration(2 * time.Minute)

	priorityRegular = "regular"
	prioritySpot    = "spot"
)

// filled returns the config with its defaults.
func (c config) filled() config {
	c.Location = strings.ToLower(strings.ReplaceAll(c.Location, " ", ""))
	c.LogPoll = cmp.Or(c.LogPoll, defaultLogPoll)
	c.LogQuiet = max(cmp.Or(c.LogQuiet, defaultLogQuiet), c.LogPoll)
	c.LogMax = max(cmp.Or(c.LogMax, defaultLogMax), c.LogQuiet)
	c.VisibleWithin = cmp.Or(c.VisibleWithin, defaultVisibleWithin)
	c.ReadRate = cmp.Or(c.ReadRate, defaultReadRate)
	c.WriteRate = cmp.Or(c.WriteRate, defaultWriteRate)
	return c
}

var (
	// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/resource-name-rules#microsoftresources
	groupName    = form(`^[\p{L}\p{Nd}_().-]{0,89}[\p{L}\p{Nd}_()-]$`)
	locationName = form(`^[a-z0-9]{2,60}$`)
	subnetForm   = form(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+$`)
	identityForm = form(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.ManagedIdentity/userAssignedIdentities/[^/]+$`)
	shellForm    = form(`^[A-Za-z0-9_./-]+$`)
	serverForm   = form(`^[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)
)

// form compiles a pattern when it is first needed: most starts of the program
// need none.
func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// check refuses what no job could run with.
func (c config) check(provider string) error {
	bad := func(field, value, message string) error {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config." + field, Err: fmt.Errorf("%q: %s", value, message)}
	}
	switch {
	case !groupName().MatchString(c.ResourceGroup):
		return bad("resource_group", c.ResourceGroup, "is no name of a resource group; set the one that the container groups are made in")
	case !locationName().MatchString(c.Location):
		return bad("location", c.Location, "is no region; write it as in westeurope")
	}
	if c.ExecShell != "" && !shellForm().MatchString(c.ExecShell) {
		return bad("exec_shell", c.ExecShell, "is no program's path without arguments, such as /bin/sh")
	}
	if msg := azure.CheckConfigStore(c.AppConfig); c.AppConfig != "" && msg != "" {
		return bad("app_configuration", c.AppConfig, msg)
	}
	for _, p := range c.problems() {
		return bad(p.Field, p.Value, p.Message)
	}
	return nil
}

// problems returns what is wrong with a placement, by field.
func (p placement) problems() []sdk.Problem {
	var out []sdk.Problem
	bad := func(field, value, message string) {
		out = append(out, sdk.Problem{Field: field, Value: value, Message: message, Code: sdk.InvalidArgument})
	}
	if p.Subnet != "" && !subnetForm().MatchString(p.Subnet) {
		bad("subnet", p.Subnet, "write the subnet's resource ID: /subscriptions/S/resourceGroups/G/providers/Microsoft.Network/virtualNetworks/N/subnets/S")
	}
	for i, id := range p.Identities {
		if !identityForm().MatchString(id) {
			bad(fmt.Sprintf("identities[%d]", i), id, "write the identity's resource ID: /subscriptions/S/resourceGroups/G/providers/Microsoft.ManagedIdentity/userAssignedIdentities/I")
		}
	}
	if p.Priority == prioritySpot && p.Subnet != "" {
		// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-spot-containers-overview
		bad("priority", p.Priority, "a group of spot priority can't be in a subnet")
	}
	seen := map[string]bool{}
	for i, r := range p.Registries {
		field := fmt.Sprintf("registries[%d]", i)
		switch ref, err := sdk.ParseSecretRef(string(r.Password)); {
		case !serverForm().MatchString(r.Server):
			bad(field+".server", r.Server, "is no registry's host, such as example.azurecr.io")
		case seen[strings.ToLower(r.Server)]:
			bad(field+".server", r.Server, "stands twice")
		case (r.Identity != "") == (r.Username != "" || r.Password != ""):
			bad(field, r.Server, "takes either an identity, or username and password")
		case r.Identity != "" && !slices.ContainsFunc(p.Identities, func(id string) bool { return strings.EqualFold(id, r.Identity) }):
			bad(field+".identity", r.Identity, "is none of identities")
		case r.Identity == "" && r.Username == "":
			bad(field+".username", "", "is missing")
		case r.Identity == "" && err != nil:
			// What stands there may be the password itself.
			bad(field+".password", "", "is no reference to a secret: "+err.Error())
		case r.Identity == "":
			if msg := checkRef(ref); msg != "" {
				bad(field+".password", string(r.Password), msg)
			}
		}
		seen[strings.ToLower(r.Server)] = true
	}
	for _, k := range sortedKeys(p.Tags) {
		if msg := checkUserTag(k, p.Tags[k]); msg != "" {
			bad("tags."+k, p.Tags[k], msg)
		}
	}
	return out
}

// checkUserTag returns what is wrong with a tag that a user chose, or nothing.
func checkUserTag(k, v string) string {
	if strings.HasPrefix(strings.ToLower(k), sdk.LabelPrefix) {
		return "names that start with " + sdk.LabelPrefix + " are ours"
	}
	return azure.CheckTag(k, v)
}

// with returns the placement of a job that sets o.
func (p placement) with(o placement) placement {
	p.Subnet, p.Zone, p.Priority = cmp.Or(o.Subnet, p.Subnet), cmp.Or(o.Zone, p.Zone), cmp.Or(o.Priority, p.Priority)
	p.System = p.System || o.System
	if len(o.Identities) > 0 {
		p.Identities = o.Identities
	}
	if len(o.Registries) > 0 {
		p.Registries = o.Registries
	}
	tags := maps.Clone(p.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, o.Tags)
	p.Tags = tags
	return p
}

// placementFields are the members that the config and the options share.
func placementFields() []sdk.SchemaField {
	return []sdk.SchemaField{
		{Name: "subnet", Type: sdk.TypeString, Doc: "The resource ID of the subnet that the group is in; it is delegated to Microsoft.ContainerInstance/containerGroups."},
		{Name: "identities", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeString}, Doc: "Resource IDs of the user-assigned identities that the job has."},
		{Name: "system_identity", Type: sdk.TypeBool, Default: "false", Doc: "Whether the group gets an identity of its own, which goes with it."},
		{Name: "registries", Type: sdk.TypeList, Doc: "How images of private registries are fetched.", Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
			{Name: "server", Type: sdk.TypeString, Required: true, Doc: "The registry's host, such as example.azurecr.io."},
			{Name: "username", Type: sdk.TypeString, Doc: "The user."},
			{Name: "password", Type: sdk.TypeString, Sensitive: true, Doc: "A reference to the secret that is the user's password."},
			{Name: "identity", Type: sdk.TypeString, Doc: "One of identities, in place of a user."},
		}}},
		{Name: "zone", Type: sdk.TypeString, Enum: []string{"1", "2", "3"}, Doc: "The availability zone that the group is in."},
		{Name: "priority", Type: sdk.TypeString, Default: priorityRegular, Enum: []string{priorityRegular, prioritySpot}, Doc: "Whether Azure may take the group's machine back."},
		{Name: "tags", Type: sdk.TypeMap, Doc: "Further tags of each group."},
	}
}

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "subscription", Type: sdk.TypeString, Default: "AZURE_SUBSCRIPTION_ID", Doc: "The subscription's ID."},
		{Name: "resource_group", Type: sdk.TypeString, Required: true, Doc: "The resource group that container groups are made in; it is there already."},
		{Name: "location", Type: sdk.TypeString, Required: true, Doc: "The region, such as westeurope."},
		{Name: "cloud", Type: sdk.TypeString, Default: azure.CloudPublic, Enum: []string{azure.CloudPublic, azure.CloudChina, azure.CloudGovernment}, Doc: "Which of Azure's clouds."},
		{Name: "endpoint", Type: sdk.TypeString, Doc: "The HTTPS address of a pocket cloud on this machine, which takes the calls to every service."},
		{Name: "ca_file", Type: sdk.TypeString, Doc: "The file, as PEM, of the certificate that signs the pocket cloud's own."},
		{Name: "log_poll", Type: sdk.TypeDuration, Default: time.Duration(defaultLogPoll).String(), Doc: "The time between two reads of a followed log."},
		{Name: "log_quiet", Type: sdk.TypeDuration, Default: time.Duration(defaultLogQuiet).String(), Doc: "A job's output counts as whole once the job has ended and nothing came for this long; at least log_poll."},
		{Name: "log_max", Type: sdk.TypeDuration, Default: time.Duration(defaultLogMax).String(), Doc: "The longest wait for output after a job's end."},
		{Name: "visible_within", Type: sdk.TypeDuration, Default: time.Duration(defaultVisibleWithin).String(), Doc: "By when a request has taken effect and its group is shown; before, a group that isn't found may still come."},
		{Name: "read_rate", Type: sdk.TypeInt, Min: 1, Max: 1000000, Default: fmt.Sprint(defaultReadRate), Doc: "The most calls a minute that only read, reads of logs among them, of all providers of the subscription and region in one process."},
		{Name: "write_rate", Type: sdk.TypeInt, Min: 1, Max: 1000000, Default: fmt.Sprint(defaultWriteRate), Doc: "The most calls a minute that change something, counted in the same way."},
		{Name: "exec_shell", Type: sdk.TypeString, Doc: "A shell within the containers, such as /bin/sh, that svc exec tells its commands: they may then have arguments, and their exit codes are known."},
		{Name: "app_configuration", Type: sdk.TypeString, Doc: "The store of App Configuration in which svc config keeps settings too, each workload's under the label GROUP/NAME."},
	}
	return sdk.Schema{Doc: "Which subscription, resource group and region run the jobs, and how.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: placementFields()}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
