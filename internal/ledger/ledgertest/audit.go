package ledgertest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

func whats(rep ledger.Report) string {
	var out []string
	for _, f := range rep.Faults {
		out = append(out, f.What)
	}
	return strings.Join(out, " ")
}

func testHeads(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	empty, err := s.Head(t.Context())
	if err != nil || empty.Count != 0 || empty.LedgerID != s.ID() || empty.Hash != ledger.GenesisHash(s.ID()) {
		t.Fatalf("head of an empty ledger: %+v, %v", empty, err)
	}
	sound(t, s)
	var heads []ledger.Head
	sc := NewScript(ids, sdk.ID{}, nil)
	for _, w := range sc.Writes {
		mustWrite(t, s, w)
		head, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
	}
	last := heads[len(heads)-1]
	wrong := func(change func(*ledger.Head)) *ledger.Head {
		k := heads[2]
		change(&k)
		return &k
	}
	for _, tc := range []struct {
		name  string
		known *ledger.Head
		want  string
	}{
		{"none", nil, ""},
		{"the beginning", &empty, ""},
		{"an old one", &heads[1], ""},
		{"the end", &last, ""},
		{"further on", wrong(func(k *ledger.Head) { k.Count = last.Count + 3 }), ledger.FaultCutOff},
		{"another hash", wrong(func(k *ledger.Head) { k.Hash = last.Hash }), ledger.FaultCutOff},
		{"another ledger", wrong(func(k *ledger.Head) { k.LedgerID = ids.NewID().String() }), ledger.FaultBadHead},
	} {
		rep, err := s.Verify(t.Context(), tc.known)
		if err != nil || whats(rep) != tc.want {
			t.Errorf("%s: %q (%v), want %q", tc.name, whats(rep), err, tc.want)
		}
	}
}

func testPrune(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	// Two runs that stay open interleave with runs that go and runs that stay.
	keep := []Script{NewScript(ids, sdk.ID{}, nil), NewScript(ids, sdk.ID{}, nil)}
	mustWrite(t, s, keep[0].Writes[0])
	var old []Script
	for i := range 8 {
		sc := NewScript(ids, sdk.ID{}, func(q *ledger.Requested) { q.RequestID = ids.NewID().String() })
		mustWrite(t, s, sc.Writes[:3]...)
		if i == 4 {
			mustWrite(t, s, keep[1].Writes[:2]...)
		}
		mustWrite(t, s, sc.Writes[3:]...)
		old = append(old, sc)
	}
	mid := mustRun(t, s, old[7].Run).FinishedAt.Add(1)
	recent := NewScript(ids, sdk.ID{}, nil)
	mustWrite(t, s, recent.Writes...)
	before := sound(t, s)

	if n, err := s.Prune(t.Context(), mustRun(t, s, old[0].Run).RequestedAt, "ann"); n != 0 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if head, _ := s.Head(t.Context()); head != before.Head {
		t.Errorf("a pruning of nothing wrote an event")
	}
	n, err := s.Prune(t.Context(), mid, "ann")
	if err != nil || n != len(old) {
		t.Fatalf("pruned %d, %v", n, err)
	}
	after := sound(t, s)
	if after.Runs != 3 || after.Head.Count != before.Head.Count+1 || after.Events != before.Events-8*old[0].Events()+1 {
		t.Errorf("after: %+v, before: %+v", after, before)
	}
	// Heads from before are still good, where their events are gone too.
	for _, k := range []ledger.Head{before.Head, {LedgerID: s.ID(), Count: 5, Hash: "gone"}} {
		if rep, err := s.Verify(t.Context(), &k); err != nil || len(rep.Faults) != 0 {
			t.Errorf("known head %d: %v, %v", k.Count, rep.Faults, err)
		}
	}
	for _, sc := range old {
		_, err := s.Run(t.Context(), sc.Run)
		wantCode(t, err, sdk.NotFound, "a pruned run")
		if evs := events(t, s, ledger.EventFilter{Run: sc.Run}); len(evs) != 0 {
			t.Errorf("%d events of a pruned run", len(evs))
		}
	}
	var point ledger.Event
	for _, ev := range events(t, s, ledger.EventFilter{}) {
		if ev.Kind == ledger.KindCheckpoint {
			point = ev
		}
	}
	if c, err := ledger.DecodeCheckpoint(point); err != nil || c.Runs != 8 || c.Events != 8*old[0].Events() || point.Actor != "ann" || !c.Before.Equal(mid) {
		t.Errorf("checkpoint %+v of %s, %v", c, point.Actor, err)
	}
	// What was held before goes on, in this handle and in another.
	mustWrite(t, s, keep[0].Writes[1:]...)
	again := h.open(t)
	mustWrite(t, again, keep[1].Writes[2:]...)
	check(t, again, keep[0].Run)
	check(t, s, recent.Run)

	if n, err = again.Prune(t.Context(), time.Now().Add(time.Hour), "bob"); err != nil || n != 3 {
		t.Fatalf("pruned %d, %v", n, err)
	}
	if rep := sound(t, s); rep.Runs != 0 || rep.Events != 1 {
		t.Errorf("report: %+v", rep)
	}
	mustWrite(t, s, NewScript(ids, sdk.ID{}, nil).Writes...)
	sound(t, again)
}

func testExport(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	scripts := []Script{NewScript(ids, sdk.ID{}, nil), NewScript(ids, sdk.ID{}, func(q *ledger.Requested) { q.Provider = "other" })}
	for _, sc := range scripts {
		mustWrite(t, s, sc.Writes...)
	}
	var out bytes.Buffer
	end, err := ledger.Export(t.Context(), s, &out, ledger.RunFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (ledger.ExportEnd{Runs: 2, Attempts: 2, Events: 2 * scripts[0].Events()}); end != want {
		t.Errorf("end: %+v, want %+v", end, want)
	}
	var types []string
	var order []sdk.ID
	for line := range strings.Lines(out.String()) {
		var l ledger.ExportLine
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		types = append(types, l.Type)
		if l.Run != nil {
			order = append(order, l.Run.ID)
		}
	}
	one := "run attempt" + strings.Repeat(" event", int(scripts[0].Events()))
	if got, want := strings.Join(types, " "), "ledger "+one+" "+one+" end"; got != want {
		t.Errorf("lines: %s\nwant: %s", got, want)
	}
	if len(order) != 2 || order[0] != scripts[0].Run {
		t.Errorf("order: %v", order)
	}
	for _, secret := range []string{"canary", base64.StdEncoding.EncodeToString([]byte("canary"))} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the export holds an environment's value as %q", secret)
		}
	}
	if !strings.Contains(out.String(), "TOKEN") {
		t.Error("the export lost the variable's name")
	}
	out.Reset()
	if end, err = ledger.Export(t.Context(), s, &out, ledger.RunFilter{Provider: "other"}); err != nil || end.Runs != 1 {
		t.Errorf("filtered: %+v, %v", end, err)
	}
}
