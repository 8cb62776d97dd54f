package fake

import (
	"bytes"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

type chunk struct {
	at       time.Time
	stream   sdk.Stream
	data     []byte
	stripped bool
}

type mark struct {
	key string
	at  time.Time
}

// timeline is all that a job ever does. Zero times never come.
type timeline struct {
	started, ended time.Time
	state          sdk.JobState
	reason         sdk.Reason
	code           *int
	signal         string
	oom            bool
	oomAt          time.Time
	message        string
	chunks         []chunk
	marks          []mark
}

// stateAt returns the state at a time.
func (l *timeline) stateAt(now time.Time) sdk.JobState {
	switch {
	case !l.ended.IsZero() && !now.Before(l.ended):
		return l.state
	case !l.started.IsZero() && !now.Before(l.started):
		return sdk.StateRunning
	}
	return sdk.StatePending
}

// next returns when the state changes after now, or the zero time.
func (l *timeline) next(now time.Time) time.Time {
	if !l.started.IsZero() && now.Before(l.started) {
		return l.started
	}
	if !l.ended.IsZero() && now.Before(l.ended) {
		return l.ended
	}
	return time.Time{}
}

// forever is longer than any test and within time.Duration.
const forever = 100 * 365 * 24 * time.Hour

// build works a job's life out.
func build(rec *record, cancel *cancelFact, stdin *stdinFact) *timeline {
	b := builder{rec: rec, line: &timeline{}}
	b.now = rec.Accepted.Add(time.Duration(rec.StartDelay))
	if cancel != nil {
		b.cancelAt = cancel.At
		b.grace = time.Duration(cancel.Grace)
		b.cancelled = true
		if cancel.At.Before(b.now) {
			b.line.ended, b.line.state, b.line.reason = cancel.At, sdk.StateCancelled, sdk.ReasonCancelled
			b.line.message = "cancelled before it started"
			return b.line
		}
	}
	if d := time.Duration(rec.Request.Deadline); d > 0 {
		if at := b.now.Add(d); !b.cancelled || at.Before(b.cancelAt) {
			b.cancelAt, b.grace, b.cancelled = at, time.Duration(rec.Request.Grace), false
		}
	}
	b.line.started = b.now
	for _, s := range rec.Request.Steps {
		if b.step(s, stdin) {
			break
		}
	}
	b.exit(0)
	if rec.Request.Lines {
		b.line.chunks = splitLines(b.line.chunks, b.line.ended)
	}
	return b.line
}

type builder struct {
	rec  *record
	line *timeline
	now  time.Time
	// cancelAt is when TERM comes, zero for never; cancelled says that a
	// cancel sent it and not the deadline.
	cancelAt  time.Time
	cancelled bool
	grace     time.Duration
	// termed: TERM came. killAt is when KILL follows, where it was not fatal.
	termed  bool
	killAt  time.Time
	ignore  bool
	handler *Step
	done    bool
}

// reach moves time to next, unless the job dies before. It reports whether
// the job still lives. What happens at the very time of a TERM or KILL happens
// before it: it may have been seen already.
func (b *builder) reach(next time.Time) bool {
	if b.done {
		return false
	}
	if !b.cancelAt.IsZero() && !b.termed && next.After(b.cancelAt) {
		b.termed = true
		at := later(b.now, b.cancelAt)
		switch {
		case b.grace <= 0:
			b.now = at
			b.die("SIGKILL")
			return false
		case b.ignore:
			b.killAt = b.cancelAt.Add(b.grace)
		case b.handler != nil:
			b.killAt = b.cancelAt.Add(b.grace)
			h := *b.handler
			b.handler, b.ignore = nil, true
			b.now = at
			b.output(sdk.StreamStdout, append([]byte(h.Text), h.Data...))
			if b.reach(at.Add(time.Duration(h.For))) {
				b.exit(int(h.N))
			}
			return false
		default:
			b.now = at
			b.die("SIGTERM")
			return false
		}
	}
	if !b.killAt.IsZero() && next.After(b.killAt) {
		b.now = later(b.now, b.killAt)
		b.die("SIGKILL")
		return false
	}
	b.now = next
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// end closes the timeline. An end that follows a TERM is the cancel's or the
// deadline's.
func (b *builder) end(state sdk.JobState, reason sdk.Reason, message string) {
	if b.done {
		return
	}
	b.done = true
	if b.termed {
		state, reason = sdk.StateFailed, sdk.ReasonTimedOut
		if b.cancelled {
			state, reason = sdk.StateCancelled, sdk.ReasonCancelled
		}
	}
	l := b.line
	l.ended, l.state, l.reason, l.message = b.now, state, reason, message
	var kept []mark
	for _, m := range l.marks {
		if !m.at.After(l.ended) {
			kept = append(kept, m)
		}
	}
	l.marks = kept
}

func (b *builder) die(signal string) {
	if b.done {
		return
	}
	b.line.signal = signal
	b.end(sdk.StateFailed, sdk.ReasonSignaled, "ended by "+signal)
}

func (b *builder) exit(code int) {
	if b.done || !b.reach(b.now) {
		return
	}
	if !b.rec.NoExitCode {
		b.line.code = &code
	}
	switch {
	case code == 0:
		b.end(sdk.StateSucceeded, sdk.ReasonCompleted, "exited with 0")
	case b.rec.NoExitCode:
		b.end(sdk.StateFailed, sdk.ReasonUnknown, "ended without success")
	default:
		b.end(sdk.StateFailed, sdk.ReasonNonzeroExit, fmt.Sprintf("exited with %d", code))
	}
}

func (b *builder) output(stream sdk.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	if stream == "" {
		stream = sdk.StreamStdout
	}
	if b.rec.Request.Combined {
		stream = sdk.StreamCombined
	}
	b.line.chunks = append(b.line.chunks, chunk{at: b.now, stream: stream, data: data})
}

func (b *builder) printf(format string, args ...any) {
	b.output(sdk.StreamStdout, fmt.Appendf(nil, format, args...))
}

// neverStarted are the reasons for which a job's process never was.
func neverStarted(r sdk.Reason) bool {
	switch r {
	case sdk.ReasonImagePull, sdk.ReasonInvalidSpec, sdk.ReasonFailedToStart, sdk.ReasonStartTimeout, sdk.ReasonCapacity,
		sdk.ReasonQuota, sdk.ReasonUnschedulable, sdk.ReasonPermissionDenied, sdk.ReasonCredentials:
		return true
	}
	return false
}

// step carries one step out and reports whether the job has ended.
func (b *builder) step(s Step, stdin *stdinFact) bool {
	if !b.reach(b.now) {
		return true
	}
	switch s.Do {
	case "output":
		b.output(sdk.Stream(s.Stream), append([]byte(s.Text), s.Data...))
	case "lines":
		b.lines(s)
	case "long_line":
		b.output(sdk.StreamStdout, append(bytes.Repeat([]byte{'x'}, int(s.N)), '\n'))
	case "sleep":
		b.reach(b.now.Add(time.Duration(s.For)))
	case "hang":
		b.hang()
	case "gate":
		if gate := stdin; gate == nil {
			b.hang()
		} else {
			b.reach(later(b.now, gate.At))
		}
	case "exit":
		b.exit(int(s.N))
	case "signal":
		b.die(s.Name)
	case "oom":
		b.oom()
		if s.N == 0 {
			b.exit(0)
			break
		}
		if n := int(s.N); !b.rec.NoExitCode {
			b.line.code = &n
		}
		b.end(sdk.StateFailed, sdk.ReasonOOMKilled, "killed for memory")
	case "child_oom":
		b.oom()
	case "fail":
		if neverStarted(sdk.Reason(s.Name)) {
			b.line.started = time.Time{}
		}
		msg := s.Text
		if msg == "" {
			msg = "the platform says " + s.Name
		}
		b.end(sdk.StateFailed, sdk.Reason(s.Name), msg)
	case "ignore_term":
		b.ignore, b.handler = true, nil
	case "on_term":
		b.ignore, b.handler = false, &s
	case "mark":
		b.line.marks = append(b.line.marks, mark{s.Name, b.now})
	case "grandchild":
		b.line.marks = append(b.line.marks, mark{s.Name, b.now.Add(time.Duration(s.For))})
	case "stdin":
		if b.rec.Stdin == sdk.StdinNone {
			break
		}
		if stdin == nil {
			b.hang()
			break
		}
		if b.reach(later(b.now, stdin.At)) {
			b.output(sdk.StreamStdout, stdin.Data)
		}
	default:
		b.show(s)
	}
	return b.done
}

func (b *builder) show(s Step) {
	req := b.rec.Request
	switch s.Do {
	case "args":
		for _, a := range req.received() {
			b.printf("arg %x\n", a)
		}
	case "env":
		if v, ok := req.Env[s.Name]; ok {
			b.printf("env %s %x\n", s.Name, v)
		} else {
			b.printf("env %s unset\n", s.Name)
		}
	case "secret":
		b.printf("secret %s %s\n", s.Name, orText(b.rec.Secrets[s.Name], "missing"))
	case "pwd":
		b.printf("dir %s\n", orText(req.Workdir, "/"))
	case "user":
		b.printf("user %s\n", orText(req.User, "0"))
	case "file":
		b.printf("file %s %s\n", s.Name, orText(b.rec.Files[s.Name], "missing"))
	}
}

func (b *builder) oom() {
	b.line.oom = true
	if b.line.oomAt.IsZero() {
		b.line.oomAt = b.now
	}
}

// hang waits for a cancel; without one, the timeline has no end.
func (b *builder) hang() {
	if b.reach(b.now.Add(forever)) {
		b.done = true
	}
}

func (b *builder) lines(s Step) {
	var buf []byte
	for i := range s.N {
		buf = fmt.Appendf(buf, "line %d\n", i)
		if s.For > 0 || len(buf) >= 64<<10 {
			b.output(sdk.StreamStdout, buf)
			buf = nil
		}
		if s.For > 0 && !b.reach(b.now.Add(time.Duration(s.For))) {
			return
		}
	}
	b.output(sdk.StreamStdout, buf)
}

func orText(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// splitLines turns output into lines, as a backend stores it that keeps no
// bytes: each stands where its newline came, a last one without at the end.
func splitLines(chunks []chunk, ended time.Time) []chunk {
	var out []chunk
	part := map[sdk.Stream][]byte{}
	for _, c := range chunks {
		data := append(part[c.stream], c.data...)
		for {
			line, rest, ok := bytes.Cut(data, []byte{'\n'})
			if !ok {
				break
			}
			out = append(out, chunk{at: c.at, stream: c.stream, data: line, stripped: true})
			data = rest
		}
		part[c.stream] = bytes.Clone(data)
	}
	for _, s := range []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr, sdk.StreamCombined} {
		if len(part[s]) > 0 && !ended.IsZero() {
			out = append(out, chunk{at: ended, stream: s, data: part[s], stripped: true})
		}
	}
	return out
}
