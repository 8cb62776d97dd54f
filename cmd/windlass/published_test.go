package main

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"sync"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/windlass-run/windlass/sdk/plugin"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
)

// pretendTheirs is a plugin that was published for the ecosystem's own host: it serves
// nothing of ours, and runs commands as processes of this machine. It has no PATH.
const pretendTheirs = "theirs"

func servePublished() {
	goplugin.Serve(&goplugin.ServeConfig{HandshakeConfig: plugin.Handshake(), Plugins: goplugin.PluginSet{plugin.SetKey: &published{}}, GRPCServer: goplugin.DefaultGRPCServer})
}

type published struct {
	goplugin.NetRPCUnsupportedPlugin
	workflowpb.UnimplementedPluginServiceServer
}

func (p *published) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	workflowpb.RegisterPluginServiceServer(s, p)
	iacpb.RegisterIaCProviderRequiredServer(s, publishedProvider{})
	jobs := &publishedJobs{}
	iacpb.RegisterIaCProviderRunnerServer(s, jobs)
	iacpb.RegisterIaCProviderJobCancelerServer(s, publishedCancel{jobs: jobs})
	return nil
}

func (p *published) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (p *published) GetManifest(context.Context, *emptypb.Empty) (*workflowpb.Manifest, error) {
	return &workflowpb.Manifest{Name: pretendTheirs, Version: "1.2.3", Author: "them"}, nil
}

func (p *published) GetContractRegistry(context.Context, *emptypb.Empty) (*workflowpb.ContractRegistry, error) {
	out := &workflowpb.ContractRegistry{}
	for _, d := range []grpc.ServiceDesc{iacpb.IaCProviderRequired_ServiceDesc, iacpb.IaCProviderRunner_ServiceDesc, iacpb.IaCProviderJobCanceler_ServiceDesc} {
		out.Contracts = append(out.Contracts, &workflowpb.ContractDescriptor{Kind: workflowpb.ContractKind_CONTRACT_KIND_SERVICE, ServiceName: d.ServiceName,
			Mode: workflowpb.ContractMode_CONTRACT_MODE_STRICT_PROTO})
	}
	return out, nil
}

type publishedProvider struct {
	iacpb.UnimplementedIaCProviderRequiredServer
}

func (publishedProvider) Initialize(context.Context, *iacpb.InitializeRequest) (*iacpb.InitializeResponse, error) {
	return &iacpb.InitializeResponse{}, nil
}

func (publishedProvider) Name(context.Context, *iacpb.NameRequest) (*iacpb.NameResponse, error) {
	return &iacpb.NameResponse{Name: pretendTheirs}, nil
}

// publishedJobs keeps in memory what became of commands, as such plugins do.
type publishedJobs struct {
	iacpb.UnimplementedIaCProviderRunnerServer

	mu   sync.Mutex
	jobs []publishedJob
}

type publishedJob struct {
	code   int
	output []byte
}

func (p *publishedJobs) RunJob(ctx context.Context, m *iacpb.JobSpec) (*iacpb.JobHandle, error) {
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", m.GetRunCommand()).CombinedOutput()
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs = append(p.jobs, publishedJob{code, out})
	return &iacpb.JobHandle{Id: strconv.Itoa(len(p.jobs) - 1), Name: m.GetName(), Provider: pretendTheirs}, nil
}

func (p *publishedJobs) job(m *iacpb.JobHandle) (publishedJob, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := strconv.Atoi(m.GetId())
	if err != nil || n >= len(p.jobs) {
		return publishedJob{}, status.Error(codes.NotFound, "no such job")
	}
	return p.jobs[n], nil
}

func (p *publishedJobs) JobStatus(_ context.Context, m *iacpb.JobHandle) (*iacpb.JobStatusReply, error) {
	j, err := p.job(m)
	if err != nil {
		return nil, err
	}
	out := &iacpb.JobStatusReply{Handle: m, State: iacpb.JobState_JOB_STATE_SUCCEEDED, ExitCode: int32(j.code)} //nolint:gosec // a code has 8 bits
	if j.code != 0 {
		out.State = iacpb.JobState_JOB_STATE_FAILED
	}
	return out, nil
}

func (p *publishedJobs) JobLogs(m *iacpb.JobHandle, stream grpc.ServerStreamingServer[iacpb.LogChunk]) error {
	j, err := p.job(m)
	if err != nil {
		return err
	}
	return errors.Join(stream.Send(&iacpb.LogChunk{Data: j.output}), stream.Send(&iacpb.LogChunk{Eof: true}))
}

// publishedCancel has nothing to end: each command has ended when it is known.
type publishedCancel struct {
	iacpb.UnimplementedIaCProviderJobCancelerServer
	jobs *publishedJobs
}

func (p publishedCancel) CancelJob(_ context.Context, m *iacpb.JobHandle) (*emptypb.Empty, error) {
	_, err := p.jobs.job(m)
	return &emptypb.Empty{}, err
}
