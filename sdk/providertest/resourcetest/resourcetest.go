// Package resourcetest is the behavioural conformance suite for resources: what
// sdk.ResourceDriver promises is tried on a type of a driver, on the backend itself.
//
// A driver's test calls [Run] for each type. The package imports the standard
// library, sdk and providertest alone.
package resourcetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// Harness is what a driver's test brings. Driver, Open and Type are required.
type Harness struct {
	Driver sdk.Driver
	// Open opens a provider; the suite closes it. Every call opens with the same
	// config, owner and ledger, and shares no memory with the others.
	Open func(t testing.TB) sdk.Provider
	// Type is the type that is tried.
	Type string
	// Name returns a legal name that nothing has. It isn't needed where Existing is.
	Name func() string
	// Config makes a resource. Changed is another that an update leads to, Replaced
	// one that needs another in its place; nil leaves what needs them out.
	Config, Changed, Replaced json.RawMessage
	// Existing is a resource that is there already, for a type that can't be made,
	// and Config what it is like.
	Existing sdk.ResourceRef
	// Forge makes a resource of this name behind the provider's back, without a
	// mark of ours; nil leaves its check out.
	Forge func(t testing.TB, name string)
	// Foreign makes the config of one that Forge made; nil is Config.
	Foreign json.RawMessage
	// LoseReply lets the next call of a verb be carried out, and loses the reply;
	// nil leaves its checks out.
	LoseReply func(t testing.TB, v sdk.ResourceVerb)
	// Only limits the checks by name; empty is all.
	Only []string
}

// check is one thing that the suite tries.
type check struct {
	name string
	// verbs are those that the type must have.
	verbs []sdk.ResourceVerb
	run   func(s *suite)
}

func checks() []check {
	made := []sdk.ResourceVerb{sdk.VerbCreate, sdk.VerbRead, sdk.VerbDelete}
	and := func(more ...sdk.ResourceVerb) []sdk.ResourceVerb { return append(slices.Clone(made), more...) }
	return []check{
		{"table", nil, (*suite).table},
		{"refused-verbs", nil, (*suite).refusedVerbs},
		{"unknown-type", nil, (*suite).unknownType},
		{"unknown-member", nil, (*suite).unknownMember},
		{"absent", []sdk.ResourceVerb{sdk.VerbRead}, (*suite).absent},
		{"existing", []sdk.ResourceVerb{sdk.VerbRead, sdk.VerbDiff}, (*suite).existing},
		{"life", made, (*suite).life},
		{"taken", made, (*suite).taken},
		{"sent-again", made, (*suite).sentAgain},
		{"update", and(sdk.VerbUpdate, sdk.VerbDiff), (*suite).update},
		{"replace", and(sdk.VerbDiff), (*suite).replace},
		{"scale", and(sdk.VerbScale), (*suite).scale},
		{"foreign", made, (*suite).foreign},
		{"no-op-id", made, (*suite).noOpID},
		{"size", made, (*suite).size},
		{"sensitive", nil, (*suite).sensitive},
		{"troubleshoot", []sdk.ResourceVerb{sdk.VerbTroubleshoot}, (*suite).troubleshoot},
		{"context-ended", []sdk.ResourceVerb{sdk.VerbRead}, (*suite).contextEnded},
		{"lost-create", made, (*suite).lostCreate},
		{"lost-delete", made, (*suite).lostDelete},
	}
}

// Run tries everything that the driver promises of the type.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range checks() {
		if len(h.Only) > 0 && !slices.Contains(h.Only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { try(t, h, c) })
	}
}

// try runs one check on a provider of its own.
func try(t testing.TB, h Harness, c check) {
	t.Helper()
	i := slices.IndexFunc(h.Driver.Resources, func(r sdk.ResourceType) bool { return r.Type == h.Type })
	if i < 0 {
		t.Fatalf("the driver's table has no type %q", h.Type)
	}
	s := &suite{TB: t, h: h, row: h.Driver.Resources[i], ids: sdk.NewIDSource(sdk.SystemClock())}
	for _, v := range c.verbs {
		if !s.row.Has(v) {
			t.Skipf("%s has no %s", h.Type, v)
		}
	}
	s.p, s.d = s.open()
	c.run(s)
}

type suite struct {
	testing.TB
	h   Harness
	row sdk.ResourceType
	p   sdk.Provider
	d   sdk.ResourceDriver
	ids sdk.IDSource
}

func (s *suite) open() (sdk.Provider, sdk.ResourceDriver) {
	s.Helper()
	p := s.h.Open(s)
	s.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	})
	d, ok := sdk.Of(p, sdk.Resources())
	if !ok {
		s.Fatalf("the provider has no ResourceDriver")
	}
	return p, d
}

func (s *suite) spec(name string, config json.RawMessage) sdk.ResourceSpec {
	return sdk.ResourceSpec{Name: name, Type: s.h.Type, Config: config}
}

func (s *suite) ref(name string) sdk.ResourceRef { return sdk.ResourceRef{Name: name, Type: s.h.Type} }

// remove removes a resource at the end of the test.
func (s *suite) remove(name string) {
	s.Cleanup(func() {
		_, err := s.d.DeleteResource(context.WithoutCancel(s.Context()), sdk.DeleteResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name)})
		if err != nil && !errors.Is(err, sdk.FailedPrecondition) {
			s.Errorf("remove %s: %v", name, err)
		}
	})
}

// make makes a resource that is removed at the end.
func (s *suite) make() (name string, op sdk.ID, out sdk.ResourceOutput) {
	s.Helper()
	name, op = s.h.Name(), s.ids.NewID()
	s.remove(name)
	res, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: op, Spec: s.spec(name, s.h.Config)})
	if err != nil {
		s.Fatalf("create: %v", err)
	}
	return name, op, res.Output
}

func (s *suite) read(name string) sdk.ReadResourceResult {
	s.Helper()
	res, err := s.d.ReadResource(s.Context(), sdk.ReadResourceRequest{Ref: s.ref(name)})
	if err != nil {
		s.Fatalf("read: %v", err)
	}
	s.whole(res.Output)
	return res
}

// whole checks an output's form.
func (s *suite) whole(o sdk.ResourceOutput) {
	s.Helper()
	if o.Name == "" || o.Type != s.h.Type || o.ProviderID == "" || o.Status == "" {
		s.Errorf("the output %+v lacks name, type, provider ID or status", o)
	}
	var m map[string]json.RawMessage
	if len(o.Outputs) > 0 && json.Unmarshal(o.Outputs, &m) != nil {
		s.Errorf("outputs are no JSON object: %s", o.Outputs)
	}
	for k := range o.Sensitive {
		if _, ok := m[k]; !ok {
			s.Errorf("%q is marked as sensitive and is no output", k)
		}
	}
}

func (s *suite) code(what string, err error, want sdk.Code) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: got %v, want %s", what, err, want)
	}
}

func (s *suite) gone(name string) {
	s.Helper()
	_, err := s.d.ReadResource(s.Context(), sdk.ReadResourceRequest{Ref: s.ref(name)})
	s.code("read what isn't there", err, sdk.NotFound)
}
