package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

const patience = time.Minute

func entry(data []byte) sdk.LogItem {
	return sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: data}}
}

// TestLogsOfAnyLength reads 100 MB, some of them in one entry that is longer than any
// message may be, and wants all of it, in pieces of a bounded size.
func TestLogsOfAnyLength(t *testing.T) {
	block := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB
	want, wrote := sha256.New(), 0
	s := &scripted{logs: func(context.Context, sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
		return func(yield func(sdk.LogItem, error) bool) {
			give := func(data []byte) bool {
				want.Write(data)
				wrote += len(data)
				return yield(entry(data), nil)
			}
			if !give(bytes.Repeat(block, 65)) {
				return
			}
			for range 350 {
				if !give(block[:100<<10+1]) {
					return
				}
			}
			yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}}, nil)
		}
	}}
	got, read, end := sha256.New(), 0, false
	for it, err := range of(t, open(t, s), sdk.Logger()).JobLogs(t.Context(), sdk.JobLogsRequest{Follow: true}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case it.Entry != nil:
			if len(it.Entry.Data) > wire.MaxLogData {
				t.Fatalf("a piece has %d bytes", len(it.Entry.Data))
			}
			got.Write(it.Entry.Data)
			read += len(it.Entry.Data)
		case it.End != nil:
			end = it.End.Verdict == sdk.VerdictComplete
		}
	}
	if read < 100e6 || read != wrote || !bytes.Equal(got.Sum(nil), want.Sum(nil)) || !end {
		t.Errorf("read %d bytes of %d, complete: %t", read, wrote, end)
	}
}

// TestLogsAreLive wants each item before the next is there.
func TestLogsAreLive(t *testing.T) {
	seen := make(chan string)
	s := &scripted{logs: func(ctx context.Context, _ sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
		return func(yield func(sdk.LogItem, error) bool) {
			for _, line := range []string{"one\n", "two\n", "three\n"} {
				if !yield(entry([]byte(line)), nil) {
					return
				}
				select {
				case got := <-seen:
					if got != line {
						yield(sdk.LogItem{}, sdk.Errorf(sdk.Internal, "logs", "the reader saw %q", got))
						return
					}
				case <-ctx.Done():
					return
				}
			}
			yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}}, nil)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := 0
	for it, err := range of(t, open(t, s), sdk.Logger()).JobLogs(ctx, sdk.JobLogsRequest{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Entry != nil {
			n++
			seen <- string(it.Entry.Data)
		}
	}
	if n != 3 {
		t.Errorf("%d lines", n)
	}
}

// chatty logs without end, and counts what was taken from it. stopped is closed when its
// stream has ended.
func chatty(piece int, made *atomic.Int64, stopped chan<- error) *scripted {
	return &scripted{
		status: func(context.Context, sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
			return sdk.JobStatusResult{State: sdk.StateRunning}, nil
		},
		logs: func(ctx context.Context, _ sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
			return func(yield func(sdk.LogItem, error) bool) {
				data := make([]byte, piece)
				for yield(entry(data), nil) {
					made.Add(int64(piece))
				}
				<-ctx.Done() // it ends the context of a stream that nobody reads
				stopped <- ctx.Err()
			}
		},
	}
}

// inBubble opens p over a pipe, for a bubble.
func inBubble(t *testing.T, p sdk.Provider) sdk.Provider {
	t.Helper()
	return opened(t, plugintest.ThroughPipe(t, sdk.Driver{Kind: "scripted", Capabilities: sdk.CapabilityNames(p),
		Open: func(context.Context, sdk.OpenRequest) (sdk.Provider, error) { return p, nil }}))
}

// TestSlowReaderStopsTheWriter reads a little of a log that never ends, and then nothing:
// the plugin waits when a window is full, other calls of the same connection go on, and
// what was waiting ends when the reader leaves.
func TestSlowReaderStopsTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		stopped := make(chan error, 1)
		const piece = 64 << 10
		p := inBubble(t, chatty(piece, &made, stopped))
		runner := of(t, p, sdk.Runner())
		read := int64(0)
		for it, err := range of(t, p, sdk.Logger()).JobLogs(t.Context(), sdk.JobLogsRequest{Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if read += int64(len(it.Entry.Data)); read < 10*piece {
				continue
			}
			synctest.Wait() // until all others wait, too
			// What is under way: the window, gRPC's own buffer of 64 KiB before it, the
			// piece that waits, and the one of which the window is given back too soon.
			if ahead := made.Load() - read; ahead > wire.StreamWindow+4*piece {
				t.Errorf("the writer is %d bytes ahead of a reader who has stopped, the window has %d", ahead, wire.StreamWindow)
			}
			before := made.Load()
			for range 100 {
				if st, err := runner.JobStatus(t.Context(), sdk.JobStatusRequest{}); err != nil || st.State != sdk.StateRunning {
					t.Fatalf("a call beside it: %v", err)
				}
			}
			synctest.Wait()
			if now := made.Load(); now != before {
				t.Errorf("the writer went on, from %d to %d bytes", before, now)
			}
			break
		}
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("the writer's context: %v", err)
		}
	})
}

// TestManySlowReaders stops reading more logs than a connection's window has room for:
// another call passes all the same.
func TestManySlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		const readers = 2 * wire.ConnWindow / wire.StreamWindow
		stopped := make(chan error, readers)
		p := inBubble(t, chatty(64<<10, &made, stopped))
		ctx, leave := context.WithCancel(t.Context())
		for range readers {
			next, stop := iter.Pull2(of(t, p, sdk.Logger()).JobLogs(ctx, sdk.JobLogsRequest{Follow: true}))
			defer stop()
			if _, err, ok := next(); !ok || err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if st, err := of(t, p, sdk.Runner()).JobStatus(t.Context(), sdk.JobStatusRequest{}); err != nil || st.State != sdk.StateRunning {
			t.Errorf("a call beside %d logs that nobody reads: %v", readers, err)
		}
		leave()
		for range readers {
			if err := <-stopped; err == nil {
				t.Error("a log that its reader left ended as if it were read")
			}
		}
	})
}

// TestLeftReaderEndsTheWriter leaves a log by break, by cancel and by closing the
// provider, on a socket: the driver's stream ends each time, and its context with it.
func TestLeftReaderEndsTheWriter(t *testing.T) {
	var made atomic.Int64
	stopped := make(chan error, 1)
	s := chatty(1000, &made, stopped)
	leaves(t, "break", open(t, s), func(sdk.Provider, context.CancelFunc) bool { return false }, stopped)
	leaves(t, "cancel", open(t, s), func(_ sdk.Provider, cancel context.CancelFunc) bool {
		cancel()
		return true
	}, stopped)
	leaves(t, "close", open(t, s), func(p sdk.Provider, _ context.CancelFunc) bool {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		return true
	}, stopped)
}

// leaves begins a log and leaves it; leave reports whether to go on reading.
func leaves(t *testing.T, name string, p sdk.Provider, leave func(sdk.Provider, context.CancelFunc) bool, stopped <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var end error
	left := false
	for _, err := range of(t, p, sdk.Logger()).JobLogs(ctx, sdk.JobLogsRequest{Follow: true}) {
		if err != nil {
			end = err
			break
		}
		if !left {
			left = true
			if !leave(p, cancel) {
				break
			}
		}
	}
	if name != "break" && (end == nil || sdk.IsRetryable(end)) {
		t.Errorf("%s: the stream ended with %v", name, end)
	}
	if name == "cancel" && !errors.Is(end, context.Canceled) {
		t.Errorf("%s: the stream ended with %v", name, end)
	}
	if err := testwait.Receive(t, patience, "end of the writer", stopped); err == nil {
		t.Errorf("%s: the writer's context has not ended", name)
	}
}

// endless is standard input without end that counts what was read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// TestSlowDriverStopsTheInput starts a job that reads a byte of its input and no more:
// what the host reads of an input without end is bounded.
func TestSlowDriverStopsTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan error, 1)
		s := &scripted{run: func(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
			go func() {
				_, err := io.ReadFull(r.Stdin, make([]byte, 1))
				first <- err
			}()
			return sdk.RunJobResult{Handle: sdk.JobHandle{V: 1, ID: "x"}}, nil
		}}
		in := &endless{}
		if _, err := of(t, inBubble(t, s), sdk.Runner()).RunJob(t.Context(), sdk.RunJobRequest{Stdin: in}); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Errorf("the first byte: %v", err)
		}
		synctest.Wait()
		if n := in.read.Load(); n > wire.StreamWindow+256<<10 {
			t.Errorf("%d bytes were read for a job that takes one", n)
		}
	})
}
