package batch

import (
	"context"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/windlass-run/windlass/internal/cloud/aws/logtail"
	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

// freshFor is how long what a call has shown of a job without a stream is good
// enough: whoever polls the job's state shows it again by then.
const freshFor = 5 * time.Second

// JobLogs implements sdk.JobLogger. It reads the stream of the job's one attempt,
// which the handle names, or the job itself once it has started.
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	if err := p.checkHandle(opLogs, r.Handle); err != nil {
		return func(yield func(sdk.LogItem, error) bool) { yield(sdk.LogItem{}, err) }
	}
	h := r.Handle
	log := &logtail.Log{Kind: Kind, Provider: p.name, Clock: p.clock, Group: h.Metadata[keyLogGroup], Stream: h.Metadata[keyLogStream],
		Quiet:  time.Duration(p.cfg.LogQuiet),
		Remedy: "check that the execution role, or the instances' role, may do logs:CreateLogStream and logs:PutLogEvents there, and log_group under config:",
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
			j, ok := p.jobs.get(h.ID)
			return logtail.Job{Ended: j.ended, Ran: j.ran, EndSeen: j.endSeen, Shown: j.shown, Stream: j.stream}, ok && (j.stream != "" || time.Since(j.shown) < freshFor)
		},
		Look: func(ctx context.Context) (logtail.Job, bool, error) {
			j, ok, err := p.look(ctx, opLogs, h.ID)
			if err != nil {
				return logtail.Job{}, false, err
			}
			if ok {
				p.jobs.seen(h, j)
			}
			return logtail.Job{Ended: ok && hasEnded(j), Ran: ok && ranAtAll(j), EndSeen: time.Now(), Stream: stream(j)}, ok, nil
		},
	}
	return log.Read(ctx, r.Cursor, r.Follow)
}
