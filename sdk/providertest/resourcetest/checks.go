package resourcetest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"

	"github.com/windlass-run/windlass/sdk"
)

func (s *suite) table() {
	if s.row.Doc == "" || len(s.row.Verbs) == 0 {
		s.Errorf("the row %+v lacks Doc or Verbs", s.row)
	}
	for _, v := range s.row.Verbs {
		if !slices.Contains(sdk.ResourceVerbs(), v) {
			s.Errorf("%q is no verb", v)
		}
	}
	for _, v := range []sdk.ResourceVerb{sdk.VerbCreate, sdk.VerbUpdate, sdk.VerbDelete} {
		if !s.row.Has(v) && s.row.Refused == "" {
			s.Errorf("nothing says why there is no %s", v)
		}
	}
	if s.row.Has(sdk.VerbTroubleshoot) && !sdk.Has(s.p, sdk.Troubleshooting().String()) {
		s.Errorf("the row has %s and the provider no Troubleshooter", sdk.VerbTroubleshoot)
	}
}

// verbs makes each call that can change something or look at something.
func (s *suite) verbs(ctx context.Context, spec sdk.ResourceSpec) map[sdk.ResourceVerb]error {
	ref, op := sdk.ResourceRef{Name: spec.Name, Type: spec.Type}, s.ids.NewID()
	out := map[sdk.ResourceVerb]error{}
	_, out[sdk.VerbCreate] = s.d.CreateResource(ctx, sdk.CreateResourceRequest{OpID: op, Spec: spec})
	_, out[sdk.VerbRead] = s.d.ReadResource(ctx, sdk.ReadResourceRequest{Ref: ref})
	_, out[sdk.VerbUpdate] = s.d.UpdateResource(ctx, sdk.UpdateResourceRequest{OpID: op, Ref: ref, Spec: spec})
	_, out[sdk.VerbDelete] = s.d.DeleteResource(ctx, sdk.DeleteResourceRequest{OpID: op, Ref: ref})
	_, out[sdk.VerbDiff] = s.d.DiffResource(ctx, sdk.DiffResourceRequest{Desired: spec, Current: sdk.ResourceOutput{Name: spec.Name, Type: spec.Type, Outputs: json.RawMessage("{}")}})
	_, out[sdk.VerbScale] = s.d.ScaleResource(ctx, sdk.ScaleResourceRequest{OpID: op, Ref: ref, Replicas: 1})
	_, out[sdk.VerbHealth] = s.d.HealthCheckResource(ctx, sdk.HealthCheckResourceRequest{Ref: ref})
	return out
}

func (s *suite) refusedVerbs() {
	name := s.h.Existing.Name
	if name == "" {
		name = s.h.Name()
	}
	for v, err := range s.verbs(s.Context(), s.spec(name, s.h.Config)) {
		if s.row.Has(v) == errors.Is(err, sdk.Unimplemented) {
			s.Errorf("%s: the row has it: %t; got %v", v, s.row.Has(v), err)
		}
	}
	if s.row.Has(sdk.VerbCreate) {
		s.remove(name)
	}
}

func (s *suite) unknownType() {
	for v, err := range s.verbs(s.Context(), sdk.ResourceSpec{Name: "x", Type: "no.such"}) {
		s.code(string(v)+" of an unknown type", err, sdk.InvalidArgument)
	}
	_, err := s.d.SensitiveKeys(s.Context(), sdk.SensitiveKeysRequest{Type: "no.such"})
	s.code("sensitive keys of an unknown type", err, sdk.InvalidArgument)
}

func (s *suite) unknownMember() {
	wrong := json.RawMessage(`{"no_such_member":true}`)
	if s.row.Has(sdk.VerbDiff) {
		_, err := s.d.DiffResource(s.Context(), sdk.DiffResourceRequest{Desired: s.spec("x", wrong), Current: sdk.ResourceOutput{Type: s.h.Type, Outputs: json.RawMessage("{}")}})
		s.code("diff with an unknown member", err, sdk.InvalidArgument)
	}
	if !s.row.Has(sdk.VerbCreate) {
		return
	}
	name := s.h.Name()
	s.remove(name)
	_, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: s.ids.NewID(), Spec: s.spec(name, wrong)})
	s.code("create with an unknown member", err, sdk.InvalidArgument)
	s.gone(name)
}

func (s *suite) absent() {
	name := "no-such-name"
	if s.h.Name != nil {
		name = s.h.Name()
	}
	s.gone(name)
	if s.row.Has(sdk.VerbHealth) {
		_, err := s.d.HealthCheckResource(s.Context(), sdk.HealthCheckResourceRequest{Ref: s.ref(name)})
		s.code("health of what isn't there", err, sdk.NotFound)
	}
	if s.row.Has(sdk.VerbUpdate) {
		_, err := s.d.UpdateResource(s.Context(), sdk.UpdateResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name), Spec: s.spec(name, s.h.Config)})
		s.code("update of what isn't there", err, sdk.NotFound)
	}
	if s.row.Has(sdk.VerbDelete) {
		if _, err := s.d.DeleteResource(s.Context(), sdk.DeleteResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name)}); err != nil {
			s.Errorf("delete what isn't there: %v", err)
		}
	}
}

func (s *suite) existing() {
	if s.h.Existing.Name == "" {
		s.Skip("nothing is there before")
	}
	res := s.read(s.h.Existing.Name)
	s.same(res.Output, s.h.Config)
	if s.row.Has(sdk.VerbHealth) {
		h, err := s.d.HealthCheckResource(s.Context(), sdk.HealthCheckResourceRequest{Ref: s.h.Existing})
		if err != nil || !h.Healthy || h.Message == "" {
			s.Errorf("health: %+v, %v", h, err)
		}
	}
}

// same wants no difference between a resource and a config.
func (s *suite) same(o sdk.ResourceOutput, config json.RawMessage) {
	s.Helper()
	if !s.row.Has(sdk.VerbDiff) {
		return
	}
	d, err := s.d.DiffResource(s.Context(), sdk.DiffResourceRequest{Desired: s.spec(o.Name, config), Current: o})
	if err != nil || d.NeedsUpdate || d.NeedsReplace || len(d.Changes) > 0 {
		s.Errorf("a resource that is as wanted differs: %+v, %v", d, err)
	}
}

func (s *suite) life() {
	name, op, out := s.make()
	s.whole(out)
	res := s.read(name)
	if !reflect.DeepEqual(res.Output, out) {
		s.Errorf("create gave\n%+v, read\n%+v", out, res.Output)
	}
	if res.OpID != op || res.Owner == "" || res.LedgerID == "" {
		s.Errorf("read gives the change %s, want %s; owner %q, ledger %q", res.OpID, op, res.Owner, res.LedgerID)
	}
	s.same(res.Output, s.h.Config)
	_, other := s.open()
	byID := s.ref(name)
	byID.ProviderID = out.ProviderID
	again, err := other.ReadResource(s.Context(), sdk.ReadResourceRequest{Ref: byID})
	if err != nil || !reflect.DeepEqual(again, res) {
		s.Errorf("another process reads %+v, %v", again, err)
	}
	if s.row.Has(sdk.VerbHealth) {
		h, err := s.d.HealthCheckResource(s.Context(), sdk.HealthCheckResourceRequest{Ref: byID})
		if err != nil || !h.Healthy || h.Message == "" {
			s.Errorf("health: %+v, %v", h, err)
		}
	}
	for range 2 {
		if _, err := s.d.DeleteResource(s.Context(), sdk.DeleteResourceRequest{OpID: s.ids.NewID(), Ref: byID}); err != nil {
			s.Fatalf("delete: %v", err)
		}
		s.gone(name)
	}
	// An ID of what is gone must not find another of the same name.
	if _, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: s.ids.NewID(), Spec: s.spec(name, s.h.Config)}); err != nil {
		s.Errorf("create once more: %v", err)
	}
}

func (s *suite) taken() {
	name, op, out := s.make()
	_, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: s.ids.NewID(), Spec: s.spec(name, s.h.Config)})
	s.code("create a name that is taken", err, sdk.AlreadyExists)
	if res := s.read(name); res.OpID != op || res.Output.ProviderID != out.ProviderID {
		s.Errorf("the refused call left %+v", res)
	}
}

func (s *suite) sentAgain() {
	name, op, out := s.make()
	res, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: op, Spec: s.spec(name, s.h.Config)})
	if err != nil || !reflect.DeepEqual(res.Output, out) {
		s.Errorf("the same change again gives %+v, %v; want %+v", res.Output, err, out)
	}
}

func (s *suite) update() {
	if s.h.Changed == nil {
		s.Skip("nothing to change")
	}
	name, _, out := s.make()
	d, err := s.d.DiffResource(s.Context(), sdk.DiffResourceRequest{Desired: s.spec(name, s.h.Changed), Current: out})
	if err != nil || !d.NeedsUpdate || d.NeedsReplace || len(d.Changes) == 0 {
		s.Fatalf("diff: %+v, %v; want an update", d, err)
	}
	s.changes(d)
	op := s.ids.NewID()
	res, err := s.d.UpdateResource(s.Context(), sdk.UpdateResourceRequest{OpID: op, Ref: s.ref(name), Spec: s.spec(name, s.h.Changed)})
	if err != nil {
		s.Fatalf("update: %v", err)
	}
	now := s.read(name)
	if !reflect.DeepEqual(now.Output, res.Output) || now.Output.ProviderID != out.ProviderID || now.OpID != op {
		s.Errorf("update gave %+v, read %+v; want the change %s", res.Output, now, op)
	}
	s.same(now.Output, s.h.Changed)
}

// changes checks the form of a difference.
func (s *suite) changes(d sdk.DiffResourceResult) {
	s.Helper()
	force := false
	for _, c := range d.Changes {
		if c.Path == "" || c.Old != nil && !json.Valid(c.Old) || c.New != nil && !json.Valid(c.New) || string(c.Old) == string(c.New) {
			s.Errorf("the change %q from %s to %s is no change", c.Path, c.Old, c.New)
		}
		force = force || c.ForceNew
	}
	if force != d.NeedsReplace {
		s.Errorf("needs replace is %t, the changes say %t", d.NeedsReplace, force)
	}
}

func (s *suite) replace() {
	if s.h.Replaced == nil {
		s.Skip("nothing needs another")
	}
	name, op, out := s.make()
	d, err := s.d.DiffResource(s.Context(), sdk.DiffResourceRequest{Desired: s.spec(name, s.h.Replaced), Current: out})
	if err != nil || !d.NeedsReplace {
		s.Fatalf("diff: %+v, %v; want a replacement", d, err)
	}
	s.changes(d)
	if !s.row.Has(sdk.VerbUpdate) {
		return
	}
	_, err = s.d.UpdateResource(s.Context(), sdk.UpdateResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name), Spec: s.spec(name, s.h.Replaced)})
	s.code("update what needs another", err, sdk.FailedPrecondition)
	if now := s.read(name); !reflect.DeepEqual(now.Output, out) || now.OpID != op {
		s.Errorf("the refused update left %+v", now)
	}
}

func (s *suite) scale() {
	name, _, _ := s.make()
	op := s.ids.NewID()
	if _, err := s.d.ScaleResource(s.Context(), sdk.ScaleResourceRequest{OpID: op, Ref: s.ref(name), Replicas: 3}); err != nil {
		s.Errorf("scale: %v", err)
	}
	if now := s.read(name); now.OpID != op {
		s.Errorf("read gives the change %s, want %s", now.OpID, op)
	}
	for _, n := range []int{-1, math.MaxInt32 + 1} {
		_, err := s.d.ScaleResource(s.Context(), sdk.ScaleResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name), Replicas: n})
		s.code("scale out of range", err, sdk.InvalidArgument)
	}
}

func (s *suite) foreign() {
	if s.h.Forge == nil {
		s.Skip("the harness can't forge")
	}
	name := s.h.Name()
	s.h.Forge(s, name)
	res := s.read(name)
	if !res.OpID.IsZero() || res.Owner != "" {
		s.Errorf("what is somebody else's shows the change %s and the owner %q", res.OpID, res.Owner)
	}
	config := s.h.Foreign
	if config == nil {
		config = s.h.Config
	}
	_, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: s.ids.NewID(), Spec: s.spec(name, config)})
	s.code("create what is there", err, sdk.AlreadyExists)
	if s.row.Has(sdk.VerbUpdate) {
		_, err = s.d.UpdateResource(s.Context(), sdk.UpdateResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name), Spec: s.spec(name, config)})
		s.code("update what is somebody else's", err, sdk.FailedPrecondition)
	}
	_, err = s.d.DeleteResource(s.Context(), sdk.DeleteResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name)})
	s.code("delete what is somebody else's", err, sdk.FailedPrecondition)
	if now := s.read(name); !reflect.DeepEqual(now, res) {
		s.Errorf("it is %+v, was %+v", now, res)
	}
}

func (s *suite) noOpID() {
	name, op, _ := s.make()
	other := s.h.Name()
	s.remove(other)
	_, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{Spec: s.spec(other, s.h.Config)})
	s.code("create without an ID", err, sdk.InvalidArgument)
	s.gone(other)
	if s.row.Has(sdk.VerbUpdate) {
		_, err = s.d.UpdateResource(s.Context(), sdk.UpdateResourceRequest{Ref: s.ref(name), Spec: s.spec(name, s.h.Config)})
		s.code("update without an ID", err, sdk.InvalidArgument)
	}
	_, err = s.d.DeleteResource(s.Context(), sdk.DeleteResourceRequest{Ref: s.ref(name)})
	s.code("delete without an ID", err, sdk.InvalidArgument)
	if now := s.read(name); now.OpID != op {
		s.Errorf("the refused calls left %+v", now)
	}
}

func (s *suite) size() {
	for _, change := range []func(r *sdk.ResourceSpec){
		func(r *sdk.ResourceSpec) { r.Size = "large" },
		func(r *sdk.ResourceSpec) { r.Hints.CPU = "2" },
	} {
		name := s.h.Name()
		s.remove(name)
		spec := s.spec(name, s.h.Config)
		change(&spec)
		if _, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: s.ids.NewID(), Spec: spec}); err == nil {
			// A driver that goes by them shows it.
			if o := s.read(name).Output.Outputs; len(o) == 0 {
				s.Errorf("size %q and hints %+v were taken, and nothing shows them", spec.Size, spec.Hints)
			}
			s.Logf("size and hints were taken")
		} else {
			s.code("create with a size or a hint", err, sdk.InvalidArgument)
			s.gone(name)
			if s.row.Has(sdk.VerbDiff) {
				_, err := s.d.DiffResource(s.Context(), sdk.DiffResourceRequest{Desired: spec, Current: sdk.ResourceOutput{Name: name, Type: s.h.Type, Outputs: json.RawMessage("{}")}})
				s.code("diff of a size or a hint with nothing", err, sdk.InvalidArgument)
			}
		}
	}
}

func (s *suite) sensitive() {
	res, err := s.d.SensitiveKeys(s.Context(), sdk.SensitiveKeysRequest{Type: s.h.Type})
	if err != nil {
		s.Fatalf("sensitive keys: %v", err)
	}
	for _, f := range s.row.Config.Fields {
		if f.Sensitive && !slices.Contains(res.Keys, f.Name) {
			s.Errorf("the schema marks %s as sensitive, and the keys %q lack it", f.Name, res.Keys)
		}
	}
}

func (s *suite) troubleshoot() {
	ref := s.h.Existing
	if ref.Name == "" {
		name, _, _ := s.make()
		ref = s.ref(name)
	}
	tr, ok := sdk.Of(s.p, sdk.Troubleshooting())
	if !ok {
		s.Fatal("the provider has no Troubleshooter")
	}
	res, err := tr.TroubleshootResource(s.Context(), sdk.TroubleshootResourceRequest{Ref: ref, FailureMessage: "it failed"})
	if err != nil {
		s.Errorf("troubleshoot: %v", err)
	}
	for _, d := range res.Diagnostics {
		if d.Cause == "" {
			s.Errorf("the diagnostic %+v has no cause", d)
		}
	}
}

func (s *suite) contextEnded() {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	name := s.h.Existing.Name
	if name == "" {
		name = s.h.Name()
		s.remove(name)
	}
	for v, err := range s.verbs(ctx, s.spec(name, s.h.Config)) {
		if s.row.Has(v) && v != sdk.VerbDiff && !errors.Is(err, sdk.Canceled) {
			s.Errorf("%s with a context that has ended: got %v, want Canceled", v, err)
		}
	}
	if s.row.Has(sdk.VerbCreate) {
		s.gone(name)
	}
}

func (s *suite) lostCreate() {
	if s.h.LoseReply == nil {
		s.Skip("the harness can't lose replies")
	}
	name, op := s.h.Name(), s.ids.NewID()
	s.remove(name)
	s.h.LoseReply(s, sdk.VerbCreate)
	_, err := s.d.CreateResource(s.Context(), sdk.CreateResourceRequest{OpID: op, Spec: s.spec(name, s.h.Config)})
	if err == nil || sdk.IsClear(err) {
		s.Errorf("a lost reply: got %v, want an error that proves nothing", err)
	}
	if res := s.read(name); res.OpID != op {
		s.Errorf("read gives the change %s, want %s", res.OpID, op)
	}
}

func (s *suite) lostDelete() {
	if s.h.LoseReply == nil {
		s.Skip("the harness can't lose replies")
	}
	name, _, _ := s.make()
	s.h.LoseReply(s, sdk.VerbDelete)
	_, err := s.d.DeleteResource(s.Context(), sdk.DeleteResourceRequest{OpID: s.ids.NewID(), Ref: s.ref(name)})
	if err == nil || sdk.IsClear(err) {
		s.Errorf("a lost reply: got %v, want an error that proves nothing", err)
	}
	s.gone(name)
}
