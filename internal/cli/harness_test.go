package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a stream that goroutines may share, as they do a file.
type buffer struct {
	mu  sync.Mutex
	b   bytes.Buffer
	err error
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// fail makes every later write fail.
func (b *buffer) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// world is a command line in a folder of its own, over a real ledger and a
// scripted engine.
type world struct {
	t        *testing.T
	f        *Factory
	dir      string
	state    string
	out, err buffer
	engine   *scripted
	keeper   Keeper
	env      map[string]string
	now      time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), env: map[string]string{}, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	w.state = filepath.Join(w.dir, "state")
	w.env["WINDLASS_STATE"], w.env["WINDLASS_KEEPER"], w.env["WINDLASS_ACTOR"] = w.state, "off", "tester@here"
	w.engine = &scripted{remoteCancel: sdk.CancelJobResult{Accepted: true, Gone: true, Evidence: "removed"}, w: w, moved: make(chan struct{})}
	return w
}

// run is one invocation of the program.
func (w *world) run(args ...string) int { return w.runIn(w.t.Context(), nil, args...) }

func (w *world) runIn(ctx context.Context, with func(*Factory), args ...string) int {
	w.t.Helper()
	w.out, w.err = buffer{}, buffer{}
	w.start(with)
	return run(ctx, w.f, args)
}

func (w *world) start(with func(*Factory)) {
	w.f = &Factory{
		Streams: &Streams{In: strings.NewReader(""), Out: &w.out, Err: &w.err, Width: 80},
		Build:   Build{Version: "v1.2.3", Commit: "0123456789abcdef"},
		Env:     config.EnvMap(w.env), Dir: w.dir, Now: func() time.Time { return w.now },
		Drivers: testDrivers,
		HasStore: func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, "ledger.db"))
			return err == nil
		},
		OpenStore: func(ctx context.Context, dir string, a Access) (ledger.Store, error) {
			return sqlite.Open(ctx, dir, sqlite.Options{Reading: a != ToWrite, Inspect: a == ToInspect, PollInterval: 5 * time.Millisecond})
		},
		OpenSession: func(_ context.Context, r SessionRequest) (*Session, error) {
			w.engine.store = r.Store
			s := &Session{ReadOnly: r.ReadOnly, Store: r.Store, Engine: w.engine, Providers: w.engine}
			if r.Config.Keeper && !r.ReadOnly {
				s.Keeper = w.keeper
			}
			return s, nil
		},
	}
	if with != nil {
		with(w.f)
	}
}

// ok runs a command that must succeed and returns its stdout.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	if code := w.run(args...); code != 0 {
		w.t.Fatalf("windlass %s: exit %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), code, w.out.String(), w.err.String())
	}
	return w.out.String()
}

// fails runs a command that must end with a code and returns its stderr.
func (w *world) fails(code int, args ...string) string {
	w.t.Helper()
	if got := w.run(args...); got != code {
		w.t.Fatalf("windlass %s: exit %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, w.out.String(), w.err.String())
	}
	return w.err.String()
}

func testDrivers() []sdk.Driver {
	open := func(context.Context, sdk.OpenRequest) (sdk.Provider, error) {
		return nil, errors.New("not opened in these tests")
	}
	return []sdk.Driver{
		{Kind: "local", Doc: "Processes of this machine.", Open: open, Guarantees: sdk.Guarantees{Ambient: true, NoImage: true}},
		{Kind: "docker", Doc: "Containers.", Open: open,
			Options: sdk.Schema{Fields: []sdk.SchemaField{{Name: "platform", Type: sdk.TypeString, Doc: "Platform."},
				{Name: "init", Type: sdk.TypeBool, Doc: "Runs an init."}}},
			Config: sdk.Schema{Fields: []sdk.SchemaField{{Name: "host", Type: sdk.TypeString, Doc: "The engine's address."}}}},
	}
}

// scripted is an engine whose runs do what the test says.
type scripted struct {
	Resources // nil: their tests bring a real engine

	w     *world
	store ledger.Store
	ids   sdk.IDSource

	mu        sync.Mutex
	moved     chan struct{}
	submitted []control.SubmitRequest
	cancels   []control.CancelRequest
	log       []control.FollowItem
	logEnd    bool
	logErr    error
	held      []sdk.ID
	orphaned  bool
	recovered int
	removed   []sdk.ID
	retention control.Retention

	// script is called after a submit, in a goroutine of its own.
	script    func(s *scripted, id sdk.ID)
	onSubmit  func(control.SubmitRequest) error
	onCancel  func(s *scripted, id sdk.ID)
	plan      control.Plan
	planErr   error
	remote    control.RemoteJob
	remoteErr error
	// remoteCancel is what a cancel by labels comes to.
	remoteCancel sdk.CancelJobResult
	// backend is what each provider opens as; nil for none that answers.
	backend   sdk.Provider
	reaped    []control.ReapItem
	reapedFor control.ReapRequest
	wg        sync.WaitGroup
}

var _ Engine = (*scripted)(nil)

func (s *scripted) id() sdk.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = sdk.NewIDSource(sdk.SystemClock())
	}
	return s.ids.NewID()
}

func (s *scripted) write(id sdk.ID, events ...ledger.NewEvent) {
	s.w.t.Helper()
	if err := s.store.Write(context.Background(), ledger.Write{Run: id, Events: events}); err != nil {
		s.w.t.Errorf("write: %v", err)
	}
	s.move()
}

func (s *scripted) move() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.moved)
	s.moved = make(chan struct{})
}

// add makes a row as Submit does.
func (s *scripted) add(provider string, spec sdk.JobSpec, key string) sdk.ID {
	return s.addAs(s.id(), provider, spec, key)
}

func (s *scripted) addAs(id sdk.ID, provider string, spec sdk.JobSpec, key string) sdk.ID {
	s.w.t.Helper()
	attempt := s.id()
	specJSON, err := spec.Encode()
	if err != nil {
		s.w.t.Fatal(err)
	}
	launch, err := sdk.Launch{V: 1, Kind: "local", RunID: id, AttemptID: attempt, Attempt: 1, Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}}.Encode()
	if err != nil {
		s.w.t.Fatal(err)
	}
	target := spec.Image
	if target == "" && len(spec.Args) > 0 {
		target = spec.Args[0]
	}
	s.write(id,
		ledger.NewEvent{Kind: ledger.KindRequested, Actor: "tester@here", Change: ledger.Change{V: 1, Requested: &ledger.Requested{Actor: "tester@here",
			Action: "run", Target: target, Provider: provider, Identity: sdk.Identity{Kind: "local", Endpoint: "here"}, RequestID: key,
			SpecHash: sdk.HashCanonical(specJSON), Spec: specJSON, Name: spec.Name}}},
		ledger.NewEvent{Kind: ledger.KindIntent, Attempt: 1, Actor: "tester@here", Change: ledger.Change{V: 1, Phase: ledger.PhaseIntent,
			Launched: &ledger.Launched{ID: attempt, Launch: launch}}})
	return id
}

// start writes that a run is running.
func (s *scripted) start(id sdk.ID) {
	at := s.w.now.Add(time.Second)
	s.write(id, ledger.NewEvent{Attempt: 1, Kind: ledger.KindRunning, Actor: "engine", Change: ledger.Change{V: 1, Phase: ledger.PhaseRunning, State: sdk.StateRunning, StartedAt: at}})
}

// finish ends a run.
func (s *scripted) finish(id sdk.ID, state sdk.JobState, why sdk.Reason, c ledger.Change) {
	c.V, c.Phase, c.State, c.Reason = 1, ledger.PhaseEnded, state, &why
	if c.EndedAt.IsZero() {
		c.EndedAt = s.w.now.Add(3 * time.Second)
	}
	s.write(id, ledger.NewEvent{Attempt: 1, Kind: ledger.KindEnded, Actor: "engine", Change: c},
		ledger.NewEvent{Attempt: 1, Kind: ledger.KindDrained, Actor: "engine", Change: ledger.Change{V: 1, Phase: ledger.PhaseDrained, Verdict: sdk.VerdictComplete}},
		ledger.NewEvent{Attempt: 1, Kind: ledger.KindCleaned, Actor: "engine", Change: ledger.Change{V: 1, Phase: ledger.PhaseCleaned, Finished: true}})
	s.endLog()
}

func code(n int) *int { return &n }

// say adds to the log.
func (s *scripted) say(stream sdk.Stream, text string) {
	var it control.FollowItem
	it.Attempt = 1
	it.Entry = &sdk.LogChunk{Stream: stream, Data: []byte(text), LineEnd: sdk.LineEndKept, Time: s.w.now}
	s.addItem(it)
}

func (s *scripted) addItem(it control.FollowItem) {
	s.mu.Lock()
	s.log = append(s.log, it)
	s.mu.Unlock()
	s.move()
}

func (s *scripted) endLog() {
	s.mu.Lock()
	s.logEnd = true
	s.mu.Unlock()
	s.move()
}

func (s *scripted) Plan(context.Context, control.SubmitRequest) (control.Plan, error) {
	return s.plan, s.planErr
}

func (s *scripted) Submit(_ context.Context, r control.SubmitRequest) (control.Submitted, error) {
	if s.onSubmit != nil {
		if err := s.onSubmit(r); err != nil {
			return control.Submitted{}, err
		}
	}
	s.mu.Lock()
	s.submitted = append(s.submitted, r)
	s.mu.Unlock()
	id := s.add(r.Provider, r.Spec, r.IdempotencyKey)
	if s.script != nil {
		s.wg.Go(func() { s.script(s, id) })
	}
	run, err := s.store.Run(context.Background(), id)
	return control.Submitted{Run: run}, err
}

func (s *scripted) Resolve(ctx context.Context, ref string) (ledger.Run, error) {
	return control.ResolveRun(ctx, s.store, ref)
}

func (s *scripted) Wait(ctx context.Context, id sdk.ID, until control.Milestone) (ledger.Run, error) {
	return s.Watch(ctx, id, until, func(ledger.Run) {})
}

func (s *scripted) Watch(ctx context.Context, id sdk.ID, until control.Milestone, see func(ledger.Run)) (ledger.Run, error) {
	for {
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		r, err := s.store.Run(context.WithoutCancel(ctx), id)
		if err == nil {
			see(r)
		}
		if err != nil || until == control.MilestoneSubmitted || r.State.Terminal() && (until == control.MilestoneEnded || !r.Open()) {
			return r, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

func (s *scripted) Follow(ctx context.Context, _ sdk.ID, o control.FollowOptions) iter.Seq2[control.FollowItem, error] {
	return func(yield func(control.FollowItem, error) bool) {
		for i := 0; ; {
			s.mu.Lock()
			moved, end, err := s.moved, s.logEnd, s.logErr
			items := s.log[i:]
			s.mu.Unlock()
			for _, it := range items {
				i++
				if len(o.Streams) > 0 && it.Entry != nil && !hasStream(o.Streams, it.Entry.Stream) {
					continue
				}
				if !yield(it, nil) {
					return
				}
			}
			if err != nil {
				yield(control.FollowItem{}, err)
				return
			}
			if end || !o.Follow {
				return
			}
			select {
			case <-moved:
			case <-ctx.Done():
				yield(control.FollowItem{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (s *scripted) Cancel(_ context.Context, r control.CancelRequest) error {
	s.mu.Lock()
	s.cancels = append(s.cancels, r)
	s.mu.Unlock()
	run, err := s.store.Run(context.Background(), r.Run)
	if err != nil || run.State.Terminal() {
		return err
	}
	s.write(r.Run, ledger.NewEvent{Kind: ledger.KindCancelAsk, Actor: r.Actor, Change: ledger.Change{V: 1, CancelBy: r.Actor, CancelWhy: r.Why}})
	if s.onCancel != nil {
		s.onCancel(s, r.Run)
	}
	return nil
}

func (s *scripted) Abandon(_ context.Context, id sdk.ID, actor, why string) error {
	lost := sdk.ReasonLost
	message := "abandoned by " + actor + ": " + why
	s.write(id, ledger.NewEvent{Attempt: 1, Kind: ledger.KindAbandoned, Actor: actor, Change: ledger.Change{V: 1, Phase: ledger.PhaseEnded,
		State: sdk.StateLost, Reason: &lost, Message: &message}})
	return nil
}

func (s *scripted) Adopt(_ context.Context, r control.AdoptRequest) (ledger.Run, error) {
	if s.remoteErr != nil {
		return ledger.Run{}, s.remoteErr
	}
	if _, err := s.store.Run(context.Background(), r.Run); err == nil {
		return ledger.Run{}, sdk.Errorf(sdk.AlreadyExists, "adopt run", "it is in this ledger")
	}
	id := s.addAs(r.Run, r.Provider, sdk.JobSpec{V: 1}, "")
	s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	return s.store.Run(context.Background(), id)
}

func (s *scripted) Remote(context.Context, string, sdk.ID) (control.RemoteJob, error) {
	return s.remote, s.remoteErr
}

func (s *scripted) RemoteLogs(context.Context, string, sdk.ID, bool) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if s.remoteErr != nil {
			yield(sdk.LogItem{}, s.remoteErr)
			return
		}
		for _, it := range s.log {
			if !yield(sdk.LogItem{Entry: it.Entry, Gap: it.Gap, End: it.End}, nil) {
				return
			}
		}
	}
}

func (s *scripted) RemoteCancel(context.Context, string, sdk.ID, string, string) (sdk.CancelJobResult, error) {
	return s.remoteCancel, s.remoteErr
}

func (s *scripted) Recover(context.Context, string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovered++
	return 0, nil
}

func (s *scripted) SettleActions(context.Context) ([]control.SettledAction, error) { return nil, nil }

func (s *scripted) HandOver(context.Context, sdk.ID) error { return nil }

func (s *scripted) Remove(_ context.Context, id sdk.ID, _ string) error {
	r, err := s.store.Run(context.Background(), id)
	if err == nil && r.Open() {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "remove run", ID: "run.open", Err: fmt.Errorf("run %s is %s", id.Short(), r.State)}
	}
	s.mu.Lock()
	s.removed = append(s.removed, id)
	s.mu.Unlock()
	return err
}

func (s *scripted) Reap(_ context.Context, r control.ReapRequest) iter.Seq2[control.ReapItem, error] {
	s.reapedFor = r
	return func(yield func(control.ReapItem, error) bool) {
		for _, it := range s.reaped {
			if !yield(it, nil) {
				return
			}
		}
	}
}

func (s *scripted) Orphaned(context.Context, sdk.ID) (bool, error) { return s.orphaned, nil }

func (s *scripted) Held() []sdk.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// logged gives every run, oldest first.
func (s *scripted) Prune(ctx context.Context, before time.Time, actor string) (int, error) {
	return s.store.Prune(ctx, before, actor)
}

func (s *scripted) Retain(ctx context.Context, r control.Retention, actor string) (control.Retained, error) {
	var done control.Retained
	s.retention = r
	for run, err := range s.store.Runs(ctx, ledger.RunFilter{OldestFirst: true}) {
		if err != nil {
			return done, err
		}
		if !run.Open() && run.ID.Time().Before(s.w.now.Add(-r.Logs)) {
			done.Removed = append(done.Removed, run.ID)
			if err := s.Remove(ctx, run.ID, actor); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

func (s *scripted) RetainDaily(ctx context.Context, r control.Retention, actor string, _ bool) (control.Retained, error) {
	return s.Retain(ctx, r, actor)
}

// The engine stands in for the providers too.
func (s *scripted) Backend(_ context.Context, name string) (control.Backend, error) {
	if s.backend != nil {
		return control.Backend{Provider: s.backend, Name: name}, nil
	}
	return control.Backend{}, &sdk.Error{Code: sdk.Unavailable, Op: "open provider", Err: errors.New("no engine answers"), Remedy: "start it"}
}

func (s *scripted) BackendFor(ctx context.Context, r ledger.Run) (control.Backend, error) {
	return s.Backend(ctx, r.Provider)
}

func (s *scripted) Names() []string { return []string{"docker", "local"} }

// seed opens the ledger outside of any command, for rows that a test needs.
func (w *world) seed(do func(s *scripted)) {
	w.t.Helper()
	if err := os.MkdirAll(w.state, 0o700); err != nil {
		w.t.Fatal(err)
	}
	store, err := sqlite.Open(w.t.Context(), w.state, sqlite.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.engine.store = store
	do(w.engine)
	if err := store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// decode reads the envelope that a command printed.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var e struct {
		Status string
		Data   T
		Error  *ErrorBody
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return e.Data
}

var _ io.Writer = (*buffer)(nil)
var _ = joblog.Position{}
