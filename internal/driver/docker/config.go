package docker

import (
	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/sdk"
)

// config is what stands under `config:` of a provider.
type config struct {
	Host    string `json:"host"`
	Context string `json:"context"`
	TLSCA   string `json:"tls_ca"`
	TLSCert string `json:"tls_cert"`
	TLSKey  string `json:"tls_key"`
	Remote  bool   `json:"remote"`
}

func configSchema() sdk.Schema {
	return sdk.Schema{Doc: "Which engine runs the jobs.", Fields: append(engine.EndpointFields(),
		sdk.SchemaField{Name: "remote", Type: sdk.TypeBool, Default: "false",
			Doc: "The engine behind a socket of this machine doesn't share this machine's files: it runs elsewhere, or windlass runs in a container."},
	)}
}

// The values of the option pull.
const (
	pullMissing = "missing"
	pullAlways  = "always"
	pullNever   = "never"
)

// The log drivers that the engine can read back exactly enough.
const (
	logLocal = "local"
	logJSON  = "json-file"
	// logFile is Podman's: https://docs.podman.io/en/v4.3/markdown/options/log-driver.html
	logFile = "k8s-file"
)

// options is what stands in JobSpec.Options.
type options struct {
	Platform   string   `json:"platform"`
	Pull       string   `json:"pull"`
	ExtraHosts []string `json:"extra_hosts"`
	DNS        []string `json:"dns"`
	ShmSize    int64    `json:"shm_size"`
	CapAdd     []string `json:"cap_add"`
	CapDrop    []string `json:"cap_drop"`
	Ulimits    []ulimit `json:"ulimits"`
	Runtime    string   `json:"runtime"`
	LogDriver  string   `json:"log_driver"`
	LogMaxSize int64    `json:"log_max_size"`
	Init       *bool    `json:"init"`
	Hostname   string   `json:"hostname"`
	StopSignal string   `json:"stop_signal"`
}

type ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

const minLogSize = 1 << 20

func optionsSchema() sdk.Schema {
	text := &sdk.SchemaField{Type: sdk.TypeString}
	return sdk.Schema{Doc: "What only a Docker engine has.", Fields: []sdk.SchemaField{
		{Name: "platform", Type: sdk.TypeString, Doc: "The image's platform, as OS/ARCH or OS/ARCH/VARIANT."},
		{Name: "pull", Type: sdk.TypeString, Enum: []string{pullMissing, pullAlways, pullNever}, Default: pullMissing, Doc: "When the image is pulled."},
		{Name: "extra_hosts", Type: sdk.TypeList, Elem: text, Doc: "Lines for /etc/hosts, as NAME:ADDRESS."},
		{Name: "dns", Type: sdk.TypeList, Elem: text, Doc: "Addresses of name servers."},
		{Name: "shm_size", Type: sdk.TypeInt, Min: 1, Max: 1 << 60, Doc: "The size of /dev/shm in bytes.", Default: "the engine's"},
		{Name: "cap_add", Type: sdk.TypeList, Elem: text, Doc: "Capabilities beyond the engine's defaults."},
		{Name: "cap_drop", Type: sdk.TypeList, Elem: text, Doc: "Capabilities to take away, or ALL."},
		{Name: "ulimits", Type: sdk.TypeList, Doc: "Limits of the job's processes.", Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
			{Name: "name", Type: sdk.TypeString, Required: true, Doc: "The limit, such as nofile."},
			{Name: "soft", Type: sdk.TypeInt, Required: true, Doc: "The soft limit; -1 is none."},
			{Name: "hard", Type: sdk.TypeInt, Required: true, Doc: "The hard limit; -1 is none."},
		}}},
		{Name: "runtime", Type: sdk.TypeString, Doc: "The OCI runtime, one that the engine knows.", Default: "the engine's"},
		{Name: "log_driver", Type: sdk.TypeString, Enum: []string{logLocal, logJSON}, Default: logLocal,
			Doc: "How the engine keeps the output: local keeps any bytes; json-file replaces what is not UTF-8. Engines up to 20.10 don't tell with local whether an output whose last line is longer than 16 KiB ended with a newline: it is shown with one."},
		{Name: "log_max_size", Type: sdk.TypeInt, Min: minLogSize, Max: 1 << 60, Default: "no bound",
			Doc: "How many bytes of output the engine keeps at most; the oldest go first, and the run's log says so."},
		{Name: "init", Type: sdk.TypeBool, Default: "the engine's", Doc: "Put a small init process before the job, which passes signals on and reaps children."},
		{Name: "hostname", Type: sdk.TypeString, Doc: "The container's host name."},
		{Name: "stop_signal", Type: sdk.TypeString, Default: "the image's, else TERM", Doc: "The signal that asks the job to end."},
	}}
}
