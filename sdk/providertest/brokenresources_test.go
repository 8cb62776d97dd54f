package providertest

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
)

// The resources of a broken provider are those of the good one: their suite is
// another, resourcetest.
var (
	_ sdk.ResourceDriver = (*broken)(nil)
	_ sdk.Troubleshooter = (*broken)(nil)
)

func (b *broken) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	return need(b.good, sdk.Resources()).CreateResource(ctx, r)
}

func (b *broken) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	return need(b.good, sdk.Resources()).ReadResource(ctx, r)
}

func (b *broken) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return need(b.good, sdk.Resources()).UpdateResource(ctx, r)
}

func (b *broken) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	return need(b.good, sdk.Resources()).DeleteResource(ctx, r)
}

func (b *broken) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	return need(b.good, sdk.Resources()).DiffResource(ctx, r)
}

func (b *broken) ScaleResource(ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return need(b.good, sdk.Resources()).ScaleResource(ctx, r)
}

func (b *broken) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	return need(b.good, sdk.Resources()).HealthCheckResource(ctx, r)
}

func (b *broken) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	return need(b.good, sdk.Resources()).SensitiveKeys(ctx, r)
}

func (b *broken) TroubleshootResource(ctx context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	return need(b.good, sdk.Troubleshooting()).TroubleshootResource(ctx, r)
}
