package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

var update = flag.Bool("update", false, "write the golden files")

// liveWorld is a world whose engine is the real one, over clouds of kind fake.
type liveWorld struct {
	*world
	clouds map[string]*fake.Cloud
}

func newLiveWorld(t *testing.T, names ...string) *liveWorld {
	t.Helper()
	w := &liveWorld{world: newWorld(t), clouds: map[string]*fake.Cloud{}}
	for _, name := range names {
		w.clouds[name] = fake.NewCloud(fake.Options{Name: name})
	}
	return w
}

// do is one invocation of the program, and returns its exit code.
func (w *liveWorld) do(args ...string) int {
	w.t.Helper()
	return w.doIn(w.t.Context(), func(*Factory) {}, args...)
}

// doIn is do within ctx, after a change of the factory.
func (w *liveWorld) doIn(ctx context.Context, with func(*Factory), args ...string) int {
	w.t.Helper()
	return w.runIn(ctx, func(f *Factory) {
		with(f)
		f.OpenSession = func(ctx context.Context, r SessionRequest) (*Session, error) {
			logs, err := joblog.Open(filepath.Join(r.StateDir, "logs"), joblog.Options{})
			if err != nil {
				return nil, err
			}
			p := &liveProviders{clouds: w.clouds}
			e, err := control.New(ctx, control.Options{Store: r.Store, Logs: logs, Providers: p, StateDir: r.StateDir, Actor: r.Config.Actor})
			if err != nil {
				return nil, err
			}
			return &Session{Store: r.Store, Engine: e, Workloads: e.Workloads(), Providers: p, Close: func(ctx context.Context) error {
				return errors.Join(e.Close(ctx), p.close())
			}}, nil
		}
	}, args...)
}

func (w *liveWorld) must(code int, args ...string) string {
	w.t.Helper()
	if got := w.do(args...); got != code {
		w.t.Fatalf("windlass %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, w.out.String(), w.err.String())
	}
	return w.out.String()
}

func (w *liveWorld) deploy(provider, path string, replicas int) {
	w.t.Helper()
	if err := w.clouds[provider].Deploy(sdk.WorkloadPath(path), "img:1", replicas, nil); err != nil {
		w.t.Fatal(err)
	}
}

// liveProviders opens providers of kind fake, and one that can't be opened.
type liveProviders struct {
	clouds map[string]*fake.Cloud

	mu   sync.Mutex
	open []sdk.Provider
}

func (p *liveProviders) Backend(ctx context.Context, name string) (control.Backend, error) {
	c := p.clouds[name]
	if c == nil {
		return control.Backend{}, sdk.Errorf(sdk.NotFound, "open provider", "no provider %q", name)
	}
	d := fake.NewDriver(c, fake.Settings{})
	prov, err := d.Open(ctx, sdk.OpenRequest{Name: name, Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()), Log: slog.New(slog.DiscardHandler),
		Secrets: tellingSecrets{}})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, prov)
	return control.Backend{Provider: prov, Name: name, Driver: &d}, err
}

func (p *liveProviders) BackendFor(ctx context.Context, r ledger.Run) (control.Backend, error) {
	return p.Backend(ctx, r.Provider)
}

func (p *liveProviders) Names() []string {
	var out []string
	for _, name := range []string{"alpha", "beta"} {
		if p.clouds[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

func (p *liveProviders) close() error {
	var errs []error
	for _, x := range p.open {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

type tellingSecrets struct{}

func (tellingSecrets) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.NewSecretValue([]byte("s3cr3t-canary")), nil
}

func TestSvcLs(t *testing.T) {
	w := newLiveWorld(t, "alpha", "beta")
	w.deploy("alpha", "main/api", 2)
	w.deploy("beta", "main/web", 1)
	if out := w.must(0, "svc", "ls"); !strings.Contains(out, "alpha/main/api  2 of 2  running  img:1") || !strings.Contains(out, "beta/main/web") {
		t.Errorf("%s", out)
	}
	if out := w.must(0, "svc", "ls", "web"); strings.Contains(out, "api") || !strings.Contains(out, "web") {
		t.Errorf("%s", out)
	}
	if out := w.must(0, "svc", "ls", "--on", "alpha"); strings.Contains(out, "beta") {
		t.Errorf("%s", out)
	}
	// What every other command takes is what the listing prints.
	for _, it := range decode[WorkloadsView](t, w.must(0, "svc", "ls", "--json")).Workloads {
		w.must(0, "svc", "status", it.Target)
	}
}

// TestSvcLsPartly: what one provider doesn't tell hides no other's, and exit code,
// envelope and words agree about it.
func TestSvcLsPartly(t *testing.T) {
	w := newLiveWorld(t, "alpha", "beta")
	w.deploy("alpha", "main/api", 2)
	w.clouds["beta"].Inject(fake.Fault{Op: fake.OpListWorkloads, Kind: fake.FaultError, Status: 403, Times: -1})
	if out := w.must(ExitFaults, "svc", "ls"); !strings.Contains(out, "api") || !strings.Contains(w.err.String(), "beta aren't known") || !strings.Contains(w.err.String(), "more: windlass explain") {
		t.Errorf("%s%s", out, w.err.String())
	}
	var env struct {
		Status string
		Data   WorkloadsView
		Error  *ErrorBody
	}
	if err := json.Unmarshal([]byte(w.must(ExitFaults, "svc", "ls", "--json")), &env); err != nil {
		t.Fatal(err)
	}
	if env.Status != "partial" || len(env.Data.Workloads) != 1 || len(env.Data.Failed) != 1 || env.Error == nil || env.Error.Code != "PermissionDenied" ||
		!strings.Contains(env.Error.Message, "workloads of beta aren't known") {
		t.Errorf("%+v", env)
	}
	w.clouds["alpha"].Inject(fake.Throttled(fake.OpListWorkloads, -1, 0))
	if err := json.Unmarshal([]byte(w.must(ExitFaults, "svc", "ls", "--json")), &env); err != nil {
		t.Fatal(err)
	}
	if env.Error.Retry || !strings.Contains(env.Error.Message, "alpha") || !strings.Contains(env.Error.Message, "beta") {
		t.Errorf("of two: %+v", env.Error)
	}
}

func TestReadyWords(t *testing.T) {
	two, three := new(2), new(3)
	for _, tc := range []struct {
		ready, desired   *int
		words, sentences string
	}{
		{two, three, "2 of 3", "2 of 3 ready"},
		{nil, three, "3 wanted", "3 wanted, the provider doesn't tell how many are ready"},
		{two, nil, "2", "2 ready"},
		{nil, nil, "not told", "the provider doesn't tell how many are ready"},
	} {
		if a, b := readyWords(tc.ready, tc.desired), readySentence(tc.ready, tc.desired); a != tc.words || b != tc.sentences {
			t.Errorf("%q, %q; want %q, %q", a, b, tc.words, tc.sentences)
		}
	}
}

// TestSvcRolledBack: a change that the provider gave up is told as failed by the
// command that waits for it, by its row, and by a later look.
func TestSvcRolledBack(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 2)
	w.clouds["alpha"].Set(fake.Knobs{MissingImages: []string{"img:1"}})
	if w.must(ExitWindlass, "svc", "restart", "api", "--wait"); !strings.Contains(w.err.String(), "image_pull") {
		t.Errorf("%s", w.err.String())
	}
	if out := w.must(0, "ledger", "log", "--target", "alpha/main/api"); !strings.Contains(out, "failed") || strings.Contains(out, "succeeded") {
		t.Errorf("%s", out)
	}
	if w.must(ExitWindlass, "svc", "status", "api", "--wait"); !strings.Contains(w.err.String(), "image_pull") {
		t.Errorf("%s", w.err.String())
	}
}

func TestSvcChanges(t *testing.T) {
	w := newLiveWorld(t, "alpha", "beta")
	w.deploy("alpha", "main/api", 2)
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"scale", "api", "4", "--wait"}, 0, "alpha/main/api: scaled from 2 to 4, rolled out: 4 of 4 ready\n"},
		{[]string{"scale", "alpha/main/api", "4"}, 0, "alpha/main/api: nothing to change\n"},
		{[]string{"scale", "api", "5", "--expect-replicas", "3"}, ExitWindlass, "3 replicas were expected, and there are to be 4"},
		{[]string{"restart", "api"}, 0, "alpha/main/api: restarted\n"},
		{[]string{"restart", "api", "--expect-generation", "1"}, ExitWindlass, "generation 1 was expected, and it is 3"},
		{[]string{"restart", "api", "--dry-run"}, 0, "fake:RestartWorkload  workload main/api\n"},
		{[]string{"stop", "api"}, ExitWindlass, "repeat it with --yes"},
		{[]string{"stop", "api", "--yes"}, 0, "alpha/main/api: stopped; svc start brings 4 replicas back\n"},
		{[]string{"restart", "api"}, ExitWindlass, "is stopped"},
		{[]string{"start", "api", "--wait"}, 0, "alpha/main/api: started, rolled out: 4 of 4 ready\n"},
		{[]string{"config", "api", "--set", "LEVEL=debug"}, 0, "alpha/main/api: configured, revision "},
		{[]string{"config", "api"}, ExitUsage, "nothing is to be changed"},
		{[]string{"config", "api", "--set", "A=1", "--dry-run"}, 0, "fake:ApplyConfig  workload main/api  A=[redacted]\n"},
		{[]string{"scale", "api"}, ExitUsage, "TARGET or REPLICAS is missing"},
		{[]string{"scale", "api", "many"}, ExitUsage, "no number of replicas"},
		{[]string{"scale", "api", "2", "--wait", "--dry-run"}, ExitUsage, "--wait"},
		{[]string{"restart", "none"}, ExitWindlass, "no provider has a workload called"},
		{[]string{"restart", "gamma/main/api"}, ExitWindlass, "no provider is called"},
		{[]string{"start"}, ExitUsage, "TARGET is missing"},
		{[]string{"stat"}, ExitUsage, "did you mean"},
	} {
		code := w.do(append([]string{"svc"}, tc.args...)...)
		if all := w.out.String() + w.err.String(); code != tc.code || !strings.Contains(all, tc.want) {
			t.Errorf("svc %s: exit %d, want %d with %q\n%s", strings.Join(tc.args, " "), code, tc.code, tc.want, all)
		}
	}
	w.deploy("beta", "main/api", 1)
	if w.must(ExitWindlass, "svc", "restart", "api"); !strings.Contains(w.err.String(), "alpha/main/api, beta/main/api") {
		t.Errorf("%s", w.err.String())
	}
	// Every change that was made is in the ledger, with its actor.
	out := w.must(0, "ledger", "log", "--target", "alpha/main/api")
	for _, action := range []string{"svc.scale", "svc.restart", "svc.stop", "svc.start", "svc.config", "tester@here"} {
		if !strings.Contains(out, action) {
			t.Errorf("the ledger lacks %s:\n%s", action, out)
		}
	}
}

func TestSvcStartFromFile(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	file := filepath.Join(w.dir, "api.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("target: alpha/main/api\nimage: img:2\nreplicas: 2\nconfig: {LEVEL: info}\n")
	if out := w.must(0, "svc", "start", "-f", file, "--wait"); !strings.Contains(out, "2 of 2 ready") {
		t.Errorf("%s", out)
	}
	if w.must(ExitWindlass, "svc", "start", "-f", file); !strings.Contains(w.err.String(), "Exists") {
		t.Errorf("%s", w.err.String())
	}
	w.must(0, "svc", "start", "alpha/main/other", "-f", fileWith(t, w.dir, "image: img:2\n"))
	if w.must(ExitWindlass, "svc", "start", "-f", fileWith(t, w.dir, "image: img:2\n")); !strings.Contains(w.err.String(), "isn't said") {
		t.Errorf("%s", w.err.String())
	}
	if w.must(ExitWindlass, "svc", "start", "-f", fileWith(t, w.dir, "image: i\nreplica: 2\n")); !strings.Contains(w.err.String(), "replicas") {
		t.Errorf("%s", w.err.String())
	}
}

func fileWith(t *testing.T, dir, text string) string {
	t.Helper()
	f, err := os.CreateTemp(dir, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestSvcExec(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 1)
	if out := w.must(0, "svc", "exec", "api", "--", "echo", "hi"); out != "hi\n" {
		t.Errorf("%q", out)
	}
	w.must(3, "svc", "exec", "api", "--", "exit", "3")
	if w.must(0, "svc", "exec", "api", "err", "--json"); w.err.String() != "--json\n" {
		t.Errorf("a flag behind the target is the command's: %q", w.err.String())
	}
	w.clouds["alpha"].Inject(fake.Fault{Op: fake.OpExecWorkload, Kind: fake.FaultLostReply})
	if w.must(ExitWindlass, "svc", "exec", "api", "--", "true"); !strings.Contains(w.err.String(), "no exit code is known") {
		t.Errorf("%s", w.err.String())
	}
	v := decode[ExecView](t, w.must(3, "svc", "exec", "--json", "api", "--", "echo", "hi", ";", "exit", "3"))
	if string(v.Stdout) != "hi\n" || v.ExitCode == nil || *v.ExitCode != 3 || v.Instance == "" || v.Run == "" {
		t.Errorf("%+v", v)
	}
	w.must(ExitUsage, "svc", "exec", "api")
	if w.must(ExitUsage, "svc", "exec", "api", "--instance", "x", "--", "true"); !strings.Contains(w.err.String(), "before TARGET") {
		t.Errorf("%s", w.err.String())
	}
	if out := w.must(0, "svc", "exec", "--dry-run", "api", "--", "true"); !strings.Contains(out, "fake:ExecWorkload") {
		t.Errorf("%s", out)
	}
}

// TestSvcExecShell: words are a list, and one line for a shell where that is asked for.
func TestSvcExecShell(t *testing.T) {
	for _, tc := range []struct{ args, want []string }{
		{[]string{"--shell", "api", "--", "ls /data", "|", "wc -l"}, []string{"/bin/sh", "-c", "ls /data | wc -l"}},
		{[]string{"--shell", "api", "exit 3"}, []string{"/bin/sh", "-c", "exit 3"}},
		{[]string{"api", "--", "echo", "a b"}, []string{"echo", "a b"}},
	} {
		var got []string
		cmd := newSvcExec(&Factory{}, func(_ context.Context, _ *svcExecOptions, _ string, command []string) error {
			got = command
			return nil
		})
		cmd.SetArgs(tc.args)
		if err := cmd.ExecuteContext(t.Context()); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, %v; want %q", tc.args, got, err, tc.want)
		}
	}
}

func TestSvcLogs(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 2)
	if out := w.must(0, "svc", "logs", "api"); out != "[api-1-0] api-1-0 is up\n[api-1-1] api-1-1 is up\n" {
		t.Errorf("%q", out)
	}
	if out := w.must(0, "svc", "logs", "--no-prefix", "--instance", "api-1-1", "api"); out != "api-1-1 is up\n" {
		t.Errorf("%q", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(w.must(0, "svc", "logs", "--json", "api")), "\n") {
		validate(t, line)
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Instance == "" || e.Event != eventOutput {
			t.Errorf("%s: %v", line, err)
		}
	}
	w.must(ExitUsage, "svc", "logs", "--tail", "x", "api")
}

// TestInstancePrinter mixes two instances whose lines come in pieces.
func TestInstancePrinter(t *testing.T) {
	var out buffer
	p := &instancePrinter{s: &Streams{Out: &out, Err: &out}}
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for _, x := range []struct {
		instance, data string
		end            sdk.LineEnd
	}{
		{"a", "one ", sdk.LineEndKept}, {"a", "line\nnext", sdk.LineEndKept}, {"b", "other", sdk.LineEndStripped}, {"a", "x\n\n", sdk.LineEndKept}, {"b", "", sdk.LineEndStripped},
	} {
		if err := p.print(sdk.WorkloadLogItem{Instance: x.instance, Entry: &sdk.LogChunk{Time: at, Stream: sdk.StreamStdout, Data: []byte(x.data), LineEnd: x.end}}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "[a] one line\n[a] next\n[b] other\n[a] x\n[a] \n[b] \n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestSvcEnvelope holds what --json prints to golden files, but for IDs and times.
func TestSvcEnvelope(t *testing.T) {
	id, stamp := regexp.MustCompile(`"[0-9a-hjkmnp-tv-z]{26}"`), regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	for _, tc := range []struct {
		name string
		code int
		args []string
	}{
		{"ls", 0, []string{"ls"}},
		{"status", 0, []string{"status", "api"}},
		{"scale", 0, []string{"scale", "api", "3", "--wait"}},
		{"scale-dry-run", 0, []string{"scale", "api", "3", "--dry-run"}},
		{"restart", 0, []string{"restart", "api"}},
		{"stop", 0, []string{"stop", "api", "--yes"}},
		{"start", 0, []string{"start", "api"}},
		{"config", 0, []string{"config", "api", "--set", "LEVEL=debug", "--secret", "TOKEN=secret://env/TOKEN"}},
		{"exec", 0, []string{"exec", "--json", "api", "--", "echo", "hi"}},
		{"error-not-found", ExitWindlass, []string{"status", "none"}},
		{"error-throttled", ExitWindlass, []string{"restart", "api"}},
		{"error-expect", ExitWindlass, []string{"scale", "api", "3", "--expect-replicas", "7"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newLiveWorld(t, "alpha")
			w.deploy("alpha", "main/api", 2)
			switch tc.name {
			case "start":
				w.must(0, "svc", "stop", "api", "--yes")
			case "error-throttled":
				w.clouds["alpha"].Inject(fake.Throttled(fake.OpRestartWorkload, 1, 0))
			}
			args := append([]string{"svc"}, tc.args...)
			if tc.args[0] != "exec" {
				args = append(args, "--json")
			}
			out := w.must(tc.code, args...)
			validate(t, out)
			if strings.Contains(out, "canary") {
				t.Errorf("a secret is shown: %s", out)
			}
			got := stamp.ReplaceAllString(id.ReplaceAllString(out, `"ID"`), `"TIME"`)
			file := filepath.Join("testdata", "svc", tc.name+".json")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}
