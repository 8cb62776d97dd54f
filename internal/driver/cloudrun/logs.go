package cloudrun

import (
	"context"
	"iter"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp/logtail"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

// JobLogs implements sdk.JobLogger. All that are followed in a project are read
// together.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	h := r.Handle
	if err := p.checkHandle(opLogs, h); err != nil {
		return func(yield func(sdk.LogItem, error) bool) { yield(sdk.LogItem{}, err) }
	}
	l := &logtail.Log{Kind: Kind, Provider: p.name, Reader: p.reader, Execution: h.Metadata[keyExecution], Since: since(h), Late: time.Duration(p.cfg.LogLate),
		List: func(ctx context.Context, r *loggingpb.ListLogEntriesRequest) (*loggingpb.ListLogEntriesResponse, error) {
			return call(ctx, p, p.logReads, opLogs, func(ctx context.Context) (*loggingpb.ListLogEntriesResponse, error) {
				return p.logs.ListLogEntries(ctx, r)
			})
		},
		Ended: func() (ended, ran bool) {
			s := p.seen.Get(h.ID)
			return s.ended, s.ran
		},
	}
	return l.Read(ctx, r.Cursor, r.Follow)
}
