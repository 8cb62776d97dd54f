package ecs

import (
	"context"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/windlass-run/windlass/internal/cloud/aws/logtail"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

// JobLogs implements sdk.JobLogger. It reads the task's own stream, which the
// handle names.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	if err := p.checkHandle(opLogs, r.Handle); err != nil {
		return func(yield func(sdk.LogItem, error) bool) { yield(sdk.LogItem{}, err) }
	}
	h := r.Handle
	log := &logtail.Log{Kind: Kind, Provider: p.name, Clock: p.clock, Group: h.Metadata[keyLogGroup], Stream: h.Metadata[keyLogStream],
		Quiet:  time.Duration(p.cfg.LogQuiet),
		Remedy: "check that the execution role may do logs:CreateLogStream and logs:PutLogEvents there, and log_group and log_prefix under config:",
		Get: func(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput) (out *cloudwatchlogs.GetLogEventsOutput, err error) {
			err = p.paced(ctx, p.logReads, opLogs, func(ctx context.Context) (err error) {
				out, err = p.logs.GetLogEvents(ctx, in)
				return err
			})
			return out, err
		},
		Reader: p.readers.For(p.session, h.Metadata[keyLogGroup]), Refused: &p.noSearch,
		Filter: func(ctx context.Context, in *cloudwatchlogs.FilterLogEventsInput) (out *cloudwatchlogs.FilterLogEventsOutput, err error) {
			err = p.paced(ctx, p.logSearches, opLogs, func(ctx context.Context) (err error) {
				out, err = p.logs.FilterLogEvents(ctx, in)
				return err
			})
			return out, err
		},
		Known: func() (logtail.Job, bool) {
			t, ok := p.tasks.get(h.ID)
			return logtail.Job{Ended: t.ended, Ran: t.ran, EndSeen: t.endSeen, Shown: t.shown}, ok
		},
		Look: func(ctx context.Context) (logtail.Job, bool, error) {
			found, err := p.describe(ctx, opLogs, h.Metadata[keyCluster], []string{h.ID}, false)
			if err != nil {
				return logtail.Job{}, false, err
			}
			t, ok := found[h.ID]
			return logtail.Job{Ended: ok && hasEnded(t), Ran: ok && ranAtAll(t), EndSeen: time.Now()}, ok, nil
		},
	}
	return log.Read(ctx, r.Cursor, r.Follow)
}
