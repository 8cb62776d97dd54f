// Package logtail reads the logs of jobs from their streams in CloudWatch Logs.
//
// A few logs are read each by itself: GetLogEvents shows what is new soonest, and
// its tokens are exact. AWS gives an account 25 such calls a second. So once many
// logs of a group are followed they are read together, up to a hundred by one call
// of FilterLogEvents, of which there are 5 a second. A place in a log serves both.
package logtail

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
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
	// lately is for how long a job that was shown not to have started needs no
	// look at its log, where there are many.
	lately = time.Minute
	// maxEvent is the most bytes that the log driver puts into one event; a
	// longer line comes in several.
	// https://docs.docker.com/engine/logging/drivers/awslogs/
	maxEvent = 262118
	// utfTail is by how much it cuts earlier, not to part a character.
	utfTail = 3
)

// Job is what is known of the job whose log it is.
type Job struct {
	// Ended, with the time at which this process saw it; Ran: its container was
	// made, so that there is a log.
	Ended, Ran bool
	EndSeen    time.Time
	// Shown is when a call last showed it, zero for not known.
	Shown time.Time
	// Stream is the log's stream, where the log itself doesn't name it; empty
	// is not known.
	Stream string
}

// Log is one job's log.
type Log struct {
	// Kind marks cursors; Provider is for errors.
	Kind, Provider string
	// Get reads a page, when its budget allows.
	Get func(ctx context.Context, in *cloudwatchlogs.GetLogEventsInput) (*cloudwatchlogs.GetLogEventsOutput, error)
	// Reader and Filter read it together with others; nil Reader: never.
	Reader *Reader
	Filter Filter
	// Refused is set once Filter was found not to be permitted to the provider,
	// whose logs share it.
	Refused *atomic.Bool
	Clock   sdk.Clock
	// Group and Stream say where it is. An empty stream is that of the job,
	// once that is known.
	Group, Stream string
	// Known returns what this process has seen of the job, without a call; Look
	// asks for it. ok is false for nothing, or nothing that still serves.
	Known func() (j Job, ok bool)
	Look  func(ctx context.Context) (j Job, ok bool, err error)
	// Quiet is how long an ended job's log must be silent to count as whole.
	Quiet time.Duration
	// Remedy is what to do about a stream that never comes.
	Remedy string
}

// Read implements sdk.JobLogger. It reads the stream from its head or from a
// cursor. An empty page ends nothing: the end so far is where CloudWatch gives
// back the token that it was given.
// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html
func (l *Log) Read(ctx context.Context, cursor *sdk.LogCursor, follow bool) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		if err := l.stream(ctx, cursor, follow, func(it sdk.LogItem) bool { return yield(it, nil) }); err != nil && !errors.Is(err, errLeft) {
			yield(sdk.LogItem{}, err)
		}
	}
}

// errLeft: the reader of a stream has left it.
var errLeft = errors.New("left")

func (l *Log) stream(ctx context.Context, cursor *sdk.LogCursor, follow bool, yield func(sdk.LogItem) bool) error {
	if err := ctx.Err(); err != nil {
		return l.fail(sdk.CodeOf(err), err)
	}
	at, err := readPosition(l.Kind, cursor)
	if err != nil {
		return l.fail(sdk.InvalidArgument, err)
	}
	w := &reader{Log: l, at: at, wait: firstLook, name: l.Stream, every: firstLook, moved: true}
	if follow && l.Reader != nil {
		defer l.Reader.join()()
		w.f = &follower{overlap: l.Quiet, refused: l.Refused, wake: make(chan struct{}, 1)}
	}
	if w.name == "" {
		if err := w.find(ctx, follow); err != nil {
			return err
		}
	}
	for {
		got, err := w.next(ctx)
		if err != nil {
			return err
		}
		if len(got.events) > 0 {
			w.wait = firstLook
			if !w.give(got.events, yield) {
				return errLeft
			}
		}
		if !got.end {
			continue
		}
		if !follow {
			yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictQuiet}, Cursor: w.at.cursor(w.Kind)})
			return nil
		}
		if len(got.events) == 0 && !got.unread && !yield(sdk.LogItem{}) {
			return errLeft
		}
		never, err := w.idle(ctx, got.missing)
		if err != nil {
			return err
		}
		if never {
			yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}, Cursor: w.at.cursor(w.Kind)})
			return nil
		}
	}
}

func (l *Log) fail(code sdk.Code, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: opLogs, Provider: l.Provider, Err: err}
}

// reader reads the stream once.
type reader struct {
	*Log
	at   position
	wait time.Duration
	// rest is the pause before the next look.
	rest time.Duration
	// name is the stream's, empty while it isn't known.
	name string
	// asked is when the job was last asked for, every the wait until it is asked
	// for again where its stream isn't known.
	asked time.Time
	every time.Duration

	// f is for reading with others, nil where that isn't done. moved: at has
	// changed since f was last told of it.
	f     *follower
	moved bool
	// there: the stream was seen; doubted: it wasn't, although the job has run.
	// behind: there was more when it was last read alone.
	there, doubted, behind bool
}

// find learns the name of the stream from the job. Who follows has time: others
// may be just about to ask.
func (w *reader) find(ctx context.Context, follow bool) error {
	j, ok := w.Known()
	if (!ok || j.Stream == "") && !follow {
		var err error
		if j, _, err = w.Look(ctx); err != nil {
			return err
		}
	}
	w.asked, w.name = time.Now(), j.Stream
	return nil
}

// page is what one look gave. end: there is no more for now; missing: the
// stream isn't there; unread: nobody looked, since it can't be there yet or its
// name isn't known.
type page struct {
	events               []types.OutputLogEvent
	end, missing, unread bool
}

// next is the next look, alone or with others.
func (w *reader) next(ctx context.Context) (page, error) {
	rest := w.rest
	w.rest = 0
	together := w.f != nil && w.name != "" && !w.behind && !w.Refused.Load() && w.Reader.crowded()
	if known, ok := w.Known(); together && !w.there {
		if together = ok && known.Ran && !w.doubted; ok && !known.Ran && !known.Ended && time.Since(known.Shown) < lately {
			return page{end: true, missing: true, unread: true}, w.sleep(ctx, rest)
		}
	}
	if together {
		return w.withOthers(ctx, rest)
	}
	if err := w.sleep(ctx, rest); err != nil {
		return page{}, err
	}
	return w.alone(ctx)
}

func (w *reader) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := w.Clock.Sleep(ctx, d); err != nil {
		return w.fail(sdk.CodeOf(err), err)
	}
	return nil
}

// withOthers is a look by FilterLogEvents.
func (w *reader) withOthers(ctx context.Context, rest time.Duration) (page, error) {
	if w.f.stream = w.name; w.moved {
		w.f.seen, w.moved = seenAt(w.at), false
	}
	got, err := w.Reader.await(ctx, w.f, rest, w.Filter)
	switch {
	case err != nil && ctx.Err() != nil:
		return page{}, w.fail(sdk.CodeOf(ctx.Err()), ctx.Err())
	case sdk.CodeOf(err) == sdk.PermissionDenied:
		// Whoever may read one stream by its name loses nothing but speed.
		w.Refused.Store(true)
		return page{}, nil
	case err != nil:
		return page{}, err
	case got.alone:
		return w.alone(ctx)
	case got.missing:
		w.there, w.doubted = false, true
		return page{end: true, missing: true}, nil
	}
	if w.there = true; len(got.events) > 0 {
		w.at.token, w.at.skip = "", 0
	}
	return page{events: got.events, end: got.looked}, nil
}

// alone is a look by GetLogEvents.
func (w *reader) alone(ctx context.Context) (page, error) {
	if w.name == "" {
		return page{end: true, missing: true, unread: true}, nil
	}
	if w.at.token == "" && w.f != nil && !w.moved {
		// The place was reached with others.
		w.at.skip = w.at.same
	}
	in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: &w.Group, LogStreamName: &w.name, StartFromHead: new(true)}
	switch {
	case w.at.token != "":
		in.NextToken = &w.at.token
	case w.at.millis > 0:
		in.StartTime = new(w.at.millis)
	}
	out, err := w.Get(ctx, in)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return page{end: true, missing: true}, nil
	case err != nil && w.at.token != "" && aws.ErrorCode(err) == "InvalidParameterException":
		// A token lives for 24 hours. The place is found again by time.
		w.at.token, w.at.skip = "", w.at.same
		return page{}, nil
	case err != nil:
		return page{}, err
	}
	got := page{events: w.at.unseen(out.Events), end: awssdk.ToString(out.NextForwardToken) == w.at.token}
	w.at.token = awssdk.ToString(out.NextForwardToken)
	w.there, w.doubted, w.behind = true, false, !got.end
	w.moved = w.moved || len(got.events) > 0
	if w.at.token == "" {
		return page{}, w.fail(sdk.Unavailable, errors.New("CloudWatch gave no token"))
	}
	return got, nil
}

// give hands a page on, with a cursor behind its last event.
func (w *reader) give(events []types.OutputLogEvent, yield func(sdk.LogItem) bool) bool {
	for i, e := range events {
		c := &sdk.LogChunk{Stream: sdk.StreamCombined, Data: []byte(awssdk.ToString(e.Message)), LineEnd: sdk.LineEndStripped}
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
			it.Cursor = w.at.cursor(w.Kind)
		}
		if !yield(it) {
			return false
		}
	}
	return true
}

// idle sets the wait before the next look. never: the job has ended and no
// container of it was ever made, so that there is no log and won't be.
func (w *reader) idle(ctx context.Context, missing bool) (never bool, err error) {
	known, ok := w.Known()
	if missing {
		every, nameless := stateEvery, w.name == "" && known.Stream == ""
		if nameless {
			every = w.every
		}
		if !ok && time.Since(w.asked) > every {
			w.asked, w.every = time.Now(), min(2*w.every, stateEvery)
			if known, ok, err = w.Look(ctx); err != nil {
				return false, err
			}
		}
		if w.name == "" && known.Stream != "" {
			w.name = known.Stream
			return false, nil
		}
		if ok && known.Ended && !known.Ran {
			return true, nil
		}
		if ok && known.Ended && time.Since(known.EndSeen) > w.Quiet/2 {
			e := w.fail(sdk.NotFound, fmt.Errorf("the job has ended, and there is no log stream %s in the group %s", w.name, w.Group))
			e.Remedy = w.Remedy
			return false, e
		}
	}
	d := w.wait
	if w.wait = min(w.wait*2, lastLook); ok && known.Ended {
		d = min(d, endedLook)
	}
	// A look must come soon after the window of silence has passed.
	w.rest = min(d, max(w.Quiet/4, 10*time.Millisecond))
	return false, nil
}
