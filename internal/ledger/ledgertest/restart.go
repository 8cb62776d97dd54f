package ledgertest

import (
	"context"
	"errors"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

func testRestart(t *testing.T, h Harness) {
	ids := newIDs()
	sc := NewScript(ids, ids.NewID(), nil)
	id := ""
	for i, w := range sc.Writes {
		s, err := h.Open(t.Context(), h.Where)
		if err != nil {
			t.Fatalf("open %d: %v", i, err)
		}
		if id != "" && s.ID() != id {
			t.Fatalf("the ledger's id was %s, now %s", id, s.ID())
		}
		id = s.ID()
		mustWrite(t, s, w)
		check(t, s, sc.Run)
		if err := s.Close(); err != nil {
			t.Fatalf("close %d: %v", i, err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close %d again: %v", i, err)
		}
	}
	s := h.open(t)
	if run, _ := check(t, s, sc.Run); run.Open() || run.Events != sc.Events() {
		t.Errorf("run: %+v", run)
	}
	sound(t, s)
}

// testCrash goes on in a new handle while the old one is still open, as a new
// process does when the old one hangs.
func testCrash(t *testing.T, h Harness) {
	ids := newIDs()
	old := h.open(t)
	holder := ids.NewID()
	sc := NewScript(ids, holder, nil)
	mustWrite(t, old, sc.Writes[:3]...)
	next := h.open(t)
	if next.ID() != old.ID() {
		t.Fatalf("ids %s and %s", old.ID(), next.ID())
	}
	check(t, next, sc.Run)
	taker := ids.NewID()
	fence, err := next.Claim(t.Context(), sc.Run, taker, 1)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, old.Write(t.Context(), sc.Writes[3]), sdk.Aborted, "the old holder's write")
	for _, w := range sc.Writes[3:] {
		w.Holder, w.Fence = taker, fence
		mustWrite(t, next, w)
		check(t, old, sc.Run)
	}
	// The old handle's own knowledge of the run is out of date, and is not used.
	mustWrite(t, old, ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{note("late")}})
	check(t, next, sc.Run)
	for i := range 20 {
		s := []ledger.Store{old, next}[i%2]
		mustWrite(t, s, ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{note("turn")}}, NewScript(ids, sdk.ID{}, nil).Writes[0])
	}
	check(t, old, sc.Run)
	sound(t, next)
}

// testCancel ends contexts at all moments: a write that says it was cancelled
// left nothing, and one that says nothing is there.
func testCancel(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, s.Write(ctx, NewScript(ids, sdk.ID{}, nil).Writes[0]), sdk.Canceled, "write")
	_, err := s.Run(ctx, ids.NewID())
	wantCode(t, err, sdk.Canceled, "run")
	for _, err := range s.Runs(ctx, ledger.RunFilter{}) {
		wantCode(t, err, sdk.Canceled, "runs")
	}
	const writers = 200
	type result struct {
		run sdk.ID
		err error
	}
	results := make(chan result, writers)
	for i := range writers {
		ctx, cancel := context.WithCancel(t.Context())
		sc := NewScript(ids, sdk.ID{}, nil)
		go func() { results <- result{sc.Run, s.Write(ctx, sc.Writes[0])} }()
		if i%2 == 0 {
			go cancel()
		} else {
			defer cancel()
		}
	}
	for range writers {
		r := <-results
		_, err := s.Run(t.Context(), r.run)
		switch {
		case r.err == nil && err != nil:
			t.Errorf("an acknowledged run is not there: %v", err)
		case r.err != nil && !errors.Is(r.err, context.Canceled):
			t.Errorf("write: %v", r.err)
		case r.err != nil && !errors.Is(err, sdk.NotFound):
			t.Errorf("a cancelled write's run: %v", err)
		}
	}
	sound(t, s)
}

func testTorn(t *testing.T, h Harness) {
	if h.Tear == nil {
		t.Skip("this store can't be torn by the suite")
	}
	ids := newIDs()
	s := h.open(t)
	chain := map[int64]string{0: ledger.GenesisHash(s.ID())}
	for range 2 {
		mustWrite(t, s, NewScript(ids, ids.NewID(), nil).Writes...)
	}
	for _, ev := range events(t, s, ledger.EventFilter{}) {
		chain[ev.Seq] = ev.Hash
	}
	whole := int64(len(chain) - 1)
	opened, refused, shortest := 0, 0, whole
	h.Tear(t, h.Where, func(where string) {
		torn, err := h.Open(t.Context(), where)
		if err != nil {
			refused++
			wantCode(t, err, sdk.DataLoss, "open torn")
			return
		}
		defer func() {
			if err := torn.Close(); err != nil && !errors.Is(err, sdk.DataLoss) {
				t.Errorf("close torn: %v", err)
			}
		}()
		rep, err := torn.Verify(t.Context(), nil)
		if err != nil {
			refused++
			wantCode(t, err, sdk.DataLoss, "verify torn")
			return
		}
		opened++
		for _, f := range rep.Faults {
			t.Errorf("torn: event %d: %s: %s", f.Seq, f.What, f.Detail)
		}
		if chain[rep.Head.Count] != rep.Head.Hash {
			t.Errorf("torn: the chain ends with event %d, %s, which never was", rep.Head.Count, rep.Head.Hash)
		}
		shortest = min(shortest, rep.Head.Count)
		if opened%8 == 1 { // it works on behind what is there
			mustWrite(t, torn, NewScript(ids, sdk.ID{}, nil).Writes[0])
			sound(t, torn)
		}
	})
	t.Logf("%d copies opened to a prefix, the shortest of %d of %d events; %d refused", opened, shortest, whole, refused)
	if opened == 0 || shortest == whole {
		t.Errorf("no copy lost anything: the tearing is not torn enough")
	}
}

func testAfterClose(t *testing.T, h Harness) {
	ids := newIDs()
	s, err := h.Open(t.Context(), h.Where)
	if err != nil {
		t.Fatal(err)
	}
	sc := NewScript(ids, sdk.ID{}, nil)
	mustWrite(t, s, sc.Writes[0])
	const writers = 50
	results := make(chan error, writers)
	for range writers {
		w := NewScript(ids, sdk.ID{}, nil).Writes[0]
		go func() { results <- s.Write(context.Background(), w) }()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acked := int64(2)
	for range writers {
		if err := <-results; err == nil {
			acked += 2
		} else {
			wantCode(t, err, sdk.FailedPrecondition, "write beside close")
		}
	}
	wantCode(t, s.Write(t.Context(), sc.Writes[1]), sdk.FailedPrecondition, "write")
	_, err = s.Run(t.Context(), sc.Run)
	wantCode(t, err, sdk.FailedPrecondition, "run")
	if rep := sound(t, h.open(t)); rep.Events != acked {
		t.Errorf("%d events, %d were acknowledged", rep.Events, acked)
	}
}
