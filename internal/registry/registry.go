// Package registry opens configured providers: once each, when they are first
// asked for.
package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// Options are what providers are opened with.
type Options struct {
	Config  *config.Config
	Drivers []sdk.Driver
	// Plugins, when not nil, are kinds whose drivers are asked for when they are needed.
	Plugins     Plugins
	Credentials credential.CredentialResolver
	Secrets     sdk.SecretResolver
	Clock       sdk.Clock
	IDs         sdk.IDSource
	Log         *slog.Logger
	// Redactor, when not nil, learns credentials before a driver has them, and
	// what drivers log passes through it.
	Redactor *secret.Redactor
	// Owner is the installation, LedgerID the ledger.
	Owner, LedgerID string
	// StateDir is the state folder; each kind gets its own folder below it.
	StateDir string
	// Executable is the path under which this program can be started again.
	Executable string
}

// Plugins are the kinds that plugins serve.
type Plugins interface {
	// Kinds returns their names, without starting anything.
	Kinds() []string
	// Named reports whether the configuration names the plugin of a kind: one that
	// only lies in the folder of plugins isn't.
	Named(kind string) bool
	// Driver returns the driver of a kind, whose plugin is started for it.
	Driver(ctx context.Context, kind string) (sdk.Driver, error)
	// CheckEntry says what is wrong with the config that the plugin's entry has for its
	// providers, once Driver was asked; nil where there is none.
	CheckEntry(kind string) error
}

// Backend is an open provider with what its configuration says about its use.
type Backend struct {
	sdk.Provider
	Driver *sdk.Driver
	Name   string
	// PollInterval is the time between two looks, CallTimeout bounds a call.
	PollInterval, CallTimeout time.Duration
	// MaxInFlight bounds concurrent runs, by the configuration or the backend,
	// whichever is lower; 0 is no bound. SubmitRate is submissions a second; 0
	// is no bound.
	MaxInFlight int
	SubmitRate  float64
}

// Registry holds the providers of one configuration. It is safe for concurrent
// use.
type Registry struct {
	o Options

	mu     sync.Mutex
	closed bool
	slots  map[string]*slot
	opened []string
}

// slot holds one provider, or none yet. Its lock is held while it opens, so
// that it opens once and doesn't keep others waiting.
type slot struct {
	lock    chan struct{}
	backend *Backend
}

// New returns a registry that has opened nothing yet.
func New(o Options) *Registry {
	return &Registry{o: o.filled(), slots: map[string]*slot{}}
}

// filled returns the options with defaults for what isn't set.
func (o Options) filled() Options {
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	if o.IDs == nil {
		o.IDs = sdk.NewIDSource(o.Clock)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Redactor != nil {
		o.Log = slog.New(o.Redactor.Handler(o.Log.Handler()))
	}
	if o.Secrets == nil {
		o.Secrets = noSecrets{}
	}
	o.Drivers = slices.Clone(o.Drivers)
	return o
}

// Names returns the names of all providers, sorted.
func (r *Registry) Names() []string { return r.o.Config.ProviderNames() }

// Kinds returns the names of all kinds, sorted.
func (r *Registry) Kinds() []string {
	out := make([]string, 0, len(r.o.Drivers))
	for _, d := range r.o.Drivers {
		out = append(out, d.Kind)
	}
	if r.o.Plugins != nil {
		out = append(out, r.o.Plugins.Kinds()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Driver returns the driver of a kind that is built in.
func (r *Registry) Driver(kind string) (*sdk.Driver, bool) {
	for i := range r.o.Drivers {
		if r.o.Drivers[i].Kind == kind {
			return &r.o.Drivers[i], true
		}
	}
	return nil, false
}

// Default returns the provider for a job when none is named: the configured
// default, else docker for a job with an image and local for one without. It
// doesn't look whether that one works: no other is ever taken instead.
func (r *Registry) Default(image string) string {
	switch {
	case r.o.Config.DefaultProvider != "":
		return r.o.Config.DefaultProvider
	case image != "":
		return "docker"
	}
	return "local"
}

// Get returns the provider of that name, opened. An unknown name is NotFound,
// an unknown kind or a wrong config InvalidArgument; a failure to open is
// tried again by the next Get.
func (r *Registry) Get(ctx context.Context, name string) (Backend, error) {
	p, err := r.o.Config.Provider(name)
	if err != nil {
		return Backend{}, err
	}
	s, err := r.slot(name)
	if err != nil {
		return Backend{}, err
	}
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return Backend{}, fmt.Errorf("open provider %s: %w", name, context.Cause(ctx))
	}
	defer func() { <-s.lock }()
	if s.backend != nil {
		return *s.backend, nil
	}
	if r.isClosed() {
		return Backend{}, errClosed(name)
	}
	b, err := r.open(ctx, p)
	if err != nil {
		return Backend{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return Backend{}, errors.Join(errClosed(name), b.Close())
	}
	s.backend = &b
	r.opened = append(r.opened, name)
	return b, nil
}

// Find returns the provider that has an identity, opened: the one of that name,
// else any other of the same kind. NotFound when there is none; where the
// provider of that name can't be opened, or is another, the error says so.
func (r *Registry) Find(ctx context.Context, name string, id sdk.Identity) (Backend, error) {
	b, first := r.Get(ctx, name)
	if first == nil {
		if first = b.Info().Identity.Check("open provider "+name, id); first == nil {
			return b, nil
		}
	}
	for _, other := range r.Names() {
		if other == name || ctx.Err() != nil {
			continue
		}
		if p, err := r.o.Config.Provider(other); err != nil || p.Kind != id.Kind {
			continue
		}
		if b, err := r.Get(ctx, other); err == nil && b.Info().Identity == id {
			return b, nil
		}
	}
	return Backend{}, first
}

func (r *Registry) slot(name string) (*slot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed(name)
	}
	s, ok := r.slots[name]
	if !ok {
		s = &slot{lock: make(chan struct{}, 1)}
		r.slots[name] = s
	}
	return s, nil
}

func (r *Registry) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func errClosed(name string) error {
	return sdk.Errorf(sdk.FailedPrecondition, "open provider", "%s: the providers were closed", name)
}

func (r *Registry) open(ctx context.Context, p config.Provider) (Backend, error) {
	d, err := r.o.driver(ctx, p)
	if err != nil {
		return Backend{}, err
	}
	err = p.Validate([]sdk.Driver{*d})
	if !slices.ContainsFunc(r.o.Drivers, func(d sdk.Driver) bool { return d.Kind == p.Kind }) {
		err = config.Join(err, r.o.Plugins.CheckEntry(p.Kind))
	}
	if err != nil {
		return Backend{}, err
	}
	if r.o.Credentials == nil {
		return Backend{}, sdk.Errorf(sdk.Internal, "open provider", "%s: no credential resolver", p.Name)
	}
	creds, err := r.o.Credentials.ResolveCredentials(ctx, credential.ResolveRequest{Provider: p.Name, Kind: p.Kind, Mode: p.Credentials, Config: p.Config})
	if err != nil {
		return Backend{}, err
	}
	return openWith(ctx, r.o, d, p, creds)
}

// driver returns the driver of a provider. One kind is never served by two: what lies
// in the folder of plugins takes no kind that is built in, and an entry of the
// configuration that would is refused.
func (o Options) driver(ctx context.Context, p config.Provider) (*sdk.Driver, error) {
	i := slices.IndexFunc(o.Drivers, func(d sdk.Driver) bool { return d.Kind == p.Kind })
	plugin := o.Plugins != nil && slices.Contains(o.Plugins.Kinds(), p.Kind)
	switch {
	case i >= 0 && plugin && o.Plugins.Named(p.Kind):
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: p.Name, Remedy: "give the plugin another name",
			Err: fmt.Errorf("the kind %s is built in, and a plugin has its name", p.Kind)}
	case i >= 0:
		return &o.Drivers[i], nil
	case plugin:
		d, err := o.Plugins.Driver(ctx, p.Kind)
		if err != nil {
			return nil, err
		}
		return &d, nil
	}
	if err := p.Validate(o.Drivers); err != nil {
		return nil, err
	}
	return nil, &sdk.Error{Code: sdk.Unimplemented, Op: "open provider", Provider: p.Name, Err: fmt.Errorf("the kind %s is a plugin's, and none is hosted here", p.Kind)}
}

// Open opens one provider with credentials at hand. The caller closes it. Of
// the options Config and Credentials aren't used; the provider's config must
// have been validated.
func Open(ctx context.Context, o Options, p config.Provider, creds credential.Credentials) (Backend, error) {
	o = o.filled()
	d, err := o.driver(ctx, p)
	if err != nil {
		return Backend{}, err
	}
	return openWith(ctx, o, d, p, creds)
}

func openWith(ctx context.Context, o Options, d *sdk.Driver, p config.Provider, creds credential.Credentials) (Backend, error) {
	for _, v := range creds.Secrets() {
		o.Redactor.Know(v)
	}
	dir, err := driverDir(o.StateDir, p.Kind)
	if err != nil {
		return Backend{}, err
	}
	prov, err := d.Open(ctx, sdk.OpenRequest{
		Name: p.Name, Config: p.Config, Credentials: creds.Reveal(), AmbientCredentials: creds.Ambient(),
		Secrets: o.Secrets, Clock: o.Clock, IDs: o.IDs, Log: o.Log.With("provider", p.Name),
		Owner: o.Owner, LedgerID: o.LedgerID, StateDir: dir, CallTimeout: p.CallTimeout, Executable: o.Executable,
	})
	if err != nil {
		err = o.Redactor.Error(err)
		var e *sdk.Error
		if errors.As(err, &e) {
			return Backend{}, placed(err, e, p)
		}
		return Backend{}, &sdk.Error{Code: sdk.CodeOf(err), Op: "open provider", Provider: p.Name, Err: err}
	}
	if prov == nil {
		return Backend{}, sdk.Errorf(sdk.Internal, "open provider", "%s: the driver %s returned nothing", p.Name, p.Kind)
	}
	b := Backend{Provider: prov, Driver: d, Name: p.Name, PollInterval: p.PollInterval, CallTimeout: p.CallTimeout,
		MaxInFlight: p.MaxInFlight, SubmitRate: p.SubmitRate}
	if most := prov.Info().MaxInFlight; most > 0 && (b.MaxInFlight == 0 || most < b.MaxInFlight) {
		b.MaxInFlight = most
	}
	return b, nil
}

// placed has the refusal of a member of a provider's config say where in which file
// it stands. What a schema refuses says so by itself.
func placed(err error, e *sdk.Error, p config.Provider) error {
	var told sdk.Problems
	if e.Code != sdk.InvalidArgument || !strings.HasPrefix(e.Field, "config.") || errors.As(err, &told) {
		return err
	}
	at := p.Where(e.Field)
	if at.Kind != config.FromFile {
		return err
	}
	out := *e
	out.Err = fmt.Errorf("%s: %w", at, e.Err)
	return &out
}

// driverDir makes the folder of a kind, and those above it up to the state
// folder, with mode 0700.
func driverDir(state, kind string) (string, error) {
	if state == "" {
		return "", sdk.Errorf(sdk.Internal, "open provider", "no state folder")
	}
	if kind == "" || strings.ContainsAny(kind, `/\`) || strings.HasPrefix(kind, ".") {
		return "", sdk.Errorf(sdk.Internal, "open provider", "the kind %q can't name a folder", kind)
	}
	dir := state
	for _, part := range []string{"driver", kind} {
		dir = filepath.Join(dir, part)
		if err := config.MakePrivateDir(dir, config.Origin{}); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// Close closes all providers, the last opened first, and waits for those that
// are being opened. Jobs go on. A second Close does nothing.
func (r *Registry) Close() error {
	r.mu.Lock()
	r.closed = true
	opened := r.opened
	r.opened = nil
	slots := make([]*slot, 0, len(r.slots))
	for _, s := range r.slots {
		slots = append(slots, s)
	}
	r.mu.Unlock()

	var errs []error
	for _, name := range slices.Backward(opened) {
		if err := r.slots[name].backend.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close provider %s: %w", name, err))
		}
	}
	for _, s := range slots {
		s.lock <- struct{}{}
		s.backend = nil
		<-s.lock
	}
	return errors.Join(errs...)
}

// noSecrets resolves nothing.
type noSecrets struct{}

func (noSecrets) ResolveSecret(context.Context, sdk.SecretRef) (sdk.SecretValue, error) {
	return sdk.SecretValue{}, sdk.Errorf(sdk.Unimplemented, "resolve secret", "no scheme is known here")
}
