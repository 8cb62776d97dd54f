//go:build linux

package iac

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// reads is a script of what each reading of a log gives; the last one stands for all that
// follow.
func reads(y *yard, script ...func(s grpc.ServerStreamingServer[pb.LogChunk]) error) *atomic.Int64 {
	var n atomic.Int64
	y.hooks.logs = func(s grpc.ServerStreamingServer[pb.LogChunk]) error {
		return script[min(int(n.Add(1)), len(script))-1](s)
	}
	return &n
}

func chunks(c ...*pb.LogChunk) func(s grpc.ServerStreamingServer[pb.LogChunk]) error {
	return func(s grpc.ServerStreamingServer[pb.LogChunk]) error {
		for _, m := range c {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func out(text string) *pb.LogChunk { return &pb.LogChunk{Data: []byte(text), Source: "stdout"} }

// listened is what a reader of a log was given.
type listened struct {
	text  map[sdk.Stream]string
	gaps  int
	looks int
	end   *sdk.LogEnd
	last  *sdk.LogCursor
	err   error
}

// listen reads a log until enough says so.
func (o opened) listen(t *testing.T, h sdk.JobHandle, from *sdk.LogCursor, follow bool, enough func(l *listened) bool) listened {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l := listened{text: map[sdk.Stream]string{}, last: from}
	for it, err := range o.logs.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Cursor: from, Follow: follow}) {
		if err != nil {
			l.err = err
			return l
		}
		if it == (sdk.LogItem{}) {
			l.looks++
		}
		if it.Entry != nil {
			l.text[it.Entry.Stream] += string(it.Entry.Data)
			if len(it.Entry.Data) > maxData || it.Entry.LineEnd != sdk.LineEndKept {
				t.Errorf("an entry of %d bytes, line end %s", len(it.Entry.Data), it.Entry.LineEnd)
			}
		}
		if it.Gap != nil {
			l.gaps++
		}
		if it.Cursor != nil {
			l.last = it.Cursor
		}
		if it.End != nil {
			l.end = it.End
		}
		if enough(&l) {
			return l
		}
	}
	return l
}

func never(*listened) bool { return false }

// soon is the quiet window of a test that wants a log to be read again; ages is that of
// one whose readings end by themselves.
const soon, ages = "40ms", "1m"

func logYard(t *testing.T, y *yard, quiet string) (opened, sdk.JobHandle) {
	t.Helper()
	p := openYard(t, y, true, `{"log_quiet":"`+quiet+`"}`)
	return p, p.start(t, "true")
}

// TestF49LateLines: an end of a stream, or eof, is no end of the log: what comes late is
// given, once.
func TestF49LateLines(t *testing.T) {
	y := newYard()
	eof := &pb.LogChunk{Eof: true}
	reads(y, chunks(out("a\n"), eof), chunks(out("a\n"), eof), chunks(out("a\n"), out("late\n"), eof))
	p, h := logYard(t, y, soon)
	l := p.listen(t, h, nil, true, func(l *listened) bool { return strings.Contains(l.text[sdk.StreamStdout], "late") && l.looks > 1 })
	if l.text[sdk.StreamStdout] != "a\nlate\n" || l.gaps != 0 || l.end != nil || l.err != nil {
		t.Errorf("got %+v", l)
	}
}

// TestLogSources: which stream a chunk is of.
func TestLogSources(t *testing.T) {
	y := newYard()
	reads(y, chunks(&pb.LogChunk{Data: []byte("1"), Source: "STDOUT"}, &pb.LogChunk{Data: []byte("2"), Source: "app/stderr"},
		&pb.LogChunk{Data: []byte("3"), Source: "run"}, &pb.LogChunk{Data: []byte("4")}))
	p, h := logYard(t, y, ages)
	l := p.listen(t, h, nil, false, never)
	if l.text[sdk.StreamStdout] != "1" || l.text[sdk.StreamStderr] != "2" || l.text[sdk.StreamCombined] != "34" || l.end == nil || l.end.Verdict != sdk.VerdictQuiet {
		t.Errorf("got %+v", l)
	}
}

// TestF55Broken: a stream that breaks is read again from where it broke; one that breaks
// again and again is an error, from which another process goes on.
func TestF55Broken(t *testing.T) {
	y := newYard()
	cut := func(s grpc.ServerStreamingServer[pb.LogChunk]) error {
		if err := s.Send(out("first, ")); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "reset")
	}
	reads(y, cut, cut, chunks(out("first, second")))
	p, h := logYard(t, y, soon)
	l := p.listen(t, h, nil, true, func(l *listened) bool { return l.looks > 0 })
	if l.text[sdk.StreamStdout] != "first, second" || l.err != nil {
		t.Errorf("got %+v", l)
	}
	n := reads(y, cut)
	l = p.listen(t, h, nil, true, never)
	if !errors.Is(l.err, sdk.Unavailable) || !sdk.IsRetryable(l.err) || l.text[sdk.StreamStdout] != "first, " {
		t.Errorf("got %+v", l)
	}
	if got := n.Load(); got > breaksMost+2 {
		t.Errorf("%d readings of a log that is always broken", got)
	}
	reads(y, chunks(out("first, second")))
	p, _ = logYard(t, y, ages)
	l = p.listen(t, h, l.last, false, never)
	if l.text[sdk.StreamStdout] != "first, second" && l.text[sdk.StreamStdout] != "second" || l.err != nil {
		t.Errorf("after the break: %+v", l)
	}
}

// TestOtherLog: a log that no longer begins as it did is a gap, and not a repetition; one
// that is shorter than it was is no look.
func TestOtherLog(t *testing.T) {
	y := newYard()
	reads(y, chunks(out("abcdef")), chunks(out("abc")), chunks(out("xbcdefgh")))
	p, h := logYard(t, y, soon)
	l := p.listen(t, h, nil, true, func(l *listened) bool { return l.gaps > 0 && l.looks > 0 })
	if l.text[sdk.StreamStdout] != "abcdefgh" || l.gaps != 1 || l.err != nil {
		t.Errorf("got %+v", l)
	}
	reads(y, chunks(out("abc")))
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	at := position{sdk.StreamStdout: &place{n: 6, sum: make([]byte, 32)}}.cursor("theirs")
	for it, err := range p.logs.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Cursor: at, Follow: true}) {
		if err == nil {
			t.Errorf("a log that is shorter than before gave %+v", it)
		}
	}
}

// TestGiantMessage: a message of more than the bound is a gap at the log's end, and harms
// nothing else.
func TestGiantMessage(t *testing.T) {
	y := newYard()
	reads(y, chunks(out("before\n"), &pb.LogChunk{Data: bytes.Repeat([]byte("x"), maxChunk), Source: "stdout"}))
	p, h := logYard(t, y, ages)
	l := p.listen(t, h, nil, true, never)
	if l.text[sdk.StreamStdout] != "before\n" || l.gaps != 1 || l.end == nil || l.end.Verdict != sdk.VerdictGap || l.err != nil {
		t.Errorf("gaps %d, end %v, %v, %d bytes", l.gaps, l.end, l.err, len(l.text[sdk.StreamStdout]))
	}
	// One below it arrives, though it is beyond gRPC's own default.
	reads(y, chunks(&pb.LogChunk{Data: bytes.Repeat([]byte("x"), maxChunk-1024), Source: "stdout"}))
	if l = p.listen(t, h, nil, false, never); len(l.text[sdk.StreamStdout]) != maxChunk-1024 || l.gaps != 0 {
		t.Errorf("%d bytes, gaps %d, %v", len(l.text[sdk.StreamStdout]), l.gaps, l.err)
	}
	if st, err := p.run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil || !st.State.Valid() {
		t.Errorf("the state after it: %+v, %v", st, err)
	}
}

// TestEndlessStream: a stream that stays open and gives nothing is looked at all the same,
// and doesn't hold up who wants what is there.
func TestEndlessStream(t *testing.T) {
	y := newYard()
	reads(y, func(s grpc.ServerStreamingServer[pb.LogChunk]) error {
		if err := s.Send(out("a")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	p, h := logYard(t, y, "600ms")
	if l := p.listen(t, h, nil, false, never); l.text[sdk.StreamStdout] != "a" || l.end == nil || l.end.Verdict != sdk.VerdictQuiet {
		t.Errorf("got %+v", l)
	}
	if l := p.listen(t, h, nil, true, func(l *listened) bool { return l.looks > 1 }); l.text[sdk.StreamStdout] != "a" || l.last == nil {
		t.Errorf("got %+v", l)
	}
}

// TestNoLogYet: a log that isn't there yet is an empty one, and a plugin without logs says
// so.
func TestNoLogYet(t *testing.T) {
	for code, want := range map[codes.Code]error{codes.NotFound: nil, codes.FailedPrecondition: nil, codes.Unimplemented: sdk.Unimplemented, codes.PermissionDenied: sdk.PermissionDenied} {
		y := newYard()
		reads(y, func(grpc.ServerStreamingServer[pb.LogChunk]) error { return status.Error(code, "not now") }, chunks(out("here")))
		p, h := logYard(t, y, soon)
		l := p.listen(t, h, nil, true, func(l *listened) bool { return l.text[sdk.StreamStdout] != "" })
		if want == nil && (l.err != nil || l.text[sdk.StreamStdout] != "here") || want != nil && !errors.Is(l.err, want) {
			t.Errorf("%s: got %+v", code, l)
		}
	}
}

// TestLogHasGone: a log that was there and stays away, as one that the plugin kept in its
// memory, ends as what can't be read, and isn't asked for until the drain's longest time.
func TestLogHasGone(t *testing.T) {
	away := func(grpc.ServerStreamingServer[pb.LogChunk]) error { return status.Error(codes.NotFound, "no job") }
	y := newYard()
	n := reads(y, chunks(out("a\n")), away, away, chunks(out("a\n"), out("b\n")), away)
	p, h := logYard(t, y, soon)
	l := p.listen(t, h, nil, true, never)
	if l.text[sdk.StreamStdout] != "a\nb\n" || !errors.Is(l.err, sdk.NotFound) || n.Load() != 4+breaksMost+1 {
		t.Errorf("after %d readings: %+v", n.Load(), l)
	}
}

// TestF51Resume: from any cursor each later byte comes once.
func TestF51Resume(t *testing.T) {
	y := newYard()
	var all []*pb.LogChunk
	var whole strings.Builder
	for i := range 40 {
		data := bytes.Repeat([]byte{byte('a' + i%26)}, 8<<10)
		all = append(all, &pb.LogChunk{Data: data, Source: []string{"stdout", "stderr"}[i%2]})
		if i%2 == 0 {
			whole.Write(data)
		}
	}
	reads(y, chunks(all...))
	p, h := logYard(t, y, ages)
	cursors, before := 0, ""
	for it, err := range p.logs.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Entry != nil && it.Entry.Stream == sdk.StreamStdout {
			before += string(it.Entry.Data)
		}
		if it.Cursor == nil {
			continue
		}
		cursors++
		raw, err := it.Cursor.Encode()
		if err != nil {
			t.Fatal(err)
		}
		c, err := sdk.DecodeCursor(raw)
		if err != nil {
			t.Fatal(err)
		}
		if l := p.listen(t, h, &c, false, never); before+l.text[sdk.StreamStdout] != whole.String() || l.gaps != 0 || l.err != nil {
			t.Fatalf("from %s: %d bytes behind %d, gaps %d, %v", raw, len(l.text[sdk.StreamStdout]), len(before), l.gaps, l.err)
		}
	}
	if cursors < 3 {
		t.Errorf("%d cursors in %d bytes", cursors, whole.Len())
	}
}

// FuzzCursor: what is read is what was written, and nothing else is taken.
func FuzzCursor(f *testing.F) {
	good, err := position{sdk.StreamStdout: &place{n: 7, sum: make([]byte, 32)}}.cursor("theirs").Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"v":1,"kind":"theirs","position":{"stdout":"-1:00"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := sdk.DecodeCursor(raw)
		if err != nil {
			t.Skip()
		}
		p, err := readCursor(&c, "theirs")
		if err != nil {
			if code := sdk.CodeOf(err); code != sdk.InvalidArgument && code != sdk.FailedPrecondition {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := readCursor(p.cursor("theirs"), "theirs")
		if err != nil || again.total() != p.total() {
			t.Errorf("%s was read as %d bytes, and then %d, %v", raw, p.total(), again.total(), err)
		}
	})
}
