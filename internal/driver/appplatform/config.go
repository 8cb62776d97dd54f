package appplatform

import (
	"cmp"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/sdk"
)

// placement is what the config gives for all jobs, and the options for one.
type placement struct {
	Region              string `json:"region"`
	Project             string `json:"project"`
	Size                string `json:"instance_size"`
	RegistryCredentials string `json:"registry_credentials"`
	ExitCode            *bool  `json:"exit_code_in_log"`
	ReadBy              string `json:"command_read_by"`
}

// Who reads a run command. No page tells, and users have seen both.
const (
	byShell = "shell"
	byWords = "words"
)

// config is what stands under `config:` of a provider.
type config struct {
	placement
	Registry      string       `json:"registry"`
	Endpoint      string       `json:"endpoint"`
	MaxApps       int          `json:"max_apps"`
	VisibleWithin sdk.Duration `json:"visible_within"`
	LogMax        sdk.Duration `json:"log_max"`
	MinuteRate    int          `json:"minute_rate"`
	HourRate      int          `json:"hour_rate"`
}

// options is what stands in JobSpec.Options.
type options struct {
	placement
	App string `json:"app"`
}

const (
	// The number of apps that an account may have isn't published, and a launch
	// beyond it fails late.
	// https://docs.digitalocean.com/products/app-platform/reference/error-codes/
	defaultMaxApps = 5
	// A new app shows at once; no page says by when surely.
	defaultVisibleWithin = sdk.Duration(30 * time.Second)
	// No page says when an ended job's log is archived.
	defaultLogMax = sdk.Duration(2 * time.Minute)
)

// filled returns the config with its defaults.
func (c config) filled() config {
	c.MaxApps = cmp.Or(c.MaxApps, defaultMaxApps)
	c.VisibleWithin = cmp.Or(c.VisibleWithin, defaultVisibleWithin)
	c.LogMax = cmp.Or(c.LogMax, defaultLogMax)
	c.MinuteRate = cmp.Or(c.MinuteRate, do.DefaultPerMinute)
	c.HourRate = cmp.Or(c.HourRate, do.DefaultPerHour)
	return c
}

// check refuses what no job could run with.
func (c config) check(provider string) error {
	for _, p := range c.problems() {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config." + p.Field, Err: fmt.Errorf("%q: %s", p.Value, p.Message)}
	}
	return nil
}

var (
	slugForm = form(`^[a-z0-9][a-z0-9.-]{0,62}$`)
	uuidForm = form(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// form compiles a pattern when it is first needed: most starts of the program
// need none.
func form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// problems returns what is wrong with a placement, by field.
func (p placement) problems() []sdk.Problem {
	var out []sdk.Problem
	bad := func(field, value, message string) {
		out = append(out, sdk.Problem{Field: field, Value: value, Message: message, Code: sdk.InvalidArgument})
	}
	if p.Region != "" && !slugForm().MatchString(p.Region) {
		bad("region", p.Region, "a region is named as in ams or nyc")
	}
	if p.Project != "" && !uuidForm().MatchString(p.Project) {
		bad("project", p.Project, "a project is named by its UUID")
	}
	if p.Size != "" && !slugForm().MatchString(p.Size) {
		bad("instance_size", p.Size, "a size is named as in apps-s-1vcpu-0.5gb")
	}
	if p.RegistryCredentials != "" {
		ref, err := sdk.ParseSecretRef(p.RegistryCredentials)
		switch {
		case err != nil: // the text may be the secret itself
			bad("registry_credentials", "", "is no reference such as secret://env/REGISTRY_LOGIN, whose value reads USER:TOKEN")
		case ref.Scheme != schemeEnv && ref.Scheme != schemeFile:
			bad("registry_credentials", p.RegistryCredentials, "takes secrets of the schemes env and file")
		}
	}
	return out
}

// with returns the placement of a job that sets o.
func (p placement) with(o placement) placement {
	p.Region = cmp.Or(o.Region, p.Region)
	p.Project = cmp.Or(o.Project, p.Project)
	p.Size = cmp.Or(o.Size, p.Size)
	p.RegistryCredentials = cmp.Or(o.RegistryCredentials, p.RegistryCredentials)
	p.ExitCode = cmp.Or(o.ExitCode, p.ExitCode)
	p.ReadBy = cmp.Or(o.ReadBy, p.ReadBy)
	return p
}

// placementFields are the members that the config and the options share.
func placementFields() []sdk.SchemaField {
	return []sdk.SchemaField{
		{Name: "region", Type: sdk.TypeString, Default: "DigitalOcean's choice", Doc: "The region of the apps, such as ams."},
		{Name: "project", Type: sdk.TypeString, Default: "the account's default project", Doc: "The UUID of the project that the apps are put into."},
		{Name: "instance_size", Type: sdk.TypeString, Default: "the cheapest with the job's cores and memory", Doc: "The instance size of the job, such as apps-s-1vcpu-1gb."},
		{Name: "registry_credentials", Type: sdk.TypeString, Doc: "A reference, such as secret://env/REGISTRY_LOGIN, to USER:TOKEN for a private image on Docker Hub or in GitHub's registry."},
		{Name: "exit_code_in_log", Type: sdk.TypeBool, Default: "false", Doc: "Runs the command under the image's sh, which writes the exit code to the log, from where it is taken."},
		{Name: "command_read_by", Type: sdk.TypeString, Enum: []string{byShell, byWords}, Default: "not known; the command is written for both",
			Doc: "Who reads a run command in the account: a shell, or what splits it into words. TERM surely reaches the job only where that is known, and grace needs it."},
	}
}

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "registry", Type: sdk.TypeString, Doc: "The name of the account's own registry: the NAME of images registry.digitalocean.com/NAME/..."},
		{Name: "endpoint", Type: sdk.TypeString, Doc: "The address of a pocket cloud on this machine."},
		{Name: "max_apps", Type: sdk.TypeInt, Min: 1, Max: 10000, Default: fmt.Sprint(defaultMaxApps), Doc: "The most apps that runs may have at once; the others wait."},
		{Name: "visible_within", Type: sdk.TypeDuration, Default: time.Duration(defaultVisibleWithin).String(), Doc: "An app that DigitalOcean doesn't know counts as not visible yet for this long after its submit."},
		{Name: "log_max", Type: sdk.TypeDuration, Default: time.Duration(defaultLogMax).String(), Doc: "The longest wait for the archive of an ended job's log."},
		{Name: "minute_rate", Type: sdk.TypeInt, Min: 5, Max: 1000000, Default: fmt.Sprint(do.DefaultPerMinute), Doc: "The most calls a minute, of all providers with the same token in one process."},
		{Name: "hour_rate", Type: sdk.TypeInt, Min: 5, Max: 100000000, Default: fmt.Sprint(do.DefaultPerHour), Doc: "The most calls an hour, counted in the same way."},
	}
	return sdk.Schema{Doc: "Where in the account the jobs run.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	refused := sdk.SchemaField{Name: "app", Type: sdk.TypeString, Doc: "Refused: a run can't be a job of an app that is there already (docs/adr/0016)."}
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: append(placementFields(), refused)}
}
