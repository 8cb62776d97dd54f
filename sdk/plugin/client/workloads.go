package client

import (
	"context"
	"iter"
	"slices"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

var (
	_ sdk.WorkloadLister   = (*provider)(nil)
	_ sdk.WorkloadStatuser = (*provider)(nil)
	_ sdk.Starter          = (*provider)(nil)
	_ sdk.Stopper          = (*provider)(nil)
	_ sdk.Scaler           = (*provider)(nil)
	_ sdk.Restarter        = (*provider)(nil)
	_ sdk.Configurer       = (*provider)(nil)
	_ sdk.Execer           = (*provider)(nil)
	_ sdk.LogTailer        = (*provider)(nil)
	_ sdk.MetricStreamer   = (*provider)(nil)
)

func (p *provider) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return replies(ctx, p, "list workloads", r, wire.EncodeListWorkloadsRequest, pb.NewWorkloadListerServiceClient(p.conn).ListWorkloads, wire.DecodeListWorkloadsResponse)
}

func (p *provider) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	r.Brief = r.Brief && slices.Contains(p.opened.Hints, wire.HintBrief)
	return unary(ctx, p, "workload status", r, wire.EncodeWorkloadStatusRequest, pb.NewWorkloadStatuserServiceClient(p.conn).WorkloadStatus, wire.DecodeWorkloadStatusResponse)
}

func (p *provider) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	return unary(ctx, p, "start workload", r, wire.EncodeStartWorkloadRequest, pb.NewStarterServiceClient(p.conn).StartWorkload, wire.DecodeStartWorkloadResponse)
}

func (p *provider) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	return unary(ctx, p, "stop workload", r, wire.EncodeStopWorkloadRequest, pb.NewStopperServiceClient(p.conn).StopWorkload, wire.DecodeStopWorkloadResponse)
}

func (p *provider) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	return unary(ctx, p, "scale workload", r, wire.EncodeScaleWorkloadRequest, pb.NewScalerServiceClient(p.conn).ScaleWorkload, wire.DecodeScaleWorkloadResponse)
}

func (p *provider) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	return unary(ctx, p, "restart workload", r, wire.EncodeRestartWorkloadRequest, pb.NewRestarterServiceClient(p.conn).RestartWorkload, wire.DecodeRestartWorkloadResponse)
}

func (p *provider) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	return unary(ctx, p, "configure workload", r, wire.EncodeApplyConfigRequest, pb.NewConfigurerServiceClient(p.conn).ApplyConfig, wire.DecodeApplyConfigResponse)
}

func (p *provider) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return batches(ctx, p, "workload logs", r, wire.EncodeTailLogsRequest, pb.NewLogTailerServiceClient(p.conn).TailLogs, wire.DecodeTailLogsResponse)
}

func (p *provider) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return replies(ctx, p, "workload metrics", r, wire.EncodeStreamMetricsRequest, pb.NewMetricStreamerServiceClient(p.conn).StreamMetrics, wire.DecodeStreamMetricsResponse)
}
