package ledgertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// queued makes n runs of provider p that wait for their first send.
func queued(t testing.TB, s ledger.Store, ids sdk.IDSource, holder sdk.ID, n int) []Script {
	t.Helper()
	var out []Script
	for range n {
		sc := NewScript(ids, holder, func(q *ledger.Requested) { q.Provider = "p" })
		mustWrite(t, s, sc.Writes[0])
		out = append(out, sc)
	}
	return out
}

func send(s ledger.Store, sc Script, most int) error {
	w := sc.Writes[1]
	w.Admit = &ledger.Admission{Provider: "p", Max: most}
	return s.Write(context.Background(), w)
}

func wantQueued(t testing.TB, err error, what string) {
	t.Helper()
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.ResourceExhausted || e.ID != "queue.full" || !e.Retryable {
		t.Fatalf("%s: %v", what, err)
	}
}

// wantStuck wants a refusal that counts the places, and names the run whose clean-up
// fails.
func wantStuck(t testing.TB, err error, run sdk.ID, why string, taken int) {
	t.Helper()
	wantQueued(t, err, "full")
	var full *ledger.FullError
	if !errors.As(err, &full) || full.Provider != "p" || full.Taken != taken || full.Max != taken || full.Stuck != run || full.Why != why {
		t.Errorf("%v, want %d places taken and %s stuck by %q", err, taken, run, why)
	}
	if !run.IsZero() && (!strings.Contains(err.Error(), run.Short()) || !strings.Contains(err.Error(), why)) {
		t.Errorf("%v doesn't name run %s and %q", err, run.Short(), why)
	}
}

func testAdmission(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	alive, dead := ids.NewID(), ids.NewID()
	put := func(id sdk.ID, expires time.Time) {
		t.Helper()
		if err := s.PutHolder(t.Context(), ledger.Holder{ID: id, Kind: "command", Expires: expires}); err != nil {
			t.Fatal(err)
		}
	}
	put(alive, time.Now().Add(time.Hour))
	put(dead, time.Now().Add(-time.Second))
	queued(t, s, ids, dead, 1)     // its holder is dead
	queued(t, s, ids, sdk.ID{}, 1) // it has none
	later := queued(t, s, ids, alive, 1)[0]
	mustWrite(t, s, ledger.Write{Run: later.Run, Events: []ledger.NewEvent{{Kind: ledger.KindWaiting, Actor: "x", Change: ledger.Change{NotBefore: time.Now().Add(time.Hour)}}}})
	cancelled := queued(t, s, ids, alive, 1)[0]
	mustWrite(t, s, ledger.Write{Run: cancelled.Run, Events: []ledger.NewEvent{{Kind: ledger.KindCancelAsk, Actor: "x", Change: ledger.Change{CancelBy: "x"}}}})
	mustWrite(t, s, NewScript(ids, alive, nil).Writes[0]) // another provider's
	q := queued(t, s, ids, alive, 4)

	// None of those before keep the first of q waiting; it keeps the others.
	before := mustRun(t, s, q[1].Run)
	err := send(s, q[1], 2)
	wantQueued(t, err, "out of turn")
	var behind *ledger.BehindError
	if !errors.As(err, &behind) || behind.Ahead != q[0].Run {
		t.Errorf("out of turn: %v; want the run that is first", err)
	}
	if after := mustRun(t, s, q[1].Run); after.Events != before.Events {
		t.Error("a write that must wait left an event")
	}
	for _, sc := range q[:2] {
		if err := send(s, sc, 2); err != nil {
			t.Fatalf("in turn: %v", err)
		}
	}
	wantQueued(t, send(s, q[2], 2), "no place")
	if err := send(s, q[2], 3); err != nil {
		t.Errorf("a larger provider: %v", err)
	}
	// One that has ended keeps its place, which is free once it is cleaned up.
	mustWrite(t, s, q[0].Writes[2:5]...)
	wantQueued(t, send(s, q[3], 3), "no place beside an ended one")
	mustWrite(t, s, q[0].Writes[5])
	wantStuck(t, send(s, q[3], 3), sdk.ID{}, "", 3)
	fail := func(why string) {
		t.Helper()
		mustWrite(t, s, ledger.Write{Run: q[0].Run, Events: []ledger.NewEvent{{Kind: ledger.KindCleanupErr, Attempt: 1, Actor: "x", Change: ledger.Change{CleanupErr: &why}}}})
	}
	fail("no rights")
	wantStuck(t, send(s, q[3], 3), q[0].Run, "no rights", 3)
	mustWrite(t, s, q[0].Writes[6])
	wantQueued(t, send(s, q[3], 2), "no place in a smaller one")
	if err := send(s, q[3], 3); err != nil {
		t.Errorf("a free place: %v", err)
	}
	sound(t, s)
}

// testAdmissionRace: however many send at once, in two handles, no more than
// the places are taken, and all get through as places come free.
func testAdmissionRace(t *testing.T, h Harness) {
	a, b := h.open(t), h.open(t)
	ids := newIDs()
	holder := ids.NewID()
	if err := a.PutHolder(t.Context(), ledger.Holder{ID: holder, Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	const most, n = 3, 24
	q := queued(t, a, ids, holder, n)
	var mu sync.Mutex
	inside, sent := 0, 0
	var wg sync.WaitGroup
	for i, sc := range q {
		s := []ledger.Store{a, b}[i%2]
		wg.Go(func() {
			for {
				changed := s.Changed()
				err := send(s, sc, most)
				if err == nil {
					break
				}
				if !errors.Is(err, sdk.ResourceExhausted) {
					t.Errorf("send: %v", err)
					return
				}
				select {
				case <-changed:
				case <-time.After(soon):
					t.Errorf("run %d still waits", i)
					return
				}
			}
			mu.Lock()
			if inside, sent = inside+1, sent+1; inside > most {
				t.Errorf("%d runs are inside, %d may be", inside, most)
			}
			mu.Unlock()
			for j, w := range sc.Writes[2:] {
				if j == len(sc.Writes)-3 { // the write of its clean-up frees the place
					mu.Lock()
					inside--
					mu.Unlock()
				}
				if err := s.Write(context.Background(), w); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if sent != n {
		t.Errorf("%d of %d runs were sent", sent, n)
	}
	sound(t, a)
}
