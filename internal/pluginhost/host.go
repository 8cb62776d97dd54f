package pluginhost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost/iac"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// StartTime is how long a plugin may take until it is ready.
	StartTime = 15 * time.Second
	// idleTime is how long a process stays that nobody needs.
	idleTime = time.Minute
	// Pauses between a process that ended and the next: none after the first, then
	// from firstPause doubled up to maxPause. One that lived for steadyTime is a first
	// one again.
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
	steadyTime = time.Minute
	// waitTime is how much of a pause a caller waits for instead of failing.
	waitTime = time.Second
)

// Options are what a host works with.
type Options struct {
	Log *slog.Logger
	// Redact takes secret values out of what plugins say; nil leaves all.
	Redact func(text string) string
	// Know, when not nil, learns the secret values that plugins get.
	Know func(value sdk.SecretValue)
	// TempDir is where folders for sockets are made, which need short names; empty is
	// the system's.
	TempDir string
	// MTLS has host and plugin prove themselves by certificates of their own, also where
	// a private socket does. Then only this process can speak to the plugin. Windows
	// always has it.
	MTLS bool
	// StartTime, Probe and Idle replace StartTime, probeTime and idleTime.
	StartTime, Probe, Idle time.Duration
	Clock                  sdk.Clock
}

func (o Options) filled() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.StartTime == 0 {
		o.StartTime = StartTime
	}
	if o.Probe == 0 {
		o.Probe = probeTime
	}
	if o.Idle == 0 {
		o.Idle = idleTime
	}
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	return o
}

// Request says which process of a plugin is wanted.
type Request struct {
	Plugin config.Plugin
	// Env is its whole environment, NAME=value.
	Env []string
	// Told, when not nil, is what a plugin of the published wire is initialized with, once
	// for its process: those who want the same share it.
	Told json.RawMessage
}

// key is the same for requests that share a process.
func (r Request) key() [sha256.Size]byte {
	told, err := sdk.CanonicalJSON(r.Told)
	if err != nil {
		told = r.Told // a float, for one
	}
	return sha256.Sum256([]byte(strings.Join(append([]string{r.Plugin.Path, r.Plugin.Checksum, string(told)}, r.Env...), "\x00")))
}

// Lease is the use of a plugin's process. The process stays until it is released, unless
// it ends by itself.
type Lease struct {
	Conn grpc.ClientConnInterface
	// Address is the process's socket; empty where only its host may speak to it.
	Address  string
	Contract Contract
	// Done is closed when the process has ended, or can't be used any more.
	Done <-chan struct{}
	// Why says how it ended, once Done is closed.
	Why func() error
	// Doubt says that a call has failed as if nobody was there: a process that answers
	// nothing at all is ended. It returns at once.
	Doubt func()
	// Know has the host take a value out of what the plugin says, from when it returns on.
	Know func(value sdk.SecretValue)
	// Outdated reports whether the plugin's program isn't the one that the process was
	// started with any more, or would be refused now. It is nil where that isn't known.
	Outdated func() bool
	// Release ends the use.
	Release func()
}

// Source gives processes of plugins.
type Source interface {
	// Process starts a plugin's process, or shares the one that is there. It is
	// Unavailable where the process doesn't get ready, or has ended too often.
	Process(ctx context.Context, r Request) (*Lease, error)
}

// Host starts and supervises plugins' processes. It is safe for concurrent use.
type Host struct {
	o Options

	mu     sync.Mutex
	places map[[sha256.Size]byte]*place
	// retired are places whose process is only for those that use it: its program has
	// changed.
	retired map[*place]bool
	// started are the processes that haven't ended, whoever has them.
	started map[*process]bool
	closed  bool
	// killed: what is started from now on is killed.
	killed bool
	swept  sync.Once
	wg     sync.WaitGroup
}

var _ Source = (*Host)(nil)

// place is where one process is, or will be.
type place struct {
	lock chan struct{} // held while it is started

	// What follows is under the host's lock.

	proc  *process
	began time.Time
	users int
	// failed counts the processes in a row that didn't last; next is when another may
	// be started, cause what became of the last.
	failed int
	next   time.Time
	cause  error
	idle   *time.Timer

	// program is the file that was started last, and sum its SHA-256; under lock.
	program fs.FileInfo
	sum     string
}

// New returns a host that has started nothing yet.
func New(o Options) *Host {
	return &Host{o: o.filled(), places: map[[sha256.Size]byte]*place{}, retired: map[*place]bool{}, started: map[*process]bool{}}
}

// Process implements Source.
func (h *Host) Process(ctx context.Context, r Request) (*Lease, error) {
	key := r.key()
	pl, proc, err := h.find(ctx, key, r)
	if err != nil {
		return nil, err
	}
	l := &Lease{Conn: proc.conn, Address: proc.address, Contract: proc.contract, Done: proc.done(), Why: proc.why,
		Doubt:    func() { h.spawn(func() { proc.doubt(h.o.Probe) }) },
		Know:     h.know,
		Outdated: func() bool { return h.outdated(key, pl, proc) },
		Release:  sync.OnceFunc(func() { h.leave(key, pl) })}
	if r.Told != nil {
		if err := h.initialize(ctx, pl, proc, watched{l, r.Plugin.Name}, r); err != nil {
			h.giveUp(key, pl)
			l.Release()
			return nil, err
		}
	}
	return l, nil
}

// find returns the place of a request's process, with a use of it, and the process. One
// whose program has changed is left to those that use it.
func (h *Host) find(ctx context.Context, key [sha256.Size]byte, r Request) (*place, *process, error) {
	for {
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return nil, nil, errClosed(r.Plugin.Name)
		}
		pl := h.places[key]
		if pl == nil {
			pl = &place{lock: make(chan struct{}, 1)}
			h.places[key] = pl
		}
		pl.users++
		h.mu.Unlock()
		proc, err := h.ready(ctx, key, pl, r)
		if err == nil {
			return pl, proc, nil
		}
		h.leave(key, pl)
		if !errors.Is(err, errRetired) {
			return nil, nil, err
		}
	}
}

// errRetired is that a place takes no new users.
var errRetired = errors.New("the place is retired")

// retire keeps new users from a place. Its process ends with the last that it has.
func (h *Host) retire(key [sha256.Size]byte, pl *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.places[key] == pl && !h.closed {
		delete(h.places, key)
		h.retired[pl] = true
	}
}

// outdated reports whether a process of a place isn't the one that would be started now. It
// waits for nobody: while the place is busy, the process is as good as new.
func (h *Host) outdated(key [sha256.Size]byte, pl *place, proc *process) bool {
	select {
	case pl.lock <- struct{}{}:
	default:
		return false
	}
	defer func() { <-pl.lock }()
	if h.isRetired(pl) {
		return true
	}
	if proc.current() {
		return false
	}
	h.mu.Lock()
	mine := h.places[key] == pl && pl.proc == proc && pl.users > 0
	h.mu.Unlock()
	if mine {
		h.retire(key, pl) // so that nobody reads the program again
	}
	return true
}

func (h *Host) isRetired(pl *place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retired[pl]
}

func errClosed(name string) error {
	return &sdk.Error{Code: sdk.Unavailable, Op: "start plugin " + name, Unreached: true, Err: errors.New("the host of plugins is closing")}
}

// spawn does something that Close waits for.
func (h *Host) spawn(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.wg.Go(do)
	}
}

// ready returns the place's process, started if there is none. It is errRetired where that
// isn't for new users.
func (h *Host) ready(ctx context.Context, key [sha256.Size]byte, pl *place, r Request) (*process, error) {
	select {
	case pl.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, unreached(ctx, r.Plugin.Name)
	}
	defer func() { <-pl.lock }()
	if h.isRetired(pl) {
		return nil, errRetired
	}
	if proc := h.live(pl); proc != nil {
		if proc.current() {
			return proc, nil
		}
		h.o.Log.Info("a plugin's program has changed: its process is for those alone that use it", "plugin", r.Plugin.Name, "process", proc.child.ID())
		h.retire(key, pl)
		return nil, errRetired
	}
	if err := h.pause(ctx, pl, r.Plugin); err != nil {
		return nil, err
	}
	h.swept.Do(func() { sweep(temp(&h.o)) })
	for _, v := range r.Env {
		if _, value, _ := strings.Cut(v, "="); value != "" {
			h.know(sdk.NewSecretValue([]byte(value)))
		}
	}
	for _, config := range []json.RawMessage{r.Plugin.Config, r.Told} {
		for _, v := range secretsIn(sdk.Schema{}, config) {
			h.know(v)
		}
	}
	began := h.o.Clock.Now()
	was, begun := pl.sum, false
	proc, err := start(ctx, &h.o, r.Plugin, r.Env, func(proc *process) func() {
		begun, pl.program, pl.sum = true, proc.program, proc.sum
		return h.born(proc)
	})
	if begun && was != pl.sum {
		h.forgive(pl)
	}
	if err != nil {
		if begun && ctx.Err() == nil { // what was refused hasn't ended
			h.mu.Lock()
			h.failed(pl, err)
			h.mu.Unlock()
		}
		return nil, err
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		proc.stop()
		return nil, errClosed(r.Plugin.Name)
	}
	pl.proc = proc
	pl.began = began
	h.wg.Go(func() {
		<-proc.done()
		h.mu.Lock()
		h.gone(pl, proc)
		h.mu.Unlock()
		proc.stop()
	})
	h.mu.Unlock()
	h.o.Log.Info("plugin started", "plugin", r.Plugin.Name, "version", proc.contract.Manifest.Version, "process", proc.child.ID())
	return proc, nil
}

func (h *Host) know(v sdk.SecretValue) {
	if h.o.Know != nil {
		h.o.Know(v)
	}
}

// initialize tells the place's process its configuration, unless that was done.
func (h *Host) initialize(ctx context.Context, pl *place, proc *process, conn watched, r Request) error {
	select {
	case pl.lock <- struct{}{}:
	case <-ctx.Done():
		return unreached(ctx, proc.plugin.Name)
	}
	defer func() { <-pl.lock }()
	if proc.told {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.o.StartTime)
	defer cancel()
	err := iac.Initialize(ctx, "initialize plugin "+r.Plugin.Name, conn, r.Told)
	proc.told = err == nil
	return from(err, r)
}

// from has a plugin's refusal of what it was told say where that stands.
func from(err error, r Request) error {
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.InvalidArgument && e.Code != sdk.FailedPrecondition {
		return err
	}
	var at []string
	if r.Plugin.Config != nil {
		at = append(at, fmt.Sprintf("plugins.%s.config (%s)", r.Plugin.Name, r.Plugin.Where("config")))
	}
	if string(r.Told) != cmp.Or(string(r.Plugin.Config), "{}") {
		at = append(at, "config.plugin of the provider")
	}
	if len(at) == 0 {
		return err // it was told nothing
	}
	out := *e
	out.Err = fmt.Errorf("%w; it was told what stands under %s", e.Err, strings.Join(at, " and "))
	return &out
}

// giveUp stops a process that can't be initialized and has no other user: what it makes
// of a second try isn't known.
func (h *Host) giveUp(key [sha256.Size]byte, pl *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pl.users == 1 && !h.closed {
		h.drop(key, pl)
	}
}

func unreached(ctx context.Context, name string) error {
	return &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: "start plugin " + name, Unreached: true, Err: context.Cause(ctx)}
}

// live returns the place's process where it hasn't ended.
func (h *Host) live(pl *place) *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pl.proc == nil {
		return nil
	}
	select {
	case <-pl.proc.done():
		h.gone(pl, pl.proc)
		return nil
	default:
		return pl.proc
	}
}

// gone notes that a process has ended which was wanted; the host's lock is held.
func (h *Host) gone(pl *place, proc *process) {
	if pl.proc != proc || h.closed {
		return
	}
	pl.proc = nil
	h.o.Log.Warn("a plugin has ended", "plugin", proc.plugin.Name, "why", proc.why())
	if h.o.Clock.Now().Sub(pl.began) >= steadyTime {
		pl.failed = 0
	}
	h.failed(pl, proc.why())
}

// failed says when the next may be started; the host's lock is held.
func (h *Host) failed(pl *place, cause error) {
	pl.failed++
	pl.cause = cause
	var wait time.Duration
	if pl.failed > 1 {
		wait = min(maxPause, firstPause<<min(pl.failed-2, 20))
	}
	pl.next = h.o.Clock.Now().Add(wait)
}

// forgive forgets the processes that didn't last: they were of another program.
func (h *Host) forgive(pl *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pl.failed, pl.next, pl.cause = 0, time.Time{}, nil
}

// pause keeps a plugin that ends again and again from being started all the time. What
// stands in the place of the program that has ended is no part of that. The place's lock is
// held.
func (h *Host) pause(ctx context.Context, pl *place, p config.Plugin) error {
	h.mu.Lock()
	wait, n, cause := pl.next.Sub(h.o.Clock.Now()), pl.failed, pl.cause
	h.mu.Unlock()
	switch {
	case wait <= 0 || pl.mended(p):
		return nil
	case wait > waitTime:
		in := (wait + time.Second - 1).Truncate(time.Second).String()
		return &sdk.Error{Code: sdk.Unavailable, Op: "start plugin " + p.Name, ID: ErrEnded, Retryable: true, RetryAfter: wait, Unreached: true,
			Err:    fmt.Errorf("it has ended %d times, and is started again in %s: %w", n, in, cause),
			Remedy: "repeat it in " + in + "; a program with other bytes is started at once"}
	case h.o.Clock.Sleep(ctx, wait) != nil:
		return unreached(ctx, p.Name)
	}
	return nil
}

// mended reports whether the program isn't the one any more that was started last, or can't
// be started, of which the start tells. The place's lock is held.
func (pl *place) mended(p config.Plugin) bool {
	info, err := inspect(p)
	if err != nil {
		return true
	}
	if sameFile(info, pl.program) {
		return false
	}
	if sum, err := Sum(p.Path); err != nil || sum != pl.sum {
		return true
	}
	pl.program = info
	return false
}

// leave ends a use. What nobody uses ends after a while, and at once where it is retired.
func (h *Host) leave(key [sha256.Size]byte, pl *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pl.users--; pl.users > 0 || h.closed {
		return
	}
	if pl.idle != nil {
		pl.idle.Stop()
	}
	if h.retired[pl] {
		h.drop(key, pl)
		return
	}
	pl.idle = time.AfterFunc(h.o.Idle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if pl.users == 0 && !h.closed {
			h.drop(key, pl)
		}
	})
}

// drop stops a place's process; the host's lock is held.
func (h *Host) drop(key [sha256.Size]byte, pl *place) {
	if h.places[key] == pl {
		delete(h.places, key)
	}
	delete(h.retired, pl)
	if proc := pl.proc; proc != nil {
		pl.proc = nil
		h.wg.Go(proc.stop)
	}
}

// Close stops all processes, and waits until they have ended.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	for key, pl := range h.places {
		if pl.idle != nil {
			pl.idle.Stop()
		}
		h.drop(key, pl)
	}
	for pl := range h.retired {
		h.drop([sha256.Size]byte{}, pl) // it is in no place
	}
	h.mu.Unlock()
	h.wg.Wait()
	return nil
}

// Kill ends all processes at once, with what they have started, and waits for none of
// them: it is for whoever leaves and can't wait for a process that answers nothing. What
// was being asked of them fails. Close may follow, or be under way.
func (h *Host) Kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.killed = true, true
	for proc := range h.started {
		proc.kill()
	}
}

// born notes a process that is about to be started, until the function that it returns is
// called: it has ended.
func (h *Host) born(proc *process) (ended func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started[proc] = true
	if h.killed {
		proc.kill()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.started, proc)
	}
}
