package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// jobFlags are the flags that describe a job, as typed.
type jobFlags struct {
	on, image, name, workdir, user, network    string
	entrypoint, imageEntrypoint                []string
	env, envFile, secret, label, volume, tmpfs []string
	file, option                               []string
	options, cpus, memory, pids, gpus          string
	timeout, startTimeout, grace, ttl          string
	profile, cleanup, key                      string
	retries                                    int
	shell, interactive, allowVisible           bool
	allowNoCancel                              bool

	flags *pflag.FlagSet
}

func (j *jobFlags) bind(fs *pflag.FlagSet) {
	j.flags = fs
	fs.StringVar(&j.on, "on", "", "`provider` to run on; default_provider, else docker with an image and local without")
	fs.StringVar(&j.image, "image", "", "container `image`")
	fs.StringVar(&j.name, "name", "", "`name` for the run, which other commands take too")
	fs.StringArrayVar(&j.entrypoint, "entrypoint", nil, "replace the image's entrypoint by this `program`; repeat it for arguments, empty clears it")
	fs.StringArrayVar(&j.imageEntrypoint, "image-entrypoint", nil, "what the image's own entrypoint is, one `word` a flag, where the backend needs to be told; empty for none")
	fs.StringArrayVarP(&j.env, "env", "e", nil, "variable as `NAME=VALUE`, or NAME for the value that it has here")
	fs.StringArrayVar(&j.envFile, "env-file", nil, "`file` of NAME=VALUE lines")
	fs.StringArrayVar(&j.secret, "secret", nil, "secret as `NAME=REFERENCE`, such as TOKEN=secret://env/TOKEN or secret://file/PATH")
	fs.BoolVar(&j.allowVisible, "allow-visible-secret", false, "permit secrets in places that anyone with read access to the backend sees")
	fs.StringVarP(&j.workdir, "workdir", "w", "", "working `folder` of the job")
	fs.StringVarP(&j.user, "user", "u", "", "`user`[:group] in the job")
	fs.StringArrayVarP(&j.volume, "volume", "v", nil, "mount a folder or volume, `SOURCE:TARGET[:ro]`")
	fs.StringArrayVar(&j.tmpfs, "tmpfs", nil, "mount memory, `TARGET[:size=64m]`")
	fs.StringArrayVar(&j.file, "file", nil, "copy a small file into the job, `SOURCE:TARGET[:MODE]`")
	fs.StringVar(&j.cpus, "cpus", "", "`number` of cores, such as 0.5")
	fs.StringVar(&j.memory, "memory", "", "memory limit, a `size` such as 64m or 2g")
	fs.StringVar(&j.pids, "pids-limit", "", "most processes at once, a `number`")
	fs.StringVar(&j.gpus, "gpus", "", "`number` of GPUs")
	fs.StringVar(&j.network, "network", "", "`network` to join, or none")
	fs.BoolVarP(&j.interactive, "interactive", "i", false, "give the job this command's standard input")
	fs.StringArrayVarP(&j.label, "label", "l", nil, "label as `NAME=VALUE`")
	fs.StringVar(&j.timeout, "timeout", "", "end an attempt that runs longer, a `duration` such as 90s")
	fs.StringVar(&j.startTimeout, "start-timeout", "", "end an attempt that doesn't start within this `duration` of its first send; what is asked before it is bounded by call_timeout")
	fs.StringVar(&j.grace, "grace", "", "`duration` between asking the job to end and killing it")
	fs.IntVar(&j.retries, "retries", 0, "further attempts after a failure that a new one may cure")
	fs.StringVar(&j.ttl, "ttl", "", "`duration` for which the backend keeps an ended job if nobody cleans up")
	fs.StringVar(&j.cleanup, "cleanup", string(control.CleanupAlways), "remove what the run made: always, on-success or never")
	fs.BoolVar(&j.allowNoCancel, "allow-no-cancel", false, "run on a provider that can't end jobs, which some plugins' can't")
	fs.StringVar(&j.key, "idempotency-key", "", "a second run with this `key` and the same job is the first one")
	fs.StringVar(&j.profile, "profile", "", "security `profile`: strict, standard or permissive")
	fs.BoolVar(&j.shell, "shell", false, "join the arguments to one line for /bin/sh -c")
	fs.StringArrayVar(&j.option, "option", nil, "the provider's own option, `NAME=VALUE`")
	fs.StringVar(&j.options, "options", "", "the provider's own options as a `JSON` object")
}

// context is what flags are read against.
type jobContext struct {
	lookup func(string) (string, bool)
	dir    string
	// warn takes what the user should know.
	warn   func(format string, args ...any)
	detach bool
	// schema gives a provider's schema of options.
	schema func(provider string) sdk.Schema
}

// set reports whether the user gave a flag, whatever its value.
func (j *jobFlags) set(name string) bool {
	f := j.flags.Lookup(name)
	return f != nil && f.Changed
}

// noEmpty refuses flags that were given without a value: an empty one can't be
// told from an unset one, and nothing is dropped in silence.
func (j *jobFlags) noEmpty() error {
	for _, name := range []string{"on", "image", "name", "workdir", "user", "network", "cpus", "memory", "pids-limit", "gpus", "timeout",
		"start-timeout", "grace", "ttl", "cleanup", "idempotency-key", "profile", "options"} {
		if f := j.flags.Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s: is empty; leave it out", name)
		}
	}
	return nil
}

// spec reads the flags and the command's arguments. args is nil when none were
// given and empty when only -- was.
func (j *jobFlags) spec(args []string, provider string, c jobContext) (sdk.JobSpec, error) {
	s := sdk.JobSpec{V: sdk.SpecVersion, Name: j.name, Image: j.image, Workdir: j.workdir, User: j.user, Network: j.network,
		Profile: sdk.Profile(j.profile), Retries: j.retries, AllowVisibleSecret: j.allowVisible}
	if err := j.noEmpty(); err != nil {
		return s, err
	}
	if j.image == "" && len(args) == 0 && len(nonEmpty(j.entrypoint)) == 0 {
		return s, &sdk.Error{Code: sdk.InvalidArgument, Op: "run", ID: idNoCommand, Err: errors.New("neither a command nor an image is given"),
			Remedy: "name a command behind --, as in: windlass run -- echo hello"}
	}
	if j.set("entrypoint") {
		s.Entrypoint = nonEmpty(j.entrypoint)
	}
	if j.set("image-entrypoint") {
		s.ImageEntrypoint = nonEmpty(j.imageEntrypoint)
	}
	s.Args = args
	if j.shell {
		if j.set("entrypoint") {
			return s, errors.New("--shell: runs /bin/sh, so --entrypoint can't be given too")
		}
		if len(args) == 0 {
			return s, errors.New("--shell: wants a command line behind --")
		}
		s.Entrypoint, s.Args = sdk.Argv{"/bin/sh", "-c"}, sdk.Argv{strings.Join(args, " ")}
	}
	switch {
	case !j.interactive:
	case c.detach || j.retries > 0:
		s.Stdin = sdk.StdinSpooled
	default:
		s.Stdin = sdk.StdinAttached
	}
	for _, read := range []func(*sdk.JobSpec, jobContext) error{j.readEnv, j.readQuantities, j.readTimes, j.readMounts} {
		if err := read(&s, c); err != nil {
			return s, err
		}
	}
	var schema sdk.Schema
	if c.schema != nil {
		schema = c.schema(provider)
	}
	var err error
	s.Options, err = parseOptions(j.options, j.option, schema)
	return s, err
}

// nonEmpty is an argv of a repeated flag: a single empty text clears.
func nonEmpty(words []string) sdk.Argv {
	if len(words) == 1 && words[0] == "" {
		return sdk.Argv{}
	}
	return append(sdk.Argv{}, words...)
}

func (j *jobFlags) readEnv(s *sdk.JobSpec, c jobContext) error {
	env := sdk.Env{}
	var missing []string
	for _, path := range j.envFile {
		m, err := j.readEnvFile(env, path, c)
		if err != nil {
			return fmt.Errorf("--env-file: %w", err)
		}
		missing = append(missing, m...)
	}
	for _, e := range j.env {
		m, err := parseEnv(env, e, c.lookup)
		if err != nil {
			return fmt.Errorf("--env: %w", err)
		}
		if m != "" {
			missing = append(missing, m)
		}
	}
	for _, m := range missing {
		c.warn("variable %s isn't set here, so the job doesn't get it", m)
	}
	if len(env) > 0 {
		s.Env = env
	}
	for _, p := range j.secret {
		k, ref, err := parsePair(p)
		if err != nil || !strings.Contains(p, "=") {
			// The text may be the secret itself, so it is not shown.
			return errors.New("--secret: wants NAME=REFERENCE, such as TOKEN=secret://env/TOKEN")
		}
		if _, err := sdk.ParseSecretRef(ref); err != nil {
			return fmt.Errorf("--secret %s: %w", k, err)
		}
		if s.Secrets == nil {
			s.Secrets = map[string]sdk.SecretRef{}
		}
		s.Secrets[k] = sdk.SecretRef(ref)
	}
	for _, p := range j.label {
		k, v, err := parsePair(p)
		if err != nil {
			return fmt.Errorf("--label: %w", err)
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[k] = v
	}
	return nil
}

func (j *jobFlags) readEnvFile(env sdk.Env, path string, c jobContext) (missing []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return readEnvFile(env, path, f, c.lookup)
}

func (j *jobFlags) readQuantities(s *sdk.JobSpec, _ jobContext) error {
	for _, q := range []struct {
		flag, text string
		into       *int64
		read       func(string) (int64, error)
	}{
		{"cpus", j.cpus, &s.CPU, parseCPUs},
		{"memory", j.memory, &s.Memory, parseMemory},
		{"pids-limit", j.pids, &s.PIDs, func(t string) (int64, error) { return parsePositive(t, "no limit") }},
		{"gpus", j.gpus, &s.GPU, func(t string) (int64, error) { return parsePositive(t, "none") }},
	} {
		if q.text == "" {
			continue
		}
		n, err := q.read(q.text)
		if err != nil {
			return fmt.Errorf("--%s: %w", q.flag, err)
		}
		*q.into = n
	}
	if j.retries < 0 {
		return fmt.Errorf("--retries: %d is below 0", j.retries)
	}
	return nil
}

func (j *jobFlags) readTimes(s *sdk.JobSpec, _ jobContext) error {
	for _, t := range []struct {
		flag, text string
		into       *time.Duration
	}{{"timeout", j.timeout, &s.Timeout}, {"start-timeout", j.startTimeout, &s.StartTimeout}, {"ttl", j.ttl, &s.TTL}} {
		if t.text == "" {
			continue
		}
		d, err := parseDuration(t.text)
		if err != nil {
			return fmt.Errorf("--%s: %w", t.flag, err)
		}
		if d == 0 {
			return fmt.Errorf("--%s: %q is not above 0; leave it out for none", t.flag, t.text)
		}
		*t.into = d
	}
	if j.grace != "" {
		d, err := parseDuration(j.grace)
		if err != nil {
			return fmt.Errorf("--grace: %w", err)
		}
		s.Grace = &d
	}
	return nil
}

func (j *jobFlags) readMounts(s *sdk.JobSpec, c jobContext) error {
	for _, v := range j.volume {
		m, err := parseVolume(v, c.dir)
		if err != nil {
			return fmt.Errorf("--volume: %w", err)
		}
		s.Mounts = append(s.Mounts, m)
	}
	for _, v := range j.tmpfs {
		m, err := parseTmpfs(v)
		if err != nil {
			return fmt.Errorf("--tmpfs: %w", err)
		}
		s.Mounts = append(s.Mounts, m)
	}
	for _, v := range j.file {
		source, _, _ := strings.Cut(v, ":")
		if source != "" && !filepath.IsAbs(source) && c.dir != "" {
			v = filepath.Join(c.dir, source) + v[len(source):]
		}
		f, err := parseFile(v)
		if err != nil {
			return fmt.Errorf("--file: %w", err)
		}
		s.Files = append(s.Files, f)
	}
	return nil
}

// policy reads --cleanup.
func (j *jobFlags) policy() (control.CleanupPolicy, error) {
	switch p := control.CleanupPolicy(j.cleanup); p {
	case control.CleanupAlways, control.CleanupOnSuccess, control.CleanupNever:
		return p, nil
	}
	return "", fmt.Errorf("--cleanup: %q is none of always, on-success, never", j.cleanup)
}

// chooseProvider is the rule for a run without --on: default_provider, else an
// image means docker and none means local.
func chooseProvider(on, image, standard string) string {
	switch {
	case on != "":
		return on
	case standard != "":
		return standard
	case image != "":
		return "docker"
	}
	return "local"
}

// given returns the arguments of a command: nil when there are none, empty
// when only -- was given.
func given(cmd *cobra.Command, args []string) []string {
	if len(args) == 0 && cmd.ArgsLenAtDash() < 0 {
		return nil
	}
	if args == nil {
		return []string{}
	}
	return args
}

// nearest is sdk.Nearest.
func nearest(word string, words []string) string { return sdk.Nearest(word, words) }
