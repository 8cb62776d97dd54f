package docker

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

var update = flag.Bool("update", false, "rewrite the golden requests in testdata")

const (
	goldenRun     = "01jgfjja00eayvsy0000000001"
	goldenAttempt = "01jgfjja00eayvsy0000000002"
)

func mustID(t testing.TB, s string) sdk.ID {
	t.Helper()
	id, err := sdk.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// plan prepares a spec with fixed IDs.
func (b *bench) plan(t testing.TB, spec sdk.JobSpec) sdk.Launch {
	t.Helper()
	l, err := b.PrepareJob(t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: mustID(t, goldenRun), AttemptID: mustID(t, goldenAttempt),
		Attempt: 2, Expires: time.Unix(2e9, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func goldenOwner(r *sdk.OpenRequest) {
	r.Owner, r.LedgerID = "golden", "ledger"
	r.Secrets = secretsMap{"secret://env/T": "value"}
}

func TestGoldenRequests(t *testing.T) {
	grace := 1500 * time.Millisecond
	yes := true
	opts, err := json.Marshal(options{Platform: "linux/arm64/v8", Pull: pullAlways, ExtraHosts: []string{"db:10.0.0.1"}, DNS: []string{"10.0.0.2"},
		ShmSize: 1 << 20, CapAdd: []string{"NET_ADMIN"}, CapDrop: []string{"MKNOD"}, Ulimits: []ulimit{{"nofile", 10, 20}}, Runtime: "runc",
		LogDriver: logJSON, LogMaxSize: 2 << 20, Init: &yes, Hostname: "h", StopSignal: "SIGINT"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := sdk.Argv{"echo", "a b", "$(x)", ""}
	for name, spec := range map[string]sdk.JobSpec{
		"unset":      {Image: "busybox:local", Args: cmd},
		"strict":     {Image: "busybox:local", Args: cmd, Profile: sdk.ProfileStrict},
		"standard":   {Image: "busybox:local", Args: cmd, Profile: sdk.ProfileStandard},
		"permissive": {Image: "busybox:local", Args: cmd, Profile: sdk.ProfilePermissive},
		"strict-tight": {Image: "busybox:local", Args: cmd, Profile: sdk.ProfileStrict, Memory: 64 << 20, CPU: 250, PIDs: 10,
			Secrets: map[string]sdk.SecretRef{"T": "secret://env/T"}, Files: []sdk.InputFile{{Path: "/etc/app.conf", Data: []byte("x")}},
			Mounts: []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/tmp", Size: 1 << 20}, {Type: sdk.MountBind, Source: "/etc", Target: "/data", ReadOnly: true}}},
		"everything": {Image: "busybox:local", Entrypoint: sdk.Argv{"sh", "-c"}, Args: cmd, Env: sdk.Env{"B": "2", "A": "1 é"}, Workdir: "/w", User: "1000:1000",
			CPU: 1500, Memory: 128 << 20, GPU: 2, PIDs: 50, Grace: &grace, Labels: map[string]string{"team": "a"}, Network: "host",
			Mounts: []sdk.Mount{{Type: sdk.MountVolume, Source: "v", Target: "/v"}, {Type: sdk.MountTmpfs, Target: "/t", Size: 1 << 20}},
			Stdin:  sdk.StdinSpooled, Options: opts},
		"cleared":      {Image: "busybox:local", Entrypoint: sdk.Argv{}, Args: cmd},
		"cleared-args": {Image: "busybox:local", Args: sdk.Argv{}, ImageEntrypoint: sdk.Argv{"/entry"}},
		"image-only":   {Image: "busybox:local"},
	} {
		t.Run(name, func(t *testing.T) {
			b := openTest(t, newFake(t).host, goldenOwner)
			l := b.plan(t, spec)
			if len(l.Problems) > 0 {
				t.Fatalf("refused: %s", sdk.JoinProblems(l.Problems))
			}
			text := strings.ReplaceAll(string(l.Request), b.state, "STATE")
			if base := tmpfsBase(); base != "" {
				text = strings.ReplaceAll(text, base, "TMPFS")
			} else if len(spec.Secrets) > 0 {
				t.Skip("this machine has no memory file system")
			}
			var got bytes.Buffer
			if err := json.Indent(&got, []byte(text), "", "\t"); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the request differs from %s (go test -update rewrites it):\n%s", file, got.String())
			}
			if strings.Contains(text, `"Privileged":true`) || strings.Contains(text, `"AutoRemove":true`) {
				t.Error("privileged, or removed by the engine")
			}
		})
	}
}

func TestProblems(t *testing.T) {
	long := 25 * time.Hour
	options := func(s string) func(s *sdk.JobSpec) {
		return func(spec *sdk.JobSpec) { spec.Options = json.RawMessage(s) }
	}
	profile := func(p sdk.Profile, change func(s *sdk.JobSpec)) func(s *sdk.JobSpec) {
		return func(s *sdk.JobSpec) {
			s.Profile = p
			change(s)
		}
	}
	mount := func(m sdk.Mount) func(s *sdk.JobSpec) {
		return func(s *sdk.JobSpec) { s.Mounts = []sdk.Mount{m} }
	}
	for name, c := range map[string]struct {
		change func(s *sdk.JobSpec)
		field  string // empty: it is taken
	}{
		"no image":           {func(s *sdk.JobSpec) { s.Image = "" }, "image"},
		"bad image":          {func(s *sdk.JobSpec) { s.Image = "No Such" }, "image"},
		"argument's bytes":   {func(s *sdk.JobSpec) { s.Args = sdk.Argv{"\xff"} }, "args[0]"},
		"variable's bytes":   {func(s *sdk.JobSpec) { s.Env = sdk.Env{"A": "\xff"} }, "env.A"},
		"relative folder":    {func(s *sdk.JobSpec) { s.Workdir = "x" }, "workdir"},
		"disk":               {func(s *sdk.JobSpec) { s.EphemeralStorage = 1 }, "ephemeral_storage"},
		"too many cores":     {func(s *sdk.JobSpec) { s.CPU = 4001 }, "cpu"},
		"all cores":          {func(s *sdk.JobSpec) { s.CPU = 4000 }, ""},
		"too little core":    {func(s *sdk.JobSpec) { s.CPU = 9 }, "cpu"},
		"too little memory":  {func(s *sdk.JobSpec) { s.Memory = 6<<20 - 1 }, "memory"},
		"long grace":         {func(s *sdk.JobSpec) { s.Grace = &long }, "grace"},
		"unknown profile":    {func(s *sdk.JobSpec) { s.Profile = "privileged" }, "profile"},
		"unknown option":     {options(`{"privileged":true}`), "options.privileged"},
		"platform":           {options(`{"platform":"linux"}`), "options.platform"},
		"dns":                {options(`{"dns":["x"]}`), "options.dns[0]"},
		"hosts":              {options(`{"extra_hosts":["x"]}`), "options.extra_hosts[0]"},
		"runtime":            {options(`{"runtime":"runsc"}`), "options.runtime"},
		"nothing to run":     {func(s *sdk.JobSpec) { s.Entrypoint, s.Args = sdk.Argv{}, sdk.Argv{} }, "args"},
		"no entrypoint":      {func(s *sdk.JobSpec) { s.ImageEntrypoint, s.Args = sdk.Argv{}, sdk.Argv{} }, "args"},
		"entrypoint unknown": {func(s *sdk.JobSpec) { s.Image, s.Args = "absent:1", sdk.Argv{} }, "args"},
		"entrypoint known":   {func(s *sdk.JobSpec) { s.Args = sdk.Argv{} }, ""},
		"file of a secret": {func(s *sdk.JobSpec) {
			s.Env = sdk.Env{"T_FILE": "x"}
			s.Secrets = map[string]sdk.SecretRef{"T": "secret://env/T"}
		}, "env"},

		"strict, network":       {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.Network = "bridge" }), "network"},
		"strict, no network":    {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.Network = "none" }), ""},
		"strict, memory":        {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.Memory = 1 << 30 }), "memory"},
		"strict, less memory":   {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.Memory = 1 << 26 }), ""},
		"strict, cpu":           {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.CPU = 501 }), "cpu"},
		"strict, pids":          {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.PIDs = 65 }), "pids"},
		"strict, gpu":           {profile(sdk.ProfileStrict, func(s *sdk.JobSpec) { s.GPU = 1 }), "gpu"},
		"strict, capability":    {profile(sdk.ProfileStrict, options(`{"cap_add":["CHOWN"]}`)), "options.cap_add"},
		"strict, no capability": {profile(sdk.ProfileStrict, options(`{"cap_drop":["CHOWN"]}`)), ""},
		"strict, shm":           {profile(sdk.ProfileStrict, options(`{"shm_size":1073741824}`)), "options.shm_size"},
		"strict, ulimits":       {profile(sdk.ProfileStrict, options(`{"ulimits":[{"name":"nofile","soft":1,"hard":1}]}`)), "options.ulimits"},
		"strict, writable bind": {profile(sdk.ProfileStrict, mount(sdk.Mount{Type: sdk.MountBind, Source: "/etc", Target: "/d"})), "mounts[0].read_only"},
		"strict, volume":        {profile(sdk.ProfileStrict, mount(sdk.Mount{Type: sdk.MountVolume, Source: "d", Target: "/d"})), "mounts[0].read_only"},
		"strict, bind":          {profile(sdk.ProfileStrict, mount(sdk.Mount{Type: sdk.MountBind, Source: "/etc", Target: "/d", ReadOnly: true})), ""},
		"strict, tmpfs":         {profile(sdk.ProfileStrict, mount(sdk.Mount{Type: sdk.MountTmpfs, Target: "/d"})), "mounts[0].size"},
		"standard, pids":        {profile(sdk.ProfileStandard, func(s *sdk.JobSpec) { s.PIDs = 1025 }), "pids"},
		"standard, host":        {profile(sdk.ProfileStandard, func(s *sdk.JobSpec) { s.Network = "host" }), "network"},
		"standard, capability":  {profile(sdk.ProfileStandard, options(`{"cap_add":["CHOWN"]}`)), "options.cap_add"},
		"standard, memory":      {profile(sdk.ProfileStandard, func(s *sdk.JobSpec) { s.Memory = 8 << 30 }), ""},
		"standard, root bind":   {profile(sdk.ProfileStandard, mount(sdk.Mount{Type: sdk.MountBind, Source: "/", Target: "/d"})), "mounts[0].source"},
		"standard, bind":        {profile(sdk.ProfileStandard, mount(sdk.Mount{Type: sdk.MountBind, Source: "/etc", Target: "/d"})), ""},
		"absent bind":           {mount(sdk.Mount{Type: sdk.MountBind, Source: "/no/such/folder", Target: "/d"}), "mounts[0].source"},
		"present bind":          {mount(sdk.Mount{Type: sdk.MountBind, Source: "/etc", Target: "/d"}), ""},
		"a volume to make":      {mount(sdk.Mount{Type: sdk.MountVolume, Source: "new", Target: "/d"}), ""},
		"unset, pids":           {func(s *sdk.JobSpec) { s.PIDs = 2000 }, ""},
		"unset, host":           {func(s *sdk.JobSpec) { s.Network = "host" }, ""},
		"unset, capability":     {options(`{"cap_add":["CHOWN"]}`), ""},
		"permissive, host":      {profile(sdk.ProfilePermissive, func(s *sdk.JobSpec) { s.Network = "host" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := openTest(t, newFake(t).host, goldenOwner)
			spec := sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"true"}}
			c.change(&spec)
			l := b.plan(t, spec)
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

func TestProblemsOfARemoteEngine(t *testing.T) {
	remote := func(r *sdk.OpenRequest) {
		goldenOwner(r)
		r.Config = json.RawMessage(strings.TrimSuffix(string(r.Config), "}") + `,"remote":true}`)
	}
	b := openTest(t, newFake(t).host, remote)
	if d := b.Info().Guarantees.Secrets; d != sdk.SecretVisibleEnv {
		t.Errorf("secrets by %s", d)
	}
	spec := sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"true"}, Secrets: map[string]sdk.SecretRef{"T": "secret://env/T"}}
	if l := b.plan(t, spec); len(l.Problems) != 1 || l.Problems[0].Field != "secrets" {
		t.Errorf("got %v", l.Problems)
	}
	spec.AllowVisibleSecret = true
	l := b.plan(t, spec)
	if len(l.Problems) > 0 || strings.Contains(string(l.Request), "value") {
		t.Errorf("got %v: %s", l.Problems, l.Request)
	}
	spec.Files = []sdk.InputFile{{Path: "/tmp/x", Data: []byte("x")}}
	spec.Mounts = []sdk.Mount{{Type: sdk.MountTmpfs, Target: "/tmp", Size: 1 << 20}}
	if l := b.plan(t, spec); len(l.Problems) != 1 || l.Problems[0].Field != "files[0].path" {
		t.Errorf("a file below a mount: %v", l.Problems)
	}
	spec.Mounts, spec.Profile = nil, sdk.ProfileStrict
	if l := b.plan(t, spec); len(l.Problems) != 1 || l.Problems[0].Field != "files[0].path" {
		t.Errorf("a file in a read-only root: %v", l.Problems)
	}
}

func TestFitted(t *testing.T) {
	b := openTest(t, newFake(t).host, goldenOwner)
	for p, want := range map[sdk.Profile]int{sdk.ProfileUnset: 1, sdk.ProfileStandard: 1, sdk.ProfileStrict: 4, sdk.ProfilePermissive: 0} {
		l := b.plan(t, sdk.JobSpec{Image: "busybox:local", Profile: p})
		if len(l.Fitted) != want {
			t.Errorf("profile %q: %v", p, l.Fitted)
		}
	}
}
