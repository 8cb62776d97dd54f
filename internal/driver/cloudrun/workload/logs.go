package workload

import (
	"context"
	"iter"

	"cloud.google.com/go/logging/apiv2/loggingpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp/logtail"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

// TailLogs implements sdk.LogTailer. All that are followed in a project are read
// together, jobs among them.
func (w *Workloads) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		id, err := w.parse(ctx, opLogs, r.Path)
		if err == nil {
			_, err = w.get(ctx, opLogs, id)
		}
		if err != nil {
			yield(sdk.WorkloadLogItem{}, err)
			return
		}
		l := &logtail.ServiceLog{Provider: w.r.Provider, Reader: w.r.Reader, Region: w.r.Session.Region, Service: id, Late: w.r.Late,
			List: func(ctx context.Context, r *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error) {
				return call(ctx, w, w.r.LogReads, opLogs, func(ctx context.Context) (*loggingpb.ListLogEntriesResponse, error) {
					return w.r.Logs.ListLogEntries(ctx, r)
				})
			}}
		l.Read(ctx, r)(yield)
	}
}
