package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type psOptions struct {
	f      *Factory
	all    bool
	quiet  bool
	json   bool
	limit  int
	filter []string
}

func newPs(f *Factory, runF func(context.Context, *psOptions) error) *cobra.Command {
	o := &psOptions{f: f}
	cmd := &cobra.Command{
		Use:   "ps [flags]",
		Short: "List runs",
		Long: `List the runs that have something left to do, newest first; with -a, or with a
filter on states that are final, ended ones too. It reads the ledger and starts
nothing, and asks no provider about a run.

A run that nobody looks after, since the process that did was killed, goes on by
itself on its provider; the list says so beside its state. windlass wait takes one
such run up, windlass reap all of them. Of a change of a resource or a workload that
a killed command left, it asks the provider what became of it, says so behind the
list, and closes its row.`,
		Example: `  windlass ps
  windlass ps -a --filter state=failed --filter provider=docker
  windlass ps -q | xargs windlass cancel`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			filter, err := o.read()
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), filter)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.all, "all", "a", false, "list ended runs too")
	fs.StringArrayVar(&o.filter, "filter", nil, "`KEY=VALUE` with a key of state, provider, name, actor, target; state repeated means any of them")
	fs.IntVarP(&o.limit, "last", "n", 0, "list the newest `number`, ended ones too")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print full IDs alone")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "filter", completeFilter(f))
	return cmd
}

func completeFilter(f *Factory) completer {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		var out []string
		switch key, _, ok := strings.Cut(word, "="); {
		case !ok:
			return []string{"state=", "provider=", "name=", "actor=", "target="}, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		case key == "state":
			for _, s := range sdk.JobStates() {
				out = append(out, "state="+string(s))
			}
		case key == "provider":
			names, _ := f.completeProviders(cmd, args, "")
			for _, n := range names {
				n, _, _ = strings.Cut(n, "\t")
				out = append(out, "provider="+n)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// read turns the flags into a filter.
func (o *psOptions) read() (ledger.RunFilter, error) {
	filter := ledger.RunFilter{Open: !o.all && o.limit == 0, Limit: o.limit}
	if o.limit < 0 {
		return filter, fmt.Errorf("--last: %d is below 0", o.limit)
	}
	for _, p := range o.filter {
		k, v, err := parsePair(p)
		if err != nil || v == "" {
			return filter, fmt.Errorf("--filter: %q is not KEY=VALUE", p)
		}
		switch k {
		case "state":
			s := sdk.JobState(v)
			if !s.Valid() {
				return filter, fmt.Errorf("--filter: %q is no state: it is one of %s", v, joinStates(sdk.JobStates()))
			}
			filter.States = append(filter.States, s)
			if s.Terminal() {
				filter.Open = false
			}
		case "provider":
			filter.Provider = v
		case "name":
			filter.Name = v
		case "actor":
			filter.Actor = v
		case "target":
			filter.Target = v
		default:
			return filter, fmt.Errorf("--filter: %q is no key: it is one of state, provider, name, actor, target", k)
		}
	}
	return filter, nil
}

func joinStates(list []sdk.JobState) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

func (o *psOptions) run(ctx context.Context, filter ledger.RunFilter) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	store, err := o.f.ledger(ctx)
	if sdk.CodeOf(err) == sdk.NotFound {
		// No ledger yet: there are no runs.
		return o.print(nil, nil)
	}
	if err != nil {
		return err
	}
	var runs, changes []ledger.Run
	filter.Limit = 0 // of the rows, some are no runs
	for r, err := range store.Runs(ctx, filter) {
		if err != nil {
			return fmt.Errorf("list runs: %w", err)
		}
		if isRun(r) && listed(c, r, o.f.Now()) {
			runs = append(runs, r)
		}
		if !isRun(r) && r.Open() {
			changes = append(changes, r)
		}
		if o.limit > 0 && len(runs) == o.limit {
			break
		}
	}
	left, err := o.undriven(ctx, store, runs)
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	if err := o.print(runs, left); err != nil {
		return err
	}
	// The list is out: nobody waits for it while a provider is asked.
	if changes, err = o.f.leftChanges(ctx, store, changes); err != nil {
		return fmt.Errorf("list changes: %w", err)
	}
	if len(changes) > 0 {
		o.f.settleChanges(ctx)
	}
	return nil
}

// handOver is longer than a run that goes from one process to another is without any.
const handOver = 100 * time.Millisecond

// undriven gives the runs that have something left to do and nobody who does it. Two
// looks must find none.
func (o *psOptions) undriven(ctx context.Context, store ledger.Store, runs []ledger.Run) (map[sdk.ID]bool, error) {
	for look := 0; ; look++ {
		// After the runs were read: who has left since has let them go.
		free, err := control.Undriven(ctx, store, o.f.Now())
		if err != nil {
			return nil, err
		}
		left := map[sdk.ID]bool{}
		var again []ledger.Run
		for _, r := range runs {
			if free(r) {
				left[r.ID] = true
				again = append(again, r)
			}
		}
		if look > 0 || len(left) == 0 {
			return left, nil
		}
		if err := pause(ctx, handOver); err != nil {
			return nil, err
		}
		for i := range again {
			if again[i], err = store.Run(ctx, again[i].ID); err != nil {
				return nil, err
			}
		}
		runs = again
	}
}

// isRun tells runs from the other actions on record, such as a cancel of a run
// of another ledger.
func isRun(r ledger.Run) bool { return r.Action == "run" || r.Action == "adopt" }

func (o *psOptions) print(runs []ledger.Run, undriven map[sdk.ID]bool) error {
	s := o.f.Streams
	switch {
	case o.json:
		views := make([]RunView, len(runs))
		for i, r := range runs {
			views[i] = viewRun(r, nil)
			views[i].Held = new(r.Open() && !undriven[r.ID])
		}
		return writeJSON(s.Out, views)
	case o.quiet:
		for _, r := range runs {
			if _, err := fmt.Fprintln(s.Out, r.ID); err != nil {
				return err
			}
		}
		return nil
	case len(runs) == 0 && !o.all && len(o.filter) == 0:
		s.hint("nothing runs; windlass ps -a lists ended runs too")
	}
	now := o.f.Now()
	t := &table{head: []string{"RUN", "NAME", "PROVIDER", "STATE", "AGE", "TOOK", "WHAT"}, flex: 6,
		gives: []give{{"NAME", 16}, {"PROVIDER", 14}, {"STATE", 28}, {"NAME", 12}, {"TOOK", 0}, {"WHAT", 12}, {"AGE", 0}, {"PROVIDER", 0}, {"NAME", 8}, {"WHAT", 0}, {"NAME", 0}}}
	named := false
	for _, r := range runs {
		named = named || r.Name != ""
		state := stateWords(r) + dueWords(r)
		if undriven[r.ID] {
			state += ", nobody looks after it"
		}
		t.add(plain(r.ID.Short()), plain(r.Name), plain(r.Provider), cell{state, stateStyle(r.State)},
			plain(age(now.Sub(r.RequestedAt))), plain(took(r.StartedAt, r.EndedAt, now, r.State.Terminal())), plain(commandLine(r)))
	}
	if !named {
		t.drop(1)
	}
	if err := t.print(s); err != nil {
		return err
	}
	if n := len(undriven); n > 0 {
		s.note("nobody looks after %s: windlass wait RUN takes one up, windlass reap all", count(n, "of these runs", "of these runs"))
	}
	return nil
}

// dueWords say what a run that has ended still does, if anything: it keeps its place
// on its provider for as long.
func dueWords(r ledger.Run) string {
	if !r.Open() || !r.State.Terminal() {
		return ""
	}
	switch r.Phase {
	case ledger.PhaseEnded:
		return ", output to come"
	case ledger.PhaseDrained:
		return ", to be cleaned up"
	}
	return ""
}

// took is how long something ran, or has run so far; empty when not known.
func took(start, end, now time.Time, over bool) string {
	switch {
	case start.IsZero():
		return ""
	case !end.IsZero():
		return span(end.Sub(start))
	case over:
		return ""
	}
	return span(now.Sub(start).Truncate(time.Second)) // as age
}

// span is a duration with a precision that suits it.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
