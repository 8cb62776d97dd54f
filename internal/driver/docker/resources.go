package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

// The types of resources.
const (
	typeResNetwork = "docker.network"
	typeResVolume  = "docker.volume"
)

// resourceTypes is the table. The engine has no call that changes a network or a local
// volume: https://docs.docker.com/reference/api/engine/version/v1.41/
func resourceTypes() []sdk.ResourceType {
	verbs := func() []sdk.ResourceVerb {
		return []sdk.ResourceVerb{sdk.VerbCreate, sdk.VerbRead, sdk.VerbDelete, sdk.VerbDiff, sdk.VerbHealth}
	}
	text := sdk.TypeString
	return []sdk.ResourceType{
		{Type: typeResNetwork, Doc: "A network of the engine.", Verbs: verbs(), Refused: "the engine can't change a network; another takes its place",
			Problems: func(s sdk.ResourceSpec) []sdk.Problem {
				_, spec := readNetwork(tableOf(""), resource.OpDiff, s)
				return spec.Problems()
			},
			Config: sdk.Schema{Fields: []sdk.SchemaField{
				{Name: "driver", Type: text, Default: defaultNetworkDriver, Doc: "The engine's network driver."},
				{Name: "internal", Type: sdk.TypeBool, Default: "false", Doc: "It leads nowhere outside."},
				{Name: "subnet", Type: text, Default: "the engine's choice", Doc: "Its addresses, such as 172.28.0.0/16."},
				{Name: "gateway", Type: text, Default: "the engine's choice", Doc: "The engine's own address in it; needs subnet."},
				{Name: "options", Type: sdk.TypeMap, Doc: "The driver's own options."},
				{Name: "labels", Type: sdk.TypeMap, Doc: "Labels beside those of Windlass."},
			}}},
		{Type: typeResVolume, Doc: "A volume of the engine.", Verbs: verbs(), Refused: "the engine can't change a volume; another takes its place, without its data",
			Problems: func(s sdk.ResourceSpec) []sdk.Problem {
				_, spec := readVolume(tableOf(""), resource.OpDiff, s)
				return spec.Problems()
			},
			Config: sdk.Schema{Fields: []sdk.SchemaField{
				{Name: "driver", Type: text, Default: defaultVolumeDriver, Doc: "The engine's volume driver."},
				{Name: "options", Type: sdk.TypeMap, Doc: "The driver's own options."},
				{Name: "labels", Type: sdk.TypeMap, Doc: "Labels beside those of Windlass."},
			}}},
	}
}

var _ sdk.ResourceDriver = (*provider)(nil)

func tableOf(provider string) resource.Table {
	return resource.Table{Provider: provider, Types: resourceTypes()}
}

func (p *provider) table() resource.Table { return tableOf(p.name) }

// standing is a resource as the engine has it.
type standing struct {
	output sdk.ResourceOutput
	mark   resource.Mark
}

// kind is what a type does.
type kind struct {
	// find returns nil for what isn't there.
	find   func(ctx context.Context, op string, ref sdk.ResourceRef) (*standing, error)
	create func(ctx context.Context, spec sdk.ResourceSpec, mark resource.Mark) (*standing, error)
	remove func(ctx context.Context, f *standing) error
	diff   func(spec sdk.ResourceSpec, now sdk.ResourceOutput) (sdk.DiffResourceResult, error)
}

// kindOf returns what a type does, which the table has.
func (p *provider) kindOf(typ string) kind {
	if typ == typeResVolume {
		return kind{p.findVolume, p.createVolume, p.removeVolume, p.diffVolume}
	}
	return kind{p.findNetwork, p.createNetwork, p.removeNetwork, p.diffNetwork}
}

// CreateResource implements sdk.ResourceDriver. The engine makes a second network of a
// name, and gives a volume of a name that is there as if it were new: so it is looked
// before and after.
func (p *provider) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	if err := p.table().Change(resource.OpCreate, r.Spec.Type, sdk.VerbCreate, r.OpID); err != nil {
		return sdk.CreateResourceResult{}, err
	}
	k := p.kindOf(r.Spec.Type)
	if _, err := k.diff(r.Spec, sdk.ResourceOutput{}); err != nil { // its config is wrong
		return sdk.CreateResourceResult{}, err
	}
	f, err := k.find(ctx, resource.OpCreate, sdk.ResourceRef{Name: r.Spec.Name, Type: r.Spec.Type})
	if err != nil {
		return sdk.CreateResourceResult{}, err
	}
	if f == nil {
		if f, err = k.create(ctx, r.Spec, resource.Mark{Owner: p.owner, LedgerID: p.ledgerID, OpID: r.OpID}); err != nil {
			return sdk.CreateResourceResult{}, inTheWay(err, "remove what stands in the way, or change the config, such as the subnet", sdk.PermissionDenied)
		}
	}
	if f.mark.OpID != r.OpID {
		return sdk.CreateResourceResult{}, p.fail(sdk.AlreadyExists, resource.OpCreate, fmt.Errorf("%s %s is there already", r.Spec.Type, r.Spec.Name))
	}
	return sdk.CreateResourceResult{Output: f.output}, nil
}

// must is find for what has to be there.
func (p *provider) must(ctx context.Context, op string, v sdk.ResourceVerb, ref sdk.ResourceRef) (*standing, error) {
	t := p.table()
	if err := t.Verb(op, ref.Type, v); err != nil {
		return nil, err
	}
	if err := t.CheckRef(op, ref); err != nil {
		return nil, err
	}
	f, err := p.kindOf(ref.Type).find(ctx, op, ref)
	if err == nil && f == nil {
		err = p.fail(sdk.NotFound, op, fmt.Errorf("there is no %s %s", ref.Type, ref.Name))
	}
	return f, err
}

// ReadResource implements sdk.ResourceDriver.
func (p *provider) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	f, err := p.must(ctx, resource.OpRead, sdk.VerbRead, r.Ref)
	if err != nil {
		return sdk.ReadResourceResult{}, err
	}
	return sdk.ReadResourceResult{Output: f.output, OpID: f.mark.OpID, Owner: f.mark.Owner, LedgerID: f.mark.LedgerID}, nil
}

// UpdateResource implements sdk.ResourceDriver: there is nothing that can be changed.
func (p *provider) UpdateResource(_ context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return sdk.UpdateResourceResult{}, p.table().Verb(resource.OpUpdate, r.Ref.Type, sdk.VerbUpdate)
}

// DeleteResource implements sdk.ResourceDriver.
func (p *provider) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	if err := p.table().Change(resource.OpDelete, r.Ref.Type, sdk.VerbDelete, r.OpID); err != nil {
		return sdk.DeleteResourceResult{}, err
	}
	f, err := p.must(ctx, resource.OpDelete, sdk.VerbDelete, r.Ref)
	if sdk.CodeOf(err) == sdk.NotFound {
		return sdk.DeleteResourceResult{}, nil
	}
	if err == nil {
		err = p.table().Ours(resource.OpDelete, f.mark, p.owner, r.Ref.Type+" "+f.output.Name)
	}
	if err == nil {
		err = p.kindOf(r.Ref.Type).remove(ctx, f)
	}
	if sdk.CodeOf(err) == sdk.NotFound {
		return sdk.DeleteResourceResult{}, nil
	}
	return sdk.DeleteResourceResult{}, inTheWay(err, "remove the containers that use it first", sdk.PermissionDenied, sdk.Aborted)
}

// inTheWay makes FailedPrecondition of an error of these codes. The engine says forbidden,
// and conflict, where something that is there stands in the way, such as a container of what
// is to go or a network with these addresses; only a plugin of the engine's that guards it
// speaks of rights: https://docs.docker.com/engine/extend/plugins_authorization/
func inTheWay(err error, remedy string, codes ...sdk.Code) error {
	var e *sdk.Error
	if !errors.As(err, &e) || !slices.Contains(codes, e.Code) || strings.Contains(err.Error(), "authorization denied by plugin") {
		return err
	}
	out := *e
	out.Code, out.Remedy, out.Retryable = sdk.FailedPrecondition, remedy, false
	return &out
}

// DiffResource implements sdk.ResourceDriver. It asks nobody.
func (p *provider) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.DiffResourceResult{}, p.fail(sdk.CodeOf(err), resource.OpDiff, err)
	}
	if err := p.table().Verb(resource.OpDiff, r.Desired.Type, sdk.VerbDiff); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	return p.kindOf(r.Desired.Type).diff(r.Desired, r.Current)
}

// ScaleResource implements sdk.ResourceDriver: nothing here has replicas.
func (p *provider) ScaleResource(_ context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return sdk.ScaleResourceResult{}, p.table().Verb(resource.OpScale, r.Ref.Type, sdk.VerbScale)
}

// HealthCheckResource implements sdk.ResourceDriver: what the engine has can be used.
func (p *provider) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	f, err := p.must(ctx, resource.OpHealth, sdk.VerbHealth, r.Ref)
	if err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	return sdk.HealthCheckResourceResult{Healthy: true, Message: "the engine has it: " + f.output.Status}, nil
}

// SensitiveKeys implements sdk.ResourceDriver. A driver's options may hold anything: a
// volume's of type cifs has a password in one.
func (p *provider) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.SensitiveKeysResult{}, p.fail(sdk.CodeOf(err), resource.OpKeys, err)
	}
	if err := p.table().Verb(resource.OpKeys, r.Type, ""); err != nil {
		return sdk.SensitiveKeysResult{}, err
	}
	return sdk.SensitiveKeysResult{Keys: []string{"options"}}, nil
}
