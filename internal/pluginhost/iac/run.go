package iac

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// RunJob implements sdk.JobRunner. It makes one call and never another: the wire has no
// key by which a second would be the first, and no search. So an error that isn't clear
// leaves the launch unconfirmed for good, and so does a reply without a usable handle.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	const op = "run job"
	if err := p.absent(sdk.Runner().String()); err != nil {
		return sdk.RunJobResult{}, err
	}
	spec, err := p.launch.ToSend(op, r.Launch)
	if err != nil {
		return sdk.RunJobResult{}, named(err, p.info.Name)
	}
	h, err := call(ctx, op, "IaCProviderRunner.RunJob", spec, pb.NewIaCProviderRunnerClient(p.conn.grpc).RunJob)
	if err != nil {
		return sdk.RunJobResult{}, named(err, p.info.Name)
	}
	if h.GetId() == "" {
		return sdk.RunJobResult{}, p.nonsense(op, "gave the job no ID, so that it can't be asked for; look for %s on its backend", spec.GetName())
	}
	if n := proto.Size(h); n > maxHandle {
		return sdk.RunJobResult{}, p.nonsense(op, "gave a handle of %d bytes, %d are taken; look for job %.80q on its backend", n, maxHandle, h.GetId())
	}
	return sdk.RunJobResult{Handle: p.handle(h)}, nil
}
