package fake

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Kind is the driver's name.
const Kind = "fake"

// Settings choose what a driver is able to do, for tests of weaker backends.
type Settings struct {
	// Guarantees, when not nil, replace BestGuarantees. The cloud's knobs are
	// not changed by them: who declares a delay sets it there too.
	Guarantees *sdk.Guarantees
	// Capabilities are the names of what the provider can do; nil is all.
	Capabilities []string
	// The limits of sdk.Info.
	BatchMax    int
	Rate        float64
	Burst       int
	MaxInFlight int
	// Unescaped leaves metacharacters of a substituting backend as they are:
	// for tests that look for this mistake.
	Unescaped bool
}

// BestGuarantees returns what the driver gives unless told otherwise.
func BestGuarantees() sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitByName},
		Found:          sdk.FoundGuarantee{Consistent: true},
		Argv:           sdk.ArgvExact,
		ExitCode:       sdk.ExitCodeProcess,
		Logs:           sdk.LogGuarantee{Fidelity: sdk.LogBytes, Apart: true, EndProven: true, Live: true},
		CancelReadBack: true,
		Grace:          sdk.GraceGuarantee{Supported: true, Max: time.Hour, Default: 10 * time.Second},
		Deadline:       sdk.DeadlineGuarantee{Native: true, Min: 0, Max: 7 * 24 * time.Hour},
		Secrets:        sdk.SecretFile,
		Stdin:          []sdk.StdinMode{sdk.StdinAttached, sdk.StdinSpooled},
		Workload: sdk.WorkloadGuarantees{
			Ops: sdk.OpGuarantee{By: sdk.OpInHistory}, Compares: true, Restart: sdk.RestartRolling, Stop: sdk.StopZero, Failures: true,
			Exec: sdk.ExecGuarantee{ExitCode: true, Argv: sdk.ArgvExact, Stdin: true, Terminal: true, Apart: true, Signals: true},
		},
	}
}

// Driver returns the driver of kind fake. Its cloud is a folder below the
// provider's state, or the one that the config names.
func Driver() sdk.Driver {
	d := describe(BestGuarantees())
	d.Config = configSchema()
	d.Open = open
	return d
}

// DriverOf is Driver under another kind: a plugin has the name of its kind, and none that
// is built in.
func DriverOf(kind string) sdk.Driver {
	d := Driver()
	d.Kind = kind
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		opened, err := open(ctx, r)
		if p, ok := opened.(*provider); ok {
			p.self.Kind = kind
		}
		return opened, err
	}
	return d
}

// NewDriver returns a driver whose providers talk to this cloud.
func NewDriver(c *Cloud, s Settings) sdk.Driver {
	g := BestGuarantees()
	if s.Guarantees != nil {
		g = *s.Guarantees
	}
	d := describe(g)
	if s.Capabilities != nil {
		d.Capabilities = s.Capabilities
	}
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		if err := d.Config.Decode("config", r.Config, &struct{}{}); err != nil {
			return nil, err
		}
		return newProvider(c, s, g, r), nil
	}
	return d
}

func describe(g sdk.Guarantees) sdk.Driver {
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "A scripted backend without processes, for tests.",
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   g,
		Support:      support(g),
		Schemes:      []string{"env", "file"},
		Resources:    resourceTypes(),
	}
}

func support(g sdk.Guarantees) []sdk.FieldSupport {
	grace := sdk.FieldSupport{Field: "grace", Values: g.Grace.Min.String() + " to " + g.Grace.Max.String()}
	if !g.Grace.Supported {
		grace = sdk.FieldSupport{Field: "grace", Refused: "the backend kills at once"}
	}
	return []sdk.FieldSupport{
		{Field: "name", Values: "any"},
		{Field: "image", Values: "any, and not looked at; the config can let some be missing"},
		{Field: "entrypoint", Values: "words of steps, before args"},
		{Field: "args", Values: "words of steps, see options.script"},
		{Field: "image_entrypoint", Values: "any, and not needed"},
		{Field: "env", Values: "any"},
		{Field: "secrets", Values: "any reference that resolves"},
		{Field: "workdir", Values: "any"},
		{Field: "user", Values: "any"},
		{Field: "cpu", Values: "any"},
		{Field: "memory", Values: "any"},
		{Field: "gpu", Refused: "the backend has no GPUs"},
		{Field: "ephemeral_storage", Values: "any"},
		{Field: "pids", Values: "any"},
		{Field: "timeout", Values: "any"},
		{Field: "start_timeout", Values: "any"},
		grace,
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "any"},
		{Field: "network", Refused: "the backend has no networks"},
		{Field: "mounts", Refused: "the backend has no file system to mount"},
		{Field: "files", Values: "any"},
		{Field: "stdin", Values: "attached, spooled"},
		{Field: "profile", Values: "any, as no process runs"},
		{Field: "ttl", Values: "any"},
		{Field: "allow_visible_secret", Values: "any"},
	}
}

// config is the YAML of a provider of kind fake.
type config struct {
	Dir            string   `json:"dir"`
	Name           string   `json:"name"`
	Record         bool     `json:"record"`
	Capabilities   []string `json:"capabilities"`
	Submit         string   `json:"submit"`
	TokenWindow    Duration `json:"token_window"`
	FoundWithin    Duration `json:"found_within"`
	ListConsistent *bool    `json:"list_consistent"`
	ExitCode       string   `json:"exit_code"`
	Logs           string   `json:"logs"`
	LogsCombined   bool     `json:"logs_combined"`
	LogsQuiet      Duration `json:"logs_quiet"`
	CancelReadBack *bool    `json:"cancel_read_back"`
	NoGrace        bool     `json:"no_grace"`
	NativeDeadline bool     `json:"native_deadline"`
	Evidence       Duration `json:"evidence"`
	Secrets        string   `json:"secrets"`
	Operations     string   `json:"operations"`
	BatchMax       int      `json:"batch_max"`
	MaxInFlight    int      `json:"max_in_flight"`
	Rate           int64    `json:"rate"`
	Knobs          Knobs    `json:"knobs"`
}

func configSchema() sdk.Schema {
	text := func(name, doc, def string, enum ...string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeString, Doc: doc, Default: def, Enum: enum}
	}
	dur := func(name, doc string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeDuration, Doc: doc, Default: "0s"}
	}
	flag := func(name, doc, def string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeBool, Doc: doc, Default: def}
	}
	num := func(name, doc string) sdk.SchemaField {
		return sdk.SchemaField{Name: name, Type: sdk.TypeInt, Doc: doc, Default: "0", Min: 0, Max: 1 << 40}
	}
	var caps, ops []string
	for _, row := range sdk.Capabilities() {
		caps = append(caps, row.Name)
	}
	for _, op := range Ops() {
		ops = append(ops, string(op))
	}
	fault := &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
		{Name: "op", Type: sdk.TypeString, Required: true, Enum: ops, Doc: "The call that fails."},
		{Name: "kind", Type: sdk.TypeString, Required: true, Doc: "What happens to it.",
			Enum: []string{string(FaultError), string(FaultReset), string(FaultLostReply), string(FaultBlock)}},
		{Name: "nth", Type: sdk.TypeInt, Doc: "The first call that fails, from 1; unset is the next."},
		{Name: "times", Type: sdk.TypeInt, Default: "1", Doc: "How many calls fail; -1 is all."},
		num("status", "The HTTP status of the answer."),
		{Name: "code", Type: sdk.TypeString, Doc: "What the cloud calls it: Capacity, Quota, Throttled, Exists or any word."},
		dur("retry_after", "The wait that the answer asks for."),
	}}
	return sdk.Schema{Doc: "A scripted cloud, and how it misbehaves.", Fields: []sdk.SchemaField{
		text("dir", "The folder that holds the cloud; all who name it share it.", "below the state folder"),
		text("name", "The account of the cloud's identity.", "fake"),
		flag("record", "Keep the bodies of all requests in requests.jsonl.", "false"),
		{Name: "capabilities", Type: sdk.TypeList, Doc: "What the provider can do.", Default: "all", Elem: &sdk.SchemaField{Type: sdk.TypeString, Enum: caps}},
		text("submit", "How an attempt is kept to one object.", "name", "name", "token", "search", "nothing"),
		dur("token_window", "How long a token holds."),
		dur("found_within", "When an object that was made is surely listed."),
		flag("list_consistent", "Past found_within, not found proves absence.", "true"),
		text("exit_code", "Where exit codes come from.", "process", "process", "platform", "absent"),
		text("logs", "How output is stored.", "bytes", "bytes", "lines"),
		flag("logs_combined", "Stdout and stderr can't be told apart.", "false"),
		dur("logs_quiet", "The end of a log can't be proven; silence of this length counts."),
		flag("cancel_read_back", "A cancel is proven.", "true"),
		flag("no_grace", "A cancel kills at once.", "false"),
		flag("native_deadline", "The cloud ends jobs that exceed their time-out.", "false"),
		dur("evidence", "How long an ended job is remembered; 0s is for ever."),
		text("secrets", "How secrets reach the job.", "file", "file", "sealed", "reference", "visible_env"),
		text("operations", "Where an operation on a workload whose reply was lost is found again.", "history", "history", "object", "nowhere"),
		num("batch_max", "The most jobs of one batched status."),
		num("max_in_flight", "The most concurrent runs."),
		num("rate", "The declared limit of calls a second for polling."),
		{Name: "knobs", Type: sdk.TypeObject, Doc: "How the cloud misbehaves.", Fields: []sdk.SchemaField{
			dur("latency", "Is added to each call."),
			dur("start_delay", "Passes between accepting a job and starting it."),
			dur("visibility", "A new object is missing from searches and lists for so long."),
			dur("not_found_for", "A new object is missing from describe calls for so long."),
			dur("late_logs", "Output can be read so long after it was written."),
			num("log_cut", "The connection is cut after so many bytes of a log."),
			flag("duplicate_logs", "The last event of a page is sent again with the next.", "false"),
			dur("forget", "A job is forgotten so long after its end; 0s is never."),
			dur("forget_logs", "A log is forgotten so long after its job's end; 0s is never."),
			num("flicker", "Every n-th describe call of a living job says unknown."),
			flag("no_exit_code", "Exit codes are missing.", "false"),
			dur("rollout_delay", "Passes between a change of a workload and its end."),
			dur("observe_lag", "Passes before the cloud looks at a change of a workload."),
			dur("metrics_warm", "Passes between an instance's start and its first sample."),
			num("rate", "So many calls a second are answered, the others with 429."),
			{Name: "missing_images", Type: sdk.TypeList, Doc: "Images that can't be pulled.", Elem: &sdk.SchemaField{Type: sdk.TypeString}},
			{Name: "faults", Type: sdk.TypeList, Doc: "Calls that fail.", Elem: fault},
		}},
	}}
}

// open reads the config and opens the folder's cloud.
func open(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
	var c config
	if err := configSchema().Decode("config", r.Config, &c); err != nil {
		return nil, err
	}
	g := BestGuarantees()
	if c.Submit != "" {
		g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitBy(c.Submit), TokenWindow: time.Duration(c.TokenWindow)}
	}
	g.Found.Within = time.Duration(c.FoundWithin)
	if c.ListConsistent != nil {
		g.Found.Consistent = *c.ListConsistent
	}
	if c.ExitCode != "" {
		g.ExitCode = sdk.ExitCodeGuarantee(c.ExitCode)
	}
	if c.Logs != "" {
		g.Logs.Fidelity = sdk.LogFidelity(c.Logs)
	}
	g.Logs.Apart = !c.LogsCombined
	if q := time.Duration(c.LogsQuiet); q > 0 {
		g.Logs.EndProven, g.Logs.Settle = false, sdk.LogSettle{Quiet: q, Max: 10 * q}
	}
	if c.CancelReadBack != nil {
		g.CancelReadBack = *c.CancelReadBack
	}
	if c.NoGrace {
		g.Grace = sdk.GraceGuarantee{}
	}
	if !c.NativeDeadline {
		g.Deadline = sdk.DeadlineGuarantee{}
	}
	g.Evidence = time.Duration(c.Evidence)
	if c.Secrets != "" {
		g.Secrets = sdk.SecretDelivery(c.Secrets)
	}
	if c.Evidence > 0 && c.Knobs.Forget == 0 {
		c.Knobs.Forget = c.Evidence
	}
	switch c.Operations {
	case "object":
		g.Workload.Ops.By = sdk.OpOnObject
	case "nowhere":
		g.Workload.Ops.By = sdk.OpNowhere
	}
	dir := c.Dir
	if dir == "" {
		dir = filepath.Join(r.StateDir, "cloud-"+orText(c.Name, Kind))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, broken("", err)
	}
	cloud, err := OpenCloud(dir, Options{Name: c.Name, Clock: r.Clock, Knobs: c.Knobs, Record: c.Record})
	if err != nil {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "open provider", Provider: r.Name, Field: "dir", Err: err}
	}
	s := Settings{Capabilities: c.Capabilities, BatchMax: c.BatchMax, MaxInFlight: c.MaxInFlight, Rate: float64(c.Rate)}
	return newProvider(cloud, s, g, r), nil
}

// provider is an opened fake.
type provider struct {
	cloud *Cloud
	set   Settings
	g     sdk.Guarantees
	open  sdk.OpenRequest
	self  sdk.Identity
	pumps pumps
}

var (
	_ sdk.Provider      = (*provider)(nil)
	_ sdk.Asker         = (*provider)(nil)
	_ sdk.JobRunner     = (*provider)(nil)
	_ sdk.JobFinder     = (*provider)(nil)
	_ sdk.JobCanceler   = (*provider)(nil)
	_ sdk.JobCleaner    = (*provider)(nil)
	_ sdk.JobLogger     = (*provider)(nil)
	_ sdk.JobBatcher    = (*provider)(nil)
	_ sdk.JobWatcher    = (*provider)(nil)
	_ sdk.OwnedLister   = (*provider)(nil)
	_ sdk.ExpiryRenewer = (*provider)(nil)

	_ sdk.WorkloadLister   = (*provider)(nil)
	_ sdk.WorkloadStatuser = (*provider)(nil)
	_ sdk.Starter          = (*provider)(nil)
	_ sdk.Stopper          = (*provider)(nil)
	_ sdk.Scaler           = (*provider)(nil)
	_ sdk.Restarter        = (*provider)(nil)
	_ sdk.Configurer       = (*provider)(nil)
	_ sdk.Execer           = (*provider)(nil)
	_ sdk.LogTailer        = (*provider)(nil)
	_ sdk.MetricStreamer   = (*provider)(nil)
)

func newProvider(c *Cloud, s Settings, g sdk.Guarantees, r sdk.OpenRequest) *provider {
	return &provider{cloud: c, set: s, g: g, open: r, self: sdk.Identity{Kind: Kind, Account: c.name, Endpoint: c.where}}
}

// AskCapability implements sdk.Asker.
func (p *provider) AskCapability(name string) any {
	if p.set.Capabilities != nil && !slices.Contains(p.set.Capabilities, name) {
		return nil
	}
	return p
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.open.Name, Kind: p.self.Kind, Identity: p.self, Guarantees: p.g,
		BatchMax: p.set.BatchMax, Rate: p.set.Rate, Burst: p.set.Burst, MaxInFlight: p.set.MaxInFlight}
}

// Check implements sdk.Provider.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpCheck, nil)
	if err != nil {
		return sdk.CheckResult{}, err
	}
	return sdk.CheckResult{Items: []sdk.CheckItem{{Name: "fake cloud", OK: true, Detail: p.cloud.where}}}, in.done()
}

// Close implements sdk.Provider.
func (p *provider) Close() error {
	p.pumps.close()
	return nil
}

// limit bounds one call.
func (p *provider) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	d := p.open.CallTimeout
	if d <= 0 {
		d = 30 * time.Second
	}
	return context.WithTimeout(ctx, d)
}
