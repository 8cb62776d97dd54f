package keeper

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
)

// CreateResource implements sdk.ResourceDriver.
func (st *stable) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	return change(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.CreateResourceResult, error) { return d.CreateResource(ctx, r) })
}

// ReadResource implements sdk.ResourceDriver.
func (st *stable) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	return via(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.ReadResourceResult, error) { return d.ReadResource(ctx, r) })
}

// UpdateResource implements sdk.ResourceDriver.
func (st *stable) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return change(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.UpdateResourceResult, error) { return d.UpdateResource(ctx, r) })
}

// DeleteResource implements sdk.ResourceDriver.
func (st *stable) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	return change(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.DeleteResourceResult, error) { return d.DeleteResource(ctx, r) })
}

// DiffResource implements sdk.ResourceDriver.
func (st *stable) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	return via(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.DiffResourceResult, error) { return d.DiffResource(ctx, r) })
}

// ScaleResource implements sdk.ResourceDriver.
func (st *stable) ScaleResource(ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return change(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.ScaleResourceResult, error) { return d.ScaleResource(ctx, r) })
}

// HealthCheckResource implements sdk.ResourceDriver.
func (st *stable) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	return via(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.HealthCheckResourceResult, error) {
		return d.HealthCheckResource(ctx, r)
	})
}

// SensitiveKeys implements sdk.ResourceDriver.
func (st *stable) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	return via(ctx, st, sdk.Resources(), func(d sdk.ResourceDriver) (sdk.SensitiveKeysResult, error) { return d.SensitiveKeys(ctx, r) })
}

// TroubleshootResource implements sdk.Troubleshooter.
func (st *stable) TroubleshootResource(ctx context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	return via(ctx, st, sdk.Troubleshooting(), func(d sdk.Troubleshooter) (sdk.TroubleshootResourceResult, error) {
		return d.TroubleshootResource(ctx, r)
	})
}

// change makes a call that changes something with one source alone: what its
// credentials may not do isn't tried with another's.
func change[T, R any](ctx context.Context, st *stable, c sdk.Capability[T], fn func(T) (R, error)) (R, error) {
	src, err := st.pick(ctx, c.String(), sdk.ID{}, sdk.ID{}, nil)
	if err != nil {
		var zero R
		return zero, err
	}
	r, err := once(st, src, c, fn)
	st.judge(src, c.String(), err)
	return r, err
}
