package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The words of Fault.What.
const (
	FaultEdited     = "edited"
	FaultRemoved    = "removed"
	FaultReordered  = "reordered"
	FaultCutOff     = "cut_off"
	FaultRowDiffers = "row_differs"
	FaultBadHead    = "bad_head"
	// FaultNoHead: nothing that is kept apart says where the chain ended, so that
	// a cut can't be excluded.
	FaultNoHead = "no_head"
)

// MaxFaults bounds a report: behind that many, a ledger is simply not sound.
const MaxFaults = 1000

// ChainCheck checks a chain event by event. Make one with NewChainCheck, Add
// every event in order of Seq, and ask Finish for what is wrong.
type ChainCheck struct {
	genesis string
	gaps    []Gap
	known   *Head
	// seq and hash are the last event's, or the last gap's.
	seq    int64
	hash   string
	events int64
	// atKnown is the hash found at known.Count; passed says that it lies inside
	// a gap, where nothing is left to compare.
	atKnown string
	passed  bool
	// doubt: the last event is itself at fault, so a broken link says nothing.
	doubt  bool
	moved  []movedRun
	faults []Fault
}

// movedRun is a range of places whose events belong by places further on.
type movedRun struct{ from, to, by int64 }

// searchPlaces is how far from its place an event is looked for that doesn't
// belong there.
const searchPlaces = 64

// NewChainCheck starts a check of a ledger's chain. gaps are the newest
// checkpoint's; known, when not nil, is the head kept outside.
func NewChainCheck(ledgerID string, gaps []Gap, known *Head) *ChainCheck {
	c := &ChainCheck{genesis: GenesisHash(ledgerID), gaps: gaps, known: known}
	c.hash = c.genesis
	c.see(0, c.hash)
	c.skip()
	return c
}

// skip goes over the gaps that begin at the next place.
func (c *ChainCheck) skip() {
	for len(c.gaps) > 0 && c.gaps[0].From <= c.seq+1 {
		g := c.gaps[0]
		if c.gaps = c.gaps[1:]; g.To <= c.seq {
			continue
		}
		if c.known != nil && c.known.Count > c.seq && c.known.Count < g.To {
			c.passed = true
		}
		c.seq, c.hash, c.doubt = g.To, g.Hash, false
		c.see(g.To, g.Hash)
	}
}

func (c *ChainCheck) see(seq int64, hash string) {
	if c.known != nil && c.known.Count == seq {
		c.atKnown = hash
	}
}

func (c *ChainCheck) fault(seq int64, run sdk.ID, what, format string, args ...any) {
	if len(c.faults) < MaxFaults {
		c.faults = append(c.faults, Fault{Seq: seq, Run: run, What: what, Detail: fmt.Sprintf(format, args...)})
	}
}

// Add checks the next event.
func (c *ChainCheck) Add(ev Event) {
	c.events++
	c.skip()
	switch {
	case ev.Seq <= c.seq:
		c.fault(ev.Seq, ev.Run, FaultEdited, "stands where the checkpoint says that events were pruned")
		return
	case ev.Seq > c.seq+1:
		c.missing(c.seq+1, ev.Seq-1)
	}
	own := HashEvent(ev) == ev.Hash
	if !own {
		if by := c.place(ev); by != 0 {
			c.noteMoved(ev.Seq, by)
		} else {
			c.fault(ev.Seq, ev.Run, FaultEdited, "its content is not what its hash was made of")
		}
	}
	if own && !c.doubt && ev.Seq == c.seq+1 && ev.Prev != c.hash {
		if ev.Seq == 1 {
			c.fault(1, ev.Run, FaultEdited, "it doesn't link to the beginning of this ledger")
		} else {
			c.fault(ev.Seq-1, sdk.ID{}, FaultEdited, "its hash is %s, but event %d links to %s: it was replaced", short(c.hash), ev.Seq, short(ev.Prev))
		}
	}
	c.seq, c.hash = ev.Seq, ev.Hash
	c.doubt = !own && c.lastMoved(ev.Seq)
	c.see(ev.Seq, ev.Hash)
}

func (c *ChainCheck) missing(from, to int64) {
	if c.known != nil && c.known.Count >= from && c.known.Count <= to {
		c.passed = true
	}
	if from == to {
		c.fault(from, sdk.ID{}, FaultRemoved, "the event is missing")
	} else {
		c.fault(from, sdk.ID{}, FaultRemoved, "events %d to %d are missing", from, to)
	}
	// Gaps that begin inside are part of what is missing.
	for len(c.gaps) > 0 && c.gaps[0].From <= to {
		c.gaps = c.gaps[1:]
	}
	c.seq, c.doubt = to, true
}

// place returns how far an event stands from where it belongs, 0 when it
// belongs nowhere near.
func (c *ChainCheck) place(ev Event) int64 {
	at := ev.Seq
	fits := func(by int64) bool {
		ev.Seq = at + by
		return ev.Seq > 0 && HashEvent(ev) == ev.Hash
	}
	if n := len(c.moved); n > 0 && fits(c.moved[n-1].by) {
		return c.moved[n-1].by
	}
	for by := int64(1); by <= searchPlaces; by++ {
		if fits(by) {
			return by
		}
		if fits(-by) {
			return -by
		}
	}
	return 0
}

func (c *ChainCheck) noteMoved(seq, by int64) {
	if n := len(c.moved); n > 0 && c.moved[n-1].to == seq-1 && c.moved[n-1].by == by {
		c.moved[n-1].to = seq
		return
	}
	if len(c.moved) < MaxFaults {
		c.moved = append(c.moved, movedRun{seq, seq, by})
	}
}

func (c *ChainCheck) lastMoved(seq int64) bool {
	n := len(c.moved)
	return n > 0 && c.moved[n-1].to == seq
}

// Finish compares the end with head, which the ledger itself keeps, and with
// the known head, and returns how many events there were and what is wrong.
func (c *ChainCheck) Finish(head Head) (int64, []Fault) {
	c.skip()
	c.settleMoved()
	switch {
	case c.seq < head.Count:
		c.fault(c.seq+1, sdk.ID{}, FaultCutOff, "the ledger ends with event %d, its own count is %d", c.seq, head.Count)
	case c.seq > head.Count || c.hash != head.Hash:
		c.fault(c.seq, sdk.ID{}, FaultBadHead, "the last event is %d (%s), the ledger's own head says %d (%s)", c.seq, short(c.hash), head.Count, short(head.Hash))
	}
	if k := c.known; k != nil {
		switch {
		case k.LedgerID != head.LedgerID:
			c.fault(0, sdk.ID{}, FaultBadHead, "the known head is that of ledger %s, this is %s", k.LedgerID, head.LedgerID)
		case c.seq < k.Count:
			c.fault(c.seq+1, sdk.ID{}, FaultCutOff, "events %d to %d are missing: the known head has seen %d", c.seq+1, k.Count, k.Count)
		case !c.passed && c.atKnown != k.Hash:
			c.fault(k.Count, sdk.ID{}, FaultCutOff, "the known head has seen another event %d (%s, now %s): the end was cut off and written anew", k.Count, short(k.Hash), short(c.atKnown))
		}
	}
	return c.events, c.faults
}

// settleMoved tells events that changed places from events that moved up
// because others before them were removed and the rest renumbered.
func (c *ChainCheck) settleMoved() {
	claimed := func(place int64) bool {
		for _, m := range c.moved {
			if place >= m.from+m.by && place <= m.to+m.by {
				return true
			}
		}
		return false
	}
	for _, m := range c.moved {
		if m.by > 0 && !claimed(m.from) {
			c.fault(m.from, sdk.ID{}, FaultRemoved, "%d missing here, and what follows was renumbered: event %d stands at %d", m.by, m.from+m.by, m.from)
			continue
		}
		if m.from == m.to {
			c.fault(m.from, sdk.ID{}, FaultReordered, "the event that stands here belongs at %d", m.from+m.by)
		} else {
			c.fault(m.from, sdk.ID{}, FaultReordered, "the events that stand at %d to %d belong at %d to %d", m.from, m.to, m.from+m.by, m.to+m.by)
		}
	}
}

func short(hash string) string {
	if len(hash) > 12 {
		return hash[:12]
	}
	return hash
}

// RowCheck folds one run's events and compares with its rows. Nil stored means
// that there is no row.
func RowCheck(id sdk.ID, stored *Run, attempts []Attempt, events []Event) []Fault {
	fault := func(seq int64, format string, args ...any) []Fault {
		return []Fault{{Seq: seq, Run: id, What: FaultRowDiffers, Detail: fmt.Sprintf(format, args...)}}
	}
	var run Run
	var folded []Attempt
	for _, ev := range events {
		var err error
		if run, folded, err = Fold(run, folded, ev); err != nil {
			return fault(ev.Seq, "its events don't fold: %v", err)
		}
	}
	switch {
	case stored == nil && len(events) > 0:
		return fault(events[0].Seq, "there is no row for its %d events", len(events))
	case len(events) == 0:
		return fault(0, "there are no events for its row")
	}
	var out []Fault
	for _, d := range DiffRun(*stored, run) {
		out = append(out, fault(0, "%s", d)...)
	}
	if len(attempts) != len(folded) {
		out = append(out, fault(0, "it has %d attempts, its events give %d", len(attempts), len(folded))...)
	}
	for i := range min(len(attempts), len(folded)) {
		for _, d := range DiffAttempt(attempts[i], folded[i]) {
			out = append(out, fault(0, "attempt %d: %s", folded[i].Number, d)...)
		}
	}
	return out
}

// DiffRun names the fields in which a stored run differs from what its events
// fold into. Holder and Fence are not folded and not compared; spec, settings
// and other long texts are named without their content.
func DiffRun(stored, folded Run) []string {
	var d diff
	d.add("id", stored.ID, folded.ID)
	d.add("actor", stored.Actor, folded.Actor)
	d.add("action", stored.Action, folded.Action)
	d.add("target", stored.Target, folded.Target)
	d.add("provider", stored.Provider, folded.Provider)
	d.add("identity", stored.Identity, folded.Identity)
	d.add("request_id", stored.RequestID, folded.RequestID)
	d.add("spec_hash", stored.SpecHash, folded.SpecHash)
	d.bytes("spec", stored.Spec, folded.Spec)
	d.add("name", stored.Name, folded.Name)
	d.bytes("settings", stored.Settings, folded.Settings)
	d.time("requested_at", stored.RequestedAt, folded.RequestedAt)
	d.add("attempt", stored.Attempt, folded.Attempt)
	d.add("phase", stored.Phase, folded.Phase)
	d.add("state", stored.State, folded.State)
	d.add("reason", stored.Reason, folded.Reason)
	d.code(stored.ExitCode, folded.ExitCode)
	d.add("signal", stored.Signal, folded.Signal)
	d.add("oom", stored.OOM, folded.OOM)
	d.add("message", stored.Message, folded.Message)
	d.time("started_at", stored.StartedAt, folded.StartedAt)
	d.time("ended_at", stored.EndedAt, folded.EndedAt)
	d.time("finished_at", stored.FinishedAt, folded.FinishedAt)
	d.add("verdict", stored.Verdict, folded.Verdict)
	d.time("cancel_at", stored.CancelAt, folded.CancelAt)
	d.add("cancel_by", stored.CancelBy, folded.CancelBy)
	d.add("cancel_why", stored.CancelWhy, folded.CancelWhy)
	d.time("not_before", stored.NotBefore, folded.NotBefore)
	d.add("events", stored.Events, folded.Events)
	return d
}

// DiffAttempt names the fields in which a stored attempt differs from what its
// events fold into.
func DiffAttempt(stored, folded Attempt) []string {
	var d diff
	d.add("run", stored.Run, folded.Run)
	d.add("number", stored.Number, folded.Number)
	d.add("id", stored.ID, folded.ID)
	d.bytes("launch", stored.Launch, folded.Launch)
	d.bytes("handle", stored.Handle, folded.Handle)
	d.time("sent_at", stored.SentAt, folded.SentAt)
	d.add("phase", stored.Phase, folded.Phase)
	d.add("state", stored.State, folded.State)
	d.add("reason", stored.Reason, folded.Reason)
	d.code(stored.ExitCode, folded.ExitCode)
	d.add("signal", stored.Signal, folded.Signal)
	d.add("oom", stored.OOM, folded.OOM)
	d.add("launches", stored.Launches, folded.Launches)
	d.add("message", stored.Message, folded.Message)
	if !maps.Equal(stored.Raw, folded.Raw) {
		d = append(d, fmt.Sprintf("raw: stored %v, its events give %v", stored.Raw, folded.Raw))
	}
	d.time("created_at", stored.CreatedAt, folded.CreatedAt)
	d.time("started_at", stored.StartedAt, folded.StartedAt)
	d.time("seen_running", stored.SeenRunning, folded.SeenRunning)
	d.time("ended_at", stored.EndedAt, folded.EndedAt)
	d.add("verdict", stored.Verdict, folded.Verdict)
	d.add("cleanup_err", stored.CleanupErr, folded.CleanupErr)
	return d
}

type diff []string

func (d *diff) add(name string, stored, folded any) {
	if stored != folded {
		*d = append(*d, fmt.Sprintf("%s: stored %q, its events give %q", name, fmt.Sprint(stored), fmt.Sprint(folded)))
	}
}

func (d *diff) bytes(name string, stored, folded []byte) {
	if !bytes.Equal(stored, folded) {
		*d = append(*d, fmt.Sprintf("%s: stored %d bytes (%s), its events give %d (%s)", name,
			len(stored), short(sdk.HashCanonical(stored)), len(folded), short(sdk.HashCanonical(folded))))
	}
}

func (d *diff) time(name string, stored, folded time.Time) {
	if !stored.Equal(folded) {
		d.add(name, stored.UTC().Format(time.RFC3339Nano), folded.UTC().Format(time.RFC3339Nano))
	}
}

func (d *diff) code(stored, folded *int) {
	text := func(c *int) string {
		if c == nil {
			return "none"
		}
		return fmt.Sprint(*c)
	}
	d.add("exit_code", text(stored), text(folded))
}

// DecodeCheckpoint returns the checkpoint of a KindCheckpoint event; anything
// else is DataLoss.
func DecodeCheckpoint(ev Event) (Checkpoint, error) {
	var c Change
	err := json.Unmarshal(ev.Change, &c)
	if err == nil && (ev.Kind != KindCheckpoint || c.Checkpoint == nil) {
		err = fmt.Errorf("it is a %s event", ev.Kind)
	}
	if err != nil {
		return Checkpoint{}, &sdk.Error{Code: sdk.DataLoss, Op: "read checkpoint", Err: fmt.Errorf("event %d: %w", ev.Seq, err)}
	}
	return *c.Checkpoint, nil
}
