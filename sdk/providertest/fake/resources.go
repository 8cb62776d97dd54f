package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/windlass-run/windlass/sdk"
)

// The types of resources of a fake. A box can be changed in all ways; a place is
// provisioned: each cloud has one, named PlaceName, and it can't be changed.
const (
	TypeBox   = "fake.box"
	TypePlace = "fake.place"

	PlaceName = "home"
	// SickLabel is the label of a box that isn't healthy.
	SickLabel = "sick"
)

// boxConfig is the config of a box, and with Replicas its outputs.
type boxConfig struct {
	Label string `json:"label,omitzero"`
	Items int64  `json:"items,omitzero"`
	Wood  string `json:"wood,omitzero"`
	Key   string `json:"key,omitzero"`
}

// resource is a resource as the cloud keeps it.
type resource struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`
	Config   boxConfig `json:"config"`
	Replicas int       `json:"replicas"`
	OpID     sdk.ID    `json:"op_id"`
	Owner    string    `json:"owner"`
	LedgerID string    `json:"ledger_id"`
}

func boxSchema() sdk.Schema {
	return sdk.Schema{Fields: []sdk.SchemaField{
		{Name: "label", Type: sdk.TypeString, Doc: "Any text; a box that is labelled " + SickLabel + " isn't healthy."},
		{Name: "items", Type: sdk.TypeInt, Min: 0, Max: math.MaxInt32, Default: "0", Doc: "How many things are in it."},
		{Name: "wood", Type: sdk.TypeString, Doc: "What it is made of; another wood needs another box."},
		{Name: "key", Type: sdk.TypeString, Sensitive: true, Doc: "What opens it."},
	}}
}

func resourceTypes() []sdk.ResourceType {
	return []sdk.ResourceType{
		{Type: TypeBox, Doc: "A box, for tests.", Config: boxSchema(), Verbs: sdk.ResourceVerbs()},
		{Type: TypePlace, Doc: "A place that is there, for tests.", Verbs: []sdk.ResourceVerb{sdk.VerbRead, sdk.VerbDiff, sdk.VerbHealth, sdk.VerbTroubleshoot},
			Refused: "places are provisioned elsewhere"},
	}
}

var (
	_ sdk.ResourceDriver = (*provider)(nil)
	_ sdk.Troubleshooter = (*provider)(nil)
)

// typed checks that a type is there and has the verb.
func typed(op Op, typ string, verb sdk.ResourceVerb) error {
	var names []string
	for _, t := range resourceTypes() {
		if t.Type != typ {
			names = append(names, t.Type)
			continue
		}
		if verb != "" && !t.Has(verb) {
			return &sdk.Error{Code: sdk.Unimplemented, Op: opName(op), Field: "type", Err: fmt.Errorf("%s: %s", typ, t.Refused)}
		}
		return nil
	}
	return &sdk.Error{Code: sdk.InvalidArgument, Op: opName(op), Field: "type", Err: fmt.Errorf("%q is none of %v", typ, names)}
}

// change begins a call that changes a resource.
func (p *provider) change(ctx context.Context, op Op, id sdk.ID, typ string, verb sdk.ResourceVerb, body any) (*call, error) {
	if id.IsZero() {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(op), Field: "op_id", Err: fmt.Errorf("is missing")}
	}
	if err := typed(op, typ, verb); err != nil {
		return nil, err
	}
	return p.cloud.enter(ctx, op, body)
}

func box(op Op, s sdk.ResourceSpec) (boxConfig, error) {
	var c boxConfig
	if s.Size != "" || s.Hints != (sdk.ResourceHints{}) {
		return c, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(op), Field: "size", Err: fmt.Errorf("a box has no size and no hints")}
	}
	if s.Name == "" {
		return c, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(op), Field: "name", Err: fmt.Errorf("is missing")}
	}
	return c, boxSchema().Decode("config", s.Config, &c)
}

// output is the resource as the provider shows it.
func (r *resource) output(typ string) (sdk.ResourceOutput, error) {
	raw, err := json.Marshal(struct {
		boxConfig
		Replicas int `json:"replicas"`
	}{r.Config, r.Replicas})
	out := sdk.ResourceOutput{Name: r.Name, Type: typ, ProviderID: r.ID, Outputs: raw, Status: "there"}
	if r.Config.Key != "" {
		out.Sensitive = map[string]bool{"key": true}
	}
	return out, err
}

// find returns a resource, nil where it isn't there.
func (p *provider) find(op Op, ref sdk.ResourceRef) (*resource, error) {
	if ref.Type == TypePlace {
		if ref.Name == PlaceName || ref.ProviderID == "place-"+PlaceName {
			return &resource{Name: PlaceName, ID: "place-" + PlaceName}, nil
		}
		return nil, nil
	}
	r, err := p.cloud.store.loadResource(ref.Name)
	if err != nil {
		return nil, broken(op, err)
	}
	if r != nil && ref.ProviderID != "" && r.ID != ref.ProviderID {
		return nil, nil
	}
	return r, nil
}

// owned finds a resource that is to be changed.
func (p *provider) owned(op Op, ref sdk.ResourceRef) (*resource, error) {
	r, err := p.find(op, ref)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, &sdk.Error{Code: sdk.NotFound, Op: opName(op), Err: fmt.Errorf("%s %s: %w", ref.Type, ref.Name, &APIError{404, "NotFound"})}
	}
	if r.Owner != p.open.Owner {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: opName(op), Err: fmt.Errorf("%s %s belongs to %q", ref.Type, ref.Name, r.Owner)}
	}
	return r, nil
}

// CreateResource implements sdk.ResourceDriver.
func (p *provider) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.change(ctx, OpCreateResource, r.OpID, r.Spec.Type, sdk.VerbCreate, r.Spec)
	if err != nil {
		return sdk.CreateResourceResult{}, err
	}
	c, err := box(OpCreateResource, r.Spec)
	if err != nil {
		return sdk.CreateResourceResult{}, err
	}
	made := &resource{Name: r.Spec.Name, ID: "box-" + r.OpID.String(), Config: c, Replicas: 1, OpID: r.OpID, Owner: p.open.Owner, LedgerID: p.open.LedgerID}
	fresh, err := p.cloud.store.createResource(made)
	if err != nil {
		return sdk.CreateResourceResult{}, broken(OpCreateResource, err)
	}
	if !fresh {
		was, err := p.cloud.store.loadResource(made.Name)
		if err != nil {
			return sdk.CreateResourceResult{}, broken(OpCreateResource, err)
		}
		if was == nil || was.OpID != r.OpID {
			return sdk.CreateResourceResult{}, classify(opName(OpCreateResource), &APIError{409, "Exists"}, 0)
		}
		made = was
	}
	out, err := made.output(TypeBox)
	if err == nil {
		err = in.done()
	}
	return sdk.CreateResourceResult{Output: out}, err
}

// ReadResource implements sdk.ResourceDriver.
func (p *provider) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	if err := typed(OpReadResource, r.Ref.Type, sdk.VerbRead); err != nil {
		return sdk.ReadResourceResult{}, err
	}
	in, err := p.cloud.enter(ctx, OpReadResource, r.Ref)
	if err != nil {
		return sdk.ReadResourceResult{}, err
	}
	f, err := p.find(OpReadResource, r.Ref)
	if err != nil {
		return sdk.ReadResourceResult{}, err
	}
	if f == nil {
		return sdk.ReadResourceResult{}, &sdk.Error{Code: sdk.NotFound, Op: opName(OpReadResource),
			Err: fmt.Errorf("%s %s: %w", r.Ref.Type, r.Ref.Name, &APIError{404, "NotFound"})}
	}
	out, err := f.output(r.Ref.Type)
	if err == nil {
		err = in.done()
	}
	return sdk.ReadResourceResult{Output: out, OpID: f.OpID, Owner: f.Owner, LedgerID: f.LedgerID}, err
}

// UpdateResource implements sdk.ResourceDriver.
func (p *provider) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.change(ctx, OpUpdateResource, r.OpID, r.Spec.Type, sdk.VerbUpdate, r.Spec)
	if err != nil {
		return sdk.UpdateResourceResult{}, err
	}
	c, err := box(OpUpdateResource, r.Spec)
	if err != nil {
		return sdk.UpdateResourceResult{}, err
	}
	f, err := p.owned(OpUpdateResource, r.Ref)
	if err != nil {
		return sdk.UpdateResourceResult{}, err
	}
	if c.Wood != f.Config.Wood {
		return sdk.UpdateResourceResult{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: opName(OpUpdateResource), Field: "config.wood",
			Err: fmt.Errorf("another wood needs another box")}
	}
	now := *f
	now.Config, now.OpID = c, r.OpID
	if err := p.cloud.store.replaceResource(&now); err != nil {
		return sdk.UpdateResourceResult{}, broken(OpUpdateResource, err)
	}
	out, err := now.output(TypeBox)
	if err == nil {
		err = in.done()
	}
	return sdk.UpdateResourceResult{Output: out}, err
}

// DeleteResource implements sdk.ResourceDriver.
func (p *provider) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.change(ctx, OpDeleteResource, r.OpID, r.Ref.Type, sdk.VerbDelete, r.Ref)
	if err != nil {
		return sdk.DeleteResourceResult{}, err
	}
	f, err := p.owned(OpDeleteResource, r.Ref)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
	case err != nil:
		return sdk.DeleteResourceResult{}, err
	default:
		if err := p.cloud.store.removeResource(f.Name); err != nil {
			return sdk.DeleteResourceResult{}, broken(OpDeleteResource, err)
		}
	}
	return sdk.DeleteResourceResult{}, in.done()
}

// DiffResource implements sdk.ResourceDriver. It asks nobody.
func (p *provider) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	if ctx.Err() != nil {
		return sdk.DiffResourceResult{}, ended(ctx, OpDiffResource)
	}
	if err := typed(OpDiffResource, r.Desired.Type, sdk.VerbDiff); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	if r.Desired.Type == TypePlace {
		return sdk.DiffResourceResult{}, sdk.Schema{}.Decode("config", r.Desired.Config, &struct{}{})
	}
	want, err := box(OpDiffResource, r.Desired)
	if err != nil {
		return sdk.DiffResourceResult{}, err
	}
	var have boxConfig
	if err := json.Unmarshal(r.Current.Outputs, &have); err != nil {
		return sdk.DiffResourceResult{}, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(OpDiffResource), Field: "current", Err: err}
	}
	var out sdk.DiffResourceResult
	for _, m := range []struct {
		name     string
		old, now any
		force    bool
	}{{"label", have.Label, want.Label, false}, {"items", have.Items, want.Items, false}, {"wood", have.Wood, want.Wood, true}, {"key", have.Key, want.Key, false}} {
		a, errA := json.Marshal(m.old)
		b, errB := json.Marshal(m.now)
		if errA != nil || errB != nil || bytes.Equal(a, b) {
			continue // text and numbers can be written
		}
		out.Changes = append(out.Changes, sdk.FieldChange{Path: m.name, Old: a, New: b, ForceNew: m.force})
		out.NeedsReplace = out.NeedsReplace || m.force
		out.NeedsUpdate = true
	}
	return out, nil
}

// ScaleResource implements sdk.ResourceDriver.
func (p *provider) ScaleResource(ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	if r.Replicas < 0 || r.Replicas > math.MaxInt32 {
		return sdk.ScaleResourceResult{}, &sdk.Error{Code: sdk.InvalidArgument, Op: opName(OpScaleResource), Field: "replicas",
			Err: fmt.Errorf("%d is outside 0 to %d", r.Replicas, math.MaxInt32)}
	}
	in, err := p.change(ctx, OpScaleResource, r.OpID, r.Ref.Type, sdk.VerbScale, r.Ref)
	if err != nil {
		return sdk.ScaleResourceResult{}, err
	}
	f, err := p.owned(OpScaleResource, r.Ref)
	if err != nil {
		return sdk.ScaleResourceResult{}, err
	}
	now := *f
	now.Replicas, now.OpID = r.Replicas, r.OpID
	if err := p.cloud.store.replaceResource(&now); err != nil {
		return sdk.ScaleResourceResult{}, broken(OpScaleResource, err)
	}
	out, err := now.output(TypeBox)
	if err == nil {
		err = in.done()
	}
	return sdk.ScaleResourceResult{Output: out}, err
}

// HealthCheckResource implements sdk.ResourceDriver.
func (p *provider) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	if err := typed(OpReadResource, r.Ref.Type, sdk.VerbHealth); err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	res, err := p.ReadResource(ctx, sdk.ReadResourceRequest(r))
	if err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	var c boxConfig
	if err := json.Unmarshal(res.Output.Outputs, &c); err != nil {
		return sdk.HealthCheckResourceResult{}, broken(OpReadResource, err)
	}
	if c.Label == SickLabel {
		return sdk.HealthCheckResourceResult{Message: "it is labelled " + SickLabel}, nil
	}
	return sdk.HealthCheckResourceResult{Healthy: true, Message: "it is there"}, nil
}

// SensitiveKeys implements sdk.ResourceDriver.
func (p *provider) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	if err := typed(OpSensitiveKeys, r.Type, ""); err != nil {
		return sdk.SensitiveKeysResult{}, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpSensitiveKeys, r)
	if err != nil {
		return sdk.SensitiveKeysResult{}, err
	}
	if err := in.done(); err != nil || r.Type != TypeBox {
		return sdk.SensitiveKeysResult{}, err
	}
	return sdk.SensitiveKeysResult{Keys: []string{"key"}}, nil
}

// TroubleshootResource implements sdk.Troubleshooter.
func (p *provider) TroubleshootResource(ctx context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	h, err := p.HealthCheckResource(ctx, sdk.HealthCheckResourceRequest{Ref: r.Ref})
	if err != nil || h.Healthy {
		return sdk.TroubleshootResourceResult{}, err
	}
	return sdk.TroubleshootResourceResult{Diagnostics: []sdk.Diagnostic{{ID: "box-1", Phase: "use", Cause: h.Message, At: p.cloud.clock.Now().UTC(), Detail: r.FailureMessage}}}, nil
}

// ForgeResource makes a box behind everyone's back, without a mark of ours.
func (c *Cloud) ForgeResource(name string) error {
	_, err := c.store.createResource(&resource{Name: name, ID: "box-forged", Replicas: 1})
	return err
}
