package plugin

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// slow is a host that takes a message when it is told to.
type slow struct {
	take chan struct{}
	got  [][]string // the lines of each message
	fail error
}

func (s *slow) send(m *pb.JobLogsResponse) error {
	<-s.take
	if s.fail != nil {
		return s.fail
	}
	var lines []string
	for i, err := range wire.DecodeJobLogsResponse(m) {
		if err != nil {
			return err
		}
		lines = append(lines, string(i.Entry.Data))
	}
	s.got = append(s.got, lines)
	return nil
}

func toSlow() (*slow, *batch[sdk.LogItem, pb.JobLogsResponse]) {
	s := &slow{take: make(chan struct{})}
	return s, newBatch(s.send, func() gathered[sdk.LogItem, pb.JobLogsResponse] { return &wire.JobLogs{} })
}

func line(data []byte) sdk.LogItem {
	return sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndStripped, Data: data}}
}

// TestBatch: the first line is sent alone and at once, those that come while it is under
// way go together in the next message, and a driver may use a line's bytes again as soon
// as it was taken. The driver waits when enough is under way.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := toSlow()
		buf := make([]byte, 0, 100)
		add := func(n int) error {
			buf = fmt.Appendf(buf[:0], "line %093d", n)
			return b.add(line(buf))
		}
		if err := add(0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until it is under way
		done := make(chan error, 1)
		taken := 1
		go func() {
			for ; taken < 2000; taken++ {
				if err := add(taken); err != nil {
					done <- err
					return
				}
			}
			done <- b.end()
		}()
		synctest.Wait() // until the driver waits
		if bytes := (taken - 1) * 130; bytes > batchBytes+200 || bytes < batchBytes/2 {
			t.Errorf("the driver waits with %d lines under way", taken)
		}
		close(s.take)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(s.got) < 2 || len(s.got[0]) != 1 || len(s.got[1]) < 400 {
			t.Errorf("%d messages", len(s.got))
		}
		all := slices.Concat(s.got...)
		if len(all) != 2000 {
			t.Fatalf("%d lines", len(all))
		}
		for n, l := range all {
			if want := fmt.Sprintf("line %093d", n); l != want {
				t.Fatalf("line %d is %q", n, l)
			}
		}
	})
}

// TestBatchSharesLargeData: large data isn't copied, so that add waits until it was sent,
// behind what came before it.
func TestBatchSharesLargeData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := toSlow()
		large := make([]byte, wire.MaxLogData)
		added := false
		done := make(chan error, 1)
		for i := range large {
			large[i] = 'l'
		}
		for range 3 { // the first is under way, the others wait
			if err := b.add(line([]byte("x"))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		go func() {
			err := b.add(line(large))
			added = true
			clear(large)
			done <- errors.Join(err, b.end())
		}()
		synctest.Wait()
		s.take <- struct{}{}
		synctest.Wait()
		if added {
			t.Error("add returned before its data was sent")
		}
		close(s.take)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(s.got) != 2 || len(s.got[1]) != 3 || len(s.got[1][2]) != len(large) || s.got[1][2][0] != 'l' {
			t.Errorf("%d messages", len(s.got))
		}
	})
}

// TestBatchFails: a host that can't be sent anything ends it, also while the driver waits.
func TestBatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b := toSlow()
		s.fail = errors.New("gone")
		done := make(chan error, 1)
		go func() {
			for {
				if err := b.add(line(make([]byte, 1000))); err != nil {
					done <- err
					return
				}
			}
		}()
		synctest.Wait()
		close(s.take)
		if err := <-done; !errors.Is(err, s.fail) {
			t.Errorf("add: %v", err)
		}
		if err := b.end(); !errors.Is(err, s.fail) {
			t.Errorf("end: %v", err)
		}
	})
}

// TestBatchRefuses: what can't be carried is told, and what came before it arrives.
func TestBatchRefuses(t *testing.T) {
	s, b := toSlow()
	close(s.take)
	if err := b.add(line([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if err := b.add(sdk.LogItem{Entry: &sdk.LogChunk{Stream: "\xff"}}); sdk.CodeOf(err) != sdk.Internal {
		t.Errorf("add: %v", err)
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	if got := slices.Concat(s.got...); !slices.Equal(got, []string{"x"}) {
		t.Errorf("sent %q", got)
	}
}
