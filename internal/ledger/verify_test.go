package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const ledgerID = "01jzzzzzzzzzzzzzzzzzzzzzzz"

// chain makes n good events.
func chain(n int) []ledger.Event {
	prev := ledger.GenesisHash(ledgerID)
	var out []ledger.Event
	for i := range n {
		ev := ledger.Event{Seq: int64(i + 1), At: time.Unix(int64(i), 0), Run: sdk.ID{byte(i % 3)}, Kind: ledger.KindNote, Actor: "a", Change: fmt.Appendf(nil, `{"v":1,"launches":%d}`, i), Prev: prev}
		ev.Hash = ledger.HashEvent(ev)
		prev = ev.Hash
		out = append(out, ev)
	}
	return out
}

func headOf(evs []ledger.Event) ledger.Head {
	h := ledger.Head{LedgerID: ledgerID, Hash: ledger.GenesisHash(ledgerID)}
	if n := len(evs); n > 0 {
		h.Count, h.Hash = evs[n-1].Seq, evs[n-1].Hash
	}
	return h
}

func checkChain(evs []ledger.Event, head ledger.Head, gaps []ledger.Gap, known *ledger.Head) []ledger.Fault {
	c := ledger.NewChainCheck(ledgerID, gaps, known)
	for _, ev := range evs {
		c.Add(ev)
	}
	n, faults := c.Finish(head)
	if n != int64(len(evs)) {
		faults = append(faults, ledger.Fault{What: fmt.Sprintf("counted %d of %d", n, len(evs))})
	}
	return faults
}

// TestChainNamesWhatWasDone does one thing to a random chain: it is found, and
// named for what it is, at its place.
func TestChainNamesWhatWasDone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(rt, "events")
		evs := chain(n)
		head := headOf(evs)
		at := rapid.IntRange(0, n-1).Draw(rt, "at")
		what := rapid.SampledFrom([]string{"nothing", "edit", "rehash", "remove", "remove and renumber", "swap", "cut"}).Draw(rt, "what")
		want, place := "", int64(at+1)
		own := head
		switch what {
		case "edit":
			want = ledger.FaultEdited
			switch rapid.IntRange(0, 5).Draw(rt, "field") {
			case 0:
				evs[at].At = evs[at].At.Add(1)
			case 1:
				evs[at].Actor += "x"
			case 2:
				evs[at].Change = append(slices.Clone(evs[at].Change), ' ')
			case 3:
				evs[at].Run[15] ^= 1
			case 4:
				evs[at].Attempt++
			case 5:
				evs[at].Kind = "noted"
			}
		case "rehash": // edited, with a hash that fits; the next one's link shows it
			want = ledger.FaultEdited
			evs[at].Actor += "x"
			evs[at].Hash = ledger.HashEvent(evs[at])
			if at == n-1 {
				want = ledger.FaultBadHead
			}
		case "remove":
			want = ledger.FaultRemoved
			evs = slices.Delete(evs, at, at+1)
			if at == n-1 {
				want = ledger.FaultCutOff
			}
		case "remove and renumber":
			want = ledger.FaultRemoved
			evs = slices.Delete(evs, at, at+1)
			for i := at; i < len(evs); i++ {
				evs[i].Seq--
			}
			if own = headOf(evs); at == n-1 {
				want = ledger.FaultCutOff
			}
		case "swap":
			if at == n-1 {
				at--
				place--
			}
			want = ledger.FaultReordered
			evs[at], evs[at+1] = evs[at+1], evs[at]
			evs[at].Seq, evs[at+1].Seq = evs[at+1].Seq, evs[at].Seq
		case "cut":
			want = ledger.FaultCutOff
			evs = evs[:at]
			own = headOf(evs)
		}
		faults := checkChain(evs, own, nil, &head)
		if want == "" {
			if len(faults) != 0 {
				rt.Fatalf("faults in a good chain: %+v", faults)
			}
			return
		}
		if len(faults) == 0 {
			rt.Fatalf("%s at %d of %d was not found", what, place, n)
		}
		if faults[0].What != want || faults[0].Seq != place {
			rt.Fatalf("%s at %d of %d: %+v, want %s", what, place, n, faults, want)
		}
	})
}

// TestChainFindsAnything changes one byte anywhere, or shuffles.
func TestChainFindsAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(rt, "events")
		evs := chain(n)
		head := headOf(evs)
		good := slices.Clone(evs)
		for range rapid.IntRange(1, 4).Draw(rt, "times") {
			i, j := rapid.IntRange(0, n-1).Draw(rt, "i"), rapid.IntRange(0, n-1).Draw(rt, "j")
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				evs[i].Hash = strings.Repeat("0", 64)
			case 1:
				evs[i].Prev = evs[j].Hash
			case 2:
				evs[i].Change, evs[j].Change = evs[j].Change, evs[i].Change
			case 3:
				seq := evs[i].Seq
				evs[i] = evs[j]
				evs[i].Seq = seq
			case 4:
				evs[i].Seq, evs[j].Seq = evs[j].Seq, evs[i].Seq
				slices.SortFunc(evs, func(a, b ledger.Event) int { return int(a.Seq - b.Seq) })
			}
		}
		same := true
		for i := range evs {
			same = same && evs[i].Seq == good[i].Seq && evs[i].Hash == good[i].Hash && evs[i].Prev == good[i].Prev && string(evs[i].Change) == string(good[i].Change)
		}
		if faults := checkChain(evs, head, nil, &head); same != (len(faults) == 0) {
			rt.Fatalf("same: %v, faults: %+v", same, faults)
		}
	})
}

// TestChainWithGaps prunes random events: with the gaps listed the rest is
// good, and anything else that is missing is found.
func TestChainWithGaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "events")
		evs := chain(n)
		head := headOf(evs)
		var rest []ledger.Event
		var gaps []ledger.Gap
		for _, ev := range evs {
			if ev.Seq == head.Count || !rapid.Bool().Draw(rt, "prune") {
				rest = append(rest, ev)
				continue
			}
			if k := len(gaps); k > 0 && gaps[k-1].To == ev.Seq-1 {
				gaps[k-1].To, gaps[k-1].Hash = ev.Seq, ev.Hash
			} else {
				gaps = append(gaps, ledger.Gap{From: ev.Seq, To: ev.Seq, Hash: ev.Hash})
			}
		}
		at := rapid.IntRange(0, n-1).Draw(rt, "known")
		known := headOf(evs[:at+1])
		if faults := checkChain(rest, head, gaps, &known); len(faults) != 0 {
			rt.Fatalf("%+v, gaps %+v", faults, gaps)
		}
		i := rapid.IntRange(0, len(rest)-1).Draw(rt, "remove")
		if faults := checkChain(slices.Delete(slices.Clone(rest), i, i+1), head, gaps, nil); len(faults) == 0 {
			rt.Fatalf("event %d was removed and not missed, gaps %+v", rest[i].Seq, gaps)
		}
		if len(gaps) > 0 {
			g := rapid.IntRange(0, len(gaps)-1).Draw(rt, "gap")
			bad := slices.Clone(gaps)
			switch rapid.IntRange(0, 2).Draw(rt, "how") {
			case 0:
				bad = slices.Delete(bad, g, g+1)
			case 1:
				bad[g].Hash = strings.Repeat("0", 64)
			case 2:
				bad[g].To++
			}
			if faults := checkChain(rest, head, bad, nil); len(faults) == 0 {
				rt.Fatalf("gaps %+v instead of %+v were accepted", bad, gaps)
			}
		}
	})
}

// TestHashEvent pins the hash: ledgers on disk depend on it.
func TestHashEvent(t *testing.T) {
	ev := ledger.Event{Seq: 7, At: time.Unix(1_700_000_000, 123456789), Run: sdk.ID{1, 2, 3}, Attempt: 2, Kind: ledger.KindEnded, Actor: "ann@host", Change: []byte(`{"v":1}`), Prev: ledger.GenesisHash(ledgerID)}
	const genesis, want = "1bdb001412c78331f3a3024ca8dde4d651b906a1700797ecbccf92b90d6946b3", "bdb93a35030f39a1d76200e5a4bae267dc2d7d9fa921ba51dc5edf0413984a0b"
	if got := ledger.GenesisHash(ledgerID); got != genesis {
		t.Errorf("genesis %s", got)
	}
	if got := ledger.HashEvent(ev); got != want {
		t.Errorf("hash %s", got)
	}
	// Moving a byte from one field to the next is another event.
	a, b := ev, ev
	a.Kind, a.Actor = "ab", "c"
	b.Kind, b.Actor = "a", "bc"
	if ledger.HashEvent(a) == ledger.HashEvent(b) {
		t.Error("two events have one hash")
	}
	ev.Hash = "ignored"
	if ledger.HashEvent(ev) != want {
		t.Error("the hash depends on itself")
	}
}
