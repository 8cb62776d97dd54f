package ecs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opLogs = "read log"
	// The waits between two looks at a log that has nothing new.
	firstLook = 300 * time.Millisecond
	lastLook  = 4 * time.Second
	// endedLook is that wait once the job has ended.
	endedLook = time.Second
	// stateEvery is the wait between two looks at the task of a log that isn't
	// there, where nobody else asks for it.
	stateEvery = 10 * time.Second
	// maxEvent is the most bytes that the log driver puts into one event; a
	// longer line comes in several.
	// https://docs.docker.com/engine/logging/drivers/awslogs/
	maxEvent = 262118
	// utfTail is by how much it cuts earlier, not to part a character.
	utfTail = 3
)

// JobLogs implements sdk.JobLogger. It reads the task's own stream, which the
// handle names, from its head or from a cursor. An empty page ends nothing: the
// end so far is where CloudWatch gives back the token that it was given.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
func (p *provider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := p.streamLog(ctx, r, func(it sdk.LogItem) bool { return yield(it, nil) }); err != nil && !errors.Is(err, errLeft) {
			yield(sdk.LogItem{}, err)
		}
	}
}

// errLeft: the reader of a stream has left it.
var errLeft = errors.New("left")

func (p *provider) streamLog(ctx context.Context, r sdk.JobLogsRequest, yield func(sdk.LogItem) bool) error {
	if err := ctx.Err(); err != nil {
		return p.fail(sdk.CodeOf(err), opLogs, err)
	}
	if err := p.checkHandle(opLogs, r.Handle); err != nil {
		return err
	}
	at, err := readPosition(r.Cursor)
	if err != nil {
		return p.fail(sdk.InvalidArgument, opLogs, err)
	}
	w := &logReader{p: p, h: r.Handle, at: at, wait: firstLook}
	for {
		page, err := w.next(ctx)
		if err != nil {
			return err
		}
		if len(page.events) > 0 {
			w.wait = firstLook
			if !w.give(page.events, yield) {
				return errLeft
			}
		}
		if !page.end {
			continue
		}
		if !r.Follow {
			yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictQuiet}, Cursor: w.at.cursor()})
			return nil
		}
		never, err := w.idle(ctx, page.missing)
		if err != nil {
			return err
		}
		if never {
			yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}, Cursor: w.at.cursor()})
			return nil
		}
	}
}

// logReader reads one stream.
type logReader struct {
	p    *provider
	h    sdk.JobHandle
	at   position
	wait time.Duration
	// asked is when the task was last asked for.
	asked time.Time
}

// logPage is what one look gave. end: there is no more for now; missing: the
// stream isn't there.
type logPage struct {
	events       []types.OutputLogEvent
	end, missing bool
}

func (w *logReader) next(ctx context.Context) (logPage, error) {
	group, stream := w.h.Metadata[keyLogGroup], w.h.Metadata[keyLogStream]
	in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: &stream, StartFromHead: new(true)}
	switch {
	case w.at.token != "":
		in.NextToken = &w.at.token
	case w.at.millis > 0:
		in.StartTime = new(w.at.millis)
	}
	var out *cloudwatchlogs.GetLogEventsOutput
	err := w.p.paced(ctx, w.p.logReads, opLogs, func(ctx context.Context) (err error) {
		out, err = w.p.logs.GetLogEvents(ctx, in)
		return err
	})
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return logPage{end: true, missing: true}, nil
	case err != nil && w.at.token != "" && aws.ErrorCode(err) == "InvalidParameterException":
		// A token lives for 24 hours. The place is found again by time.
		w.at.token, w.at.skip = "", w.at.same
		return logPage{}, nil
	case err != nil:
		return logPage{}, err
	}
	page := logPage{events: w.at.unseen(out.Events), end: str(out.NextForwardToken) == w.at.token}
	w.at.token = str(out.NextForwardToken)
	if w.at.token == "" {
		return logPage{}, w.p.fail(sdk.Unavailable, opLogs, errors.New("CloudWatch gave no token"))
	}
	return page, nil
}

// give hands a page on, with a cursor behind its last event.
func (w *logReader) give(events []types.OutputLogEvent, yield func(sdk.LogItem) bool) bool {
	for i, e := range events {
		c := &sdk.LogChunk{Stream: sdk.StreamCombined, Data: []byte(str(e.Message)), LineEnd: sdk.LineEndStripped}
		if e.Timestamp != nil {
			c.Time = time.UnixMilli(*e.Timestamp).UTC()
			w.at.pass(*e.Timestamp)
		}
		if len(c.Data) >= maxEvent-utfTail {
			// The log driver cut the line here; what follows goes on with it.
			c.LineEnd = sdk.LineEndKept
		}
		it := sdk.LogItem{Entry: c}
		if i == len(events)-1 {
			it.Cursor = w.at.cursor()
		}
		if !yield(it) {
			return false
		}
	}
	return true
}

// idle waits before the next look. never: the task has ended and no container of
// it was ever made, so that there is no log and won't be.
func (w *logReader) idle(ctx context.Context, missing bool) (never bool, err error) {
	known, ok := w.p.tasks.get(w.h.ID)
	if missing {
		if !ok && time.Since(w.asked) > stateEvery {
			w.asked = time.Now()
			if known, ok, err = w.look(ctx); err != nil {
				return false, err
			}
		}
		if ok && known.ended && !known.ran {
			return true, nil
		}
		if ok && known.ended && time.Since(known.endSeen) > time.Duration(w.p.cfg.LogQuiet)/2 {
			e := w.p.fail(sdk.NotFound, opLogs, fmt.Errorf("the job has ended, and there is no log stream %s in the group %s", w.h.Metadata[keyLogStream], w.h.Metadata[keyLogGroup]))
			e.Remedy = "check that the execution role may do logs:CreateLogStream and logs:PutLogEvents there, and log_group and log_prefix under config:"
			return false, e
		}
	}
	d := w.wait
	if w.wait = min(w.wait*2, lastLook); ok && known.ended {
		d = min(d, endedLook)
	}
	if err := w.p.clock.Sleep(ctx, d); err != nil {
		return false, w.p.fail(sdk.CodeOf(err), opLogs, err)
	}
	return false, nil
}

// look asks for the task itself.
func (w *logReader) look(ctx context.Context) (task, bool, error) {
	found, err := w.p.describe(ctx, opLogs, w.h.Metadata[keyCluster], []string{w.h.ID}, false)
	if err != nil {
		return task{}, false, err
	}
	t, ok := found[w.h.ID]
	if !ok {
		return task{}, false, nil
	}
	return task{ended: hasEnded(t), ran: ranAtAll(t), endSeen: time.Now()}, true, nil
}
