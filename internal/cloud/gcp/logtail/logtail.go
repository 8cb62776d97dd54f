package logtail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	ltype "google.golang.org/genproto/googleapis/logging/type"

	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read log"

// Log is one execution's log.
type Log struct {
	// Kind marks cursors; Provider is for errors.
	Kind, Provider string
	Reader         *Reader
	List           List
	// Execution is its name without its parents; Since is a time before its
	// first output, zero for not known.
	Execution string
	Since     time.Time
	// Late is how long entries wait for older ones that may still arrive.
	Late time.Duration
	// Ended reports what is known without a call: that the job has ended, and
	// whether its container ever ran.
	Ended func() (ended, ran bool)
}

// errLeft: the reader of a stream has left it.
var errLeft = errors.New("left")

// Read implements sdk.JobLogger.
func (l *Log) Read(ctx context.Context, cursor *sdk.LogCursor, follow bool) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		give := func(it sdk.LogItem) error {
			if !yield(it, nil) {
				return errLeft
			}
			return nil
		}
		if err := l.read(ctx, cursor, follow, give); err != nil && !errors.Is(err, errLeft) {
			yield(sdk.LogItem{}, err)
		}
	}
}

func (l *Log) read(ctx context.Context, cursor *sdk.LogCursor, follow bool, give func(sdk.LogItem) error) error {
	if ctx.Err() != nil {
		return l.fail(sdk.CodeOf(ctx.Err()), ctx.Err())
	}
	at, err := readPosition(l.Kind, cursor)
	if err != nil {
		return l.fail(sdk.InvalidArgument, err)
	}
	f := &follower{source: source{execution: l.Execution}, late: l.Late, from: l.Since, given: at, wake: make(chan struct{}, 1)}
	if follow {
		return l.follow(ctx, f, give)
	}
	return l.once(ctx, f, give)
}

// ended is the error of a wait: its context's end has no place of its own.
func (l *Log) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return l.fail(sdk.CodeOf(ctx.Err()), ctx.Err())
	}
	return err
}

func (l *Log) fail(code sdk.Code, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: opLogs, Provider: l.Provider, Err: err}
}

// once gives what is there now. Its pages come in order.
func (l *Log) once(ctx context.Context, f *follower, give func(sdk.LogItem) error) error {
	req := &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + l.Reader.project}, PageSize: pageSize, OrderBy: orderBy,
		Filter: filter(l.Reader.project, []*follower{f})}
	at := f.given
	for {
		out, err := l.List(ctx, req)
		if err != nil {
			return err
		}
		for _, e := range out.GetEntries() {
			p := positionOf(e)
			if p.compare(at) <= 0 {
				continue // given before, or stored twice
			}
			at = p
			if err := give(l.item(e)); err != nil {
				return err
			}
		}
		if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
			return give(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictQuiet}, Cursor: at.cursor(l.Kind)})
		}
	}
}

// follow gives what comes until ctx ends, or it is known that nothing can come.
func (l *Log) follow(ctx context.Context, f *follower, give func(sdk.LogItem) error) error {
	l.Reader.join(f)
	defer l.Reader.leave(f)
	var looked int64
	for {
		ready, waiting, looks := f.take()
		for _, e := range ready {
			if err := give(l.item(e)); err != nil {
				return err
			}
		}
		if len(ready) == 0 && waiting == 0 && looks > looked {
			if ended, ran := l.Ended(); ended && !ran {
				return give(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}, Cursor: f.given.cursor(l.Kind)})
			}
			if err := give(sdk.LogItem{}); err != nil {
				return err
			}
		}
		looked = looks
		if err := l.Reader.await(ctx, f, l.List); err != nil {
			return l.ended(ctx, err)
		}
	}
}

// item makes an item of an entry, with the cursor behind it.
func (l *Log) item(e *loggingpb.LogEntry) sdk.LogItem {
	it := sdk.LogItem{Cursor: positionOf(e).cursor(l.Kind)}
	it.Entry, it.Gap = output(e)
	return it
}

// output is what an entry says: a piece of output, or a gap where it can't be told.
func output(e *loggingpb.LogEntry) (*sdk.LogChunk, *sdk.LogGap) {
	c := &sdk.LogChunk{Time: e.GetTimestamp().AsTime(), Stream: sdk.StreamStdout, LineEnd: sdk.LineEndStripped}
	if strings.HasSuffix(e.GetLogName(), logStderr) {
		c.Stream = sdk.StreamStderr
	}
	if s := e.GetSplit(); s != nil && s.GetIndex() < s.GetTotalSplits()-1 {
		// A part of a long line; what follows goes on with it.
		// https://cloud.google.com/logging/docs/reference/v2/rest/v2/LogEntry#LogSplit
		c.LineEnd = sdk.LineEndKept
	}
	switch p := e.GetPayload().(type) {
	case *loggingpb.LogEntry_TextPayload:
		c.Data = []byte(p.TextPayload)
	case *loggingpb.LogEntry_JsonPayload:
		data, err := structured(e)
		if err != nil {
			return nil, &sdk.LogGap{From: c.Time, To: c.Time, Bytes: -1, Why: "a structured entry of the log can't be shown: " + err.Error()}
		}
		c.Data = data
	case nil: // an empty line
	default:
		return nil, &sdk.LogGap{From: c.Time, To: c.Time, Bytes: -1, Why: fmt.Sprintf("an entry of the log is of the form %T", p)}
	}
	return c, nil
}

// structured puts a line together again that was a JSON object. Cloud Logging
// keeps no order of members, and takes the severity out of it.
// https://cloud.google.com/logging/docs/structured-logging
func structured(e *loggingpb.LogEntry) ([]byte, error) {
	members := e.GetJsonPayload().AsMap()
	if s := e.GetSeverity(); s != ltype.LogSeverity_DEFAULT {
		if _, ok := members["severity"]; !ok {
			members["severity"] = s.String()
		}
	}
	return json.Marshal(members)
}
