package plugin

import (
	"context"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// The services of live workloads.
type (
	workloadLister struct {
		pb.UnimplementedWorkloadListerServiceServer
		s *Server
	}
	workloadStatuser struct {
		pb.UnimplementedWorkloadStatuserServiceServer
		s *Server
	}
	starter struct {
		pb.UnimplementedStarterServiceServer
		s *Server
	}
	stopper struct {
		pb.UnimplementedStopperServiceServer
		s *Server
	}
	scaler struct {
		pb.UnimplementedScalerServiceServer
		s *Server
	}
	restarter struct {
		pb.UnimplementedRestarterServiceServer
		s *Server
	}
	configurer struct {
		pb.UnimplementedConfigurerServiceServer
		s *Server
	}
	logTailer struct {
		pb.UnimplementedLogTailerServiceServer
		s *Server
	}
	metricStreamer struct {
		pb.UnimplementedMetricStreamerServiceServer
		s *Server
	}
)

func (x *workloadLister) ListWorkloads(m *pb.ListWorkloadsRequest, stream grpc.ServerStreamingServer[pb.ListWorkloadsResponse]) error {
	return replies(stream, x.s, sdk.Workloads(), m, wire.DecodeListWorkloadsRequest, sdk.WorkloadLister.ListWorkloads, wire.EncodeListWorkloadsResponse)
}

func (x *workloadStatuser) WorkloadStatus(ctx context.Context, m *pb.WorkloadStatusRequest) (*pb.WorkloadStatusResponse, error) {
	return unary(ctx, x.s, sdk.WorkloadStates(), m, wire.DecodeWorkloadStatusRequest, sdk.WorkloadStatuser.WorkloadStatus, wire.EncodeWorkloadStatusResponse)
}

func (x *starter) StartWorkload(ctx context.Context, m *pb.StartWorkloadRequest) (*pb.StartWorkloadResponse, error) {
	return unary(ctx, x.s, sdk.WorkloadStarts(), m, wire.DecodeStartWorkloadRequest, sdk.Starter.StartWorkload, wire.EncodeStartWorkloadResponse)
}

func (x *stopper) StopWorkload(ctx context.Context, m *pb.StopWorkloadRequest) (*pb.StopWorkloadResponse, error) {
	return unary(ctx, x.s, sdk.WorkloadStops(), m, wire.DecodeStopWorkloadRequest, sdk.Stopper.StopWorkload, wire.EncodeStopWorkloadResponse)
}

func (x *scaler) ScaleWorkload(ctx context.Context, m *pb.ScaleWorkloadRequest) (*pb.ScaleWorkloadResponse, error) {
	return unary(ctx, x.s, sdk.WorkloadScales(), m, wire.DecodeScaleWorkloadRequest, sdk.Scaler.ScaleWorkload, wire.EncodeScaleWorkloadResponse)
}

func (x *restarter) RestartWorkload(ctx context.Context, m *pb.RestartWorkloadRequest) (*pb.RestartWorkloadResponse, error) {
	return unary(ctx, x.s, sdk.WorkloadRestarts(), m, wire.DecodeRestartWorkloadRequest, sdk.Restarter.RestartWorkload, wire.EncodeRestartWorkloadResponse)
}

func (x *configurer) ApplyConfig(ctx context.Context, m *pb.ApplyConfigRequest) (*pb.ApplyConfigResponse, error) {
	return unary(ctx, x.s, sdk.WorkloadConfigs(), m, wire.DecodeApplyConfigRequest, sdk.Configurer.ApplyConfig, wire.EncodeApplyConfigResponse)
}

func (x *logTailer) TailLogs(m *pb.TailLogsRequest, stream grpc.ServerStreamingServer[pb.TailLogsResponse]) error {
	return output(stream, x.s, sdk.WorkloadLogs(), m, wire.DecodeTailLogsRequest, sdk.LogTailer.TailLogs, wire.SplitWorkloadLogItem,
		func() gathered[sdk.WorkloadLogItem, pb.TailLogsResponse] { return &wire.TailLogs{} })
}

func (x *metricStreamer) StreamMetrics(m *pb.StreamMetricsRequest, stream grpc.ServerStreamingServer[pb.StreamMetricsResponse]) error {
	return replies(stream, x.s, sdk.WorkloadMetrics(), m, wire.DecodeStreamMetricsRequest, sdk.MetricStreamer.StreamMetrics, wire.EncodeStreamMetricsResponse)
}
