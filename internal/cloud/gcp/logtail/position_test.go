package logtail

import (
	"testing"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzPosition: a position comes back from its cursor as it was, and nothing
// else is taken for one.
func FuzzPosition(f *testing.F) {
	f.Add("2026-11-28T07:00:00.123456789Z", "id")
	f.Add("", "id")
	f.Add("x", "")
	f.Fuzz(func(t *testing.T, at, id string) {
		p, err := readPosition("k", &sdk.LogCursor{V: sdk.CursorVersion, Kind: "k", Position: map[string]string{posTime: at, posID: id}})
		if err != nil {
			return
		}
		q, err := readPosition("k", p.cursor("k"))
		if err != nil || q.compare(p) != 0 && !p.at.IsZero() {
			t.Errorf("%v became %v, %v", p, q, err)
		}
	})
}

func entryAt(at time.Time, id string) *loggingpb.LogEntry {
	return &loggingpb.LogEntry{Timestamp: timestamppb.New(at), InsertId: id}
}

// TestFollowerOrders: entries wait for older ones, come once, and those that are
// behind what was given are left out.
func TestFollowerOrders(t *testing.T) {
	base := time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)
	f := &follower{late: 0, wake: make(chan struct{}, 1)}
	if !f.add([]*loggingpb.LogEntry{entryAt(base.Add(2), "c"), entryAt(base, "b")}) || !f.add([]*loggingpb.LogEntry{entryAt(base, "a"), entryAt(base, "b")}) {
		t.Error("new entries aren't told")
	}
	if ready, waiting, _ := f.take(); len(ready) != 0 || waiting != 3 {
		t.Errorf("before a round is over: %d entries, %d wait", len(ready), waiting)
	}
	f.looked(time.Now())
	ready, waiting, _ := f.take()
	var got string
	for _, e := range ready {
		got += e.GetInsertId()
	}
	if got != "abc" || waiting != 0 {
		t.Errorf("%q, %d wait", got, waiting)
	}
	if f.add([]*loggingpb.LogEntry{entryAt(base.Add(2), "c")}) {
		t.Error("what was given is new again")
	}
	// A round that began too early shows nothing of what is late.
	f.late = time.Hour
	f.add([]*loggingpb.LogEntry{entryAt(base.Add(3), "d")})
	f.looked(time.Now())
	if ready, waiting, _ := f.take(); len(ready) != 0 || waiting != 1 {
		t.Errorf("%d entries, %d wait", len(ready), waiting)
	}
	f.looked(time.Now().Add(2 * time.Hour))
	if ready, _, _ := f.take(); len(ready) != 1 {
		t.Errorf("%d entries, want the one that has waited", len(ready))
	}
}
