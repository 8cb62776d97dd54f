package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/price"
	"github.com/windlass-run/windlass/sdk"
)

// reaped is an object that reap looked at, with about what it costs; nil is
// unknown.
type reaped struct {
	item control.ReapItem
	cost *price.Estimate
}

// reapReport is what a reap found.
type reapReport struct {
	all []reaped
	// hourly is about what all that goes, or went, costs an hour; priced says
	// that something has a price at all.
	hourly float64
	priced bool
	going  int
	// failed says that something could not be looked at or removed: then nothing
	// is known of what was left.
	failed bool
}

func (r *reapReport) add(it control.ReapItem) {
	x := reaped{item: it}
	if e, ok := price.Of(it.Kind, it.Object, it.At); ok {
		x.cost, r.priced = &e, true
	}
	r.failed = r.failed || it.Err != nil
	if it.Orphan {
		r.going++
		if x.cost != nil {
			r.hourly += x.cost.Hourly
		}
	}
	r.all = append(r.all, x)
}

// sorted gives what goes before what stays, otherwise in the order of the looks.
func (r *reapReport) sorted() []reaped {
	out := slices.Clone(r.all)
	rank := func(x reaped) int {
		if x.item.Orphan {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b reaped) int { return rank(a) - rank(b) })
	return out
}

// print writes the report as a table, and what it comes to on stderr.
func (o *reapOptions) print(r reapReport) error {
	const runColumn, ownerColumn, costColumn = 3, 4, 6
	t := &table{head: []string{"PROVIDER", "TYPE", "NAME", "RUN", "OWNER", "AGE", "COST", "WHAT", "WHY"}, flex: 2, below: true}
	run, owner := false, false
	for _, x := range r.sorted() {
		it := x.item
		if it.Object.ID == "" {
			continue // a provider that could not be looked at: the error says so
		}
		old, cost := "", "" // an empty cell is unknown
		if it.Age != 0 {
			old = age(it.Age)
		}
		if x.cost != nil {
			cost = x.cost.String()
		}
		run, owner = run || !it.Object.RunID.IsZero(), owner || it.Object.Owner != ""
		t.add(plain(strings.Join(append([]string{it.Provider}, it.Also...), ", ")), plain(it.Object.Type), plain(cmp.Or(it.Object.Name, it.Object.ID)),
			plain(it.Object.RunID.Short()), plain(ownerWords(it.Object.Owner)), plain(old), plain(cost), plain(o.what(it)), plain(it.Why))
	}
	if len(t.rows) == 0 {
		if r.failed {
			return nil
		}
		_, err := fmt.Fprintln(o.f.Streams.Out, "nothing was left behind")
		return err
	}
	if r.going == 0 && !r.failed {
		o.f.Streams.note("nothing was left behind: all of this stays")
	}
	if !r.priced {
		t.drop(costColumn)
	}
	if !owner {
		t.drop(ownerColumn)
	}
	if !run {
		t.drop(runColumn)
	}
	if err := t.print(o.f.Streams); err != nil {
		return err
	}
	if r.priced {
		o.f.Streams.note("costs are estimates by list prices of %s in one region; docs/prices.md has them", price.Date)
	}
	if r.hourly > 0 && o.dryRun {
		o.f.Streams.note("what would go costs %s/h", price.About(r.hourly))
	}
	return nil
}

// ownerWords is an owner as it is shown: an installation that has no name of its own
// goes by its ledger's ID, whose end is enough.
func ownerWords(owner string) string {
	if id, err := sdk.ParseID(owner); err == nil {
		return id.Short()
	}
	return shorten(owner, 20)
}

func (o *reapOptions) what(it control.ReapItem) string {
	switch {
	case it.Err != nil:
		return "failed"
	case it.Removed:
		return "removed"
	case it.Orphan && o.dryRun:
		return "would go"
	}
	return "stays"
}
