package registry

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened is what a driver of the tests saw.
type opened struct {
	mu       sync.Mutex
	requests []sdk.OpenRequest
	closed   []string
	fail     error
	closeErr error
	most     int
	// gate, when not nil, holds each Open until it is closed; entered says that
	// one waits there.
	gate, entered chan struct{}
}

func (o *opened) driver(kind string) sdk.Driver {
	return sdk.Driver{Kind: kind, Config: sdk.Schema{Fields: []sdk.SchemaField{{Name: "host", Type: sdk.TypeString}}},
		Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			if o.gate != nil {
				o.entered <- struct{}{}
				<-o.gate
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.requests = append(o.requests, r)
			if o.fail != nil {
				return nil, o.fail
			}
			var c struct{ Host string }
			if len(r.Config) > 0 {
				if err := json.Unmarshal(r.Config, &c); err != nil {
					return nil, err
				}
			}
			return &provider{o: o, name: r.Name, id: sdk.Identity{Kind: kind, Endpoint: c.Host}}, nil
		}}
}

type provider struct {
	o    *opened
	name string
	id   sdk.Identity
}

func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Identity: p.id, MaxInFlight: p.o.most}
}

func (p *provider) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return sdk.CheckResult{}, nil
}

func (p *provider) Close() error {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	p.o.closed = append(p.o.closed, p.name)
	return p.o.closeErr
}

const text = `
providers:
  prod: {kind: docker, poll_interval: 5s, call_timeout: 7s, max_in_flight: 9, submit_rate: 1.5, config: {host: h}}
  aws: {kind: aws-ecs}
  bad: {kind: docker, config: {hots: h}}
  odd: {kind: dokcer}
`

func open(t *testing.T, o *opened, text string, env ...string) (*Registry, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, config.FileName)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := config.EnvOf(env)
	c, err := config.Load(t.Context(), config.LoadRequest{Env: e, ExplicitFile: file, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	if err := config.MakePrivateDir(state, config.Origin{}); err != nil {
		t.Fatal(err)
	}
	r := New(Options{Config: c, Drivers: []sdk.Driver{o.driver("docker"), o.driver("local"), o.driver("aws-ecs")}, Credentials: credential.FromEnv(e, nil),
		Owner: "own", LedgerID: "led", StateDir: state, Executable: "/x"})
	return r, state
}

func TestGet(t *testing.T) {
	o := &opened{}
	r, state := open(t, o, text, "DOCKER_HOST=tcp://h", "AWS_REGION=x")
	b, err := r.Get(t.Context(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "prod" || b.Driver.Kind != "docker" || b.PollInterval != 5*time.Second || b.CallTimeout != 7*time.Second || b.MaxInFlight != 9 || b.SubmitRate != 1.5 {
		t.Errorf("got %+v", b)
	}
	again, err := r.Get(t.Context(), "prod")
	if err != nil || again.Provider != b.Provider || len(o.requests) != 1 {
		t.Errorf("opened %d times: %v", len(o.requests), err)
	}
	q := o.requests[0]
	dir := filepath.Join(state, "driver", "docker")
	if q.Name != "prod" || string(q.Config) != `{"host":"h"}` || len(q.Credentials) != 1 || q.Credentials["DOCKER_HOST"] != "tcp://h" || q.AmbientCredentials ||
		q.Owner != "own" || q.LedgerID != "led" || q.StateDir != dir || q.CallTimeout != 7*time.Second || q.Executable != "/x" ||
		q.Clock == nil || q.IDs == nil || q.Log == nil || q.Secrets == nil {
		t.Errorf("opened with %+v", q)
	}
	for _, p := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(p); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
	if _, err := r.Get(t.Context(), "local"); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || !slices.Equal(o.closed, []string{"local", "prod"}) {
		t.Errorf("closed %q, %v", o.closed, err)
	}
	if err := r.Close(); err != nil || len(o.closed) != 2 {
		t.Errorf("closed twice: %q, %v", o.closed, err)
	}
	if _, err := r.Get(t.Context(), "prod"); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("after close: %v", err)
	}
}

func TestGetRefuses(t *testing.T) {
	o := &opened{}
	r, _ := open(t, o, text)
	for name, want := range map[string]struct {
		code sdk.Code
		text string
	}{
		"prd": {sdk.NotFound, `no provider is called "prd" (did you mean "prod"?); there are aws, bad, docker, local, odd, prod`},
		"odd": {sdk.InvalidArgument, `:6:15: providers.odd.kind: no kind is called "dokcer" (did you mean "docker"?); the kinds are aws-ecs, docker, local`},
		"bad": {sdk.InvalidArgument, `:5:32: providers.bad.config.hots: is not known (did you mean "host"?)`},
		"aws": {sdk.Unauthenticated, `provider aws: no credentials are in the environment; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY`},
	} {
		if _, err := r.Get(t.Context(), name); !errors.Is(err, want.code) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if len(o.requests) > 0 {
		t.Errorf("opened %d", len(o.requests))
	}
}

// TestRefusedMemberHasAPlace: what a driver refuses of its config is told with its place
// in the file; what has no place there is told as it is.
func TestRefusedMemberHasAPlace(t *testing.T) {
	o := &opened{}
	r, _ := open(t, o, text)
	for _, k := range []struct {
		fail *sdk.Error
		want string
	}{
		{&sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: "prod", Field: "config.host", Err: errors.New("no such host"), Remedy: "name another"}, "PLACE: no such host; name another"},
		{&sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: "prod", Field: "DOCKER_HOST", Err: errors.New("no such host")}, "prod: DOCKER_HOST: no such host"},
		{&sdk.Error{Code: sdk.Unavailable, Op: "open provider", Provider: "prod", Field: "config.host", Err: errors.New("no answer")}, "prod: config.host: no answer"},
	} {
		o.fail = k.fail
		_, err := r.Get(t.Context(), "prod")
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != k.fail.Code || e.Field != k.fail.Field {
			t.Errorf("%s: %v", k.want, err)
			continue
		}
		if want, placed := strings.CutPrefix(k.want, "PLACE"); !strings.HasSuffix(err.Error(), want) || placed != regexp.MustCompile(`\.yaml:[0-9]+:[0-9]+: `).MatchString(err.Error()) {
			t.Errorf("got %v, want %s", err, k.want)
		}
	}
}

// TestFailureIsTriedAgain: a provider that can't be opened now may be later.
func TestFailureIsTriedAgain(t *testing.T) {
	o := &opened{fail: errors.New("no engine")}
	r, _ := open(t, o, "{}")
	_, err := r.Get(t.Context(), "docker")
	var e *sdk.Error
	if !errors.As(err, &e) || e.Provider != "docker" || !strings.Contains(err.Error(), "open provider: provider docker: no engine") {
		t.Errorf("got %v", err)
	}
	o.fail = nil
	if _, err := r.Get(t.Context(), "docker"); err != nil {
		t.Error(err)
	}
	o.closeErr = errors.New("stuck")
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "close provider docker: stuck") {
		t.Errorf("got %v", err)
	}
}

func TestMaxInFlightIsTheLower(t *testing.T) {
	for _, c := range []struct{ conf, driver, want int }{{0, 0, 0}, {5, 0, 5}, {0, 3, 3}, {5, 3, 3}, {2, 3, 2}} {
		conf, err := json.Marshal(map[string]any{"providers": map[string]any{"docker": map[string]any{"max_in_flight": c.conf}}})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := open(t, &opened{most: c.driver}, string(conf))
		if b, err := r.Get(t.Context(), "docker"); err != nil || b.MaxInFlight != c.want {
			t.Errorf("%+v: %d, %v", c, b.MaxInFlight, err)
		}
	}
}

func TestDefault(t *testing.T) {
	r, _ := open(t, &opened{}, "{}")
	if r.Default("") != "local" || r.Default("busybox") != "docker" {
		t.Errorf("got %q and %q", r.Default(""), r.Default("busybox"))
	}
	r, _ = open(t, &opened{}, "default_provider: prod\nproviders: {prod: {kind: docker}}\n")
	if r.Default("") != "prod" || r.Default("busybox") != "prod" {
		t.Errorf("got %q and %q", r.Default(""), r.Default("busybox"))
	}
	if got := r.Kinds(); !slices.Equal(got, []string{"aws-ecs", "docker", "local"}) {
		t.Errorf("kinds %q", got)
	}
	if got := r.Names(); !slices.Equal(got, []string{"docker", "local", "prod"}) {
		t.Errorf("names %q", got)
	}
}

// TestConcurrentGet opens one provider from many goroutines while another is
// held up, and closes while that one is still opening.
func TestConcurrentGet(t *testing.T) {
	slow := &opened{gate: make(chan struct{}), entered: make(chan struct{}, 1)}
	fast := &opened{}
	r, _ := open(t, fast, "{}")
	r.o.Drivers[0] = slow.driver("docker")

	held := make(chan error, 1)
	go func() {
		_, err := r.Get(context.WithoutCancel(t.Context()), "docker")
		held <- err
	}()
	<-slow.entered
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := r.Get(t.Context(), "local"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(fast.requests) != 1 {
		t.Errorf("opened %d times", len(fast.requests))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Get(ctx, "docker"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait gave %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	for !r.isClosed() {
		runtime.Gosched()
	}
	close(slow.gate)
	if err := <-held; !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("opened while closing: %v", err)
	}
	if err := <-closed; err != nil || !slices.Equal(slow.closed, []string{"docker"}) || !slices.Equal(fast.closed, []string{"local"}) {
		t.Errorf("closed %q and %q, %v", slow.closed, fast.closed, err)
	}
}

// TestOpen opens as the background process does, with what was handed over.
func TestOpen(t *testing.T) {
	o := &opened{}
	p := config.Provider{Name: "prod", Kind: "docker", CallTimeout: time.Second}
	opts := Options{Drivers: []sdk.Driver{o.driver("docker")}, StateDir: t.TempDir()}
	b, err := Open(t.Context(), opts, p, credential.New(map[string]string{"A": "b"}, true))
	if err != nil || b.Name != "prod" || !o.requests[0].AmbientCredentials || o.requests[0].Credentials["A"] != "b" {
		t.Errorf("got %+v, %v", b, err)
	}
	p.Kind = "none"
	if _, err := Open(t.Context(), opts, p, credential.Credentials{}); !errors.Is(err, sdk.InvalidArgument) {
		t.Errorf("got %v", err)
	}
	p.Kind = "docker"
	opts.StateDir = ""
	if _, err := Open(t.Context(), opts, p, credential.Credentials{}); err == nil {
		t.Error("opened without a state folder")
	}
	for _, kind := range []string{"../x", "a/b", "", ".x"} {
		if _, err := driverDir(t.TempDir(), kind); err == nil {
			t.Errorf("the kind %q named a folder", kind)
		}
	}
}

// TestFind looks for a provider by its identity.
func TestFind(t *testing.T) {
	o := &opened{}
	r, _ := open(t, o, `
providers:
  prod: {kind: docker, config: {host: one}}
  spare: {kind: docker, config: {host: two}}
  bad: {kind: docker, config: {hots: h}}
`)
	id := func(host string) sdk.Identity { return sdk.Identity{Kind: "docker", Endpoint: host} }
	for _, c := range []struct{ name, host, want string }{
		{"prod", "one", "prod"}, {"prod", "two", "spare"}, {"gone", "two", "spare"}, {"bad", "one", "prod"},
	} {
		if b, err := r.Find(t.Context(), c.name, id(c.host)); err != nil || b.Name != c.want {
			t.Errorf("%s at %s: %q, %v", c.name, c.host, b.Name, err)
		}
	}
	for name, want := range map[string]string{"prod": "the handle belongs to docker/three", "gone": "no provider is called", "bad": "hots"} {
		if _, err := r.Find(t.Context(), name, id("three")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(o.requests); n != 3 {
		t.Errorf("opened %d: those of other kinds should stay closed", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestCredentialsAreLearnt: a value is known before a driver could let it out.
func TestCredentialsAreLearnt(t *testing.T) {
	red := &secret.Redactor{}
	o := &opened{fail: errors.New("header AKIA-canary-key refused")}
	r, _ := open(t, o, "providers: {aws: {kind: aws-ecs}}\n", "AWS_ACCESS_KEY_ID=id-0123", "AWS_SECRET_ACCESS_KEY=AKIA-canary-key", "AWS_REGION=eu")
	r.o.Redactor = red
	_, err := r.Get(t.Context(), "aws")
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), sdk.Redacted) {
		t.Errorf("got %v", err)
	}
	if got := red.Redact("AKIA-canary-key in eu"); got != sdk.Redacted+" in eu" {
		t.Errorf("got %q", got)
	}
}
