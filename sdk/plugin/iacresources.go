package plugin

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// iacResources serves the published ResourceDriver. That wire has no ID of a change, so
// each call is one of its own: nothing is sent again under it.
type iacResources struct {
	iacpb.UnimplementedResourceDriverServer
	p *iacProvider
}

var _ iacpb.ResourceDriverServer = (*iacResources)(nil)

// iacUnary serves a method of one request and one reply.
func iacUnary[C, A, B any](ctx context.Context, p *iacProvider, capability sdk.Capability[C], decode func() (A, error), call func(C, context.Context, A) (B, error)) (B, error) {
	var none B
	c, _, err := opened(p, capability)
	if err != nil {
		return none, err
	}
	r, err := decode()
	if err != nil {
		return none, err
	}
	return call(c, ctx, r)
}

func (x *iacResources) Create(ctx context.Context, m *iacpb.ResourceCreateRequest) (*iacpb.ResourceCreateResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.CreateResourceRequest, error) { return wire.DecodeIaCCreate(m, x.p.ids.NewID()) }, sdk.ResourceDriver.CreateResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCOutput(res.Output)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceCreateResponse{Output: out}, nil
}

func (x *iacResources) Read(ctx context.Context, m *iacpb.ResourceReadRequest) (*iacpb.ResourceReadResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.ReadResourceRequest, error) { return wire.DecodeIaCRead(m) }, sdk.ResourceDriver.ReadResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCOutput(res.Output)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceReadResponse{Output: out}, nil
}

func (x *iacResources) Update(ctx context.Context, m *iacpb.ResourceUpdateRequest) (*iacpb.ResourceUpdateResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.UpdateResourceRequest, error) { return wire.DecodeIaCUpdate(m, x.p.ids.NewID()) }, sdk.ResourceDriver.UpdateResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCOutput(res.Output)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceUpdateResponse{Output: out}, nil
}

func (x *iacResources) Delete(ctx context.Context, m *iacpb.ResourceDeleteRequest) (*iacpb.ResourceDeleteResponse, error) {
	_, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.DeleteResourceRequest, error) { return wire.DecodeIaCDelete(m, x.p.ids.NewID()) }, sdk.ResourceDriver.DeleteResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceDeleteResponse{}, nil
}

func (x *iacResources) Diff(ctx context.Context, m *iacpb.ResourceDiffRequest) (*iacpb.ResourceDiffResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.DiffResourceRequest, error) { return wire.DecodeIaCDiff(m) }, sdk.ResourceDriver.DiffResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCDiffResult(res)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceDiffResponse{Result: out}, nil
}

func (x *iacResources) Scale(ctx context.Context, m *iacpb.ResourceScaleRequest) (*iacpb.ResourceScaleResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.ScaleResourceRequest, error) { return wire.DecodeIaCScale(m, x.p.ids.NewID()) }, sdk.ResourceDriver.ScaleResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCOutput(res.Output)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceScaleResponse{Output: out}, nil
}

func (x *iacResources) HealthCheck(ctx context.Context, m *iacpb.ResourceHealthCheckRequest) (*iacpb.ResourceHealthCheckResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.HealthCheckResourceRequest, error) { return wire.DecodeIaCHealthCheck(m) }, sdk.ResourceDriver.HealthCheckResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCHealth(res)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.ResourceHealthCheckResponse{Result: out}, nil
}

func (x *iacResources) SensitiveKeys(ctx context.Context, m *iacpb.SensitiveKeysRequest) (*iacpb.SensitiveKeysResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Resources(), func() (sdk.SensitiveKeysRequest, error) {
		return sdk.SensitiveKeysRequest{Type: m.GetResourceType()}, nil
	}, sdk.ResourceDriver.SensitiveKeys)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.SensitiveKeysResponse{Keys: res.Keys}, nil
}

// Troubleshoot is Unimplemented where the provider is no Troubleshooter, which a host
// reads as absent.
func (x *iacResources) Troubleshoot(ctx context.Context, m *iacpb.TroubleshootRequest) (*iacpb.TroubleshootResponse, error) {
	res, err := iacUnary(ctx, x.p, sdk.Troubleshooting(), func() (sdk.TroubleshootResourceRequest, error) { return wire.DecodeIaCTroubleshoot(m) }, sdk.Troubleshooter.TroubleshootResource)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	out, err := wire.EncodeIaCDiagnostics(res.Diagnostics)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &iacpb.TroubleshootResponse{Diagnostics: out}, nil
}
