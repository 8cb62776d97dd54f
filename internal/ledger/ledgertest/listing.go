package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// many writes n first writes concurrently and returns their runs in the order
// in which they were recorded.
func many(t testing.TB, s ledger.Store, n int, change func(i int, q *ledger.Requested)) []sdk.ID {
	t.Helper()
	ids := newIDs()
	next := make(chan ledger.Write)
	errs := make(chan error)
	const workers = 32
	for range workers {
		go func() {
			var err error
			for w := range next {
				if werr := s.Write(context.Background(), w); werr != nil {
					err = werr
				}
			}
			errs <- err
		}()
	}
	for i := range n {
		next <- NewScript(ids, sdk.ID{}, func(q *ledger.Requested) {
			if change != nil {
				change(i, q)
			}
		}).Writes[0]
	}
	close(next)
	for range workers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	var out []sdk.ID
	for _, ev := range events(t, s, ledger.EventFilter{}) {
		if ev.Kind == ledger.KindRequested {
			out = append(out, ev.Run)
		}
	}
	return out
}

func idsOf(rs []ledger.Run) []sdk.ID {
	out := make([]sdk.ID, len(rs))
	for i, r := range rs {
		out[i] = r.ID
	}
	return out
}

func testFilters(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	holder := ids.NewID()
	var scripts []Script
	for i := range 12 {
		sc := NewScript(ids, holder, func(q *ledger.Requested) {
			q.Provider, q.Action, q.Target = fmt.Sprint("p", i%2), []string{"run", "svc.scale", "svc.stop"}[i%3], fmt.Sprint("t", i%4)
			q.Name, q.Actor = fmt.Sprint("n", i%5), []string{"ann", "bob"}[i/6]
		})
		mustWrite(t, s, sc.Writes[0])
		switch i % 4 {
		case 1:
			mustWrite(t, s, sc.Writes[1:4]...)
		case 2:
			mustWrite(t, s, sc.Writes[1:]...)
		case 3:
			if err := s.Release(t.Context(), sc.Run, holder, 1); err != nil {
				t.Fatal(err)
			}
		}
		scripts = append(scripts, sc)
	}
	all := runs(t, s, ledger.RunFilter{OldestFirst: true})
	for i, r := range all {
		if r.ID != scripts[i].Run {
			t.Fatalf("run %d is %s, want %s", i, r.ID, scripts[i].Run)
		}
	}
	at := func(i int) time.Time { return all[i].RequestedAt }
	id := scripts[7].Run.String()
	for _, tc := range []struct {
		name string
		f    ledger.RunFilter
		keep func(i int, r ledger.Run) bool
	}{
		{"all", ledger.RunFilter{}, func(int, ledger.Run) bool { return true }},
		{"open", ledger.RunFilter{Open: true}, func(i int, _ ledger.Run) bool { return i%4 != 2 }},
		{"holder", ledger.RunFilter{Holder: holder}, func(i int, _ ledger.Run) bool { return i%4 != 3 }},
		{"open and held", ledger.RunFilter{Open: true, Holder: holder}, func(i int, _ ledger.Run) bool { return i%4 < 2 }},
		{"another's", ledger.RunFilter{Holder: ids.NewID()}, func(int, ledger.Run) bool { return false }},
		{"provider", ledger.RunFilter{Provider: "p1"}, func(i int, _ ledger.Run) bool { return i%2 == 1 }},
		{"state", ledger.RunFilter{States: []sdk.JobState{sdk.StateRunning}}, func(i int, _ ledger.Run) bool { return i%4 == 1 }},
		{"states", ledger.RunFilter{States: []sdk.JobState{sdk.StateSucceeded, sdk.StateRunning, sdk.StateLost}}, func(i int, _ ledger.Run) bool { return i%4 == 1 || i%4 == 2 }},
		{"action", ledger.RunFilter{Action: "svc.scale"}, func(i int, _ ledger.Run) bool { return i%3 == 1 }},
		{"action and target", ledger.RunFilter{Action: "run", Target: "t0"}, func(i int, _ ledger.Run) bool { return i%12 == 0 }},
		{"name", ledger.RunFilter{Name: "n3"}, func(i int, _ ledger.Run) bool { return i%5 == 3 }},
		{"actor", ledger.RunFilter{Actor: "bob"}, func(i int, _ ledger.Run) bool { return i >= 6 }},
		{"since", ledger.RunFilter{Since: at(4)}, func(_ int, r ledger.Run) bool { return !r.RequestedAt.Before(at(4)) }},
		{"until", ledger.RunFilter{Until: at(4)}, func(_ int, r ledger.Run) bool { return r.RequestedAt.Before(at(4)) }},
		{"between", ledger.RunFilter{Action: "run", Since: at(2), Until: at(9)}, func(i int, r ledger.Run) bool {
			return i%3 == 0 && !r.RequestedAt.Before(at(2)) && r.RequestedAt.Before(at(9))
		}},
		{"whole id", ledger.RunFilter{Suffix: id}, func(i int, _ ledger.Run) bool { return i == 7 }},
		{"shown id", ledger.RunFilter{Suffix: scripts[7].Run.Short()}, func(i int, _ ledger.Run) bool { return i == 7 }},
		{"shortest suffix", ledger.RunFilter{Suffix: id[len(id)-sdk.MinIDSuffix:]}, func(i int, _ ledger.Run) bool { return i == 7 }},
		{"upper case", ledger.RunFilter{Suffix: strings.ToUpper(scripts[7].Run.Short())}, func(i int, _ ledger.Run) bool { return i == 7 }},
		{"one letter", ledger.RunFilter{Suffix: id[len(id)-1:]}, func(_ int, r ledger.Run) bool { return strings.HasSuffix(r.ID.String(), id[len(id)-1:]) }},
		{"no suffix", ledger.RunFilter{Suffix: "%" + id[len(id)-6:]}, func(int, ledger.Run) bool { return false }},
		{"too long", ledger.RunFilter{Suffix: "0" + id}, func(int, ledger.Run) bool { return false }},
	} {
		for _, oldest := range []bool{true, false} {
			f := tc.f
			f.OldestFirst = oldest
			var want []sdk.ID
			for i, r := range all {
				if tc.keep(i, r) {
					want = append(want, r.ID)
				}
			}
			if !oldest {
				slices.Reverse(want)
			}
			if got := idsOf(runs(t, s, f)); !slices.Equal(got, want) {
				t.Errorf("%s (oldest first: %v): got %v, want %v", tc.name, oldest, got, want)
			}
		}
	}
	kinds := []ledger.Kind{ledger.KindRunning, ledger.KindFinished}
	for _, f := range []ledger.EventFilter{{Kinds: kinds}, {Kinds: kinds, Run: scripts[2].Run}, {Kinds: kinds[:1], After: 9}, {Kinds: kinds, Limit: 2}, {Kinds: []ledger.Kind{"none"}}} {
		var want []int64
		for _, ev := range events(t, s, ledger.EventFilter{Run: f.Run, After: f.After}) {
			if slices.Contains(f.Kinds, ev.Kind) && (f.Limit == 0 || len(want) < f.Limit) {
				want = append(want, ev.Seq)
			}
		}
		var got []int64
		for _, ev := range events(t, s, f) {
			got = append(got, ev.Seq)
		}
		if !slices.Equal(got, want) || len(want) == 0 && f.Kinds[0] != "none" {
			t.Errorf("%+v: events %v, want %v", f, got, want)
		}
	}
	evs := events(t, s, ledger.EventFilter{Run: scripts[2].Run})
	if int64(len(evs)) != scripts[2].Events() {
		t.Errorf("%d events of one run", len(evs))
	}
	if got := events(t, s, ledger.EventFilter{Run: scripts[2].Run, After: evs[2].Seq, Limit: 3}); len(got) != 3 || got[0].Seq != evs[3].Seq {
		t.Errorf("events behind %d: %+v", evs[2].Seq, got)
	}
}

func testPaging(t *testing.T, h Harness) {
	s := h.open(t)
	const n = 700 // more than a store would read at once
	all := many(t, s, n, func(i int, q *ledger.Requested) { q.Provider = fmt.Sprint("p", i%2) })
	newest := slices.Clone(all)
	slices.Reverse(newest)
	if got := idsOf(runs(t, s, ledger.RunFilter{})); !slices.Equal(got, newest) {
		t.Fatalf("%d runs, or another order", len(got))
	}
	for _, oldest := range []bool{true, false} {
		want := newest
		if oldest {
			want = all
		}
		for _, size := range []int{1, 99, 256, 257, n, n + 1} {
			if size == 1 && testing.Short() {
				continue
			}
			var got []sdk.ID
			f := ledger.RunFilter{Limit: size, OldestFirst: oldest}
			for {
				page := runs(t, s, f)
				got = append(got, idsOf(page)...)
				if len(page) < size {
					break
				}
				f.After = page[len(page)-1].ID
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d (oldest first: %v): %d runs, or another order", size, oldest, len(got))
			}
		}
	}
	half := runs(t, s, ledger.RunFilter{Provider: "p1", After: newest[100]})
	for _, r := range half {
		if r.Provider != "p1" || slices.Index(newest, r.ID) <= 100 {
			t.Errorf("run %s of %s is behind nothing", r.ID, r.Provider)
		}
	}
	// What is added meanwhile stands in front of a listing from the newest on.
	seen := 0
	for r, err := range s.Runs(t.Context(), ledger.RunFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen == 10 {
			mustWrite(t, s, NewScript(newIDs(), sdk.ID{}, nil).Writes[0])
		}
		if r.ID != newest[seen] {
			t.Fatalf("run %d is %s, want %s", seen, r.ID, newest[seen])
		}
		seen++
	}
	if seen != n {
		t.Errorf("%d runs", seen)
	}
	for _, err := range s.Runs(t.Context(), ledger.RunFilter{After: newIDs().NewID()}) {
		wantCode(t, err, sdk.NotFound, "behind an unknown run")
	}
}

// testNestedReads reads and writes inside of more listings than a store has
// connections.
func testNestedReads(t *testing.T, h Harness) {
	s := h.open(t)
	many(t, s, 3, nil)
	var walk func(depth int) int
	walk = func(depth int) int {
		n := 0
		for r, err := range s.Runs(t.Context(), ledger.RunFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if depth > 0 {
				n += walk(depth - 1)
			}
			if _, err := s.Attempts(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, s, ledger.Write{Run: r.ID, Events: []ledger.NewEvent{note("nested")}})
			break
		}
		return n
	}
	if n := walk(20); n != 21 {
		t.Errorf("%d", n)
	}
}

// testManyRows: a listing's work grows with what it gives, not with what is
// there. Speed is compared with itself on this machine, generously.
func testManyRows(t *testing.T, h Harness) {
	n := 10_000
	if testing.Short() || raceDetector {
		n = 2_000
	}
	s := h.open(t)
	all := many(t, s, n, nil)
	start := time.Now()
	if got := runs(t, s, ledger.RunFilter{}); len(got) != n {
		t.Fatalf("%d runs", len(got))
	}
	whole := time.Since(start)
	start = time.Now()
	const times = 20
	for i := range times {
		id := all[i*n/times]
		if got := runs(t, s, ledger.RunFilter{Limit: 10}); len(got) != 10 {
			t.Fatalf("%d runs", len(got))
		}
		if got := runs(t, s, ledger.RunFilter{Suffix: id.Short()}); len(got) != 1 || got[0].ID != id {
			t.Fatalf("suffix %s: %v", id.Short(), idsOf(got))
		}
		if got := mustRun(t, s, id); got.ID != id {
			t.Fatal(got.ID)
		}
	}
	few := time.Since(start)
	t.Logf("%d runs in %s; %d times ten of them, one by suffix and one by id in %s", n, whole, times, few)
	if few > whole+5*time.Second {
		t.Errorf("looking up %d runs took %s, listing all %d %s", times, few, n, whole)
	}
}
