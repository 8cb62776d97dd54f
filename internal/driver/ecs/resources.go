package ecs

import (
	"context"

	"github.com/windlass-run/windlass/internal/driver/resource"
	"github.com/windlass-run/windlass/sdk"
)

// The types of resources.
const (
	typeLogGroup = "aws.log_group"
	typeCluster  = "aws.ecs_cluster"
)

func resourceTypes() []sdk.ResourceType {
	return []sdk.ResourceType{
		{Type: typeLogGroup, Doc: "A log group of CloudWatch Logs, in the provider's account and region.",
			Verbs:  []sdk.ResourceVerb{sdk.VerbCreate, sdk.VerbRead, sdk.VerbUpdate, sdk.VerbDelete, sdk.VerbDiff, sdk.VerbHealth},
			Config: logGroupSchema(),
			Problems: func(s sdk.ResourceSpec) []sdk.Problem {
				_, spec := readLogGroup(tableOf(""), resource.OpDiff, s)
				return spec.Problems()
			},
			Refused: "it can't be done with a log group"},
		{Type: typeCluster, Doc: "A cluster of Amazon ECS, in the provider's account and region.",
			Verbs:  []sdk.ResourceVerb{sdk.VerbRead, sdk.VerbDiff, sdk.VerbHealth},
			Config: clusterSchema(),
			Problems: func(s sdk.ResourceSpec) []sdk.Problem {
				_, spec := wantedCluster(tableOf(""), s)
				return spec.Problems()
			},
			Refused: "a cluster is provisioned: others' tasks, capacity and settings hang on it; use your infrastructure tool"},
	}
}

var _ sdk.ResourceDriver = (*provider)(nil)

func tableOf(provider string) resource.Table {
	return resource.Table{Provider: provider, Types: resourceTypes()}
}

func (p *provider) table() resource.Table { return tableOf(p.name) }

// CreateResource implements sdk.ResourceDriver.
func (p *provider) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	if err := p.table().Change(resource.OpCreate, r.Spec.Type, sdk.VerbCreate, r.OpID); err != nil {
		return sdk.CreateResourceResult{}, err
	}
	g, err := p.createLogGroup(ctx, r.Spec, r.OpID)
	if err != nil {
		return sdk.CreateResourceResult{}, err
	}
	return sdk.CreateResourceResult{Output: g.output()}, nil
}

// ReadResource implements sdk.ResourceDriver.
func (p *provider) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	if err := p.named(resource.OpRead, r.Ref, sdk.VerbRead); err != nil {
		return sdk.ReadResourceResult{}, err
	}
	if r.Ref.Type == typeCluster {
		out, err := p.readCluster(ctx, resource.OpRead, r.Ref)
		return sdk.ReadResourceResult{Output: out}, err
	}
	g, err := p.logGroup(ctx, resource.OpRead, r.Ref)
	if err != nil {
		return sdk.ReadResourceResult{}, err
	}
	return sdk.ReadResourceResult{Output: g.output(), OpID: g.mark.OpID, Owner: g.mark.Owner, LedgerID: g.mark.LedgerID}, nil
}

// named checks a verb and whom it is for.
func (p *provider) named(op string, ref sdk.ResourceRef, v sdk.ResourceVerb) error {
	if err := p.table().Verb(op, ref.Type, v); err != nil {
		return err
	}
	return p.table().CheckRef(op, ref)
}

// UpdateResource implements sdk.ResourceDriver.
func (p *provider) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	if err := p.table().Change(resource.OpUpdate, r.Ref.Type, sdk.VerbUpdate, r.OpID); err != nil {
		return sdk.UpdateResourceResult{}, err
	}
	g, err := p.updateLogGroup(ctx, r)
	if err != nil {
		return sdk.UpdateResourceResult{}, err
	}
	return sdk.UpdateResourceResult{Output: g.output()}, nil
}

// DeleteResource implements sdk.ResourceDriver.
func (p *provider) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	if err := p.table().Change(resource.OpDelete, r.Ref.Type, sdk.VerbDelete, r.OpID); err != nil {
		return sdk.DeleteResourceResult{}, err
	}
	err := p.deleteLogGroup(ctx, r.Ref)
	if sdk.CodeOf(err) == sdk.NotFound {
		err = nil
	}
	return sdk.DeleteResourceResult{}, err
}

// DiffResource implements sdk.ResourceDriver. It asks nobody.
func (p *provider) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.DiffResourceResult{}, p.fail(sdk.CodeOf(err), resource.OpDiff, err)
	}
	if err := p.table().Verb(resource.OpDiff, r.Desired.Type, sdk.VerbDiff); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	if r.Desired.Type == typeCluster {
		return p.diffCluster(r)
	}
	return p.diffLogGroup(r.Desired, r.Current)
}

// ScaleResource implements sdk.ResourceDriver: nothing here has replicas.
func (p *provider) ScaleResource(_ context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return sdk.ScaleResourceResult{}, p.table().Verb(resource.OpScale, r.Ref.Type, sdk.VerbScale)
}

// HealthCheckResource implements sdk.ResourceDriver.
func (p *provider) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	if err := p.named(resource.OpHealth, r.Ref, sdk.VerbHealth); err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	if r.Ref.Type == typeCluster {
		out, err := p.readCluster(ctx, resource.OpHealth, r.Ref)
		return sdk.HealthCheckResourceResult{Healthy: out.Status == clusterActive, Message: "the cluster is " + out.Status}, err
	}
	if _, err := p.logGroup(ctx, resource.OpHealth, r.Ref); err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	return sdk.HealthCheckResourceResult{Healthy: true, Message: "the log group is there"}, nil
}

// SensitiveKeys implements sdk.ResourceDriver: nothing here is secret.
func (p *provider) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.SensitiveKeysResult{}, p.fail(sdk.CodeOf(err), resource.OpKeys, err)
	}
	return sdk.SensitiveKeysResult{}, p.table().Verb(resource.OpKeys, r.Type, "")
}
