package aci

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/google/go-cmp/cmp"

	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// opOn is a request of a new operation on a group.
func opOn(group string) sdk.OpRequest {
	return sdk.OpRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Path: path(group)}
}

// complete waits until a workload's newest change is.
func (w *world) complete(p *provider, group string) sdk.DeploymentStatus {
	w.T.Helper()
	var st sdk.DeploymentStatus
	w.Eventually("rollout of "+group, func() bool {
		res, err := p.WorkloadStatus(w.T.Context(), sdk.WorkloadStatusRequest{Path: path(group)})
		if err != nil {
			w.T.Fatal(err)
		}
		st = res.Status
		return st.Rollout == sdk.RolloutComplete
	})
	return st
}

// in runs a script in a group, and returns what it wrote.
func (w *world) in(p *provider, group, text string) string {
	w.T.Helper()
	var out bytes.Buffer
	res, err := p.ExecWorkload(w.T.Context(), sdk.ExecWorkloadRequest{Op: opOn(group), Command: script(text), Stdout: &out})
	if err != nil || res.ExitCode == nil || *res.ExitCode != 0 {
		w.T.Fatalf("exec: %+v, %v: %q", res, err, out.String())
	}
	return out.String()
}

// TestF98NewAddress says that a start is a new deployment with another address.
func TestF98NewAddress(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	w.up(providertest.Testing(t), "web", 1, func(g *arm.ContainerGroup) {
		g.Properties.IPAddress = &arm.IPAddress{Type: to.Ptr(arm.ContainerGroupIPAddressTypePublic), Ports: []*arm.Port{{Port: to.Ptr[int32](80)}}}
		g.Properties.Containers[0].Properties.Ports = []*arm.ContainerPort{{Port: to.Ptr[int32](80)}}
	})
	first := w.complete(p, "web")
	told := func(what string, warnings []string) {
		t.Helper()
		if !strings.Contains(strings.Join(warnings, "\n"), "IP address may be another") {
			t.Errorf("%s: %q says nothing of the address", what, warnings)
		}
	}
	stop, err := p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: opOn("web")})
	if err != nil {
		t.Fatal(err)
	}
	told("stop", stop.Op.Warnings)
	var st sdk.DeploymentStatus
	w.Eventually("stopped group", func() bool { st = w.complete(p, "web"); return st.Stopped })
	told("status of what is stopped", st.Warnings)
	start, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOn("web")})
	if err != nil {
		t.Fatal(err)
	}
	told("start", start.Op.Warnings)
	if again := w.complete(p, "web"); again.Raw["ip_address"] == "" || again.Raw["ip_address"] == first.Raw["ip_address"] {
		t.Errorf("it is at %q, and was at %q", again.Raw["ip_address"], first.Raw["ip_address"])
	}
	restart, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: opOn("web")})
	if err != nil {
		t.Fatal(err)
	}
	told("restart", restart.Op.Warnings)
	// Azure is at it.
	w.cloud.Strike(pocket.Mishap{Group: "web", Stage: pocket.StageWait})
	w.complete(p, "web")
	if _, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: opOn("web")}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: opOn("web")}); !errors.Is(err, sdk.Aborted) {
		t.Errorf("a restart while the group comes up: %v, want Aborted", err)
	}
}

// TestF85WorkloadSecret delivers a secret, keeps it through a change of settings,
// and shows it nowhere.
func TestF85WorkloadSecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-workload-secret-77e1"
	w := workloadWorld(t, withShell())
	p := w.Open()
	ref := w.putSecret(providertest.Testing(t), "DB", []byte(canary))
	spec := sdk.DeploymentSpec{Name: "api", Image: "busybox:local", Command: service("main"), Env: sdk.Env{"A": "1"}, Secrets: map[string]sdk.SecretRef{"DB": ref}}
	if _, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOn("api"), Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	w.complete(p, "api")
	for _, r := range []sdk.ApplyConfigRequest{
		{Set: map[string]string{"A": "2"}},
		{Unset: []string{"A"}},
		{Secrets: map[string]sdk.SecretRef{"DB": ref}}, // its value may be another now
	} {
		r.Op = opOn("api")
		res, err := p.ApplyConfig(t.Context(), r)
		if err != nil || !res.Op.Changed {
			t.Fatalf("%+v: %+v, %v", r, res, err)
		}
		w.complete(p, "api")
	}
	if got := w.in(p, "api", `printf '%s %s' "$DB" "${A-unset}"`); got != canary+" unset" {
		t.Errorf("the container has %q", got)
	}
	w.Unseen(canary, "GetSecret", "ContainerGroups_CreateOrUpdate")
	for _, c := range w.cloud.Calls().Calls("ContainerGroups_CreateOrUpdate") {
		if bytes.Contains(c.Reply, []byte(canary)) {
			t.Errorf("a deployment's reply shows the secret: %s", c.Reply)
		}
	}
	// To set it plainly takes the reference away.
	if _, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOn("api"), Set: map[string]string{"DB": "plain"}}); err != nil {
		t.Fatal(err)
	}
	w.complete(p, "api")
	g, err := p.groups.Get(t.Context(), pocket.ResourceGroup, "api", nil)
	if err != nil || g.Tags["windlass-secret-DB"] != nil {
		t.Errorf("tags are %v, %v", g.Tags, err)
	}
}

// TestWorkloadHidden refuses to deploy again what Azure doesn't show whole.
func TestWorkloadHidden(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	w.up(providertest.Testing(t), "own", 2, func(g *arm.ContainerGroup) {
		g.Properties.Containers[0].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{{Name: to.Ptr("PASS"), SecureValue: to.Ptr("x")}}
	})
	w.up(providertest.Testing(t), "other", 2, func(g *arm.ContainerGroup) {
		g.Properties.Containers[1].Properties.EnvironmentVariables = []*arm.EnvironmentVariable{{Name: to.Ptr("PASS"), SecureValue: to.Ptr("x")}}
	})
	w.up(providertest.Testing(t), "login", 1, func(g *arm.ContainerGroup) {
		g.Properties.ImageRegistryCredentials = []*arm.ImageRegistryCredential{{Server: to.Ptr("example.azurecr.io"), Username: to.Ptr("u"), Password: to.Ptr("p")}}
	})
	for group, want := range map[string]string{"own": "PASS", "other": "main-1", "login": "example.azurecr.io"} {
		before := w.cloud.Changes(pocket.ResourceGroup, group)
		_, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOn(group), Set: map[string]string{"A": "1"}})
		if !errors.Is(err, sdk.FailedPrecondition) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want FailedPrecondition that names %s", group, err, want)
		}
		if now := w.cloud.Changes(pocket.ResourceGroup, group); now != before {
			t.Errorf("%s: it was deployed", group)
		}
	}
	if _, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOn("own"), Unset: []string{"PASS"}}); err != nil {
		t.Errorf("without the variable: %v", err)
	}
}

// TestWorkloadStore keeps settings in App Configuration too, and leaves none there
// of a change that Azure refuses.
func TestWorkloadStore(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, map[string]any{"exec_shell": "/bin/sh", "app_configuration": "settings"})
	p := w.Open()
	spec := sdk.DeploymentSpec{Name: "api", Image: "busybox:local", Command: service("main"), Config: map[string]string{"COLOR": "red"}}
	if _, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOn("api"), Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	w.complete(p, "api")
	stored := func(want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, w.cloud.Settings("settings", string(path("api")))); diff != "" {
			t.Error(diff)
		}
	}
	stored(map[string]string{"COLOR": "red"})
	config := func(set map[string]string, unset ...string) (sdk.ApplyConfigResult, error) {
		return p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: opOn("api"), Set: set, Unset: unset})
	}
	dry := opOn("api")
	dry.DryRun = true
	if res, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: dry, Set: map[string]string{"COLOR": "blue"}}); err != nil || len(res.Op.Calls) != 2 {
		t.Errorf("a dry run: %+v, %v", res, err)
	}
	stored(map[string]string{"COLOR": "red"})
	if _, err := config(map[string]string{"COLOR": "blue", "SIZE": "1"}); err != nil {
		t.Fatal(err)
	}
	w.complete(p, "api")
	stored(map[string]string{"COLOR": "blue", "SIZE": "1"})

	refuse := func(action string) {
		w.cloud.Faults().Add(fault.Rule{Action: action, Count: 1, Effect: fault.Effect{Refuse: pocket.Throttled()}})
	}
	refuse("ContainerGroups_CreateOrUpdate")
	if _, err := config(map[string]string{"COLOR": "green", "NEW": "x"}, "SIZE"); !errors.Is(err, sdk.ResourceExhausted) {
		t.Errorf("a refused deployment: %v", err)
	}
	stored(map[string]string{"COLOR": "blue", "SIZE": "1"})
	refuse("ContainerGroups_CreateOrUpdate")
	refuse("DeleteKeyValue")
	if _, err := config(map[string]string{"NEW": "x"}); sdk.IsClear(err) || !strings.Contains(err.Error(), "App Configuration") {
		t.Errorf("a refused deployment whose settings stay: %v, want an error that proves nothing", err)
	}
	w.cloud.Faults().Clear()
	st := w.complete(p, "api")
	if !strings.Contains(strings.Join(st.Warnings, "\n"), "NEW") {
		t.Errorf("the status warns of %q", st.Warnings)
	}
	// The same again brings both together.
	if res, err := config(map[string]string{"NEW": "x"}); err != nil || !res.Op.Changed {
		t.Fatalf("%+v, %v", res, err)
	}
	if st = w.complete(p, "api"); len(st.Warnings) > 0 {
		t.Errorf("the status warns of %q", st.Warnings)
	}
	if got := w.in(p, "api", `printf %s "$COLOR$NEW"`); got != "bluex" {
		t.Errorf("the container has %q", got)
	}
	// Somebody else is at the same setting.
	w.cloud.Faults().Add(fault.Rule{Action: "PutKeyValue", Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: http.StatusPreconditionFailed, Code: "PreconditionFailed"}}})
	if _, err := config(map[string]string{"COLOR": "black"}); !errors.Is(err, sdk.Aborted) {
		t.Errorf("a setting that changed meanwhile: %v, want Aborted", err)
	}
	w.cloud.PutSetting("settings", string(path("api")), "COLOR", "white")
	if st = w.complete(p, "api"); !strings.Contains(strings.Join(st.Warnings, "\n"), "COLOR") {
		t.Errorf("the status warns of %q", st.Warnings)
	}
}

// TestWorkloadsAreNoJobs leaves the groups of jobs alone.
func TestWorkloadsAreNoJobs(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	h := w.Run(p, w.Prepare(p, shell("sleep 100")))
	w.Running(p, h)
	w.up(providertest.Testing(t), "web", 1)
	list := func() (out []string) {
		for it, err := range p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(it.Path))
		}
		return out
	}
	want := []string{string(path("web"))}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Error(diff)
	}
	if _, err := p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: opOn(h.ID)}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("a stop of a job: %v", err)
	}
	// Credentials of the resource group alone.
	w.cloud.Faults().Add(fault.Rule{Action: "ContainerGroups_List", Effect: fault.Effect{Refuse: &fault.Refusal{Status: http.StatusForbidden, Code: "AuthorizationFailed"}}})
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Error(diff)
	}
}

// TestWorkloadSpec honours what a spec sets, or refuses it.
func TestWorkloadSpec(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	two := 2
	base := func() sdk.DeploymentSpec {
		return sdk.DeploymentSpec{Name: "api", Image: "busybox:local", Ports: []sdk.Port{{Port: 80}, {Port: 53, Protocol: sdk.ProtocolUDP}}, Options: []byte(`{"public_address":true,"tags":{"team":"a"}}`),
			Resources: sdk.Limits{CPU: 2000, Memory: 2 << 30}, Command: service("main")}
	}
	for field, change := range map[string]func(s *sdk.DeploymentSpec){
		"replicas":         func(s *sdk.DeploymentSpec) { s.Replicas = &two },
		"health":           func(s *sdk.DeploymentSpec) { s.Health = &sdk.HealthCheck{TCP: true, Port: 80} },
		"ports":            func(s *sdk.DeploymentSpec) { s.Options = nil },
		"resources.cpu":    func(s *sdk.DeploymentSpec) { s.Resources.CPU = 1234 },
		"resources.memory": func(s *sdk.DeploymentSpec) { s.Resources.Memory = 1<<30 + 1 },
		"config":           func(s *sdk.DeploymentSpec) { s.Config = map[string]string{"a.b": "x"} },
		"secrets.X":        func(s *sdk.DeploymentSpec) { s.Secrets = map[string]sdk.SecretRef{"X": "secret://aws-sm/x"} },
		"options.subnet":   func(s *sdk.DeploymentSpec) { s.Options = []byte(`{"subnet":"x","public_address":true}`) },
	} {
		s := base()
		change(&s)
		_, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOn("api"), Spec: &s})
		var e *sdk.Error
		if !errors.As(err, &e) || !sdk.IsClear(err) || e.Field != field {
			t.Errorf("%s: %v, want a refusal of that field", field, err)
		}
	}
	s := base()
	if _, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOn("api"), Spec: &s}); err != nil {
		t.Fatal(err)
	}
	g, err := p.groups.Get(t.Context(), pocket.ResourceGroup, "api", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := g.Properties.Containers[0].Properties
	if *g.Properties.RestartPolicy != arm.ContainerGroupRestartPolicyAlways || *g.Properties.IPAddress.Type != arm.ContainerGroupIPAddressTypePublic || len(g.Properties.IPAddress.Ports) != 2 ||
		len(c.Ports) != 2 || *c.Resources.Requests.CPU != 2 || *c.Resources.Requests.MemoryInGB != 2 || deref(g.Tags["team"]) != "a" || g.Tags[sdk.LabelRun] != nil {
		t.Errorf("made %+v", g.Properties)
	}
}

// TestF102MetricsWarm says that there is nothing yet, and takes no zero for a
// measurement.
func TestF102MetricsWarm(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.MetricDelay, k.MetricZeros = time.Hour, true })
	p := w.Open()
	w.up(providertest.Testing(t), "web", 1)
	warming := 0
	for it, err := range p.StreamMetrics(t.Context(), sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{path("web")}, Interval: 10 * time.Millisecond}) {
		switch {
		case err != nil || it.Failed != nil:
			t.Fatal(err, it.Failed)
		case it.Warming != "" && it.Instance == "main-0":
			if warming++; warming == 3 {
				w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.MetricDelay = 0 })
			}
			continue
		case warming < 3:
			t.Fatalf("a sample of what isn't measured yet: %+v", it.Sample)
		case it.Sample.Memory == nil || *it.Sample.Memory < 4096 || it.Sample.Restarts == nil:
			t.Errorf("a sample of %+v", it.Sample)
		}
		return
	}
}

// TestWorkloadTerminal gives a program a terminal, with keys and a signal.
func TestWorkloadTerminal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]map[string]any{"plain": nil, "shell": withShell()} {
		w := workloadWorld(t, change)
		p := w.Open()
		w.up(providertest.Testing(t), "web", 1)
		var out bytes.Buffer
		keys, typed := io.Pipe()
		signals := make(chan string, 1)
		go func() { // what is typed before the shell has begun is its own
			_, _ = typed.Write([]byte("stty size; echo a\"\"b; cat\n"))
			_, _ = typed.Write([]byte("from keys\n"))
			_ = typed.Close()
		}()
		res, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: opOn("web"), Command: sdk.Argv{"sh"}, Terminal: &sdk.TerminalSize{Columns: 91, Rows: 17}, Stdin: endsTwice(keys), Signals: signals, Stdout: &out})
		if err != nil || name == "shell" && (res.ExitCode == nil || *res.ExitCode != 0) || name == "plain" && (res.ExitCode != nil || res.Why == "") {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		// The terminal echoes a line, and cat writes it again.
		for want, n := range map[string]int{"17 91\r\n": 1, "ab\r\n": 1, "from keys\r\n": 2} {
			if strings.Count(out.String(), want) != n {
				t.Errorf("%s: %q hasn't %q %d times", name, out.String(), want, n)
			}
		}
		// Without a terminal there is no input.
		if _, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: opOn("web"), Command: sdk.Argv{"cat"}, Stdin: strings.NewReader("x")}); !errors.Is(err, sdk.Unimplemented) {
			t.Errorf("%s: input without a terminal: %v", name, err)
		}
	}
	w := workloadWorld(t, nil)
	p := w.Open()
	w.up(providertest.Testing(t), "web", 1)
	if _, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: opOn("web"), Command: sdk.Argv{"ls", "/"}}); !errors.Is(err, sdk.Unimplemented) || !strings.Contains(err.Error(), "arguments") {
		t.Errorf("arguments without a shell: %v", err)
	}
}

// endsTwice reads r, and at its end the key that ends a further program's input: the
// first one ends cat, this one the shell that ran it.
func endsTwice(r io.Reader) io.Reader { return io.MultiReader(r, strings.NewReader("\x04")) }

// TestWantedStopIsNoFailure: what ended by a stop or restart that was asked for has not
// failed, neither then nor when it is up again.
func TestWantedStopIsNoFailure(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	// It does nothing about TERM, which so ends it with 143.
	w.up(providertest.Testing(t), "web", 1, func(g *arm.ContainerGroup) {
		g.Properties.Containers[0].Properties.Command = to.SliceOfPtrs("sleep", "3600")
	})
	sound := func(when string, st sdk.DeploymentStatus) {
		t.Helper()
		if st.Failure != nil {
			t.Errorf("%s: failure %+v", when, *st.Failure)
		}
		for _, in := range st.Instances {
			if in.Reason != "" {
				t.Errorf("%s: instance %+v", when, in)
			}
		}
	}
	sound("up", w.complete(p, "web"))
	if _, err := p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: opOn("web")}); err != nil {
		t.Fatal(err)
	}
	st := w.complete(p, "web")
	if !st.Stopped {
		t.Errorf("%+v", st)
	}
	sound("stopped", st)
	if _, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: opOn("web")}); err != nil {
		t.Fatal(err)
	}
	sound("started again", w.complete(p, "web"))
	if _, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: opOn("web")}); err != nil {
		t.Fatal(err)
	}
	sound("restarted", w.complete(p, "web"))
}

// TestExecOfAShell: a command that is a line for a shell has its exit code told by
// that, without one in the provider's config.
func TestExecOfAShell(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	w.up(providertest.Testing(t), "web", 1)
	w.complete(p, "web")
	var out bytes.Buffer
	res, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: opOn("web"), Command: sdk.Argv{"/bin/sh", "-c", "echo a; exit 7"}, Stdout: &out})
	if err != nil || res.ExitCode == nil || *res.ExitCode != 7 || out.String() != "a\n" {
		t.Errorf("%+v, %v, %q", res, err, out.String())
	}
	if _, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: opOn("web"), Command: sdk.Argv{"echo", "a"}}); err == nil || !strings.Contains(remedyOf(err), "--shell") {
		t.Errorf("a command with arguments: %v", err)
	}
}

func remedyOf(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.Remedy
	}
	return ""
}
