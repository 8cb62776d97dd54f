package iac

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

var serviceResources = pb.ResourceDriver_ServiceDesc.ServiceName

var (
	_ sdk.ResourceDriver = (*provider)(nil)
	_ sdk.Troubleshooter = (*provider)(nil)
)

func (p *provider) resources() pb.ResourceDriverClient {
	return pb.NewResourceDriverClient(p.conn.grpc)
}

// CreateResource implements sdk.ResourceDriver.
// The change's ID stays here: that wire has no place for it.
func (p *provider) CreateResource(ctx context.Context, r sdk.CreateResourceRequest) (sdk.CreateResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.CreateResourceResult{}, err
	}
	m, err := wire.EncodeIaCCreate(r)
	if err != nil {
		return sdk.CreateResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "create resource", "ResourceDriver.Create", m, p.resources().Create)
	if err != nil {
		return sdk.CreateResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCOutput(reply.GetOutput())
	return sdk.CreateResourceResult{Output: out}, named(err, p.info.Name)
}

// ReadResource implements sdk.ResourceDriver.
// That wire has no ID of a change and no owner: none is known.
func (p *provider) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.ReadResourceResult{}, err
	}
	m, err := wire.EncodeIaCRead(r)
	if err != nil {
		return sdk.ReadResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "read resource", "ResourceDriver.Read", m, p.resources().Read)
	if err != nil {
		return sdk.ReadResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCOutput(reply.GetOutput())
	return sdk.ReadResourceResult{Output: out}, named(err, p.info.Name)
}

// UpdateResource implements sdk.ResourceDriver.
func (p *provider) UpdateResource(ctx context.Context, r sdk.UpdateResourceRequest) (sdk.UpdateResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.UpdateResourceResult{}, err
	}
	m, err := wire.EncodeIaCUpdate(r)
	if err != nil {
		return sdk.UpdateResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "update resource", "ResourceDriver.Update", m, p.resources().Update)
	if err != nil {
		return sdk.UpdateResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCOutput(reply.GetOutput())
	return sdk.UpdateResourceResult{Output: out}, named(err, p.info.Name)
}

// DeleteResource implements sdk.ResourceDriver.
func (p *provider) DeleteResource(ctx context.Context, r sdk.DeleteResourceRequest) (sdk.DeleteResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.DeleteResourceResult{}, err
	}
	m, err := wire.EncodeIaCDelete(r)
	if err != nil {
		return sdk.DeleteResourceResult{}, named(err, p.info.Name)
	}
	_, err = call(ctx, "delete resource", "ResourceDriver.Delete", m, p.resources().Delete)
	return sdk.DeleteResourceResult{}, named(err, p.info.Name)
}

// DiffResource implements sdk.ResourceDriver.
func (p *provider) DiffResource(ctx context.Context, r sdk.DiffResourceRequest) (sdk.DiffResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.DiffResourceResult{}, err
	}
	m, err := wire.EncodeIaCDiff(r)
	if err != nil {
		return sdk.DiffResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "compare resource", "ResourceDriver.Diff", m, p.resources().Diff)
	if err != nil {
		return sdk.DiffResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCDiffResult(reply.GetResult())
	return out, named(err, p.info.Name)
}

// ScaleResource implements sdk.ResourceDriver.
func (p *provider) ScaleResource(ctx context.Context, r sdk.ScaleResourceRequest) (sdk.ScaleResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.ScaleResourceResult{}, err
	}
	m, err := wire.EncodeIaCScale(r)
	if err != nil {
		return sdk.ScaleResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "scale resource", "ResourceDriver.Scale", m, p.resources().Scale)
	if err != nil {
		return sdk.ScaleResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCOutput(reply.GetOutput())
	return sdk.ScaleResourceResult{Output: out}, named(err, p.info.Name)
}

// HealthCheckResource implements sdk.ResourceDriver.
func (p *provider) HealthCheckResource(ctx context.Context, r sdk.HealthCheckResourceRequest) (sdk.HealthCheckResourceResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.HealthCheckResourceResult{}, err
	}
	m, err := wire.EncodeIaCHealthCheck(r)
	if err != nil {
		return sdk.HealthCheckResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "check resource", "ResourceDriver.HealthCheck", m, p.resources().HealthCheck)
	if err != nil {
		return sdk.HealthCheckResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCHealth(reply.GetResult())
	return out, named(err, p.info.Name)
}

// SensitiveKeys implements sdk.ResourceDriver. Whoever asks shows nothing where it fails.
func (p *provider) SensitiveKeys(ctx context.Context, r sdk.SensitiveKeysRequest) (sdk.SensitiveKeysResult, error) {
	if err := p.absent(sdk.Resources().String()); err != nil {
		return sdk.SensitiveKeysResult{}, err
	}
	reply, err := call(ctx, "read sensitive keys", "ResourceDriver.SensitiveKeys", &pb.SensitiveKeysRequest{ResourceType: r.Type}, p.resources().SensitiveKeys)
	return sdk.SensitiveKeysResult{Keys: reply.GetKeys()}, named(err, p.info.Name)
}

// TroubleshootResource implements sdk.Troubleshooter.
func (p *provider) TroubleshootResource(ctx context.Context, r sdk.TroubleshootResourceRequest) (sdk.TroubleshootResourceResult, error) {
	if err := p.absent(sdk.Troubleshooting().String()); err != nil {
		return sdk.TroubleshootResourceResult{}, err
	}
	m, err := wire.EncodeIaCTroubleshoot(r)
	if err != nil {
		return sdk.TroubleshootResourceResult{}, named(err, p.info.Name)
	}
	reply, err := call(ctx, "explain resource", "ResourceDriver.Troubleshoot", m, p.resources().Troubleshoot)
	if sdk.CodeOf(err) == sdk.Unimplemented {
		p.conn.untroubled.Store(true)
		return sdk.TroubleshootResourceResult{}, sdk.Absent(p.info.Name, p.info.Kind, sdk.Troubleshooting().String())
	}
	if err != nil {
		return sdk.TroubleshootResourceResult{}, named(err, p.info.Name)
	}
	out, err := wire.DecodeIaCDiagnostics(reply.GetDiagnostics())
	return sdk.TroubleshootResourceResult{Diagnostics: out}, named(err, p.info.Name)
}
