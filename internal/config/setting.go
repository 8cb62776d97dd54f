package config

import "strings"

// Type is the type of a setting.
type Type string

// The types of settings. A size is bytes, written as Kubernetes writes
// quantities; a duration has a unit. A list is one of texts. A map is not looked into
// here.
const (
	TypeText     Type = "text"
	TypeBool     Type = "bool"
	TypeInt      Type = "int"
	TypeNumber   Type = "number"
	TypeDuration Type = "duration"
	TypeSize     Type = "size"
	TypeList     Type = "list"
	TypeMap      Type = "map"
)

// Setting is one row of the table of settings.
type Setting struct {
	// Name is the setting's name, as `config show` prints it. NAME in it
	// stands for any name.
	Name string
	// Flag is the flag without its dashes, Env the variable, YAML the path in
	// windlass.yaml; each is empty where there is none.
	Flag, Env, YAML string
	Type            Type
	// Default is the value in force when nothing sets it, as it is written;
	// DefaultDoc describes it where it isn't fixed.
	Default, DefaultDoc string
	// Doc is one or two sentences with the unit.
	Doc string
	// Enum lists the permitted texts; empty permits all.
	Enum []string
	// Min and Max bound a number when Max > 0; a duration's are in
	// nanoseconds, a size's in bytes.
	Min, Max int64
}

// anyName stands for any name in a Setting's YAML path.
const anyName = "NAME"

// Names of settings that code looks up.
const (
	SettingConfig   = "config"
	SettingState    = "state"
	SettingPlugins  = "plugin_dir"
	SettingProvider = "default_provider"
	SettingOwner    = "owner"
	SettingActor    = "actor"
	SettingKeeper   = "keeper"
	SettingLogBytes = "log.max_bytes"
	SettingKeepLogs = "retention.logs"
	SettingKeepRuns = "retention.runs"
	SettingKeepSize = "retention.log_bytes"
	SettingKeepRows = "retention.ledger"
)

// Settings returns the table: the one list of every setting, in the order of
// the documents.
func Settings() []Setting {
	const year = int64(365 * 24 * 3600 * 1e9)
	return []Setting{
		{Name: SettingConfig, Flag: "config", Env: "WINDLASS_CONFIG", Type: TypeText, DefaultDoc: "the files that are found",
			Doc: "The file to read in place of the project's and the user's windlass.yaml."},
		{Name: SettingState, Env: "WINDLASS_STATE", Type: TypeText, DefaultDoc: "$XDG_STATE_HOME/windlass, else ~/.local/state/windlass",
			Doc: "The folder of the ledger, logs and sockets. It is made with mode 0700 and refused where others may write to it."},
		{Name: SettingPlugins, Env: "WINDLASS_PLUGINS", Type: TypeText, DefaultDoc: "$XDG_DATA_HOME/windlass/plugins, else ~/.local/share/windlass/plugins",
			Doc: "The folder of plugins: each has a folder of its own there, whose name its program bears."},
		{Name: SettingProvider, Flag: "on", Env: "WINDLASS_DEFAULT_PROVIDER", YAML: "default_provider", Type: TypeText,
			DefaultDoc: "docker with an image, local without",
			Doc:        "The provider that runs a job."},
		{Name: SettingOwner, Env: "WINDLASS_OWNER", YAML: "owner", Type: TypeText, DefaultDoc: "the ledger's ID",
			Doc: "The name of this installation, which everything that it makes carries."},
		{Name: SettingActor, Env: "WINDLASS_ACTOR", Type: TypeText, DefaultDoc: "user@host",
			Doc: "Who acts, for the ledger."},
		{Name: SettingKeeper, Env: "WINDLASS_KEEPER", Type: TypeText, Default: KeeperOn, Enum: []string{KeeperOn, KeeperOff},
			Doc: "Whether a background process looks after runs. With off the command does everything itself, refuses -d and stays until the run is cleaned up; meant for containers and CI."},
		{Name: "color", Env: "NO_COLOR", Type: TypeText, DefaultDoc: "coloured on a terminal",
			Doc: "Any value turns colours off."},
		{Name: SettingLogBytes, Env: "WINDLASS_LOG_MAX_BYTES", YAML: "log.max_bytes", Type: TypeSize, Default: "1Gi", Min: 64 << 10, Max: 1 << 50,
			Doc: "How many bytes of an attempt's output are kept. Of a longer one the head and the tail are kept, and the run's verdict says truncated_by_us."},
		{Name: SettingKeepLogs, Env: "WINDLASS_RETENTION_LOGS", YAML: "retention.logs", Type: TypeDuration, Default: "30d", Max: 100 * year,
			Doc: "How long the captured output of an ended run is kept; 0s keeps it until it is removed by hand."},
		{Name: SettingKeepRuns, Env: "WINDLASS_RETENTION_RUNS", YAML: "retention.runs", Type: TypeDuration, Default: "0s", Max: 100 * year,
			Doc: "How long an ended run is listed; 0s lists it until it is removed by hand."},
		{Name: SettingKeepSize, Env: "WINDLASS_RETENTION_LOG_BYTES", YAML: "retention.log_bytes", Type: TypeSize, DefaultDoc: "no bound", Min: 64 << 10, Max: 1 << 50,
			Doc: "How many bytes of captured output of ended runs are kept; of more, the oldest runs' goes first. It is counted as it lies on the disk, compressed."},
		{Name: SettingKeepRows, Env: "WINDLASS_RETENTION_LEDGER", YAML: "retention.ledger", Type: TypeDuration, Default: "0s", Max: 100 * year,
			Doc: "How long a finished action stays on record; then it is cut as by `ledger prune`. 0s keeps it until it is cut by hand."},

		{Name: "providers.NAME.kind", YAML: "providers.NAME.kind", Type: TypeText, DefaultDoc: "NAME for local and docker, else needed",
			Doc: "The kind of backend, such as docker. A name has up to 63 letters, digits, dots, dashes and underscores. Providers called local and docker are there without an entry."},
		{Name: "providers.NAME.credentials", YAML: "providers.NAME.credentials", Type: TypeText, Default: string(CredentialsEnv), Enum: credentialModes(),
			Doc: "Where credentials may come from: env takes variables only, ambient also allows the vendor's own chain (profiles, metadata services, files in the home folder), pocket sends made-up ones and only to this machine."},
		{Name: "providers.NAME.poll_interval", YAML: "providers.NAME.poll_interval", Type: TypeDuration, Default: "2s", Min: 1e7, Max: 3600 * 1e9,
			Doc: "The time between two looks at running jobs."},
		{Name: "providers.NAME.call_timeout", YAML: "providers.NAME.call_timeout", Type: TypeDuration, Default: "30s", Min: 1e8, Max: 40 * 1e9,
			Doc: "The time that one call to the backend may take. At most 40s, under half of a run's lease, so that no call outlives the right to make it."},
		{Name: "providers.NAME.max_in_flight", YAML: "providers.NAME.max_in_flight", Type: TypeInt, Default: "0", Max: 1_000_000,
			Doc: "The most runs at a time, ended ones until they are cleaned up; further ones wait as pending: queued. 0 sets no bound beyond the backend's own."},
		{Name: "providers.NAME.submit_rate", YAML: "providers.NAME.submit_rate", Type: TypeNumber, Default: "0", Max: 1_000_000,
			Doc: "The most submissions a second; 0 sets no bound."},
		{Name: "providers.NAME.config", YAML: "providers.NAME.config", Type: TypeMap, DefaultDoc: "empty",
			Doc: "The kind's own settings, see providers.md."},
		{Name: "runners.NAME.address", YAML: "runners.NAME.address", Type: TypeText, DefaultDoc: "needed",
			Doc: "HOST:PORT of a remote runner, which exec_env of a step names. A runner's name has the letters of a provider's, and is none of local-docker, ephemeral and provider-ephemeral."},
		{Name: "runners.NAME.server_name", YAML: "runners.NAME.server_name", Type: TypeText, DefaultDoc: "the address's host",
			Doc: "The name that the runner's certificate must have."},
		{Name: "runners.NAME.ca", YAML: "runners.NAME.ca", Type: TypeText, DefaultDoc: "the system's certificates",
			Doc: "A PEM file with the authorities whose runners are trusted. A relative path starts at the folder of windlass.yaml, as for cert and key."},
		{Name: "runners.NAME.cert", YAML: "runners.NAME.cert", Type: TypeText, DefaultDoc: "none",
			Doc: "A PEM file with our certificate, for mTLS; its name is who we are to the runner."},
		{Name: "runners.NAME.key", YAML: "runners.NAME.key", Type: TypeText, DefaultDoc: "none",
			Doc: "A PEM file with the private key of cert."},
		{Name: "runners.NAME.token_env", YAML: "runners.NAME.token_env", Type: TypeText, DefaultDoc: "none",
			Doc: "The variable that holds our token, where the runner knows its clients by tokens."},
		{Name: "plugins.NAME.path", YAML: "plugins.NAME.path", Type: TypeText, DefaultDoc: "NAME/NAME in the folder of plugins",
			Doc: "The program of a plugin, whose name is the kind of its providers and none that is built in. A relative path starts at the folder of windlass.yaml."},
		{Name: "plugins.NAME.checksum", YAML: "plugins.NAME.checksum", Type: TypeText, DefaultDoc: "that of the installation, else unverified",
			Doc: "The SHA-256 that the program must have, as sha256: and 64 hexadecimal digits. Another program is not started."},
		{Name: "plugins.NAME.config", YAML: "plugins.NAME.config", Type: TypeMap, DefaultDoc: "empty",
			Doc: "Defaults for the config of the plugin's providers, key by key."},
		{Name: "plugins.NAME.env", YAML: "plugins.NAME.env", Type: TypeList, DefaultDoc: "none",
			Doc: "The names of the variables that the plugin gets. Nothing else of the environment reaches it."},
	}
}

// The values of the setting keeper.
const (
	KeeperOn  = "on"
	KeeperOff = "off"
)

// OtherVars returns the variables of ours that are no settings: name and what it
// is for. A name that ends in * stands for all that start so.
func OtherVars() [][2]string {
	return [][2]string{
		{"WINDLASS_RUN", "Set for the processes of a local job: the run's ID."},
		{"WINDLASS_ATTEMPT", "Set for the processes of a local job: the attempt's ID."},
		{"WINDLASS_FAILPOINT*", "Read by builds for crash tests alone."},
		{"WINDLASS_TEST_*", "Read by the project's own tests."},
	}
}

// shape is the tree of keys that windlass.yaml may have, made from the table.
type shape struct {
	setting *Setting
	keys    map[string]*shape
	order   []string
}

func fileShape(table []Setting) *shape {
	root := &shape{keys: map[string]*shape{}}
	for i := range table {
		if table[i].YAML == "" {
			continue
		}
		at := root
		for _, part := range strings.Split(table[i].YAML, ".") {
			next := at.keys[part]
			if next == nil {
				next = &shape{keys: map[string]*shape{}}
				at.keys[part] = next
				at.order = append(at.order, part)
			}
			at = next
		}
		at.setting = &table[i]
	}
	return root
}

// named returns the shape of the entries when s is a map of names.
func (s *shape) named() *shape { return s.keys[anyName] }
