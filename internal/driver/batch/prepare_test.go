package batch

import (
	"encoding/json"
	"flag"
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
	return drivertest.Offline[*provider](t, Driver(), pocketCredentials(), map[string]any{"region": "eu-west-1", "account": "123456789012", "queue": "jobs", "execution_role": "arn:aws:iam::123456789012:role/exec", "tags": map[string]string{"team": "a"}}, change)
}

func TestGoldenRequests(t *testing.T) {
	cmd := sdk.Argv{"echo", "a b", "$(x)", "{{z}}"}
	ec2 := map[string]any{"platform": "ec2", "execution_role": ""}
	for name, c := range map[string]struct {
		config map[string]any
		spec   sdk.JobSpec
	}{
		"unset": {spec: sdk.JobSpec{Image: "app:1", Args: cmd}},
		"everything": {spec: sdk.JobSpec{Name: "nightly job", Image: "app:1", Entrypoint: sdk.Argv{"sh", "-c"}, ImageEntrypoint: sdk.Argv{}, Args: cmd, Env: sdk.Env{"B": "2", "A": "1 é"},
			User: "1000:1000", CPU: 500, Memory: 2 << 30, EphemeralStorage: 50 << 30, Timeout: time.Hour, Labels: map[string]string{"cost": "x"}, Network: "awsvpc",
			Secrets: map[string]sdk.SecretRef{"DB": "secret://aws-sm/arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf#password?version=AWSPREVIOUS", "KEY": "secret://aws-ssm/prod/key"},
			Options: json.RawMessage(`{"assign_public_ip":true,"job_role":"arn:aws:iam::123456789012:role/job","platform_version":"1.4.0","architecture":"arm64","tags":{"team":"b"}}`)}},
		"instances":  {config: ec2, spec: sdk.JobSpec{Image: "app:1", Args: cmd, CPU: 2000, Memory: 300 << 20, GPU: 2, Timeout: time.Second}},
		"fitted":     {config: ec2, spec: sdk.JobSpec{Image: "app:1"}},
		"own-entry":  {spec: sdk.JobSpec{Image: "app:1", Entrypoint: sdk.Argv{"/entry", "-x"}, ImageEntrypoint: sdk.Argv{"/entry"}, Args: sdk.Argv{"y"}}},
		"long":       {spec: sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"x"}, Env: sdk.Env{"LONG": strings.Repeat("long ", 2000)}}},
		"log-group":  {config: map[string]any{"log_group": "g", "ephemeral_storage": 30}, spec: sdk.JobSpec{Image: "app:1"}},
		"log-group2": {config: map[string]any{"log_group": "g", "create_log_group": false, "log_blocking": false}, spec: sdk.JobSpec{Image: "app:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.GoldenRequest(t, *update, name, drivertest.Launch(t, offline(t, c.config), c.spec), decodeRequest)
		})
	}
}

// TestDeadline: AWS Batch's own time-out is 1.1 times the job's, at least a
// minute, and none where none is set.
func TestDeadline(t *testing.T) {
	p := offline(t, nil)
	for timeout, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Minute, time.Minute: 66 * time.Second, time.Hour: 66 * time.Minute, 95 * time.Second: 105 * time.Second, 1 << 62: 0} {
		l := drivertest.Launch(t, p, sdk.JobSpec{Image: "app:1", Timeout: timeout})
		req, err := decodeRequest(l.Request)
		if err != nil || l.NativeDeadline != want || time.Duration(req.Job.Timeout)*time.Second != want {
			t.Errorf("%s: %s, sent %d, %v; want %s", timeout, l.NativeDeadline, req.Job.Timeout, err, want)
		}
	}
}

// TestRefused: what AWS Batch can't do is refused by field, before launch.
func TestRefused(t *testing.T) {
	grace := 10 * time.Second
	app := func(change func(s *sdk.JobSpec)) sdk.JobSpec {
		s := sdk.JobSpec{Image: "app:1", Args: sdk.Argv{"x"}}
		change(&s)
		return s
	}
	labels := map[string]string{}
	for i := range 50 {
		labels["k"+itoa(int64(i))] = "v"
	}
	huge := map[string]string{}
	for i := range 40 {
		huge[strings.Repeat("é", 125)+itoa(int64(i))] = strings.Repeat("é", 256)
	}
	ec2 := map[string]any{"platform": "ec2"}
	for name, c := range map[string]struct {
		config map[string]any
		spec   sdk.JobSpec
		field  string
	}{
		"no image":          {spec: sdk.JobSpec{Args: sdk.Argv{"x"}}, field: "image"},
		"image":             {spec: app(func(s *sdk.JobSpec) { s.Image = "a b" }), field: "image"},
		"workdir":           {spec: app(func(s *sdk.JobSpec) { s.Workdir = "/w" }), field: "workdir"},
		"grace":             {spec: app(func(s *sdk.JobSpec) { s.Grace = &grace }), field: "grace"},
		"pids":              {spec: app(func(s *sdk.JobSpec) { s.PIDs = 9 }), field: "pids"},
		"stdin":             {spec: app(func(s *sdk.JobSpec) { s.Stdin = sdk.StdinAttached }), field: "stdin"},
		"profile":           {spec: app(func(s *sdk.JobSpec) { s.Profile = sdk.ProfileStrict }), field: "profile"},
		"network":           {spec: app(func(s *sdk.JobSpec) { s.Network = "host" }), field: "network"},
		"network of ec2":    {config: ec2, spec: app(func(s *sdk.JobSpec) { s.Network = "awsvpc" }), field: "network"},
		"entrypoint":        {spec: app(func(s *sdk.JobSpec) { s.Entrypoint = sdk.Argv{"sh"} }), field: "entrypoint"},
		"other entrypoint":  {spec: app(func(s *sdk.JobSpec) { s.Entrypoint, s.ImageEntrypoint = sdk.Argv{"sh"}, sdk.Argv{"bash"} }), field: "entrypoint"},
		"longer entrypoint": {spec: app(func(s *sdk.JobSpec) { s.Entrypoint, s.ImageEntrypoint = sdk.Argv{"a"}, sdk.Argv{"a", "b"} }), field: "entrypoint"},
		"cleared args":      {spec: app(func(s *sdk.JobSpec) { s.Args = sdk.Argv{} }), field: "args"},
		"nothing left":      {spec: sdk.JobSpec{Image: "a", Entrypoint: sdk.Argv{"e"}, ImageEntrypoint: sdk.Argv{"e"}}, field: "args"},
		"reference":         {spec: app(func(s *sdk.JobSpec) { s.Args = sdk.Argv{"--a=Ref::x"} }), field: "args[0]"},
		"empty argument":    {spec: app(func(s *sdk.JobSpec) { s.Args = sdk.Argv{"a", ""} }), field: "args[1]"},
		"bytes":             {spec: app(func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} }), field: "args[0]"},
		"variable's bytes":  {spec: app(func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "\xff"} }), field: "env.A"},
		"variable":          {spec: app(func(s *sdk.JobSpec) { s.Env = sdk.Env{"AWS_BATCH_X": "v"} }), field: "env.AWS_BATCH_X"},
		"cores":             {spec: app(func(s *sdk.JobSpec) { s.CPU = 300 }), field: "cpu"},
		"gpu":               {spec: app(func(s *sdk.JobSpec) { s.GPU = 1 }), field: "gpu"},
		"disk":              {spec: app(func(s *sdk.JobSpec) { s.EphemeralStorage = 201 << 30 }), field: "ephemeral_storage"},
		"cores of ec2":      {config: ec2, spec: app(func(s *sdk.JobSpec) { s.CPU = 500 }), field: "cpu"},
		"memory of ec2":     {config: ec2, spec: app(func(s *sdk.JobSpec) { s.Memory = 1 << 20 }), field: "memory"},
		"disk of ec2":       {config: ec2, spec: app(func(s *sdk.JobSpec) { s.EphemeralStorage = 30 << 30 }), field: "ephemeral_storage"},
		"version on ec2":    {config: ec2, spec: app(func(s *sdk.JobSpec) { s.Options = json.RawMessage(`{"platform_version":"1.4.0"}`) }), field: "options.platform_version"},
		"public on ec2":     {config: ec2, spec: app(func(s *sdk.JobSpec) { s.Options = json.RawMessage(`{"assign_public_ip":true}`) }), field: "options.assign_public_ip"},
		"unknown option":    {spec: app(func(s *sdk.JobSpec) { s.Options = json.RawMessage(`{"colour":"red"}`) }), field: "options.colour"},
		"role":              {config: map[string]any{"execution_role": ""}, spec: app(func(*sdk.JobSpec) {}), field: "options.execution_role"},
		"tag":               {spec: app(func(s *sdk.JobSpec) { s.Options = json.RawMessage(`{"tags":{"windlass-run":"x"}}`) }), field: "options.tags.windlass-run"},
		"labels":            {spec: app(func(s *sdk.JobSpec) { s.Labels = labels }), field: "labels"},
		"huge labels":       {spec: app(func(s *sdk.JobSpec) { s.Labels = huge }), field: "labels"},
		"huge variables":    {spec: app(func(s *sdk.JobSpec) { s.Env = sdk.Env{"LONG": strings.Repeat("x", 24<<10)} }), field: "args"},
		"visible secret":    {spec: app(func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://env/S"} }), field: "secrets.S"},
		"secret":            {spec: app(func(s *sdk.JobSpec) { s.Secrets = map[string]sdk.SecretRef{"S": "secret://gcp-sm/S"} }), field: "secrets.S"},
		"mount":             {spec: app(func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{{Type: sdk.MountBind, Source: "/a", Target: "/b"}} }), field: "mounts[0]"},
		"file":              {spec: app(func(s *sdk.JobSpec) { s.Files = []sdk.InputFile{{Path: "/a"}} }), field: "files[0]"},
	} {
		l := drivertest.Launch(t, offline(t, c.config), c.spec)
		if len(l.Problems) == 0 || l.Problems[0].Field != c.field || l.Problems[0].Message == "" || l.Request != nil {
			t.Errorf("%s: %s; want a problem with %s", name, sdk.JoinProblems(l.Problems), c.field)
		}
	}
}

// TestBadConfig: what no job could run with is refused when the provider opens.
func TestBadConfig(t *testing.T) {
	for name, raw := range map[string]string{
		"queue": `{"region":"eu-west-1","account":"123456789012"}`, "tag": `{"region":"eu-west-1","account":"123456789012","queue":"q","tags":{"aws:x":"y"}}`,
		"unknown": `{"region":"eu-west-1","account":"123456789012","queue":"q","cluster":"c"}`,
	} {
		if _, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "p", Config: json.RawMessage(raw), Credentials: pocketCredentials(), Owner: "o"}); sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := offline(t, map[string]any{"queue": "arn:aws:batch:eu-west-1:123456789012:job-queue/jobs"})
	if id, other := p.Info().Identity, offline(t, nil).Info().Identity; id != other {
		t.Errorf("by ARN the provider is %s, by name %s", id, other)
	}
}

// FuzzNames: names are legal, and come back as what they were made of.
func FuzzNames(f *testing.F) {
	f.Add("ann@laptop", "windlass-x")
	f.Add("é", "windlass-01jgfjja00eayvsy0000000001-01jgfjja00eayvsy0000000002-3")
	f.Fuzz(func(t *testing.T, owner, name string) {
		if aws.CheckTag("x", owner) == "" {
			hash := strings.Repeat("a", 32)
			got := definitionName(owner, hash)
			if len(got) > maxName || !strings.HasPrefix(got, prefix) || !strings.HasSuffix(got, "-"+hash) || strings.Trim(got, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
				t.Errorf("the owner %q has the definition %q", owner, got)
			}
			if other := definitionName(owner+"x", hash); other == got {
				t.Errorf("two owners share %q", got)
			}
		}
		if run, attempt, n, ok := readName(name); ok {
			again := jobName(run, attempt, n)
			if r, a, m, ok := readName(again); !ok || r != run || a != attempt || m != n || len(again) > maxName || !strings.HasPrefix(again, runPrefix(run)) {
				t.Errorf("%q gives %s, which doesn't come back", name, again)
			}
		}
	})
}

// TestRefusalsInOneRound: nothing that is refused hides anything else.
func TestRefusalsInOneRound(t *testing.T) {
	spec := drivertest.Refusable(sdk.JobSpec{Image: "app", CPU: 300, Memory: 700 << 20, Args: sdk.Argv{""}, Options: []byte(`{"zone":"1"}`)})
	drivertest.OneRound(t, offline(t, nil), spec, "workdir", "grace", "gpu", "ephemeral_storage", "pids", "network", "mounts[0]", "files[0]", "files[1]", "stdin", "profile", "cpu", "memory", "args[0]", "options.zone")
}
