package ecs

import (
	"encoding/json"
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/sdk"
)

var update = flag.Bool("update", false, "rewrite the golden requests in testdata")

// offline is a provider that reaches nothing.
func offline(t testing.TB, change map[string]any) *provider {
	t.Helper()
	return drivertest.Offline[*provider](t, Driver(), pocketCredentials(), map[string]any{"region": "eu-west-1", "account": "123456789012", "cluster": "prod", "subnets": []string{"subnet-1", "subnet-2"},
		"security_groups": []string{"sg-1"}, "execution_role": "exec", "tags": map[string]string{"team": "a"}}, change)
}

func TestGoldenRequests(t *testing.T) {
	grace := 90 * time.Second
	cmd := sdk.Argv{"echo", "a b", "$(x)", "Ref::y", "{{z}}", ""}
	for name, c := range map[string]struct {
		config map[string]any
		spec   sdk.JobSpec
	}{
		"unset": {spec: sdk.JobSpec{Image: "app:1", Args: cmd}},
		"everything": {spec: sdk.JobSpec{Name: "nightly job", Image: "app:1", Entrypoint: sdk.Argv{"sh", "-c"}, Args: cmd, Env: sdk.Env{"B": "2", "A": "1 é"},
			Workdir: "/w", User: "1000:1000", CPU: 2000, Memory: 8 << 30, EphemeralStorage: 50 << 30, Grace: &grace, Labels: map[string]string{"cost": "x"}, Network: "awsvpc",
			Secrets: map[string]sdk.SecretRef{"DB": "secret://aws-sm/arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf#password?version=AWSPREVIOUS", "KEY": "secret://aws-ssm/prod/key"},
			Options: json.RawMessage(`{"assign_public_ip":true,"task_role":"job","platform_version":"1.4.0","architecture":"arm64","security_groups":["sg-2"],"tags":{"team":"b"}}`)}},
		"spot":          {spec: sdk.JobSpec{Image: "app:1", Args: cmd, Options: json.RawMessage(`{"capacity_providers":[{"name":"FARGATE_SPOT","weight":3},{"name":"FARGATE"}]}`)}},
		"instances":     {config: map[string]any{"launch_type": "ec2", "subnets": []string{}, "execution_role": ""}, spec: sdk.JobSpec{Image: "app:1", Args: cmd, CPU: 300, Memory: 300 << 20, GPU: 2}},
		"cleared":       {spec: sdk.JobSpec{Image: "app:1", Entrypoint: sdk.Argv{}, Args: cmd}},
		"cleared-args":  {spec: sdk.JobSpec{Image: "app:1", Args: sdk.Argv{}, ImageEntrypoint: sdk.Argv{"/entry"}}},
		"image-only":    {spec: sdk.JobSpec{Image: "app:1"}},
		"long":          {spec: sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"x"}, Env: sdk.Env{"LONG": strings.Repeat("long ", 2000)}}},
		"entrypoint":    {spec: sdk.JobSpec{Image: "app:1", Entrypoint: sdk.Argv{"/bin/app"}}},
		"no-log-create": {config: map[string]any{"create_log_group": false, "log_group": "g", "log_prefix": "p", "ephemeral_storage": 30}, spec: sdk.JobSpec{Image: "app:1", Args: cmd}},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.GoldenRequest(t, *update, name, drivertest.Launch(t, offline(t, c.config), c.spec), decodeRequest)
		})
	}
}

func TestProblems(t *testing.T) {
	set := func(f func(s *sdk.JobSpec)) func(s *sdk.JobSpec) { return f }
	options := func(raw string) func(s *sdk.JobSpec) {
		return func(s *sdk.JobSpec) { s.Options = json.RawMessage(raw) }
	}
	grace := func(d time.Duration) func(s *sdk.JobSpec) { return func(s *sdk.JobSpec) { s.Grace = &d } }
	secret := func(ref string) func(s *sdk.JobSpec) {
		return func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": sdk.SecretRef(ref)} }
	}
	instances := map[string]any{"launch_type": "ec2"}
	many := map[string]string{}
	for i := range 50 {
		many[itoa(int64(i))] = ""
	}
	for name, c := range map[string]struct {
		change func(s *sdk.JobSpec)
		field  string // empty: it is taken
		config map[string]any
	}{
		"no image":               {set(func(s *sdk.JobSpec) { s.Image = "" }), "image", nil},
		"bad image":              {set(func(s *sdk.JobSpec) { s.Image = "no such" }), "image", nil},
		"argument's bytes":       {set(func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} }), "args[0]", nil},
		"entrypoint's bytes":     {set(func(s *sdk.JobSpec) { s.Entrypoint = sdk.Argv{"\xff"} }), "entrypoint[0]", nil},
		"variable's bytes":       {set(func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "\xff"} }), "env.A", nil},
		"cleared arguments":      {set(func(s *sdk.JobSpec) { s.Args = sdk.Argv{} }), "args", nil},
		"cleared, with entry":    {set(func(s *sdk.JobSpec) { s.Args, s.Entrypoint = sdk.Argv{}, sdk.Argv{"x"} }), "", nil},
		"nothing to run":         {set(func(s *sdk.JobSpec) { s.Args, s.Entrypoint = sdk.Argv{}, sdk.Argv{} }), "args", nil},
		"no entrypoint, nothing": {set(func(s *sdk.JobSpec) { s.Args, s.ImageEntrypoint = sdk.Argv{}, sdk.Argv{} }), "args", nil},
		"relative folder":        {set(func(s *sdk.JobSpec) { s.Workdir = "x" }), "workdir", nil},
		"processes":              {set(func(s *sdk.JobSpec) { s.PIDs = 10 }), "pids", nil},
		"mount":                  {set(func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/x"}} }), "mounts[0]", nil},
		"file":                   {set(func(s *sdk.JobSpec) { s.Files = []sdk.InputFile{{Path: "/x"}} }), "files[0]", nil},
		"stdin":                  {set(func(s *sdk.JobSpec) { s.Stdin = sdk.StdinSpooled }), "stdin", nil},
		"strict":                 {set(func(s *sdk.JobSpec) { s.Profile = sdk.ProfileStrict }), "profile", nil},
		"permissive":             {set(func(s *sdk.JobSpec) { s.Profile = sdk.ProfilePermissive }), "", nil},
		"short grace":            {grace(time.Second), "grace", nil},
		"least grace":            {grace(2 * time.Second), "", nil},
		"long grace":             {grace(121 * time.Second), "grace", nil},
		"odd grace":              {grace(2500 * time.Millisecond), "grace", nil},
		"cores":                  {set(func(s *sdk.JobSpec) { s.CPU = 100 }), "cpu", nil},
		"memory":                 {set(func(s *sdk.JobSpec) { s.Memory = 1 }), "memory", nil},
		"gpu":                    {set(func(s *sdk.JobSpec) { s.GPU = 1 }), "gpu", nil},
		"gpu on instances":       {set(func(s *sdk.JobSpec) { s.GPU = 1 }), "", instances},
		"disk":                   {set(func(s *sdk.JobSpec) { s.EphemeralStorage = gib }), "ephemeral_storage", nil},
		"odd disk":               {set(func(s *sdk.JobSpec) { s.EphemeralStorage = 30*gib + 1 }), "ephemeral_storage", nil},
		"least disk":             {set(func(s *sdk.JobSpec) { s.EphemeralStorage = 20 * gib }), "", nil},
		"disk on instances":      {set(func(s *sdk.JobSpec) { s.EphemeralStorage = 30 * gib }), "ephemeral_storage", instances},
		"odd memory, instances":  {set(func(s *sdk.JobSpec) { s.Memory = 100*mib + 1 }), "memory", instances},
		"bridge on Fargate":      {set(func(s *sdk.JobSpec) { s.Network = "bridge" }), "network", nil},
		"bridge on instances":    {set(func(s *sdk.JobSpec) { s.Network = "bridge" }), "", instances},
		"no such network":        {set(func(s *sdk.JobSpec) { s.Network = "blue" }), "network", instances},
		"label":                  {set(func(s *sdk.JobSpec) { s.Labels = map[string]string{"a": "b#c"} }), "labels", nil},
		"aws's label":            {set(func(s *sdk.JobSpec) { s.Labels = map[string]string{"AWS:x": "y"} }), "labels", nil},
		"long label":             {set(func(s *sdk.JobSpec) { s.Labels = map[string]string{"a": strings.Repeat("x", 257)} }), "labels", nil},
		"many labels":            {set(func(s *sdk.JobSpec) { s.Labels = many }), "labels", nil},
		"option":                 {options(`{"subnet":["x"]}`), "options.subnet", nil},
		"platform, instances":    {options(`{"platform_version":"1.4.0"}`), "options.platform_version", instances},
		"address, instances":     {options(`{"assign_public_ip":true}`), "options.assign_public_ip", instances},
		"our tag":                {options(`{"tags":{"windlass-run":"x"}}`), "options.tags.windlass-run", nil},
		"no subnets":             {nil, "options.subnets", map[string]any{"subnets": []string{}}},
		"subnets for one job":    {options(`{"subnets":["subnet-9"]}`), "", map[string]any{"subnets": []string{}}},
		"no role":                {nil, "options.execution_role", map[string]any{"execution_role": ""}},
		"no role on instances":   {nil, "", map[string]any{"execution_role": "", "launch_type": "ec2"}},
		"secrets without a role": {secret("secret://aws-ssm/x"), "options.execution_role", map[string]any{"execution_role": "", "launch_type": "ec2"}},
		"visible secret":         {secret("secret://env/X"), "secrets.S", nil},
		"visible secret allowed": {set(func(s *sdk.JobSpec) {
			s.Secrets, s.AllowVisibleSecret = map[string]sdk.SecretRef{"S": "secret://file/x"}, true
		}), "", nil},
		"scheme":               {secret("secret://gcp-sm/X"), "secrets.S", nil},
		"parameter's key":      {secret("secret://aws-ssm/x#k"), "secrets.S", nil},
		"parameter's version":  {secret("secret://aws-ssm/x?version=3"), "secrets.S", nil},
		"secret's odd name":    {secret("secret://aws-sm/a:b"), "secrets.S", nil},
		"secret's odd version": {secret("secret://aws-sm/arn:aws:secretsmanager:r:1:secret:x?version=a:b"), "secrets.S", nil},
		"too much":             {set(func(s *sdk.JobSpec) { s.Env = sdk.Env{"BIG": strings.Repeat("x", 70000)} }), "args", nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"true"}}
			if c.change != nil {
				c.change(&spec)
			}
			l := drivertest.Launch(t, offline(t, c.config), spec)
			if c.field == "" {
				if len(l.Problems) > 0 {
					t.Errorf("refused: %s", sdk.JoinProblems(l.Problems))
				}
				return
			}
			if !slices.ContainsFunc(l.Problems, func(p sdk.Problem) bool { return p.Field == c.field && p.Message != "" && p.Code != 0 }) {
				t.Errorf("no problem with %s: %v", c.field, l.Problems)
			}
			if len(l.Request) > 0 {
				t.Error("a launch with problems has a request")
			}
		})
	}
}

// TestF6Overrides: what is too long for a task's overrides goes into a
// definition of the job's own, at exactly the limit.
func TestF6Overrides(t *testing.T) {
	p := offline(t, nil)
	spec := sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"x"}, Env: sdk.Env{"A": ""}}
	base, err := override{Command: spec.Args, Environment: spec.Env}.size()
	if err != nil {
		t.Fatal(err)
	}
	for n, moved := range map[int]bool{maxOverrides - base: false, maxOverrides - base + 1: true} {
		spec.Env = sdk.Env{"A": strings.Repeat("x", n)}
		l := drivertest.Launch(t, p, spec)
		req, err := decodeRequest(l.Request)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(req.Definition.Container.Environment) > 0; got != moved || got == (len(req.Run.Override.Environment) > 0) {
			t.Errorf("a value of %d bytes: moved %t, want %t", n, got, moved)
		}
		if moved != slices.ContainsFunc(l.Fitted, func(f sdk.Fitted) bool { return f.Field == "definition" }) {
			t.Errorf("a value of %d bytes: fitted %v", n, l.Fitted)
		}
	}
	spec.Env = sdk.Env{"SMALL": "x", "BIG": strings.Repeat("x", 70000)}
	if l := drivertest.Launch(t, p, spec); len(l.Problems) != 1 || !strings.Contains(l.Problems[0].Message, "env.BIG (70000 bytes)") {
		t.Errorf("the largest isn't named: %v", l.Problems)
	}
}

// TestDefinitionsAreShared: what differs from run to run makes no definition of
// its own, what the definition holds does, and owners share none.
func TestDefinitionsAreShared(t *testing.T) {
	p := offline(t, nil)
	familyOf := func(p *provider, change func(s *sdk.JobSpec)) string {
		spec := sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"x"}}
		change(&spec)
		return drivertest.Launch(t, p, spec).Names["definition"]
	}
	same := familyOf(p, func(*sdk.JobSpec) {})
	for name, change := range map[string]func(s *sdk.JobSpec){
		"args":   func(s *sdk.JobSpec) { s.Args = sdk.Argv{"y"} },
		"env":    func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "b"} },
		"name":   func(s *sdk.JobSpec) { s.Name = "n" },
		"labels": func(s *sdk.JobSpec) { s.Labels = map[string]string{"a": "b"} },
	} {
		if got := familyOf(p, change); got != same {
			t.Errorf("%s: another definition", name)
		}
	}
	seen := map[string]string{same: "unchanged"}
	for name, change := range map[string]func(s *sdk.JobSpec){
		"image":      func(s *sdk.JobSpec) { s.Image = "app:2" },
		"user":       func(s *sdk.JobSpec) { s.User = "1" },
		"workdir":    func(s *sdk.JobSpec) { s.Workdir = "/w" },
		"entrypoint": func(s *sdk.JobSpec) { s.Entrypoint = sdk.Argv{"e"} },
		"cpu":        func(s *sdk.JobSpec) { s.CPU = 1000 },
		"grace":      func(s *sdk.JobSpec) { s.Grace = new(3 * time.Second) },
		"secrets":    func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://aws-ssm/x"} },
	} {
		got := familyOf(p, change)
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the definition of %s", name, other)
		}
		seen[got] = name
	}
	other := offline(t, nil)
	other.owner = "bob"
	if familyOf(other, func(*sdk.JobSpec) {}) == same {
		t.Error("two owners share a definition")
	}
}

// TestFamily: families are legal for any owner, and distinct.
func TestFamily(t *testing.T) {
	hash := strings.Repeat("a", 32)
	seen := map[string]string{}
	for _, owner := range []string{"a", "A", "ann@laptop", "ann-laptop", "ann.laptop", "é", strings.Repeat("x", 255), strings.Repeat("x", 256), "ledger 1"} {
		f := family(owner, hash)
		if len(f) > maxFamily || strings.Trim(f, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("owner %q: family %q", owner, f)
		}
		if other, ok := seen[f]; ok {
			t.Errorf("owners %q and %q have the family %s", owner, other, f)
		}
		seen[f] = owner
	}
}

func TestSecretARNs(t *testing.T) {
	p := offline(t, nil)
	arn := "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf"
	for ref, want := range map[string]string{
		"secret://aws-sm/" + arn:                                                       arn,
		"secret://aws-sm/" + arn + "#key":                                              arn + ":key::",
		"secret://aws-sm/" + arn + "?version=AWSPREVIOUS":                              arn + "::AWSPREVIOUS:",
		"secret://aws-sm/" + arn + "?version=01234567-89ab-cdef-0123-456789abcdef":     arn + ":::01234567-89ab-cdef-0123-456789abcdef",
		"secret://aws-sm/" + arn + "#key?version=01234567-89ab-cdef-0123-456789abcdef": arn + ":key::01234567-89ab-cdef-0123-456789abcdef",
		"secret://aws-ssm/prod/key":                                                    "arn:aws:ssm:eu-west-1:123456789012:parameter/prod/key",
		"secret://aws-ssm//prod/key":                                                   "arn:aws:ssm:eu-west-1:123456789012:parameter/prod/key",
		"secret://aws-ssm/arn:aws:ssm:eu-west-1:999999999999:parameter/shared":         "arn:aws:ssm:eu-west-1:999999999999:parameter/shared",
	} {
		spec := sdk.JobSpec{Image: "app:1", Secrets: map[string]sdk.SecretRef{"S": sdk.SecretRef(ref)}}
		l := drivertest.Launch(t, p, spec)
		if len(l.Problems) > 0 {
			t.Errorf("%s: %s", ref, sdk.JoinProblems(l.Problems))
			continue
		}
		req, err := decodeRequest(l.Request)
		if err != nil {
			t.Fatal(err)
		}
		if got := req.Definition.Container.Secrets["S"]; got != want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
}

func TestFitted(t *testing.T) {
	fields := func(l sdk.Launch) []string {
		var out []string
		for _, f := range l.Fitted {
			out = append(out, f.Field+"="+f.Value)
		}
		slices.Sort(out)
		return out
	}
	p := offline(t, nil)
	if got, want := fields(drivertest.Launch(t, p, sdk.JobSpec{Image: "app:1"})), []string{"cpu=250m", "grace=30s", "memory=512Mi"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := fields(drivertest.Launch(t, p, sdk.JobSpec{Image: "app:1", CPU: 1000, Memory: 2 << 30, Grace: new(5 * time.Second)})); len(got) > 0 {
		t.Errorf("what was set is fitted: %q", got)
	}
}

func TestGroup(t *testing.T) {
	id := sdk.NewIDSource(sdk.SystemClock()).NewID()
	if got, n, ok := readGroup(groupOf(id, 3)); !ok || got != id || n != 3 {
		t.Errorf("got %s, %d, %t", got, n, ok)
	}
	for _, s := range []string{"", "family:x", "windlass:", "windlass:x:1", "windlass:" + id.String(), "windlass:" + id.String() + ":0", "windlass:" + id.String() + ":x"} {
		if _, _, ok := readGroup(s); ok {
			t.Errorf("%q is taken", s)
		}
	}
}

// TestOpen: what no job could run with is refused, by field.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		config, owner, field string
		credentials          map[string]string
	}{
		"member":         {config: `{"clusters":"x"}`, field: "config.clusters"},
		"region":         {config: `{"region":"Europe"}`, field: "config.region"},
		"no region":      {config: `{}`, field: "config.region"},
		"account":        {config: `{"region":"eu-west-1","account":"1"}`, field: "config.account"},
		"endpoint":       {config: `{"region":"eu-west-1","endpoint":"http://example.com"}`, field: "config.endpoint"},
		"endpoint, near": {config: `{"region":"eu-west-1","endpoint":"http://127.0.0.1@example.com"}`, field: "config.endpoint"},
		"tag":            {config: `{"region":"eu-west-1","account":"123456789012","tags":{"windlass-x":"y"}}`, field: "config.tags.windlass-x"},
		"owner":          {config: `{"region":"eu-west-1","account":"123456789012"}`, owner: "a#b", field: "owner"},
		"launch type":    {config: `{"region":"eu-west-1","launch_type":"external"}`, field: "config.launch_type"},
	} {
		owner := c.owner
		if owner == "" {
			owner = "me"
		}
		_, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "p", Config: json.RawMessage(c.config), Credentials: pocketCredentials(), Owner: owner})
		var e *sdk.Error
		if sdk.CodeOf(err) != sdk.InvalidArgument || !asError(err, &e) || e.Field != c.field {
			t.Errorf("%s: %v, want a problem with %s", name, err, c.field)
		}
	}
	_, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "p", Config: json.RawMessage(`{"region":"eu-west-1"}`), Owner: "me"})
	if sdk.CodeOf(err) != sdk.Unauthenticated || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("without credentials: %v", err)
	}
}

func asError(err error, e **sdk.Error) bool {
	got, ok := err.(*sdk.Error) //nolint:errorlint // the outermost is asked for
	*e = got
	return ok
}

// TestTagValue: names become legal tags, and stay apart.
func TestTagValue(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []string{"a", "nightly job", "é", "é#", "a#", "a", strings.Repeat("x", 256), strings.Repeat("x", 257), strings.Repeat("é", 257), "a\nb"} {
		v := aws.TagValue(s)
		if msg := aws.CheckTag("x", v); msg != "" {
			t.Errorf("%q becomes %q: %s", s, v, msg)
		}
		if other, ok := seen[v]; ok && other != s {
			t.Errorf("%q and %q both become %q", s, other, v)
		}
		seen[v] = s
	}
}

// TestRefusalsInOneRound: nothing that is refused hides anything else.
func TestRefusalsInOneRound(t *testing.T) {
	spec := drivertest.Refusable(sdk.JobSpec{Image: "app", CPU: 300, Memory: 700 << 20, Args: sdk.Argv{}, Options: []byte(`{"zone":"1"}`)})
	drivertest.OneRound(t, offline(t, nil), spec, "gpu", "ephemeral_storage", "pids", "network", "mounts[0]", "files[0]", "files[1]", "stdin", "profile", "cpu", "memory", "args", "options.zone")
}
