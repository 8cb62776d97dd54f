package plugin

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// The services of resources.
type (
	resources struct {
		pb.UnimplementedResourceDriverServiceServer
		s *Server
	}
	troubleshooter struct {
		pb.UnimplementedTroubleshooterServiceServer
		s *Server
	}
)

func (x *resources) CreateResource(ctx context.Context, m *pb.CreateResourceRequest) (*pb.CreateResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeCreateResourceRequest, sdk.ResourceDriver.CreateResource, wire.EncodeCreateResourceResponse)
}

func (x *resources) ReadResource(ctx context.Context, m *pb.ReadResourceRequest) (*pb.ReadResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeReadResourceRequest, sdk.ResourceDriver.ReadResource, wire.EncodeReadResourceResponse)
}

func (x *resources) UpdateResource(ctx context.Context, m *pb.UpdateResourceRequest) (*pb.UpdateResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeUpdateResourceRequest, sdk.ResourceDriver.UpdateResource, wire.EncodeUpdateResourceResponse)
}

func (x *resources) DeleteResource(ctx context.Context, m *pb.DeleteResourceRequest) (*pb.DeleteResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeDeleteResourceRequest, sdk.ResourceDriver.DeleteResource,
		func(sdk.DeleteResourceResult) (*pb.DeleteResourceResponse, error) {
			return &pb.DeleteResourceResponse{}, nil
		})
}

func (x *resources) DiffResource(ctx context.Context, m *pb.DiffResourceRequest) (*pb.DiffResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeDiffResourceRequest, sdk.ResourceDriver.DiffResource, wire.EncodeDiffResourceResponse)
}

func (x *resources) ScaleResource(ctx context.Context, m *pb.ScaleResourceRequest) (*pb.ScaleResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeScaleResourceRequest, sdk.ResourceDriver.ScaleResource, wire.EncodeScaleResourceResponse)
}

func (x *resources) HealthCheckResource(ctx context.Context, m *pb.HealthCheckResourceRequest) (*pb.HealthCheckResourceResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeHealthCheckResourceRequest, sdk.ResourceDriver.HealthCheckResource, wire.EncodeHealthCheckResourceResponse)
}

func (x *resources) SensitiveKeys(ctx context.Context, m *pb.SensitiveKeysRequest) (*pb.SensitiveKeysResponse, error) {
	return unary(ctx, x.s, sdk.Resources(), m, wire.DecodeSensitiveKeysRequest, sdk.ResourceDriver.SensitiveKeys, wire.EncodeSensitiveKeysResponse)
}

func (x *troubleshooter) TroubleshootResource(ctx context.Context, m *pb.TroubleshootResourceRequest) (*pb.TroubleshootResourceResponse, error) {
	return unary(ctx, x.s, sdk.Troubleshooting(), m, wire.DecodeTroubleshootResourceRequest, sdk.Troubleshooter.TroubleshootResource, wire.EncodeTroubleshootResourceResponse)
}
