package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/sdk"
)

// sink is where a run's output goes: the bytes themselves on stdout and
// stderr, or events.
type sink struct {
	streams *Streams
	run     sdk.ID
	lines   bool
	// system shows the platform's own words, such as those of Argo's executor. They
	// are kept with the output, and an attached command leaves them there.
	system bool
	// render turns chunks into what is shown.
	render joblog.Renderer
	buf    []byte
	mu     sync.Mutex
	// gone are the writers that nobody reads any more.
	outGone, errGone bool
	// onGone is told once of a reader that left.
	onGone  func()
	attempt int
}

func newSink(s *Streams, run sdk.ID, lines bool) *sink {
	return &sink{streams: s, run: run, lines: lines}
}

// setRun names the run once it has its ID.
func (s *sink) setRun(id sdk.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = id
}

// event writes one line of JSON.
func (s *sink) event(e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outGone {
		return nil
	}
	e.Run = s.run.String()
	if err := encode(s.streams.Out, e, false); err != nil {
		return s.lost(err, &s.outGone)
	}
	return nil
}

// item passes one item of a log on. An error means that a reader failed for
// another reason than having left.
func (s *sink) item(it control.FollowItem) error {
	if s.lines {
		return s.eventOf(it)
	}
	if it.Attempt != s.attempt {
		if s.attempt > 0 {
			s.streams.note("run %s: attempt %d begins", s.run.Short(), it.Attempt)
		}
		s.attempt = it.Attempt
		s.render = joblog.Renderer{Timestamps: s.render.Timestamps}
	}
	switch {
	case it.Entry != nil:
		return s.entry(it.Entry)
	case it.Gap != nil:
		s.streams.note("run %s: output is missing here%s: %s", s.run.Short(), bytesWords(it.Gap.Bytes), it.Gap.Why)
	}
	return nil
}

func bytesWords(n int64) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprintf(" (%d bytes)", n)
}

func (s *sink) eventOf(it control.FollowItem) error {
	e := Event{Attempt: it.Attempt, Cursor: it.Pos.String()}
	switch {
	case it.Entry != nil:
		e.Event, e.Time, e.Stream, e.Data = eventOutput, timeOrNil(it.Entry.Time), it.Entry.Stream, it.Entry.Data
		e.LineEnd, e.Launch = it.Entry.LineEnd, it.Entry.Launch
	case it.Gap != nil:
		e.Event, e.Time, e.Bytes, e.Message = eventGap, timeOrNil(it.Gap.From), it.Gap.Bytes, it.Gap.Why
	case it.End != nil:
		e.Event, e.Verdict = eventLogEnd, it.End.Verdict
	default:
		return nil
	}
	return s.event(e)
}

func (s *sink) entry(c *sdk.LogChunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, gone, terminal := s.streams.Out, &s.outGone, s.streams.OutTerminal
	switch c.Stream {
	case sdk.StreamStderr:
		w, gone, terminal = s.streams.Err, &s.errGone, s.streams.ErrTerminal
	case sdk.StreamSystem:
		if !s.system {
			return nil
		}
		// The platform's words are not the job's.
		s.streams.note("run %s: %s", s.run.Short(), string(trimNewline(c.Data)))
		return nil
	}
	if *gone {
		return nil
	}
	s.buf = s.render.Append(s.buf[:0], c)
	_, err := w.Write(s.buf)
	s.streams.wrote(terminal, s.buf)
	return s.lost(err, gone)
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}

// lost marks a writer whose reader has left: a pipe that was closed, or a
// terminal that hung up. The job isn't touched by that.
func (s *sink) lost(err error, gone *bool) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) || errors.Is(err, io.ErrClosedPipe) {
		*gone = true
		if s.onGone != nil && s.outGone != s.errGone {
			s.onGone()
		}
		return nil
	}
	return fmt.Errorf("write output: %w", err)
}
