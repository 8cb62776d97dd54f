package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// shop is a project of a test with a provider on it.
type shop struct {
	*yard
	p *provider
}

func newShop(t *testing.T, change ...func(map[string]any)) *shop {
	t.Helper()
	y := newYard(t)
	s := &shop{yard: y, p: y.open(providertest.Testing(t), change...)}
	t.Cleanup(func() {
		s.p.running.Wait()
		if err := s.p.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run brings a service of the test's up, with the project's file as it is then.
func (s *shop) run(t *testing.T, name string, svc map[string]any, replicas int) {
	t.Helper()
	s.put(name, svc)
	s.must("up", "--detach", "--no-deps", "--scale", fmt.Sprintf("%s=%d", name, replicas), name)
}

func (s *shop) op(name string) sdk.OpRequest {
	return sdk.OpRequest{OpID: s.ids.NewID(), Path: sdk.WorkloadPath(name)}
}

func (s *shop) status(t *testing.T, name string) sdk.DeploymentStatus {
	t.Helper()
	r, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: sdk.WorkloadPath(name)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status
}

func (s *shop) trace(t *testing.T, name string, id sdk.ID) sdk.OpTrace {
	t.Helper()
	r, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: sdk.WorkloadPath(name), OpID: id})
	if err != nil {
		t.Fatal(err)
	}
	return *r.Op
}

// says runs a command in a service and returns what it wrote.
func (s *shop) says(t *testing.T, name string, argv ...string) string {
	t.Helper()
	var out bytes.Buffer
	r, err := s.p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: s.op(name), Command: argv, Stdout: &out, Stderr: &out})
	if err != nil || r.ExitCode == nil {
		t.Fatalf("exec: %+v, %v", r, err)
	}
	return strings.TrimSpace(out.String())
}

func (s *shop) containers(t *testing.T, name string) []string {
	t.Helper()
	list, err := s.p.list(t.Context(), "test", name, false)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		out = append(out, c.id)
	}
	return out
}

func warned(ws []string, word string) bool {
	return slices.ContainsFunc(ws, func(w string) bool { return strings.Contains(w, word) })
}

// refusal fails unless a change was refused for certain, in these words.
func refusal(t *testing.T, err error, code sdk.Code, word string) {
	t.Helper()
	if !errors.Is(err, code) || !sdk.IsClear(err) || !strings.Contains(err.Error(), word) {
		t.Errorf("got %v, want %s with %q", err, code, word)
	}
}

// TestF100Drift: a restart doesn't apply what changed in the files, env_file
// included, and says so; a change of settings does, to that service alone.
func TestF100Drift(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	env := filepath.Join(s.dir, "web.env")
	if err := os.WriteFile(env, []byte("LEVEL=info\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	svc := plain("sh", "-c", upProgram)
	svc["env_file"] = []string{env}
	s.run(t, "other", plain("sh", "-c", upProgram), 1)
	s.run(t, "web", svc, 2)
	if st := s.status(t, "web"); len(st.Warnings) > 0 {
		t.Fatalf("nothing has changed, and it says %q", st.Warnings)
	}
	if err := os.WriteFile(env, []byte("LEVEL=debug\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st := s.status(t, "web"); !warned(st.Warnings, "drifted") || st.Rollout != sdk.RolloutComplete {
		t.Errorf("the status of what has drifted is %+v", st)
	}
	made, other := s.containers(t, "web"), s.containers(t, "other")
	r, err := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: s.op("web")})
	if err != nil || !warned(r.Op.Warnings, "drifted") {
		t.Errorf("restart: %+v, %v", r, err)
	}
	if !slices.Equal(s.containers(t, "web"), made) || s.says(t, "web", "sh", "-c", "echo $LEVEL") != "info" {
		t.Error("a restart made other containers")
	}
	_, err = s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: s.op("web"), Replicas: 3})
	refusal(t, err, sdk.FailedPrecondition, "drifted")
	c, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Set: map[string]string{"A": "x"}})
	if err != nil || !c.Op.Changed || !warned(c.Op.Warnings, "applied that too") {
		t.Errorf("config: %+v, %v", c, err)
	}
	now := s.containers(t, "web")
	if len(now) != 2 || slices.ContainsFunc(now, func(id string) bool { return slices.Contains(made, id) }) || !slices.Equal(s.containers(t, "other"), other) {
		t.Errorf("containers of web %q, before %q; of the other %q, before %q", now, made, s.containers(t, "other"), other)
	}
	if got := s.says(t, "web", "sh", "-c", "echo $LEVEL $A"); got != "debug x" {
		t.Errorf("it sees %q", got)
	}
	if st := s.status(t, "web"); len(st.Warnings) > 0 || *st.Updated != 2 {
		t.Errorf("applied, it says %q", st.Warnings)
	}
	// Whoever brings the service up without the settings takes them away; the next
	// change of settings, also to what they are, puts them back.
	s.must("up", "--detach", "--no-deps", "--scale", "web=2", "web")
	if st := s.status(t, "web"); !warned(st.Warnings, "drifted") {
		t.Errorf("without its settings it says %q", st.Warnings)
	}
	c, err = s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Set: map[string]string{"A": "x"}})
	if err != nil || !c.Op.Changed || s.says(t, "web", "sh", "-c", `echo "$A"`) != "x" {
		t.Errorf("the settings again: %+v, %v", c, err)
	}
}

// TestF99StoppedByOthers: what somebody stopped by Compose itself is known as
// stopped, and comes back as it was.
func TestF99StoppedByOthers(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.run(t, "web", plain("sh", "-c", upProgram), 2)
	made := s.containers(t, "web")
	s.must("stop", "web")
	if st := s.status(t, "web"); !st.Stopped || *st.Desired != 0 || st.Restores == nil || *st.Restores != 2 {
		t.Errorf("stopped by others: %+v", st)
	}
	// Settings of what is stopped leave it so.
	c, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Set: map[string]string{"A": "a$b"}})
	if err != nil || !c.Op.Changed {
		t.Errorf("config: %+v, %v", c, err)
	}
	if st := s.status(t, "web"); !st.Stopped || *st.Restores != 2 {
		t.Errorf("configured while stopped: %+v", st)
	}
	r, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op("web")})
	if err != nil || !r.Op.Changed {
		t.Errorf("start: %+v, %v", r, err)
	}
	if now := s.containers(t, "web"); len(now) != 2 || slices.Equal(now, made) || s.says(t, "web", "sh", "-c", `echo "$A"`) != "a$b" {
		t.Errorf("started: %q, before %q", now, made)
	}
	n := 3
	_, err = s.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: s.op("web")})
	if err == nil {
		_, err = s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op("web"), Replicas: &n})
	}
	if st := s.status(t, "web"); err != nil || *st.Ready != 3 {
		t.Errorf("started with three: %+v, %v", st, err)
	}
}

// TestLeftChange: a change whose caller leaves goes on, keeps others out until its
// end, and is found.
func TestLeftChange(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	svc := plain("sh", "-c", "trap '' TERM; while :; do sleep 0.2; done")
	svc["stop_grace_period"] = "10m"
	s.run(t, "web", svc, 1)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		defer leave()
		testwait.Until(t, patience, "Compose under way", func() bool { return s.lines("done.web") == 1 })
	}()
	op := s.op("web")
	_, err := s.p.StopWorkload(ctx, sdk.StopWorkloadRequest{Op: op})
	if err == nil || sdk.IsClear(err) || !errors.Is(err, sdk.Canceled) {
		t.Fatalf("left: %v", err)
	}
	// Others see it from another process.
	under := func(id sdk.ID, want string) {
		t.Helper()
		_, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: "web", OpID: id})
		if !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("while it is under way: %v, want %q", err, want)
		}
	}
	under(op.OpID, "still at the stop")
	under(s.ids.NewID(), "at the moment")
	if st := s.status(t, "web"); st.Rollout != sdk.RolloutProgressing {
		t.Errorf("while it is under way: %+v", st)
	}
	_, err = s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: s.op("web")})
	refusal(t, err, sdk.Aborted, "somebody else")
	err = s.client.Call(t.Context(), "kill", func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerKill(ctx, s.containers(t, "web")[0], client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "the end of the change", func() bool {
		r, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: "web", OpID: op.OpID})
		return err == nil && r.Op.State == sdk.OpAccepted
	})
	if st := s.status(t, "web"); !st.Stopped {
		t.Errorf("after it: %+v", st)
	}
	if tr := s.trace(t, "web", s.ids.NewID()); tr.State != sdk.OpAbsent || tr.Evidence == "" {
		t.Errorf("one that never was: %+v", tr)
	}
}

// TestFewStarts: Compose is started once to resolve the project and once to tell of
// drift, for the look before a change and the change together; what changed between
// is seen all the same.
func TestFewStarts(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.run(t, "web", plain("sh", "-c", upProgram), 1)
	s.p.clock = &stoppedClock{Clock: s.p.clock}
	asked := func(what string, want int, f func()) {
		t.Helper()
		before := s.lines("asked")
		f()
		if n := s.lines("asked") - before; n != want {
			t.Errorf("%s: Compose was asked %d times, want %d", what, n, want)
		}
	}
	restart := func(dry bool) {
		t.Helper()
		op := s.op("web")
		op.DryRun = dry
		if _, err := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: op}); err != nil {
			t.Error(err)
		}
	}
	asked("a look and a dry run", 2, func() { s.status(t, "web"); restart(true) })
	asked("a look and a change", 1, func() { s.status(t, "web"); restart(false) })
	asked("a change alone", 1, func() { restart(false) })
	asked("a look and one more", 1, func() {
		s.status(t, "web")
		op := s.op("web")
		op.DryRun = true
		if _, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op, Replicas: 2}); err != nil {
			t.Error(err)
		}
	})
	asked("a look at many", 0, func() {
		for _, err := range s.p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
			if err != nil {
				t.Error(err)
			}
		}
	})
	s.status(t, "web")
	s.alter("web", func(m map[string]any) { m["environment"] = map[string]string{"A": "1"} })
	asked("a change behind a change of the files", 2, func() {
		r, err := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: s.op("web")})
		if err != nil || !warned(r.Op.Warnings, "drifted") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// stoppedClock stands still.
type stoppedClock struct{ sdk.Clock }

func (stoppedClock) Now() time.Time { return time.Unix(1e9, 0) }

// TestHalfApplied: what Compose left half done is no success, and is told.
func TestHalfApplied(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	svc := plain("sh", "-c", upProgram)
	s.run(t, "web", svc, 1)
	s.arm(providertest.Testing(t), "kill")
	op := s.op("web")
	_, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op, Replicas: 3})
	if err == nil || sdk.IsClear(err) {
		t.Fatalf("Compose was killed: %v", err)
	}
	s.must("up", "--detach", "--no-deps", "--no-recreate", "--scale", "web=2", "web")
	if tr := s.trace(t, "web", op.OpID); tr.State != sdk.OpUnknown || !strings.Contains(tr.Evidence, "2 of 2 containers run, 3 were wanted") {
		t.Errorf("two of three: %+v", tr)
	}
	_, err = s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op, Replicas: 3})
	if err == nil || sdk.IsClear(err) {
		t.Errorf("the same operation again: %v", err)
	}
	if st := s.status(t, "web"); !warned(st.Warnings, "failed") {
		t.Errorf("the status says %q", st.Warnings)
	}
	s.must("up", "--detach", "--no-deps", "--no-recreate", "--scale", "web=3", "web")
	if tr := s.trace(t, "web", op.OpID); tr.State != sdk.OpAccepted {
		t.Errorf("three of three: %+v", tr)
	}
}

// TestProvisioning: what isn't the service's own isn't made on the way, nothing is
// built, and what can't be pulled changes nothing.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	with := func(change func(map[string]any)) map[string]any {
		svc := plain("sh", "-c", upProgram)
		change(svc)
		return svc
	}
	s.extra = map[string]any{"volumes": map[string]any{"data": map[string]any{}}}
	s.put("store", with(func(m map[string]any) { m["volumes"] = []string{"data:/data"} }))
	s.put("built", with(func(m map[string]any) { delete(m, "image"); m["build"] = "." }))
	s.put("gone", with(func(m map[string]any) { m["image"] = "windlass.invalid/none:1" }))
	for name, want := range map[string]string{"store": "volume " + s.project + "_data", "built": "isn't built", "gone": "docker compose pull"} {
		_, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op(name)})
		refusal(t, err, sdk.FailedPrecondition, want)
		if n := s.lines("sent." + name); n > 0 || len(s.containers(t, name)) > 0 {
			t.Errorf("%s: %d commands were sent", name, n)
		}
	}
	dry := s.op("gone")
	dry.DryRun = true
	if r, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: dry}); err != nil || len(r.Op.Calls) != 2 || r.Op.Calls[0].Name != "docker compose pull" {
		t.Errorf("a dry run: %+v, %v", r, err)
	}
	s.must("create", "store")
	if r, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op("store")}); err != nil || !r.Op.Changed {
		t.Errorf("with its volume: %+v, %v", r, err)
	}
	s.put("fixed", with(func(m map[string]any) { delete(m, "network_mode"); m["ports"] = []string{"127.0.0.1:1:80"} }))
	_, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: s.op("fixed"), Replicas: 2})
	refusal(t, err, sdk.FailedPrecondition, "published port")
}

// TestUnmade: a service of the files without containers is told apart from one that
// was stopped, and from one that was scaled to none.
func TestUnmade(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	svc := plain("sh", "-c", upProgram)
	svc["deploy"] = map[string]any{"replicas": 2}
	s.put("web", svc)
	check := func(when string, want bool) {
		t.Helper()
		st := s.status(t, "web")
		if st.Unmade != want || want && (st.Stopped || *st.Desired != 0 || st.Restores == nil || *st.Restores != 2) || warned(st.Warnings, "`svc start` makes 2") != want {
			t.Errorf("%s: %+v", when, st)
		}
		for it, err := range s.p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{Name: "web"}) {
			if err != nil || it.Unmade != want {
				t.Errorf("%s: listed as %+v, %v", when, it, err)
			}
		}
	}
	check("never made", true)
	_, err := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: s.op("web")})
	refusal(t, err, sdk.FailedPrecondition, "no container that runs")
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op("web")}); err != nil {
		t.Fatal(err)
	}
	check("started", false)
	if _, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: s.op("web")}); err != nil {
		t.Fatal(err)
	}
	check("scaled to none", false)
	if _, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Set: map[string]string{"A": "x"}}); err != nil {
		t.Fatal(err)
	}
	check("scaled to none, and configured", false)
	if _, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: s.op("web"), Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	s.must("rm", "--stop", "--force", "web")
	check("removed by others", true)
}

// TestRemoveMade: a stop keeps what `svc start -f` made and says what removes it;
// done, the service is gone whole, and can be made again.
func TestRemoveMade(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	spec := sdk.DeploymentSpec{Name: "made", Image: testneed.Image, Command: sdk.Argv{"sh", "-c", upProgram}}
	start := func() {
		t.Helper()
		if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: s.op("made"), Spec: &spec}); err != nil {
			t.Fatal(err)
		}
	}
	start()
	r, err := s.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: s.op("made")})
	if err != nil || len(r.Op.Warnings) != 1 {
		t.Fatalf("stop: %+v, %v", r, err)
	}
	if st := s.status(t, "made"); !st.Stopped {
		t.Errorf("stopped: %+v", st)
	}
	_, line, _ := strings.Cut(r.Op.Warnings[0], "`docker compose")
	line, _, _ = strings.Cut(line, "`")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", s.plugin+" --host "+s.host+line)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	if left := s.containers(t, "made"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: "made"}); !errors.Is(err, sdk.NotFound) {
		t.Errorf("removed: %v", err)
	}
	start()
}

// TestSecrets: a secret is a file that the containers mount; no listing of their
// variables has it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	values := secrets{"secret://env/TOKEN": "canary-one"}
	s.p.secrets = values
	s.run(t, "web", plain("sh", "-c", upProgram), 1)
	set := func() sdk.ApplyConfigResult {
		t.Helper()
		r, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := set()
	if got := s.says(t, "web", "sh", "-c", "cat $TOKEN_FILE; echo; env | grep canary"); got != "canary-one" {
		t.Errorf("it sees %q", got)
	}
	for _, f := range []string{layerFile, journalFile, outputFile} {
		if data, err := os.ReadFile(filepath.Join(s.p.folder("web"), f)); err != nil || bytes.Contains(data, []byte("canary")) {
			t.Errorf("%s: %v, or it has the value", f, err)
		}
	}
	if again := set(); again.Op.Changed || again.Revision != first.Revision {
		t.Errorf("the same value again: %+v, first %+v", again, first)
	}
	values["secret://env/TOKEN"] = "canary-two"
	if other := set(); !other.Op.Changed || other.Revision == first.Revision || s.says(t, "web", "sh", "-c", "cat $TOKEN_FILE") != "canary-two" {
		t.Errorf("another value: %+v", other)
	}
	if left, err := os.ReadDir(filepath.Join(s.p.folder("web"), secretsDir)); err != nil || len(left) != 1 {
		t.Errorf("files of secrets: %v, %v", left, err)
	}
	if st, err := os.Stat(filepath.Join(s.p.folder("web"), secretsDir)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder of secrets: %v, %v", st, err)
	}
	if _, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Unset: []string{"TOKEN"}}); err != nil || s.says(t, "web", "sh", "-c", "echo $TOKEN_FILE; ls /run/secrets 2>/dev/null") != "" {
		t.Errorf("unset: %v", err)
	}
	remote := s.open(providertest.Testing(t), func(c map[string]any) { c["remote"] = true })
	_, err := remote.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}})
	refusal(t, errors.Join(err, remote.Close()), sdk.FailedPrecondition, "doesn't share this machine's")
}

// secrets resolves references from a map.
type secrets map[sdk.SecretRef]string

func (m secrets) ResolveSecret(_ context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	v, ok := m[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s", ref)
	}
	return sdk.NewSecretValue([]byte(v)), nil
}

// TestResolution: profiles, files and variables are as Compose itself resolves
// them, and settings of a service that is gone keep no other from being operated.
func TestResolution(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	dev := plain("sh", "-c", upProgram)
	dev["profiles"] = []string{"dev"}
	s.put("dev", dev)
	s.run(t, "web", plain("sh", "-c", upProgram), 1)
	names := func(p *provider) []string {
		t.Helper()
		var out []string
		for it, err := range p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(it.Path))
		}
		return out
	}
	if got := names(s.p); !slices.Equal(got, []string{"base", "web"}) {
		t.Errorf("without the profile: %q", got)
	}
	_, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: "dev"})
	if e := asError(err); e == nil || e.Code != sdk.NotFound || !strings.Contains(e.Remedy, "profiles") || !strings.Contains(err.Error(), "base, web") {
		t.Errorf("of a profile that isn't chosen: %v", err)
	}
	over, vars := filepath.Join(s.dir, "more.yaml"), filepath.Join(s.dir, "more.env")
	if err := errors.Join(os.WriteFile(over, []byte("services: {extra: {image: '${IMAGE:?}', network_mode: none}}"), 0o600), os.WriteFile(vars, []byte("IMAGE="+testneed.Image+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	wide := s.open(providertest.Testing(t), func(c map[string]any) {
		c["profiles"], c["files"], c["env_files"] = []string{"dev"}, []string{"compose.yaml", "more.yaml"}, []string{"more.env"}
	})
	if got := names(wide); !slices.Equal(got, []string{"base", "dev", "extra", "web"}) {
		t.Errorf("with profile, files and variables: %q", got)
	}
	if _, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Set: map[string]string{"A": "x"}}); err != nil {
		t.Fatal(err)
	}
	_, err = s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Unset: []string{"NEVER"}})
	if err != nil {
		t.Errorf("unset of what isn't set: %v", err)
	}
	s.alter("web", func(m map[string]any) { m["environment"] = map[string]string{"FIXED": "1"} })
	_, err = s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Unset: []string{"FIXED"}})
	refusal(t, err, sdk.FailedPrecondition, "the project's own files")
	s.put("web", nil)
	if got := names(s.p); !slices.Equal(got, []string{"base"}) {
		t.Errorf("with settings of a service that is gone: %q", got)
	}
	r, err := s.p.Check(t.Context(), sdk.CheckRequest{})
	if err != nil || !slices.ContainsFunc(r.Items, func(i sdk.CheckItem) bool { return i.Name == "settings" && !i.OK && strings.Contains(i.Detail, "web") }) {
		t.Errorf("check: %+v, %v", r, err)
	}
	if err := wide.Close(); err != nil {
		t.Error(err)
	}
}

// TestMissingPlugin: what is missing is named, by a check and by every method.
func TestMissingPlugin(t *testing.T) {
	y := &yard{t: t, host: testneed.Docker(t), project: "none", dir: t.TempDir(), ids: sdk.NewIDSource(sdk.SystemClock())}
	p := y.open(providertest.Testing(t), func(c map[string]any) { c["compose"] = filepath.Join(y.dir, "no-such-plugin") })
	r, err := p.Check(t.Context(), sdk.CheckRequest{})
	if err != nil || len(r.Items) == 0 || r.Items[0].OK || !strings.Contains(r.Items[0].Name, "plugin") || !strings.Contains(r.Items[0].Remedy, "docker-compose-plugin") {
		t.Errorf("check: %+v, %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(y.dir, "compose.yaml"), []byte("services: {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: sdk.OpRequest{OpID: y.ids.NewID(), Path: "web"}})
	if e := asError(err); e == nil || e.Code != sdk.FailedPrecondition || !strings.Contains(err.Error(), "Compose plugin") || e.Remedy == "" {
		t.Errorf("stop: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestExecTerminal: a command has the terminal's size, also a later one.
func TestExecTerminal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.run(t, "web", plain("sh", "-c", upProgram), 1)
	var out lockedBuffer
	sizes := make(chan sdk.TerminalSize, 1)
	go func() {
		testwait.Until(t, patience, "first size", func() bool { return strings.Contains(out.String(), "30 100") })
		sizes <- sdk.TerminalSize{Columns: 120, Rows: 40}
	}()
	r, err := s.p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: s.op("web"), Terminal: &sdk.TerminalSize{Columns: 100, Rows: 30}, Resize: sizes, Stdout: &out,
		Command: sdk.Argv{"sh", "-c", `while :; do s=$(stty size); echo "$s"; [ "$s" = "40 120" ] && exit 7; sleep 0.1; done`}})
	if err != nil || r.ExitCode == nil || *r.ExitCode != 7 {
		t.Errorf("%+v, %v; it wrote %q", r, err, out.String())
	}
}

// TestF92CommandNotThere: a command that can't be started has the engine's code,
// never 0.
func TestF92CommandNotThere(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.run(t, "web", plain("sh", "-c", upProgram), 1)
	r, err := s.p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: s.op("web"), Command: sdk.Argv{"no-such-command"}})
	if err == nil && (r.ExitCode == nil && r.Why == "" || r.ExitCode != nil && *r.ExitCode == 0) {
		t.Errorf("%+v, %v", r, err)
	}
	s.must("stop", "web")
	_, err = s.p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: s.op("web"), Command: sdk.Argv{"true"}})
	refusal(t, err, sdk.FailedPrecondition, "no container that runs")
}

// TestF102Metrics: a stopped service is warming, and no sample is of zeros.
func TestF102Metrics(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	svc := plain("sh", "-c", upProgram)
	delete(svc, "network_mode")
	s.run(t, "web", svc, 1)
	s.put("idle", plain("true"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	idle, sampled := false, false
	for it, err := range s.p.StreamMetrics(ctx, sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{"web", "idle"}}) {
		if err != nil {
			t.Fatal(err)
		}
		idle = idle || it.Path == "idle" && it.Warming != ""
		if m := it.Sample; m != nil {
			sampled = true
			if m.CPU == nil || m.Memory == nil || *m.Memory == 0 || m.Received == nil || m.Restarts == nil || m.At.IsZero() {
				t.Errorf("a sample is %+v", m)
			}
		}
		if idle && sampled {
			return
		}
	}
	t.Error("the stream ended by itself")
}

// TestFollowRecreated: following goes on in containers that Compose makes anew, and
// gives nothing twice.
func TestFollowRecreated(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.run(t, "web", plain("sh", "-c", "echo begun $A; "+upProgram), 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := map[string]int{}
	for it, err := range s.p.TailLogs(ctx, sdk.TailLogsRequest{Path: "web", Follow: true}) {
		if err != nil {
			t.Fatalf("following ended: %v; seen %v", err, seen)
		}
		text := string(it.Entry.Data)
		if !strings.HasPrefix(text, "begun") {
			continue
		}
		seen[text]++
		switch {
		case seen[text] > 1:
			t.Fatalf("twice: %q", text)
		case len(seen) == 1:
			if _, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: s.op("web"), Set: map[string]string{"A": "anew"}}); err != nil {
				t.Fatal(err)
			}
		default:
			return
		}
	}
}

// lockedBuffer is written and read side by side.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestExample: the example is a project that this kind can operate.
func TestExample(t *testing.T) {
	y := &yard{t: t, host: testneed.Docker(t), wrapper: testneed.Compose(t), project: "windlass-shop-test", dir: t.TempDir(), ids: sdk.NewIDSource(sdk.SystemClock())}
	example, err := filepath.Abs("../../../examples/compose")
	if err != nil {
		t.Fatal(err)
	}
	p := y.open(providertest.Testing(t), func(c map[string]any) {
		c["directory"], c["profiles"], c["settings"] = example, []string{"workers"}, y.dir
	})
	var got []string
	for it, err := range p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(it.Path))
	}
	if !slices.Equal(got, []string{"web", "worker"}) {
		t.Errorf("it has %q", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestCrashLoopReal: a service that ends again and again is never rolled out nor
// listed as ready, whenever one looks, and its code is told also while it runs.
func TestCrashLoopReal(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	svc := plain("sh", "-c", "sleep 0.5; exit 3")
	svc["restart"] = "always"
	s.run(t, "web", svc, 1)
	sawWaiting, sawRunning, failed := false, false, false
	testwait.Until(t, patience, "a crash loop with its code, while it runs and while it waits", func() bool {
		st := s.status(t, "web")
		in := st.Instances[0]
		if *in.Restarts == 0 && in.State == sdk.InstanceRunning {
			return false // its first time
		}
		if in.Ready || *st.Ready != 0 || st.Rollout == sdk.RolloutComplete || st.Failure == nil {
			t.Fatalf("in a crash loop: %+v, failure %+v", st, st.Failure)
		}
		for it, err := range s.p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{Name: "web"}) {
			if err != nil || *it.Ready != 0 {
				t.Fatalf("listed as %+v, %v", it, err)
			}
		}
		told := in.Reason == sdk.ReasonNonzeroExit && strings.Contains(in.Message, "code 3, and was started again")
		sawWaiting = sawWaiting || told && in.State == sdk.InstancePending
		sawRunning = sawRunning || told && in.State == sdk.InstanceRunning
		failed = failed || st.Rollout == sdk.RolloutFailed
		return sawWaiting && sawRunning && failed
	})
}
