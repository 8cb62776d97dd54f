package keeper

import (
	"context"
	"iter"

	"github.com/windlass-run/windlass/sdk"
)

// ListWorkloads implements sdk.WorkloadLister.
func (st *stable) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return stream(ctx, st, sdk.Workloads(), func(w sdk.WorkloadLister) iter.Seq2[sdk.WorkloadItem, error] { return w.ListWorkloads(ctx, r) })
}

// WorkloadStatus implements sdk.WorkloadStatuser.
func (st *stable) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	return via(ctx, st, sdk.WorkloadStates(), func(w sdk.WorkloadStatuser) (sdk.WorkloadStatusResult, error) { return w.WorkloadStatus(ctx, r) })
}

// StartWorkload implements sdk.Starter.
func (st *stable) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	return change(ctx, st, sdk.WorkloadStarts(), func(w sdk.Starter) (sdk.StartWorkloadResult, error) { return w.StartWorkload(ctx, r) })
}

// StopWorkload implements sdk.Stopper.
func (st *stable) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	return change(ctx, st, sdk.WorkloadStops(), func(w sdk.Stopper) (sdk.StopWorkloadResult, error) { return w.StopWorkload(ctx, r) })
}

// ScaleWorkload implements sdk.Scaler.
func (st *stable) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	return change(ctx, st, sdk.WorkloadScales(), func(w sdk.Scaler) (sdk.ScaleWorkloadResult, error) { return w.ScaleWorkload(ctx, r) })
}

// RestartWorkload implements sdk.Restarter.
func (st *stable) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	return change(ctx, st, sdk.WorkloadRestarts(), func(w sdk.Restarter) (sdk.RestartWorkloadResult, error) { return w.RestartWorkload(ctx, r) })
}

// ApplyConfig implements sdk.Configurer.
func (st *stable) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	return change(ctx, st, sdk.WorkloadConfigs(), func(w sdk.Configurer) (sdk.ApplyConfigResult, error) { return w.ApplyConfig(ctx, r) })
}

// ExecWorkload implements sdk.Execer.
func (st *stable) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	return change(ctx, st, sdk.WorkloadExecs(), func(w sdk.Execer) (sdk.ExecWorkloadResult, error) { return w.ExecWorkload(ctx, r) })
}

// TailLogs implements sdk.LogTailer.
func (st *stable) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return stream(ctx, st, sdk.WorkloadLogs(), func(w sdk.LogTailer) iter.Seq2[sdk.WorkloadLogItem, error] { return w.TailLogs(ctx, r) })
}

// StreamMetrics implements sdk.MetricStreamer.
func (st *stable) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return stream(ctx, st, sdk.WorkloadMetrics(), func(w sdk.MetricStreamer) iter.Seq2[sdk.MetricItem, error] { return w.StreamMetrics(ctx, r) })
}
