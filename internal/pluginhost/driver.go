package pluginhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost/iac"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/client"
)

// Plugins are the plugins of one configuration, as kinds of providers.
type Plugins struct {
	Source Source
	Config *config.Config
	IDs    sdk.IDSource
	// Patience is how long a plugin that has ended again and again is waited for in all when
	// it is asked for; 0 is not at all.
	Patience time.Duration
	// Waiting, when not nil, is told of such a wait.
	Waiting func(plugin string, wait time.Duration)

	mu      sync.Mutex
	drivers map[string]asked
}

// asked is a driver, and whether the program that said so has changed since.
type asked struct {
	sdk.Driver
	outdated func() bool
	// entry is what is wrong with the config of the plugin's entry.
	entry error
}

// Outdated lists the plugins whose programs have changed since they were asked for their
// drivers, sorted: what they serve is another thing now.
func (s *Plugins) Outdated() []string {
	s.mu.Lock()
	drivers := maps.Clone(s.drivers)
	s.mu.Unlock()
	var out []string
	for name, d := range drivers {
		if d.outdated != nil && d.outdated() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Kinds returns the plugins' names, sorted.
func (s *Plugins) Kinds() []string { return s.Config.PluginNames() }

// Named reports whether the configuration has an entry of that name.
func (s *Plugins) Named(name string) bool {
	p, err := s.Config.Plugin(name)
	return err == nil && p.Origin != (config.Origin{})
}

// Request returns what is asked of a source for a plugin; told is Request.Told.
func (s *Plugins) Request(name string, told json.RawMessage) (Request, error) {
	p, err := s.Config.Plugin(name)
	if err != nil {
		return Request{}, err
	}
	return Request{Plugin: p, Env: s.Config.PluginEnv(p), Told: told}, nil
}

// Driver returns the driver of a plugin, which is started to ask it; NotFound where
// there is no such plugin. A driver stays what it was when it was first asked for.
func (s *Plugins) Driver(ctx context.Context, name string) (sdk.Driver, error) {
	s.mu.Lock()
	known, ok := s.drivers[name]
	s.mu.Unlock()
	if ok {
		return known.Driver, nil
	}
	req, err := s.Request(name, nil)
	if err != nil {
		return sdk.Driver{}, err
	}
	l, err := s.process(ctx, req)
	if err != nil {
		return sdk.Driver{}, err
	}
	defer l.Release()
	d, err := s.describe(ctx, name, l)
	if err != nil {
		return sdk.Driver{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drivers == nil {
		s.drivers = map[string]asked{}
	}
	var entry error
	if l.Contract.own() { // what a published one takes, it alone knows
		entry = req.Plugin.CheckConfig(d.Config)
	}
	s.drivers[name] = asked{d, l.Outdated, entry}
	return d, nil
}

// process finds a process, also of a plugin that is left alone for a while that is no
// longer than our patience.
func (s *Plugins) process(ctx context.Context, req Request) (*Lease, error) {
	for left := s.Patience; ; {
		l, err := s.Source.Process(ctx, req)
		var e *sdk.Error
		if !errors.As(err, &e) || e.ID != ErrEnded || !e.Unreached || e.RetryAfter <= 0 || e.RetryAfter > left {
			return l, err
		}
		left -= e.RetryAfter
		if s.Waiting != nil {
			s.Waiting(req.Plugin.Name, e.RetryAfter)
		}
		if sdk.SystemClock().Sleep(ctx, e.RetryAfter) != nil {
			return nil, unreached(ctx, req.Plugin.Name)
		}
	}
}

// CheckEntry says what is wrong with the config that a plugin's entry has for its
// providers; nil until its driver was asked for.
func (s *Plugins) CheckEntry(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drivers[name].entry
}

// describe asks a process for its driver, whose providers find processes themselves.
func (s *Plugins) describe(ctx context.Context, name string, l *Lease) (sdk.Driver, error) {
	own := true
	over := watched{l, name}
	d, err := client.Driver(ctx, over, s.IDs)
	if errors.Is(err, sdk.Unimplemented) {
		own = false
		d, err = s.published(name, over, l.Contract, nil)
	}
	if err != nil {
		return sdk.Driver{}, err
	}
	if d.Kind != name {
		return sdk.Driver{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: "use plugin " + name, ID: ErrContract, Remedy: s.misnamed(name, d.Kind),
			Err: fmt.Errorf("it serves the kind %q: a plugin is called as its kind", d.Kind)}
	}
	p, err := s.Config.Plugin(name)
	if err != nil {
		return sdk.Driver{}, err
	}
	schema := d.Config
	if own {
		d.Config = given(schema, p.Config)
	}
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		return s.open(ctx, name, own, schema, r)
	}
	return d, nil
}

// published makes the driver of a plugin that serves the published wire alone, whose
// process was initialized with told.
func (s *Plugins) published(name string, conn grpc.ClientConnInterface, c Contract, told json.RawMessage) (sdk.Driver, error) {
	p, err := s.Config.Plugin(name)
	if err != nil {
		return sdk.Driver{}, err
	}
	d, err := iac.Driver(iac.Plugin{Kind: name, Conn: conn, Services: c.Services, Config: p.Config, Told: told})
	if err != nil {
		return sdk.Driver{}, contract(name, "it serves neither our own wire nor the published one: %w", err)
	}
	return d, nil
}

// misnamed says how a plugin gets the name that it gives itself.
func (s *Plugins) misnamed(name, itself string) string {
	p, err := s.Config.Plugin(name)
	switch {
	case err != nil || !config.IsName(itself):
		return "tell its author"
	case !p.InFolder:
		return fmt.Sprintf("write plugins.%s in place of plugins.%s in windlass.yaml, and kind: %[1]s in its providers", itself, name)
	}
	program := filepath.Base(p.Path)
	remedy := fmt.Sprintf("rename the folder %s to %s, and the program %s in it to %[2]s%[4]s", filepath.Dir(p.Path), itself, program, strings.TrimPrefix(program, name))
	if p.Origin.Kind != "" { // it has an entry, too
		remedy += ", and write plugins." + itself + " in windlass.yaml"
	}
	return remedy
}

func contract(name, format string, args ...any) error {
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: "use plugin " + name, ID: ErrContract, Err: fmt.Errorf(format, args...)}
}

// open opens a provider that outlives the process which serves it. On our own wire all
// providers share a process, each in a session of its own. A published plugin can be
// initialized only once: those that want it initialized alike share a process, so that
// a job is in the memory of the one that everybody asks.
func (s *Plugins) open(ctx context.Context, name string, own bool, schema sdk.Schema, r sdk.OpenRequest) (sdk.Provider, error) {
	req, err := s.Request(name, nil)
	if err != nil {
		return nil, err
	}
	theirs := r.Config
	if own {
		if err := req.Plugin.CheckConfig(schema); err != nil {
			return nil, err
		}
		r.Config, err = defaults(req.Plugin.Config, theirs)
	} else {
		req.Told, err = iac.Settings(req.Plugin.Config, r.Config)
	}
	if err != nil {
		return nil, err
	}
	id := s.IDs.NewID()
	c := newConn(s.Source, req)
	open := func(ctx context.Context, over grpc.ClientConnInterface, l *Lease) (sdk.Provider, error) {
		var d sdk.Driver
		var err error
		if own {
			d, err = client.Driver(ctx, over, same{id})
		} else {
			d, err = s.published(name, over, l.Contract, req.Told)
		}
		if err != nil {
			return nil, err
		}
		return d.Open(ctx, tell(l, schema, r))
	}
	l, err := c.live(ctx)
	if err != nil {
		return nil, err
	}
	p, err := open(ctx, c, l)
	if err != nil {
		c.release()
		return nil, placed(err, req.Plugin, theirs)
	}
	h := &provider{Provider: p, conn: c, plugin: name, contract: l.Contract}
	h.close = sync.OnceValue(h.end)
	if got := p.Info(); got.Kind != name || got.Identity.Kind != name {
		return nil, errors.Join(contract(name, "its provider is of the kind %q, with the identity %s", got.Kind, got.Identity), h.Close())
	}
	can := sdk.CapabilityNames(h)
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	c.reopen = func(ctx context.Context, l *Lease) (sdk.Provider, error) {
		again, err := open(ctx, watched{l, name}, l)
		if err != nil {
			return nil, err
		}
		next := &provider{Provider: again, conn: c, plugin: name, contract: l.Contract}
		lost := slices.DeleteFunc(slices.Clone(can), func(name string) bool { return sdk.Has(next, name) })
		switch {
		case again.Info().Identity != p.Info().Identity:
			err = contract(name, "it was started again and is now %s, no longer %s", again.Info().Identity, p.Info().Identity)
		case len(lost) > 0:
			err = contract(name, "it was started again without %s", strings.Join(lost, ", "))
		default:
			return again, nil
		}
		return nil, errors.Join(err, again.Close())
	}
	return h, nil
}

// provider is a provider that a plugin serves. It has what the plugin named when it was
// opened and what its registry has: a capability that is in one of them alone isn't there.
type provider struct {
	sdk.Provider
	conn     *conn
	plugin   string
	contract Contract
	close    func() error
}

var (
	_ sdk.Provider = (*provider)(nil)
	_ sdk.Asker    = (*provider)(nil)
)

// AskCapability implements sdk.Asker.
func (p *provider) AskCapability(name string) any {
	if p.contract.own() && !p.contract.Serves(name) {
		return nil
	}
	if a, ok := p.Provider.(sdk.Asker); ok {
		return a.AskCapability(name)
	}
	return nil
}

// Close implements sdk.Provider. It starts no process only to close in it.
func (p *provider) Close() error { return p.close() }

func (p *provider) end() error {
	p.conn.close()
	err := p.Provider.Close()
	p.conn.release()
	if sdk.CodeOf(err) == sdk.Unavailable {
		return nil // the process has ended, and all that was open in it
	}
	return err
}

// given returns a schema in which nothing is required that a plugin's entry has.
func given(s sdk.Schema, entry json.RawMessage) sdk.Schema {
	has := members(entry)
	s.Fields = slices.Clone(s.Fields)
	for i, f := range s.Fields {
		if _, ok := has[f.Name]; ok {
			s.Fields[i].Required = false
		}
	}
	return s
}

func members(config json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(config, &m) // what isn't an object has none
	return m
}

// placed has a plugin's refusal of a member of its config say where it stands, if that is
// the plugin's entry and not the provider's own config.
func placed(err error, p config.Plugin, provider json.RawMessage) error {
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.InvalidArgument {
		return err
	}
	field, ok := strings.CutPrefix(e.Field, "config.")
	name := field
	if i := strings.IndexAny(field, ".["); i >= 0 {
		name = field[:i]
	}
	_, theirs := members(provider)[name]
	_, entry := members(p.Config)[name]
	if !ok || theirs || !entry {
		return err
	}
	out := *e
	out.Field = "plugins." + p.Name + "." + e.Field
	out.Err = fmt.Errorf("%s: %w", p.Where(e.Field), e.Err)
	return &out
}

// same is a source of one ID: the session's, in whichever process.
type same struct{ id sdk.ID }

func (s same) NewID() sdk.ID { return s.id }

// defaults returns a provider's config with what the plugin's entry has and it hasn't.
func defaults(base, own json.RawMessage) (json.RawMessage, error) {
	if len(base) == 0 {
		return own, nil
	}
	var a, b map[string]json.RawMessage
	for _, x := range []struct {
		from json.RawMessage
		to   *map[string]json.RawMessage
	}{{base, &a}, {own, &b}} {
		if len(x.from) == 0 {
			continue
		}
		if err := json.Unmarshal(x.from, x.to); err != nil {
			return nil, sdk.Errorf(sdk.InvalidArgument, "read config", "%w", err)
		}
	}
	maps.Copy(a, b)
	return json.Marshal(a)
}
