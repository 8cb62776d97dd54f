package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// Opened is the providers of one command's surroundings. Its secrets must be
// resolved by secret.Elsewhere, but for what a call's context brings.
type Opened interface {
	// Backend opens a provider by name.
	Backend(ctx context.Context, name string) (control.Backend, error)
	// Find opens the provider that has an identity: the one of that name, else
	// another.
	Find(ctx context.Context, name string, id sdk.Identity) (control.Backend, error)
	Names() []string
	// Plugin hosts a plugin for one user, until its lease is released; told is what it is
	// initialized with, pluginhost.Request.Told.
	Plugin(ctx context.Context, name string, told json.RawMessage) (*pluginhost.Lease, error)
	// Outdated lists the kinds of plugins whose programs have changed since they were
	// asked for. It asks no process.
	Outdated() []string
	// Schemes resolve the references of this command's own runs.
	Schemes() map[string]secret.Scheme
	Close() error
}

// openTime bounds the opening of surroundings.
const openTime = 10 * time.Second

// spareSurroundings is how many of them stay open that drive nothing.
const spareSurroundings = 4

// crowd is how many surroundings are many.
const crowd = 32

type originKey [sha256.Size]byte

// surroundings are those of one command.
type surroundings struct {
	key    originKey
	origin Origin
	// home marks the keeper's own, which resolve no secrets and stay.
	home  bool
	ready chan struct{}
	// opened and err are set before ready is closed.
	opened Opened
	err    error

	// What follows is the pool's, under its lock.

	refs int
	// retired: replaced or not needed any more; closed once nothing uses them.
	retired bool
	closed  bool
	// fed are runs whose input the providers here may still read.
	fed map[sdk.ID]bool
}

// pool opens providers from the surroundings of the commands that handed their
// runs over. A run's launches come from its own command's, and so do its
// secrets; all else about it may be asked with any in which its provider has
// the same identity: that is how renewed credentials reach it.
type pool struct {
	open func(ctx context.Context, o Origin) (Opened, error)
	log  *slog.Logger
	// holds reports whether a run is driven here; nil is that each is that a provider
	// was opened for. It is asked without the lock.
	holds func(run sdk.ID) bool

	mu sync.Mutex
	// list is in order of the last offer, the newest last.
	list []*surroundings
	// retired are out of the list and not closed yet.
	retired map[*surroundings]bool
	bound   map[sdk.ID]*surroundings
	stables map[string]*stable
	used    map[sdk.ID]*stable
	closed  bool
	wg      sync.WaitGroup
}

var _ control.Providers = (*pool)(nil)

func newPool(open func(ctx context.Context, o Origin) (Opened, error), log *slog.Logger) *pool {
	return &pool{open: open, log: log, retired: map[*surroundings]bool{}, bound: map[sdk.ID]*surroundings{}, stables: map[string]*stable{}, used: map[sdk.ID]*stable{}}
}

func keyOf(o Origin) (originKey, error) {
	b, err := json.Marshal(o)
	return sha256.Sum256(b), err
}

// offer opens surroundings, unless they are open, and binds runs to them. news
// says that there are providers now which there were not before.
func (p *pool) offer(ctx context.Context, o Origin, home bool, runs ...sdk.ID) (news bool, err error) {
	key, err := keyOf(o)
	if err != nil {
		return false, err
	}
	news = p.renew(ctx)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false, sdk.Errorf(sdk.Unavailable, "take surroundings", "the keeper is leaving")
	}
	i := slices.IndexFunc(p.list, func(s *surroundings) bool { return s.key == key && s.home == home })
	var s, before *surroundings
	if i >= 0 {
		s = p.list[i]
		p.list = slices.Delete(p.list, i, i+1)
		if p.refused(s) || s.failed() {
			// The same command again, after something refused its credentials:
			// what its vendor's chain finds may be new.
			before, s = s, nil
		}
	}
	if s == nil {
		news = true
		s = p.begin(ctx, key, o, home)
	}
	p.list = append(p.list, s)
	if before != nil {
		p.replace(before, s)
	}
	for _, id := range runs {
		p.bound[id] = s
	}
	p.mu.Unlock()
	select {
	case <-s.ready:
		return news, s.err
	case <-ctx.Done():
		return news, context.Cause(ctx)
	}
}

// begin begins to open surroundings; the lock is held.
func (p *pool) begin(ctx context.Context, key originKey, o Origin, home bool) *surroundings {
	s := &surroundings{key: key, origin: o, home: home, ready: make(chan struct{}), fed: map[sdk.ID]bool{}}
	p.wg.Go(func() { p.fill(context.WithoutCancel(ctx), s) })
	return s
}

// replace has s in the place of surroundings that were opened before; the lock is held.
func (p *pool) replace(before, s *surroundings) {
	for id, b := range p.bound {
		if b == before {
			p.bound[id] = s
		}
	}
	p.retire(before)
}

// renew opens surroundings again in which a plugin's program has changed: what comes is
// served by the new one. Where runs are driven on such a plugin they keep all as it is,
// until the last of them has ended. It reports whether anything is new.
func (p *pool) renew(ctx context.Context) (news bool) {
	for _, s := range p.newest() {
		opened := s.now()
		if opened == nil {
			continue
		}
		kinds := opened.Outdated()
		if len(kinds) == 0 || p.driving(s, kinds) {
			continue
		}
		p.mu.Lock()
		if i := slices.Index(p.list, s); i >= 0 && !p.closed {
			p.log.Info("a plugin's program has changed: its providers are opened again", "plugins", kinds, "origin", s.origin)
			p.list[i] = p.begin(ctx, s.key, s.origin, s.home)
			p.replace(s, p.list[i])
			news = true
		}
		p.mu.Unlock()
	}
	return news
}

// driving reports whether runs are driven on some kinds of providers of surroundings.
func (p *pool) driving(s *surroundings, kinds []string) bool {
	p.mu.Lock()
	var runs []sdk.ID
	for id, st := range p.used {
		if slices.Contains(kinds, st.id.Kind) && (st.current == s || p.bound[id] == s) {
			runs = append(runs, id)
		}
	}
	p.mu.Unlock()
	return slices.ContainsFunc(runs, func(id sdk.ID) bool { return p.holds == nil || p.holds(id) })
}

func (p *pool) fill(ctx context.Context, s *surroundings) {
	defer close(s.ready)
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	s.err = safely(p.log, "open surroundings", s.redact, func() (err error) {
		s.opened, err = p.open(ctx, s.origin)
		return err
	})
	if s.err == nil && s.opened == nil {
		s.err = sdk.Errorf(sdk.Internal, "open surroundings", "%s gave nothing", s.origin)
	}
}

// redact takes the values of all variables out of a text: which of them hide
// something is known only once a provider was opened.
func (s *surroundings) redact(text string) string {
	var r secret.Redactor
	for _, v := range s.origin.Env {
		_, value, _ := strings.Cut(string(v), "=")
		r.Know(sdk.NewSecretValue([]byte(value)))
	}
	return r.Redact(text)
}

// failed reports whether opening is known to have failed.
func (s *surroundings) failed() bool {
	select {
	case <-s.ready:
		return s.err != nil
	default:
		return false
	}
}

// refused reports whether a backend refused the credentials of s.
func (p *pool) refused(s *surroundings) bool {
	for _, st := range p.stables {
		if len(st.bad[s]) > 0 {
			return true
		}
	}
	return false
}

// retire takes surroundings out of use.
func (p *pool) retire(s *surroundings) {
	s.retired = true
	p.retired[s] = true
	for _, st := range p.stables {
		st.forget(s)
	}
	p.closeUnused(s)
}

// closeUnused closes retired surroundings that nothing uses any more.
func (p *pool) closeUnused(s *surroundings) {
	if !s.retired || s.closed || s.refs > 0 || len(s.fed) > 0 {
		return
	}
	s.closed = true
	delete(p.retired, s)
	p.wg.Go(func() {
		<-s.ready
		if s.opened == nil {
			return
		}
		if err := s.opened.Close(); err != nil {
			p.log.Warn("surroundings not closed", "origin", s.origin, "err", err)
		}
	})
}

// holdLocked keeps surroundings open until release is called.
func (p *pool) holdLocked(s *surroundings) (release func()) {
	s.refs++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.refs--
		p.closeUnused(s)
	}
}

// schemes are those of a run's own command; nil when it is not known any more.
func (p *pool) schemes(ctx context.Context, run sdk.ID) map[string]secret.Scheme {
	p.mu.Lock()
	s := p.bound[run]
	p.mu.Unlock()
	if s == nil || s.home {
		return nil
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil
	}
	if s.opened == nil {
		return nil
	}
	return s.opened.Schemes()
}

// crowded reports whether so many surroundings are open that prune is due.
func (p *pool) crowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) > crowd && len(p.list) > 2*len(p.bound)
}

// prune forgets what no run needs any more. open tells whether a run still has
// something left to do.
func (p *pool) prune(held []sdk.ID, open func(sdk.ID) bool) {
	holds := map[sdk.ID]bool{}
	for _, id := range held {
		holds[id] = true
	}
	p.mu.Lock()
	var ask []sdk.ID
	for id := range p.bound {
		if !holds[id] {
			ask = append(ask, id)
		}
	}
	p.mu.Unlock()
	over := map[sdk.ID]bool{}
	for _, id := range ask {
		over[id] = !open(id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := map[*surroundings]bool{}
	for id, s := range p.bound {
		if over[id] {
			delete(p.bound, id)
			continue
		}
		keep[s] = true
	}
	live := map[*stable]bool{}
	for id, st := range p.used {
		if !holds[id] {
			delete(p.used, id)
			continue
		}
		live[st] = true
	}
	for st := range live {
		if st.current != nil {
			keep[st.current] = true
		}
	}
	spare := 0
	var retired []*surroundings
	for _, s := range slices.Backward(p.list) {
		switch {
		case s.home || keep[s]:
		case spare < spareSurroundings:
			spare++
		default:
			retired = append(retired, s)
		}
		s.unfeed(holds)
	}
	p.list = slices.DeleteFunc(p.list, func(s *surroundings) bool { return slices.Contains(retired, s) })
	for _, s := range retired {
		p.retire(s)
	}
	for s := range p.retired {
		s.unfeed(holds)
		p.closeUnused(s)
	}
}

// unfeed forgets the input of runs that aren't held any more.
func (s *surroundings) unfeed(holds map[sdk.ID]bool) {
	maps.DeleteFunc(s.fed, func(id sdk.ID, _ bool) bool { return !holds[id] })
}

// known returns what a successor needs: the surroundings with the runs that
// came from them, the newest first and within the bound of a message.
func (p *pool) known() []Bound {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := map[*surroundings][]sdk.ID{}
	for id, s := range p.bound {
		runs[s] = append(runs[s], id)
	}
	var out []Bound
	size := 0
	for _, s := range slices.Backward(p.list) {
		if s.home {
			continue
		}
		b := Bound{Origin: s.origin, Runs: runs[s]}
		j, err := json.Marshal(b)
		if size += len(j); err != nil || size > maxMessage*3/4 {
			break
		}
		out = append(out, b)
	}
	slices.Reverse(out) // so that the newest is offered last
	return out
}

// Backend opens a provider of the newest surroundings that have it.
func (p *pool) Backend(ctx context.Context, name string) (control.Backend, error) {
	var first error
	for _, s := range p.newest() {
		b, err := p.in(ctx, s, func(o Opened) (control.Backend, error) { return o.Backend(ctx, name) })
		if err == nil {
			return b, nil
		}
		if first == nil {
			first = err
		}
	}
	return control.Backend{}, orNone(first)
}

// newest lists all surroundings, the newest first.
func (p *pool) newest() []*surroundings {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.list)
	slices.Reverse(out)
	return out
}

// now is what was opened of surroundings; nil while that goes on, and where it failed.
func (s *surroundings) now() Opened {
	select {
	case <-s.ready:
		return s.opened
	default:
		return nil
	}
}

// in asks surroundings once they are open.
func (p *pool) in(ctx context.Context, s *surroundings, ask func(Opened) (control.Backend, error)) (b control.Backend, err error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return b, context.Cause(ctx)
	}
	if s.err != nil {
		return b, s.err
	}
	err = safely(p.log, "open provider", s.redact, func() (err error) {
		b, err = ask(s.opened)
		return err
	})
	return b, err
}

func orNone(err error) error {
	if err == nil {
		return &sdk.Error{Code: sdk.Unauthenticated, Op: "open provider", Remedy: "run any command that uses the provider, such as windlass wait",
			Err: errors.New("no command has handed its surroundings over yet")}
	}
	return err
}

// BackendFor opens the provider of a run, behind a wrapper that stays while
// surroundings come and go.
func (p *pool) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	st := p.stable(run)
	src, err := st.pick(ctx, "", sdk.ID{}, run.ID, nil)
	if err != nil {
		return control.Backend{}, err
	}
	src.release()
	p.mu.Lock()
	p.used[run.ID] = st
	p.mu.Unlock()
	b := src.backend
	if own, ok := p.own(ctx, run); ok {
		b.PollInterval, b.CallTimeout, b.MaxInFlight, b.SubmitRate = own.PollInterval, own.CallTimeout, own.MaxInFlight, own.SubmitRate
	}
	b.Provider, b.Name = st, run.Provider
	return b, nil
}

// own opens a run's provider in the surroundings of the run's own command: its
// configuration may be another than that of the connection in use, and has the
// bounds that the run was asked for under.
func (p *pool) own(ctx context.Context, run ledger.Run) (b control.Backend, ok bool) {
	p.mu.Lock()
	s := p.bound[run.ID]
	if s == nil || s.closed {
		p.mu.Unlock()
		return b, false
	}
	release := p.holdLocked(s)
	p.mu.Unlock()
	defer release()
	b, err := p.in(ctx, s, func(o Opened) (control.Backend, error) { return o.Find(ctx, run.Provider, run.Identity) })
	return b, err == nil
}

func (p *pool) stable(run ledger.Run) *stable {
	key := run.Provider + "\x00" + run.Identity.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.stables[key]
	if st == nil {
		st = newStable(p, run.Provider, run.Identity)
		p.stables[key] = st
	}
	return st
}

// Names lists the providers of all surroundings.
func (p *pool) Names() []string {
	seen := map[string]bool{}
	for _, s := range p.newest() {
		if opened := s.now(); opened != nil {
			for _, n := range opened.Names() {
				seen[n] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// aside runs f beside, and close waits for it. It returns false when the pool is closed.
func (p *pool) aside(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Go(f)
	return true
}

// close closes everything, within ctx.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	all := slices.AppendSeq(p.list, maps.Keys(p.retired))
	p.list = nil
	for _, s := range all {
		s.refs, s.fed = 0, nil
		p.retire(s)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		p.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close providers: %w", context.Cause(ctx))
	}
}
