//go:build unix

package keeper

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

const patience = 2 * time.Minute

// Variables of a keeper that a test starts as a process.
const (
	envVersion = "KEEPER_TEST_VERSION"
	envIdle    = "KEEPER_TEST_IDLE"
	envAhead   = "KEEPER_TEST_AHEAD" // its clock is so far ahead
	envFiles   = "KEEPER_TEST_FILES" // it may open so many files
	envFail    = "KEEPER_TEST_FAIL"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(keeperProcess())
	}
	goleak.VerifyTestMain(m)
}

// keeperProcess is a keeper's process, as a test starts it.
func keeperProcess() int {
	dir, err := os.Getwd()
	if err != nil {
		return 1
	}
	if os.Getenv(envFail) != "" {
		fmt.Fprintln(os.Stderr, os.Getenv(envFail))
		return 1
	}
	file, err := OpenLog(dir)
	if err != nil {
		return 1
	}
	red := &secret.Redactor{}
	log := slog.New(red.Handler(slog.NewTextHandler(file, nil)))
	err = func() error {
		c := &stepClock{}
		if d, err := time.ParseDuration(os.Getenv(envAhead)); err == nil {
			c.step(d)
		}
		b, err := openBackends(dir, c, red)
		if err != nil {
			return err
		}
		store, err := sqlite.Open(context.Background(), dir, sqlite.Options{Clock: c})
		if err != nil {
			return err
		}
		logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{Clock: c})
		if err != nil {
			return err
		}
		if err := limitFiles(os.Getenv(envFiles)); err != nil {
			return err
		}
		idle, _ := time.ParseDuration(os.Getenv(envIdle))
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return errors.Join(Serve(ctx, Options{StateDir: dir, Version: os.Getenv(envVersion), Actor: "keeper", Store: store, Logs: logs, Open: b.open,
			Clock: c, Log: log, Idle: idle, Redact: red.Redact}), store.Close())
	}()
	if err != nil {
		log.Error("keeper failed", "err", err)
		return 1
	}
	return 0
}

// stepClock is the system's clock with an offset that a test moves.
type stepClock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *stepClock) Sleep(ctx context.Context, d time.Duration) error {
	return sdk.SystemClock().Sleep(ctx, d)
}

func (c *stepClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// backends is what surroundings are opened from: a fake cloud in a folder, seen
// with credentials that it may refuse. A command's variables choose: CRED are
// its credentials, NAMES its providers (default "fake"), FAULT what is wrong
// with it.
type backends struct {
	dir   string
	clock sdk.Clock
	red   *secret.Redactor

	mu             sync.Mutex
	opened, closed int
}

func openBackends(stateDir string, clock sdk.Clock, red *secret.Redactor) (*backends, error) {
	b := &backends{dir: filepath.Join(stateDir, "backends"), clock: clock, red: red}
	return b, os.MkdirAll(filepath.Join(b.dir, "refused"), 0o700)
}

// cloud opens a handle of its own on the cloud of an account.
func (b *backends) cloud(account string) (*fake.Cloud, error) {
	return fake.OpenCloud(filepath.Join(b.dir, "cloud-"+account), fake.Options{Name: account})
}

func (b *backends) refused(cred string) error {
	if _, err := os.Stat(filepath.Join(b.dir, "refused", cred)); err == nil {
		return sdk.Errorf(sdk.Unauthenticated, "call backend", "the credentials %s have expired", cred)
	}
	return nil
}

func (b *backends) open(ctx context.Context, o Origin) (Opened, error) {
	vars := make([]string, len(o.Env))
	for i, v := range o.Env {
		vars[i] = string(v)
	}
	env := config.EnvOf(vars)
	switch env.Get("FAULT") {
	case "config":
		return nil, sdk.Errorf(sdk.InvalidArgument, "read config", "%s/windlass.yaml:3:1: providers.fake.kind: no kind is called \"fkae\"", o.Dir)
	case "panic":
		panic("a driver's mistake with " + env.Get("TOKEN"))
	case "hang":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &command{b: b, env: env, dir: o.Dir, providers: map[string]control.Backend{}}, nil
}

func (b *backends) openNow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened - b.closed
}

// command is the providers of one command's surroundings.
type command struct {
	b   *backends
	env config.Env
	dir string

	mu        sync.Mutex
	providers map[string]control.Backend
}

func (c *command) Outdated() []string { return nil }

func (c *command) Plugin(context.Context, string, json.RawMessage) (*pluginhost.Lease, error) {
	return nil, sdk.Errorf(sdk.NotFound, "find plugin", "there is none")
}

func (c *command) Names() []string {
	if n := c.env.Get("NAMES"); n != "" {
		return strings.Split(n, ",")
	}
	return []string{"fake"}
}

func (c *command) Schemes() map[string]secret.Scheme { return secret.Local(c.env.Lookup, c.dir) }

// Backend opens a provider: its account is its name without the digits at its
// end.
func (c *command) Backend(ctx context.Context, name string) (control.Backend, error) {
	if !slices.Contains(c.Names(), name) {
		return control.Backend{}, sdk.Errorf(sdk.NotFound, "open provider", "no provider is called %q", name)
	}
	switch c.env.Get("FAULT") {
	case "provider":
		return control.Backend{}, sdk.Errorf(sdk.InvalidArgument, "open provider", "%s: config.host is not known", name)
	case "provider-hangs":
		<-ctx.Done()
		return control.Backend{}, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.providers[name]; ok {
		return b, nil
	}
	cloud, err := c.b.cloud(strings.TrimRight(name, "0123456789"))
	if err != nil {
		return control.Backend{}, err
	}
	d := fake.NewDriver(cloud, fake.Settings{})
	p, err := d.Open(ctx, sdk.OpenRequest{Name: name, Clock: c.b.clock, IDs: sdk.NewIDSource(c.b.clock), Log: slog.New(slog.DiscardHandler),
		Owner: "owner", LedgerID: "ledger", StateDir: c.dir, Secrets: secret.NewResolver(secret.Elsewhere(), c.b.red)})
	if err != nil {
		return control.Backend{}, err
	}
	cred := cmp.Or(c.env.Get("CRED"), "usual")
	if p, err = guard(p, func() error { return c.b.refused(cred) }, c.leak); err != nil {
		return control.Backend{}, err
	}
	b := control.Backend{Provider: p, Name: name, Driver: &d, PollInterval: 20 * time.Millisecond, CallTimeout: 2 * time.Second}
	c.providers[name] = b
	return b, nil
}

// leak fails a launch with an error that holds a secret's value, for commands
// that have such a driver.
func (c *command) leak(ctx context.Context) error {
	if c.env.Get("FAULT") != "leak" {
		return nil
	}
	v, err := secret.NewResolver(secret.Elsewhere(), c.b.red).ResolveSecret(ctx, "secret://env/TOKEN")
	if err != nil {
		return err
	}
	return sdk.Errorf(sdk.InvalidArgument, "run job", "bad header %s, %q, %s", v.Reveal(), v.Reveal(), base64.StdEncoding.EncodeToString(v.Reveal()))
}

func (c *command) Find(ctx context.Context, name string, id sdk.Identity) (control.Backend, error) {
	b, first := c.Backend(ctx, name)
	if first == nil {
		if first = b.Info().Identity.Check("open provider", id); first == nil {
			return b, nil
		}
	}
	for _, other := range c.Names() {
		if b, err := c.Backend(ctx, other); err == nil && b.Info().Identity == id {
			return b, nil
		}
	}
	return control.Backend{}, first
}

func (c *command) Close() error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.closed++
	var errs []error
	for _, p := range c.providers {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// guard refuses every call of a provider for as long as check says so.
func guard(p sdk.Provider, check func() error, leak func(context.Context) error) (sdk.Provider, error) {
	g := &guarded{check: check, leak: leak}
	g.runner, _ = sdk.Of(p, sdk.Runner())
	g.batcher, _ = sdk.Of(p, sdk.Batcher())
	g.logger, _ = sdk.Of(p, sdk.Logger())
	g.finder, _ = sdk.Of(p, sdk.Finder())
	return sdk.Decorate(p, map[string]any{"JobRunner": g, "JobBatcher": g, "JobLogger": g, "JobFinder": g})
}

type guarded struct {
	check   func() error
	leak    func(context.Context) error
	runner  sdk.JobRunner
	batcher sdk.JobBatcher
	logger  sdk.JobLogger
	finder  sdk.JobFinder
}

func (g *guarded) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	return g.runner.PrepareJob(ctx, r)
}

func (g *guarded) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	if err := g.check(); err != nil {
		return sdk.RunJobResult{}, err
	}
	if err := g.leak(ctx); err != nil {
		return sdk.RunJobResult{}, err
	}
	return g.runner.RunJob(ctx, r)
}

func (g *guarded) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := g.check(); err != nil {
		return sdk.JobStatusResult{}, err
	}
	return g.runner.JobStatus(ctx, r)
}

func (g *guarded) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := g.check(); err != nil {
		return sdk.JobStatusesResult{}, err
	}
	return g.batcher.JobStatuses(ctx, r)
}

func (g *guarded) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := g.check(); err != nil {
		return sdk.FindJobsResult{}, err
	}
	return g.finder.FindJobs(ctx, r)
}

func (g *guarded) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		for it, err := range g.logger.JobLogs(ctx, r) {
			if refused := g.check(); refused != nil {
				yield(sdk.LogItem{}, refused)
				return
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// world is a state directory, its backends, and the commands and keepers that a
// test starts.
type world struct {
	*backends
	t     *testing.T
	dir   string
	clock *stepClock
	store *sqlite.Store
	logs  *joblog.Store
	red   *secret.Redactor
	lines *lines
}

// lines is what keepers of this process log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorld(t *testing.T) *world { return newWorldAt(t, t.TempDir()) }

func newWorldAt(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, clock: &stepClock{}, red: &secret.Redactor{}, lines: &lines{}}
	var err error
	if w.backends, err = openBackends(dir, w.clock, w.red); err != nil {
		t.Fatal(err)
	}
	if w.store, err = sqlite.Open(t.Context(), dir, sqlite.Options{Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	if w.logs, err = joblog.Open(filepath.Join(dir, "logs"), joblog.Options{Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.endProcesses)
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("keepers here:\n%s", w.lines)
			if b, err := os.ReadFile(logPath(dir)); err == nil {
				t.Logf("keepers elsewhere:\n%s", b)
			}
		}
	})
	return w
}

// endProcesses ends the keepers that this test has started as processes: those
// whose folder is the test's own.
func (w *world) endProcesses() {
	for {
		left := 0
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range links {
			dir, err := os.Readlink(link)
			if err != nil || dir != w.dir && !strings.HasPrefix(dir, w.dir+"/") {
				continue
			}
			if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil && pid != os.Getpid() {
				left++
				w.kill(pid)
			}
		}
		if left == 0 {
			return
		}
	}
}

func (w *world) refuse(cred string, on bool) {
	w.t.Helper()
	name := filepath.Join(w.backends.dir, "refused", cred)
	var err error
	if on {
		err = os.WriteFile(name, nil, 0o600)
	} else {
		err = os.Remove(name)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// keeper is a keeper within this process.
type keeper struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (w *world) serve(opts ...func(*Options)) *keeper {
	w.t.Helper()
	k := w.start(opts...)
	testwait.Until(w.t, patience, "keeper that answers", func() bool {
		_, err := w.client().Status(w.t.Context())
		return err == nil || k.over()
	})
	return k
}

// start begins a keeper and doesn't wait for it.
func (w *world) start(opts ...func(*Options)) *keeper {
	o := Options{StateDir: w.dir, Version: "v1", Actor: "keeper", Store: w.store, Logs: w.logs, Open: w.open, Clock: w.clock, Idle: time.Hour,
		Log: slog.New(w.red.Handler(slog.NewTextHandler(w.lines, nil))), Redact: w.red.Redact}
	for _, f := range opts {
		f(&o)
	}
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		k.err = Serve(ctx, o)
	}()
	w.t.Cleanup(func() {
		if err := k.end(w.t); err != nil {
			w.t.Errorf("keeper: %v", err)
		}
	})
	return k
}

func (k *keeper) over() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// wait waits until the keeper has left by itself.
func (k *keeper) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-k.done:
		return k.err
	case <-time.After(patience):
		t.Fatal("the keeper doesn't leave")
		return nil
	}
}

func (k *keeper) end(t *testing.T) error {
	k.stop()
	return k.wait(t)
}

func idle(d time.Duration) func(*Options) { return func(o *Options) { o.Idle = d } }

func version(v string) func(*Options) { return func(o *Options) { o.Version = v } }

// origin is the surroundings of a command.
func (w *world) origin(vars ...string) Origin {
	o := Origin{Dir: w.dir}
	for _, v := range vars {
		o.Env = append(o.Env, []byte(v))
	}
	return o
}

// client is that of a command, which starts the test's own binary as keeper.
func (w *world) client(vars ...string) *Client {
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	return &Client{StateDir: w.dir, Version: "v1", Origin: w.origin(vars...), Executable: self,
		Env: []string{envVersion + "=v1", envIdle + "=" + time.Hour.String(), "PATH=" + os.Getenv("PATH")}}
}

// spawned starts a keeper as a process and returns its number.
func (w *world) spawned(c *Client) int {
	w.t.Helper()
	if err := c.Offer(w.ctx()); err != nil {
		w.t.Fatal(err)
	}
	st, err := c.Status(w.ctx())
	if err != nil || st.PID == os.Getpid() {
		w.t.Fatalf("status %+v, %v", st, err)
	}
	w.t.Cleanup(func() { w.kill(st.PID) })
	return st.PID
}

// kill ends a process that this test has started.
func (w *world) kill(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL)
	w.gone(pid)
}

func (w *world) gone(pid int) {
	w.t.Helper()
	testwait.Until(w.t, patience, "end of the keeper's process", func() bool { return syscall.Kill(pid, 0) != nil })
}

// engine is that of a command with these variables.
func (w *world) engine(vars ...string) *control.Engine {
	w.t.Helper()
	opened, err := w.open(w.t.Context(), w.origin(vars...))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := opened.(*command)
	e, err := control.New(w.t.Context(), control.Options{Store: w.store, Logs: w.logs, Providers: submitter{cmd}, StateDir: w.dir,
		Actor: "tester@here", Clock: w.clock, Redact: w.red.Redact})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(e.Close(ctx), cmd.Close()); err != nil {
			w.t.Errorf("close engine: %v", err)
		}
	})
	return e
}

// submitter resolves the secrets of the runs that it submits.
type submitter struct{ *command }

func (s submitter) Backend(ctx context.Context, name string) (control.Backend, error) {
	b, err := s.command.Backend(ctx, name)
	if err != nil {
		return b, err
	}
	b.Provider = secret.Bind(b.Provider, func(sdk.ID) map[string]secret.Scheme { return s.Schemes() })
	return b, nil
}

func (s submitter) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	return s.Find(ctx, run.Provider, run.Identity)
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func spec(words ...string) sdk.JobSpec { return sdk.JobSpec{Image: "img", Args: words} }

func (w *world) submit(e *control.Engine, s sdk.JobSpec) sdk.ID { return w.submitOn(e, "fake", s) }

func (w *world) submitOn(e *control.Engine, provider string, s sdk.JobSpec) sdk.ID {
	w.t.Helper()
	sub, err := e.Submit(w.ctx(), control.SubmitRequest{Provider: provider, Spec: s, Actor: "tester@here"})
	if err != nil {
		w.t.Fatal(err)
	}
	return sub.Run.ID
}

// handOver gives a run to the keeper as a command does.
func (w *world) handOver(e *control.Engine, c *Client, id sdk.ID) {
	w.t.Helper()
	if _, err := e.Wait(w.ctx(), id, control.MilestoneMovable); err != nil {
		w.t.Fatal(err)
	}
	if err := c.Offer(w.ctx(), id); err != nil {
		w.t.Fatal(err)
	}
	if err := e.HandOver(w.ctx(), id); err != nil {
		w.t.Fatal(err)
	}
	if err := c.Take(w.ctx(), id); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(id sdk.ID) ledger.Run {
	w.t.Helper()
	r, err := w.store.Run(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) until(id sdk.ID, what string, cond func(ledger.Run) bool) ledger.Run {
	w.t.Helper()
	var r ledger.Run
	defer func() {
		if w.t.Failed() {
			w.t.Logf("run %s is %s %s in phase %s: %s", id.Short(), r.State, r.Reason, r.Phase, r.Message)
		}
	}()
	testwait.Until(w.t, patience, what, func() bool { r = w.run(id); return cond(r) })
	return r
}

func (w *world) running(id sdk.ID) {
	w.t.Helper()
	w.until(id, "running job", func(r ledger.Run) bool { return r.State == sdk.StateRunning })
}

// finished waits until a run is over. It opens the gates of the run's jobs: those that
// have one go on from here, however long what came before took.
func (w *world) finished(id sdk.ID) ledger.Run {
	w.t.Helper()
	cloud, err := w.cloud(w.run(id).Identity.Account)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.until(id, "finished run", func(r ledger.Run) bool {
		if err := cloud.OpenGate(id); err != nil {
			w.t.Fatal(err)
		}
		return !r.Open()
	})
}

func (w *world) expect(r ledger.Run, state sdk.JobState, why sdk.Reason) {
	w.t.Helper()
	if r.State != state || r.Reason != why {
		w.t.Fatalf("run is %s %s (%s), want %s %s", r.State, r.Reason, r.Message, state, why)
	}
}

// output is a run's captured stdout, all attempts one after another.
func (w *world) output(id sdk.ID) string {
	w.t.Helper()
	var out strings.Builder
	e, err := control.New(w.t.Context(), control.Options{Store: w.store, Logs: w.logs, Providers: newPool(w.open, slog.Default()), StateDir: w.dir, Actor: "reader"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = e.Close(w.ctx()) }()
	for it, err := range e.Follow(w.ctx(), id, control.FollowOptions{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if it.Entry != nil && it.Entry.Stream == sdk.StreamStdout {
			out.Write(it.Entry.Data)
		}
		if it.Gap != nil {
			w.t.Errorf("gap in the output: %+v", it.Gap)
		}
	}
	return out.String()
}

// sound checks the ledger, and that each attempt made one object which is gone.
func (w *world) sound(ids ...sdk.ID) {
	w.t.Helper()
	rep, err := w.store.Verify(w.t.Context(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range rep.Faults {
		w.t.Errorf("ledger: %+v", f)
	}
	for _, id := range ids {
		r := w.run(id)
		cloud, err := w.cloud(r.Identity.Account)
		if err != nil {
			w.t.Fatal(err)
		}
		list, err := w.store.Attempts(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, a := range list {
			if n := cloud.Made(a.ID); n > 1 {
				w.t.Errorf("attempt %d made %d objects", a.Number, n)
			}
		}
		if left := cloud.JobsOf(id); len(left) > 0 {
			w.t.Errorf("left behind: %v", left)
		}
	}
}

func sum(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// forms are texts in which a value may turn up: whatever stands before it, the
// middle of its base64 is one of three.
func forms(v string) []string {
	out := []string{v, fmt.Sprintf("%x", v)}
	for shift := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("_", shift) + v + "____"))
		out = append(out, b[4:4+(len(v)-4)/3*4])
	}
	return out
}
