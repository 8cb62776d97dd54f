package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

const (
	// maxLogChunk bounds the bytes of one message.
	maxLogChunk = 256 << 10
	// logPause is between two looks at a log whose end can't be proven.
	logPause = 2 * time.Second
	// logPatience is how long a log may give nothing but errors that may pass.
	logPatience = time.Minute
)

// JobLogs streams a job's output as it comes, as fast as the host reads it, to its end.
// The last message says eof where the log is whole; that wire has no place for a gap,
// so a log with one ends with DataLoss instead.
func (r *iacRunner) JobLogs(m *iacpb.JobHandle, stream grpc.ServerStreamingServer[iacpb.LogChunk]) error {
	ctx, cancel := r.p.alive(stream.Context())
	defer cancel()
	logs, provider, err := opened(r.p, sdk.Logger())
	if err != nil {
		return wire.Status(ctx, err)
	}
	h, err := decodeHandle(m)
	if err != nil {
		return wire.Status(ctx, err)
	}
	t := &tail{r: r, logs: logs, provider: provider, handle: h, send: stream.Send}
	if err := t.run(ctx); err != nil {
		return wire.Status(stream.Context(), err)
	}
	if len(t.missing) > 0 {
		return wire.Status(ctx, &sdk.Error{Code: sdk.DataLoss, Op: "job logs", Err: errors.Join(t.missing...)})
	}
	return stream.Send(&iacpb.LogChunk{Eof: true})
}

// tail reads one log to its end.
type tail struct {
	r        *iacRunner
	logs     sdk.JobLogger
	provider sdk.Provider
	handle   sdk.JobHandle
	send     func(*iacpb.LogChunk) error

	cursor  *sdk.LogCursor
	missing []error
}

// run follows a log whose end can be proven. Another is looked at again and again, until
// the job has ended and the log was silent for as long as its driver declares.
func (t *tail) run(ctx context.Context) error {
	g := t.provider.Info().Guarantees.Logs
	if g.EndProven {
		_, _, err := t.read(ctx, true)
		return err
	}
	jobs, ok := sdk.Of(t.provider, sdk.Runner())
	if !ok {
		return absent(t.provider, sdk.Runner())
	}
	clock := t.r.p.s.clock
	answered, ended := clock.Now(), time.Time{}
	var silent time.Time // since when; zero while the job goes on
	for {
		// The state comes before the look, so that the last look is behind the end.
		st, err := jobs.JobStatus(ctx, sdk.JobStatusRequest{Handle: t.handle})
		some, proven := false, false
		if err == nil {
			some, proven, err = t.read(ctx, false)
		}
		now := clock.Now()
		switch {
		case err != nil && (!sdk.IsRetryable(err) || now.Sub(answered) >= logPatience):
			return err
		case err == nil && proven:
			return nil
		case err == nil:
			answered = now
			if st.State.Terminal() && ended.IsZero() {
				ended, silent = now, now
			}
			if some {
				silent = now
			}
			if !ended.IsZero() && (now.Sub(silent) >= g.Settle.Quiet || now.Sub(ended) >= g.Settle.Max) {
				return nil
			}
		}
		if err := clock.Sleep(ctx, logPause); err != nil {
			return &sdk.Error{Code: sdk.CodeOf(err), Op: "job logs", Err: err}
		}
	}
}

// read sends what the log has from the cursor on. It reports whether there was output,
// and whether the end is proven.
func (t *tail) read(ctx context.Context, follow bool) (some, proven bool, err error) {
	for item, err := range t.logs.JobLogs(ctx, sdk.JobLogsRequest{Handle: t.handle, Cursor: t.cursor, Follow: follow}) {
		if err != nil {
			return some, false, err
		}
		switch {
		case item.Entry != nil:
			some = true
			if err := sendEntry(t.send, string(item.Entry.Stream), item.Entry); err != nil {
				return some, false, err
			}
		case item.Gap != nil:
			t.missing = append(t.missing, fmt.Errorf("a part is missing: %s", item.Gap.Why))
		case item.End != nil:
			v := item.End.Verdict
			if v != sdk.VerdictComplete && v != sdk.VerdictQuiet {
				t.missing = append(t.missing, fmt.Errorf("the log is not whole: %s", v))
			}
			proven = v == sdk.VerdictComplete
		}
		if item.Cursor != nil {
			t.cursor = item.Cursor
		}
	}
	if follow && ctx.Err() != nil {
		return some, proven, &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: "job logs", Err: context.Cause(ctx)}
	}
	return some, proven, nil
}

// sendEntry sends an entry in messages of a bounded size, with the newline that its
// backend took off.
func sendEntry(send func(*iacpb.LogChunk) error, source string, e *sdk.LogChunk) error {
	data := e.Data
	if e.LineEnd == sdk.LineEndStripped {
		data = append(slices.Clone(data), '\n')
	}
	for part := range slices.Chunk(data, maxLogChunk) {
		if err := send(&iacpb.LogChunk{Data: part, Source: source}); err != nil {
			return err
		}
	}
	return nil
}
