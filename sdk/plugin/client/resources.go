package client

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

var (
	_ sdk.ResourceDriver = (*provider)(nil)
	_ sdk.Troubleshooter = (*provider)(nil)
)

func (p *provider) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	return unary(ctx, p, "create resource", r, wire.EncodeCreateResourceRequest, pb.NewResourceDriverServiceClient(p.conn).CreateResource, wire.DecodeCreateResourceResponse)
}

func (p *provider) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	return unary(ctx, p, "read resource", r, wire.EncodeReadResourceRequest, pb.NewResourceDriverServiceClient(p.conn).ReadResource, wire.DecodeReadResourceResponse)
}

func (p *provider) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	return unary(ctx, p, "update resource", r, wire.EncodeUpdateResourceRequest, pb.NewResourceDriverServiceClient(p.conn).UpdateResource, wire.DecodeUpdateResourceResponse)
}

func (p *provider) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	return unary(ctx, p, "delete resource", r, wire.EncodeDeleteResourceRequest, pb.NewResourceDriverServiceClient(p.conn).DeleteResource,
		func(*pb.DeleteResourceResponse) (sdk.DeleteResourceResult, error) {
			return sdk.DeleteResourceResult{}, nil
		})
}

func (p *provider) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	return unary(ctx, p, "compare resource", r, wire.EncodeDiffResourceRequest, pb.NewResourceDriverServiceClient(p.conn).DiffResource, wire.DecodeDiffResourceResponse)
}

func (p *provider) ScaleResource(ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	return unary(ctx, p, "scale resource", r, wire.EncodeScaleResourceRequest, pb.NewResourceDriverServiceClient(p.conn).ScaleResource, wire.DecodeScaleResourceResponse)
}

func (p *provider) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	return unary(ctx, p, "check resource", r, wire.EncodeHealthCheckResourceRequest, pb.NewResourceDriverServiceClient(p.conn).HealthCheckResource, wire.DecodeHealthCheckResourceResponse)
}

func (p *provider) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	return unary(ctx, p, "read sensitive keys", r, wire.EncodeSensitiveKeysRequest, pb.NewResourceDriverServiceClient(p.conn).SensitiveKeys, wire.DecodeSensitiveKeysResponse)
}

func (p *provider) TroubleshootResource(ctx context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	return unary(ctx, p, "explain resource", r, wire.EncodeTroubleshootResourceRequest, pb.NewTroubleshooterServiceClient(p.conn).TroubleshootResource, wire.DecodeTroubleshootResourceResponse)
}
