package logtail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/sdk"
)

// scene is a job and its log, for a reader in virtual time.
type scene struct {
	job Job
	// From named on the job has its stream; from there on, unless that is zero,
	// the stream exists, with lines.
	named, there time.Time
	lines        []string
	// known: this process has seen the job.
	known       bool
	looks, gets int
}

func (s *scene) now() Job {
	j := s.job
	if time.Now().Before(s.named) {
		j.Stream = ""
	}
	return j
}

func (s *scene) log(stream string) *Log {
	return &Log{Kind: "aws-x", Provider: "test", Clock: sdk.SystemClock(), Group: "group", Stream: stream, Quiet: time.Second, Remedy: "do something",
		Known: func() (Job, bool) { return s.now(), s.known },
		Look: func(context.Context) (Job, bool, error) {
			s.looks++
			return s.now(), true, nil
		},
		Get: func(_ context.Context, in *cloudwatchlogs.GetLogEventsInput) (*cloudwatchlogs.GetLogEventsOutput, error) {
			s.gets++
			if s.there.IsZero() || time.Now().Before(s.there) || *in.LogStreamName != "stream" {
				return nil, sdk.Errorf(sdk.NotFound, "read log", "no stream")
			}
			from := 0
			if in.NextToken != nil {
				_, _ = fmt.Sscanf(*in.NextToken, "f/%d", &from) // it is ours
			}
			out := &cloudwatchlogs.GetLogEventsOutput{NextForwardToken: new(fmt.Sprintf("f/%d", len(s.lines)))}
			for i, l := range s.lines[from:] {
				out.Events = append(out.Events, types.OutputLogEvent{Message: &l, Timestamp: new(int64(1000 + from + i))})
			}
			return out, nil
		},
	}
}

// read follows until a text has come, the log's end, an error, or for a while.
func read(ctx context.Context, l *Log, follow bool, until string, most time.Duration) (text string, end *sdk.LogEnd, err error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var b strings.Builder
	for it, err := range l.Read(ctx, nil, follow) {
		if err != nil {
			return b.String(), nil, err
		}
		if it.Entry != nil {
			b.Write(it.Entry.Data)
		}
		if it.End != nil {
			return b.String(), it.End, nil
		}
		if until != "" && strings.Contains(b.String(), until) {
			break
		}
	}
	return b.String(), nil, nil
}

// TestUnknownStream: a stream that isn't known is that of the job: asked for at
// once by who reads, and ever more seldom by who follows, unless others ask.
func TestUnknownStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{there: time.Now(), lines: []string{"hello"}, job: Job{Stream: "stream"}}
		if text, end, err := read(t.Context(), s.log(""), false, "", time.Minute); text != "hello" || end == nil || err != nil || s.looks != 1 {
			t.Errorf("reading: %q, %v, %v, %d looks", text, end, err, s.looks)
		}
		s = &scene{there: time.Now(), lines: []string{"hello"}, job: Job{Stream: "stream"}, named: time.Now().Add(time.Hour)}
		text, _, err := read(t.Context(), s.log(""), true, "hello", 2*time.Hour)
		if text != "hello" || err != nil {
			t.Errorf("following: %q, %v", text, err)
		}
		if s.looks < 100 || s.looks > int(time.Hour/stateEvery)+20 {
			t.Errorf("%d looks within an hour", s.looks)
		}
		s = &scene{there: time.Now(), lines: []string{"hello"}, known: true, job: Job{Stream: "stream"}, named: time.Now().Add(time.Minute)}
		if text, _, err := read(t.Context(), s.log(""), true, "hello", time.Hour); text != "hello" || err != nil || s.looks != 0 {
			t.Errorf("what others ask for: %q, %v, %d looks", text, err, s.looks)
		}
	})
}

// TestUnknownIsNoLook: until the stream's name is known nobody has looked, and
// nothing counts as silence.
func TestUnknownIsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := time.Now().Add(5 * time.Second)
		s := &scene{there: time.Now(), job: Job{Ended: true, Ran: true, EndSeen: named, Stream: "stream"}, named: named}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for it, err := range s.log("").Read(ctx, nil, true) {
			if err != nil {
				t.Fatal(err)
			}
			if it == (sdk.LogItem{}) {
				break
			}
		}
		if time.Now().Before(named) || s.gets == 0 {
			t.Errorf("a look was told of after %d reads, %s before the name was known", s.gets, time.Until(named))
		}
	})
}

// TestNoStream: of a job that never ran the log is whole and empty; of one that
// ran, a stream that isn't there after its end is an error that says what to do.
func TestNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, stream := range map[string]string{"named": "stream", "unknown": ""} {
			s := &scene{known: true, job: Job{Ended: true, EndSeen: time.Now()}}
			if text, end, err := read(t.Context(), s.log(stream), true, "", time.Minute); err != nil || end == nil || end.Verdict != sdk.VerdictComplete || text != "" {
				t.Errorf("%s, never ran: %q, %v, %v", name, text, end, err)
			}
			s = &scene{known: true, job: Job{Ended: true, Ran: true, EndSeen: time.Now(), Stream: "stream"}}
			_, _, err := read(t.Context(), s.log(stream), true, "", time.Minute)
			var e *sdk.Error
			if !errors.As(err, &e) || e.Code != sdk.NotFound || e.Remedy != "do something" || !strings.Contains(err.Error(), "stream") {
				t.Errorf("%s, ran: %v", name, err)
			}
		}
		s := &scene{known: true, job: Job{Ran: true, Stream: "stream"}, lines: []string{"late"}, there: time.Now().Add(time.Minute)}
		if text, _, err := read(t.Context(), s.log("stream"), true, "late", time.Hour); text != "late" || err != nil {
			t.Errorf("a stream that comes late: %q, %v", text, err)
		}
	})
}

// TestLooks: following a silent log tells of each look, and reads slow down.
func TestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{there: time.Now(), known: true, job: Job{Ran: true, Stream: "stream"}}
		l := s.log("stream")
		l.Quiet = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		looks := 0
		for it, err := range l.Read(ctx, nil, true) {
			if err != nil {
				if sdk.CodeOf(err) != sdk.DeadlineExceeded {
					t.Errorf("at the end of the context: %v", err)
				}
				break
			}
			if it == (sdk.LogItem{}) {
				looks++
			}
		}
		if most := int(10*time.Minute/lastLook) + 10; looks < 50 || looks > most || s.gets > most {
			t.Errorf("%d looks told of, %d reads", looks, s.gets)
		}
	})
}
