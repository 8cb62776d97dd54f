package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Build says which program this is.
type Build struct {
	Version, Commit, Date string
}

// Keeper is the background holder of the state directory, as a command uses it.
type Keeper interface {
	// Take hands a run over: when it returns nil the keeper drives it.
	Take(ctx context.Context, run sdk.ID) error
	// Wake starts a keeper if none is there, so that runs without a holder are
	// taken up.
	Wake(ctx context.Context) error
	// State says in one line whether a keeper runs; ok is false for one that
	// doesn't answer.
	State(ctx context.Context) (line string, ok bool)
}

// Session is what commands that work with runs need, opened together.
type Session struct {
	Store  ledger.Store
	Engine Engine
	// Workloads operates live workloads.
	Workloads *control.WorkloadRuntime
	Providers control.Providers
	// Keeper is nil where none may be used: with WINDLASS_KEEPER=off.
	Keeper Keeper
	// Mind, when not nil, looks after a run that others drive until ctx ends:
	// where its holder dies, it finds another.
	Mind func(ctx context.Context, run sdk.ID)
	// ReadOnly: the state folder can't be written, so nobody looks after runs.
	ReadOnly bool
	// Close frees what was opened with the session, the store aside. Runs that
	// are held are released, jobs go on.
	Close func(ctx context.Context) error
}

// Factory gives commands what they need. Each part is opened when it is first
// asked for; tests replace the fields.
type Factory struct {
	Streams *Streams
	Build   Build
	Env     config.Env
	// Dir is the submitter's folder, absolute.
	Dir string
	Now func() time.Time
	// Drivers lists what this program can run on.
	Drivers func() []sdk.Driver
	// KnownVars are variables of ours that are no settings.
	KnownVars []string
	// OpenStore opens the ledger. A state folder without one gets it.
	OpenStore func(ctx context.Context, dir string, a Access) (ledger.Store, error)
	// HasStore reports whether a state folder has a ledger.
	HasStore func(dir string) bool
	// OpenSession opens logs, providers and engine over a store.
	OpenSession func(ctx context.Context, r SessionRequest) (*Session, error)

	// Answers asks whether the engine of a provider answers, and makes nothing;
	// nil asks none.
	Answers func(ctx context.Context, c *config.Config, provider string) bool

	// StartPocket starts the pocket clouds of this program.
	StartPocket func(ctx context.Context, r PocketRequest) (*PocketClouds, error)

	// Kill ends at once the processes that this one has started for its own use, and waits
	// for none; nil is none. Jobs aren't among them.
	Kill func()

	// configFile is the flag --config.
	configFile string
	interrupts *interrupts
	// left: the person at the terminal waits for nothing any more.
	left atomic.Bool
	// quietTime is the constant of this name but in tests.
	quietTime time.Duration

	mu      sync.Mutex
	config  *config.Config
	store   ledger.Store
	session *Session
	// learned are the drivers of providers that plugins serve.
	learned map[string]*sdk.Driver
}

// Access is what a ledger is opened for.
type Access int

const (
	// ToWrite opens a sound ledger that can be written.
	ToWrite Access = iota
	// ToRead opens a sound ledger, also one that can't be written.
	ToRead
	// ToInspect opens any ledger, also one that is damaged, for looking at it.
	ToInspect
)

// SessionRequest is what a session is made of.
type SessionRequest struct {
	Config   *config.Config
	Store    ledger.Store
	StateDir string
	// Dir is the submitter's folder, ConfigFile the flag --config.
	Dir, ConfigFile string
	Version         string
	// ReadOnly: the state folder can't be written.
	ReadOnly bool
	// Warn takes sentences for the person at the terminal.
	Warn func(run sdk.ID, message string)
}

// cfg returns the configuration, read once.
func (f *Factory) cfg() (*config.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config != nil {
		return f.config, nil
	}
	r := config.LoadRequest{Env: f.Env, Dir: f.Dir, ExplicitFile: f.configFile, KnownVars: f.KnownVars}
	if f.configFile != "" {
		r.Flags = map[string]string{"config": f.configFile}
	}
	c, err := config.Load(context.Background(), r)
	if err != nil {
		// All that is wrong is told at once, also what only the drivers see.
		if _, all := config.Check(context.Background(), r, f.Drivers()); all != nil {
			err = all
		}
		return nil, err
	}
	f.config = c
	return c, nil
}

// ledger returns the store for reading, opened once: it may be one that can't
// be written. A ledger that was never made is NotFound, and isn't made by looking.
func (f *Factory) ledger(ctx context.Context) (ledger.Store, error) {
	c, err := f.cfg()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store != nil {
		return f.store, nil
	}
	dir, err := c.StatePath()
	if err != nil {
		return nil, err
	}
	if !f.HasStore(dir) {
		return nil, &sdk.Error{Code: sdk.NotFound, Op: "open ledger", ID: idNoLedger, Err: fmt.Errorf("%s has none", dir),
			Remedy: "the first windlass run makes it; WINDLASS_STATE names another folder"}
	}
	if f.store, err = f.openStore(ctx, c, ToRead); err != nil {
		return nil, err
	}
	return f.store, nil
}

// ledgerToChange is ledger for what changes something: one that can't be written
// is refused before anything is done.
func (f *Factory) ledgerToChange(ctx context.Context) (ledger.Store, error) {
	store, err := f.ledger(ctx)
	if err != nil {
		return nil, err
	}
	if err := store.Writable(); err != nil {
		return nil, err
	}
	return store, nil
}

// openStore opens the ledger, which is made if it isn't there.
func (f *Factory) openStore(ctx context.Context, c *config.Config, a Access) (ledger.Store, error) {
	stateDir := c.StateDir
	if a != ToWrite {
		stateDir = c.StateDirToRead
	}
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	store, err := f.OpenStore(ctx, dir, a)
	if err != nil {
		return nil, err
	}
	if readOnly(store) {
		f.Streams.note("%s can't be written: it is read as it is, and nothing looks after its runs", dir)
	}
	return store, nil
}

// readOnly reports that a store's folder can't be written.
func readOnly(store ledger.Store) bool {
	var e *sdk.Error
	return errors.As(store.Writable(), &e) && e.Code == sdk.FailedPrecondition
}

// open returns the session, opened once.
func (f *Factory) open(ctx context.Context) (*Session, error) {
	c, err := f.cfg()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.session != nil {
		return f.session, nil
	}
	if f.OpenSession == nil {
		return nil, &sdk.Error{Code: sdk.Unimplemented, Op: "open engine", ID: idNothingHere, Err: errors.New("this build has no engine")}
	}
	if f.store == nil {
		if f.store, err = f.openStore(ctx, c, ToWrite); err != nil {
			return nil, err
		}
	}
	dir, err := c.StatePath() // the store's folder, which was checked
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		f.Streams.note("%s", w)
	}
	f.session, err = f.OpenSession(ctx, SessionRequest{Config: c, Store: f.store, StateDir: dir, Dir: f.Dir,
		ConfigFile: f.configFile, Version: f.Build.Version, ReadOnly: readOnly(f.store),
		Warn: func(id sdk.ID, message string) { f.Streams.note("%s", message) }})
	if err != nil {
		return nil, err
	}
	return f.session, nil
}

// resolve opens the session for an existing ledger and finds a run, to do
// something with it.
func (f *Factory) resolve(ctx context.Context, ref string) (*Session, ledger.Run, error) {
	return f.find(ctx, ref, f.ledgerToChange)
}

// look is resolve for what only reads.
func (f *Factory) look(ctx context.Context, ref string) (*Session, ledger.Run, error) {
	return f.find(ctx, ref, f.ledger)
}

func (f *Factory) find(ctx context.Context, ref string, open func(context.Context) (ledger.Store, error)) (*Session, ledger.Run, error) {
	if _, err := open(ctx); err != nil {
		if sdk.CodeOf(err) != sdk.NotFound {
			return nil, ledger.Run{}, err
		}
		return nil, ledger.Run{}, &sdk.Error{Code: sdk.NotFound, Op: "find run", ID: idNoRun,
			Err: fmt.Errorf("%q: there are no runs here yet", ref), Remedy: "windlass run makes the first; WINDLASS_STATE names another state folder"}
	}
	s, err := f.open(ctx)
	if err != nil {
		return nil, ledger.Run{}, err
	}
	run, err := s.Engine.Resolve(ctx, ref)
	return s, run, err
}

// attend sees to it that somebody drives an open run: the keeper, or this
// command where there is none.
func (f *Factory) attend(ctx context.Context, s *Session, run ledger.Run) error {
	if !run.Open() || s.ReadOnly {
		return nil
	}
	if s.Keeper != nil {
		return s.Keeper.Wake(ctx)
	}
	_, err := s.Engine.Recover(ctx, run.Provider)
	return err
}

// mind looks after runs in the background until stop is called.
func (s *Session) mind(ctx context.Context, runs ...sdk.ID) (stop func()) {
	if s.Mind == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, id := range runs {
		wg.Go(func() { s.Mind(ctx, id) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// closeTime bounds how long a command may take to release what it holds, quitTime how long
// one that was interrupted may, and leaveTime one that the person at the terminal has left.
const (
	closeTime = 15 * time.Second
	quitTime  = time.Second
	leaveTime = 100 * time.Millisecond
)

// release frees what was opened, within limit. Whoever has left, or signals meanwhile, waits
// for nobody: what isn't released by then ends with this process, which is what a kill of it
// does, and whoever comes next goes on from what is on record.
func (f *Factory) release(ctx context.Context, limit time.Duration) {
	if f.left.Load() {
		limit = leaveTime
	}
	ctx, cut := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cut()
	f.interrupts.handle(func(int, os.Signal) { cut() })
	var err error // read once done is closed
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f.close(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		f.kill()
		if limit < closeTime || errors.Is(ctx.Err(), context.Canceled) {
			// A moment, for what has waited for a process that is gone now.
			within(leaveTime, func() { <-done })
			return
		}
		<-done
	}
	if err != nil && !f.left.Load() {
		f.Streams.note("close: %v", err)
	}
}

// kill is Kill, if there is anything to kill.
func (f *Factory) kill() {
	if f.Kill != nil {
		f.Kill()
	}
}

// exit ends the process at once, with what it has started for its own use.
func (f *Factory) exit(code int) {
	f.kill()
	os.Exit(code)
}

// within waits for something, but not longer than a time.
func within(limit time.Duration, wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// close frees what was opened.
func (f *Factory) close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	if f.session != nil && f.session.Close != nil {
		errs = append(errs, f.session.Close(ctx))
	}
	if f.store != nil {
		errs = append(errs, f.store.Close())
	}
	f.session, f.store = nil, nil
	return errors.Join(errs...)
}

// workingDir is the process's folder; empty when it is gone.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// NewFactory returns a factory for this process, with what a composition root
// must still set left out: Drivers, OpenStore, HasStore, OpenSession.
func NewFactory(b Build) *Factory {
	env := config.Environ()
	return &Factory{Build: b, Env: env, Streams: SystemStreams(env), Dir: workingDir(), Now: time.Now, KnownVars: jobVars()}
}

// jobVars are variables that jobs get, and hand on to a windlass that they run;
// and those of a build for tests.
func jobVars() []string {
	return []string{"WINDLASS_RUN", "WINDLASS_ATTEMPT", "WINDLASS_FAILPOINT", "WINDLASS_FAILPOINT_LOG"}
}
