package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// testFences: a holder that was paused past its lease, and whose run another
// one took, writes nothing any more.
func testFences(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	paused, taker := ids.NewID(), ids.NewID()
	sc := NewScript(ids, paused, nil)
	mustWrite(t, s, sc.Writes[:3]...)
	fence, err := s.Claim(t.Context(), sc.Run, taker, 1)
	if err != nil || fence <= 1 {
		t.Fatalf("claim: fence %d, %v", fence, err)
	}
	before := mustRun(t, s, sc.Run)
	if before.Holder != taker || before.Fence != fence {
		t.Fatalf("run: %+v", before)
	}
	stale := sc.Writes[3]
	wantCode(t, s.Write(t.Context(), stale), sdk.Aborted, "old holder, old fence")
	stale.Fence = fence
	wantCode(t, s.Write(t.Context(), stale), sdk.Aborted, "old holder, new fence")
	stale.Holder, stale.Fence = taker, 1
	wantCode(t, s.Write(t.Context(), stale), sdk.Aborted, "new holder, old fence")
	_, err = s.Claim(t.Context(), sc.Run, paused, 1)
	wantCode(t, err, sdk.Aborted, "claim back with the old fence")
	wantCode(t, s.Release(t.Context(), sc.Run, paused, 1), sdk.Aborted, "release by the old holder")
	wantCode(t, s.Release(t.Context(), sc.Run, taker, 1), sdk.Aborted, "release with the old fence")
	if after := mustRun(t, s, sc.Run); after.Events != before.Events || after.Holder != taker || after.Fence != fence {
		t.Errorf("refused calls changed the run: %+v", after)
	}
	// Anybody may ask for a cancel.
	mustWrite(t, s, ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{{Kind: ledger.KindCancelAsk, Actor: "bob", Change: ledger.Change{CancelBy: "bob", CancelWhy: "enough"}}}})
	if run, _ := check(t, s, sc.Run); run.CancelBy != "bob" || run.CancelAt.IsZero() {
		t.Errorf("run: %+v", run)
	}
	for _, w := range sc.Writes[3:] {
		w.Holder, w.Fence = taker, fence
		mustWrite(t, s, w)
	}
	if err := s.Release(t.Context(), sc.Run, taker, fence); err != nil {
		t.Fatal(err)
	}
	run := mustRun(t, s, sc.Run)
	if !run.Holder.IsZero() || run.Fence <= fence {
		t.Errorf("released: holder %s, fence %d", run.Holder, run.Fence)
	}
	_, err = s.Claim(t.Context(), ids.NewID(), taker, 0)
	wantCode(t, err, sdk.NotFound, "claim of an unknown run")
	wantCode(t, s.Release(t.Context(), ids.NewID(), taker, 0), sdk.NotFound, "release of an unknown run")
	_, err = s.Claim(t.Context(), sc.Run, sdk.ID{}, run.Fence)
	wantCode(t, err, sdk.InvalidArgument, "claim by nobody")
	bad := NewScript(ids, sdk.ID{}, nil).Writes[0]
	bad.Claim = true
	wantCode(t, s.Write(t.Context(), bad), sdk.InvalidArgument, "a row claimed by nobody")

	// Of many claims with one fence one wins.
	const racers = 16
	results := make(chan error, racers)
	for range racers {
		go func() {
			_, err := s.Claim(context.Background(), sc.Run, ids.NewID(), run.Fence)
			results <- err
		}()
	}
	won := 0
	for range racers {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, sdk.Aborted) {
			t.Errorf("race: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d claims won", won)
	}
	sound(t, s)
}

func testClaimAll(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	alive, dead1, dead2, taker := ids.NewID(), ids.NewID(), ids.NewID(), ids.NewID()
	var want []sdk.ID
	for i := range 12 {
		holder := []sdk.ID{alive, dead1, dead2, {}}[i%4]
		sc := NewScript(ids, holder, nil)
		mustWrite(t, s, sc.Writes[:2]...)
		switch {
		case i >= 8: // finished runs are nobody's
			mustWrite(t, s, sc.Writes[2:]...)
		case holder != alive:
			want = append(want, sc.Run)
		}
	}
	first, err := s.ClaimAll(t.Context(), taker, []sdk.ID{dead1, dead2}, 4)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.ClaimAll(t.Context(), taker, []sdk.ID{dead1, dead2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	none, err := s.ClaimAll(t.Context(), taker, []sdk.ID{dead1, dead2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 4 || len(none) != 0 {
		t.Errorf("claimed %d, then %d, then %d", len(first), len(rest), len(none))
	}
	var got []sdk.ID
	for _, r := range append(first, rest...) {
		got = append(got, r.ID)
		now := mustRun(t, s, r.ID)
		if r.Holder != taker || now.Holder != taker || now.Fence != r.Fence || r.Fence < 1 || len(r.Spec) == 0 {
			t.Errorf("claimed %+v, stored holder %s fence %d", r, now.Holder, now.Fence)
		}
		mustWrite(t, s, ledger.Write{Run: r.ID, Holder: taker, Fence: r.Fence, Events: []ledger.NewEvent{note("mine")}})
	}
	if !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v, oldest first", got, want)
	}
	if held := runs(t, s, ledger.RunFilter{Holder: alive, Open: true}); len(held) != 2 {
		t.Errorf("the living holder has %d runs", len(held))
	}
	_, err = s.ClaimAll(t.Context(), sdk.ID{}, nil, 0)
	wantCode(t, err, sdk.InvalidArgument, "claim by nobody")
	sound(t, s)
}

// testClaimAllRace: several takers at once, in two handles, share the runs of a
// dead holder without doubling one.
func testClaimAllRace(t *testing.T, h Harness) {
	a, b := h.open(t), h.open(t)
	ids := newIDs()
	dead := ids.NewID()
	const n = 60
	for range n {
		mustWrite(t, a, NewScript(ids, dead, nil).Writes[0])
	}
	var mu sync.Mutex
	owner := map[sdk.ID]sdk.ID{}
	var wg sync.WaitGroup
	for i := range 8 {
		s := []ledger.Store{a, b}[i%2]
		me := ids.NewID()
		wg.Go(func() {
			for {
				got, err := s.ClaimAll(context.Background(), me, []sdk.ID{dead}, 7)
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				for _, r := range got {
					if err := s.Write(context.Background(), ledger.Write{Run: r.ID, Holder: me, Fence: r.Fence, Events: []ledger.NewEvent{note("mine")}}); err != nil {
						t.Errorf("write as the new holder: %v", err)
					}
					mu.Lock()
					if other, ok := owner[r.ID]; ok {
						t.Errorf("run %s went to %s and %s", r.ID, other, me)
					}
					owner[r.ID] = me
					mu.Unlock()
				}
				if err != nil || len(got) == 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(owner) != n {
		t.Errorf("%d of %d runs were taken", len(owner), n)
	}
	for id, me := range owner {
		if r := mustRun(t, a, id); r.Holder != me {
			t.Errorf("run %s is held by %s, not by %s", id, r.Holder, me)
		}
	}
	sound(t, a)
}

func testHolders(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	now := time.Now().Round(0).UTC()
	one := ledger.Holder{ID: ids.NewID(), Kind: "keeper", PID: 42, Host: "h", Version: "1.2.3", LockFile: "/run/x.lock", Started: now, Expires: now.Add(90 * time.Second)}
	two := ledger.Holder{ID: ids.NewID(), Kind: "command", Started: now}
	for _, x := range []ledger.Holder{one, two} {
		if err := s.PutHolder(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	one.Expires = now.Add(180 * time.Second)
	if err := s.PutHolder(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	got, err := h.open(t).Holders(t.Context())
	if err != nil || !slices.Equal(got, []ledger.Holder{one, two}) {
		t.Errorf("holders: %+v, %v", got, err)
	}
	held, free := NewScript(ids, one.ID, nil), NewScript(ids, two.ID, nil)
	mustWrite(t, s, held.Writes[0], free.Writes[0])
	if err := s.RemoveHolder(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveHolder(t.Context(), one.ID); err != nil {
		t.Errorf("again: %v", err)
	}
	if r := mustRun(t, s, held.Run); !r.Holder.IsZero() || r.Fence <= 1 {
		t.Errorf("holder %s, fence %d", r.Holder, r.Fence)
	}
	if r := mustRun(t, s, free.Run); r.Holder != two.ID || r.Fence != 1 {
		t.Errorf("the other's run: holder %s, fence %d", r.Holder, r.Fence)
	}
	wantCode(t, s.Write(t.Context(), held.Writes[1]), sdk.Aborted, "write by a removed holder")
	mustWrite(t, s, free.Writes[1])
	if got, err = s.Holders(t.Context()); err != nil || !slices.Equal(got, []ledger.Holder{two}) {
		t.Errorf("holders: %+v, %v", got, err)
	}
	wantCode(t, s.PutHolder(t.Context(), ledger.Holder{}), sdk.InvalidArgument, "nobody")
}

func testCountOpen(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	count := func(provider string, want int) {
		t.Helper()
		if n, err := s.CountOpen(context.Background(), provider); err != nil || n != want {
			t.Errorf("%s: %d (%v), want %d", provider, n, err, want)
		}
	}
	sc := NewScript(ids, sdk.ID{}, func(q *ledger.Requested) { q.Provider = "p" })
	for i, w := range sc.Writes {
		mustWrite(t, s, w)
		want := 0
		if i >= 1 && i <= 5 { // submitting to drained
			want = 1
		}
		count("p", want)
	}
	for i := range 5 {
		mustWrite(t, s, NewScript(ids, sdk.ID{}, func(q *ledger.Requested) { q.Provider = fmt.Sprint("q", i%2) }).Writes[:2]...)
	}
	count("q0", 3)
	count("q1", 2)
	count("none", 0)
}
