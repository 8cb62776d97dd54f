package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

func newLedger(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger log|verify|export|prune",
		Short: "Read, check, export and cut the record of what was done",
		Long: `The ledger has one row for every mutating action, with who asked, what for and
what came of it, and behind the rows a chain of events in which each carries the
hash of the one before. Whoever owns its files can forge it as a whole: to prove
that nobody did, export the chain's head now and then and keep it elsewhere.`,
		Args: group,
		RunE: groupHelp,
	}
	cmd.AddCommand(newLedgerLog(f, nil), newLedgerVerify(f, nil), newLedgerExport(f, nil), newLedgerPrune(f, nil))
	return cmd
}

// group refuses an unknown sub-command of a command that only groups.
func group(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "unknown command %q for %s%s", args[0], cmd.CommandPath(), nearCommand(cmd, args[0]))
	}
	return nil
}

func groupHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// ledgerFilter are the flags that choose rows.
type ledgerFilter struct {
	since, until, target, actor, run, action, provider string
	last                                               int
}

func (l *ledgerFilter) bind(cmd *cobra.Command, f *Factory) {
	fs := cmd.Flags()
	fs.StringVar(&l.since, "since", "", "only what was asked for since this `time`: 24h, 2026-01-31")
	fs.StringVar(&l.until, "until", "", "only what was asked for before this `time`")
	fs.StringVar(&l.target, "target", "", "only actions on this `target`, an image or a program")
	fs.StringVar(&l.actor, "actor", "", "only actions that this `actor` asked for")
	fs.StringVar(&l.action, "action", "", "only this `verb`, such as run")
	fs.StringVar(&l.provider, "provider", "", "only actions on this `provider`")
	fs.StringVar(&l.run, "run", "", "only this `RUN`")
	complete(cmd, "run", f.completeRuns(true, nil))
	complete(cmd, "provider", f.completeProviders)
}

// read turns the flags into a filter.
func (l *ledgerFilter) read(now time.Time) (ledger.RunFilter, error) {
	filter := ledger.RunFilter{Target: l.target, Actor: l.actor, Action: l.action, Provider: l.provider, Limit: l.last}
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"since", l.since, &filter.Since}, {"until", l.until, &filter.Until}} {
		if t.text == "" {
			continue
		}
		at, err := parseSince(t.text, now)
		if err != nil {
			return filter, fmt.Errorf("--%s: %w", t.flag, err)
		}
		*t.into = at
	}
	return filter, nil
}

type ledgerLogOptions struct {
	f      *Factory
	filter ledgerFilter
	events bool
	json   bool
}

func newLedgerLog(f *Factory, runF func(context.Context, *ledgerLogOptions) error) *cobra.Command {
	o := &ledgerLogOptions{f: f}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List what was done, newest first",
		Long: `List the actions on record, newest first: when, who, what, where and what came of
it. With --run, or --events, list single events in the order in which they
happened.`,
		Example: `  windlass ledger log --since 24h
  windlass ledger log --actor alice@ci --action run
  windlass ledger log --run nightly`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			filter, err := o.filter.read(f.Now())
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), filter)
		},
	}
	o.filter.bind(cmd, f)
	fs := cmd.Flags()
	fs.IntVarP(&o.filter.last, "last", "n", 0, "only the newest `number` of actions, or of events")
	fs.BoolVar(&o.events, "events", false, "list events instead of actions")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *ledgerLogOptions) run(ctx context.Context, filter ledger.RunFilter) error {
	store, err := o.f.ledger(ctx)
	if err != nil {
		return err
	}
	if o.filter.run != "" || o.events {
		return o.listEvents(ctx, store, filter)
	}
	views := []RunView{}
	t := &table{head: []string{"WHEN", "WHO", "ACTION", "ID", "PROVIDER", "OUTCOME", "TARGET"}, flex: 6, gives: []give{{"WHO", 12}, {"PROVIDER", 10}, {"ACTION", 12}, {"TARGET", 10}, {"PROVIDER", 0}, {"WHO", 8}}}
	for r, err := range store.Runs(ctx, filter) {
		if err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		if o.json {
			views = append(views, viewRun(r, nil))
			continue
		}
		t.add(plain(r.RequestedAt.Local().Format("01-02 15:04:05")), plain(r.Actor), plain(r.Action), plain(r.ID.Short()),
			plain(r.Provider), cell{stateWords(r), stateStyle(r.State)}, plain(r.Target))
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	return t.print(o.f.Streams)
}

func (o *ledgerLogOptions) listEvents(ctx context.Context, store ledger.Store, filter ledger.RunFilter) error {
	var ef ledger.EventFilter
	if o.filter.run != "" {
		_, run, err := o.f.look(ctx, o.filter.run)
		if err != nil {
			return err
		}
		ef.Run = run.ID
	}
	// Target, action and provider are an action's, which its events don't repeat.
	var of map[sdk.ID]bool
	if filter.Target != "" || filter.Action != "" || filter.Provider != "" {
		of = map[sdk.ID]bool{}
		for r, err := range store.Runs(ctx, ledger.RunFilter{Target: filter.Target, Action: filter.Action, Provider: filter.Provider}) {
			if err != nil {
				return fmt.Errorf("read ledger: %w", err)
			}
			of[r.ID] = true
		}
	}
	var list []ledger.Event
	for e, err := range store.Events(ctx, ef) {
		if err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		if !filter.Since.IsZero() && e.At.Before(filter.Since) || !filter.Until.IsZero() && !e.At.Before(filter.Until) ||
			filter.Actor != "" && e.Actor != filter.Actor || of != nil && !of[e.Run] {
			continue
		}
		list = append(list, e)
		if filter.Limit > 0 && len(list) >= 2*filter.Limit {
			list = slices.Clone(list[len(list)-filter.Limit:])
		}
	}
	if filter.Limit > 0 && len(list) > filter.Limit {
		list = list[len(list)-filter.Limit:]
	}
	views := []ledger.ExportEvent{}
	t := &table{head: []string{"SEQ", "WHEN", "RUN", "EVENT", "BY", "WHAT"}, flex: 5, gives: []give{{"BY", 10}, {"WHAT", 10}, {"BY", 0}}}
	for _, e := range list {
		if o.json {
			views = append(views, ledger.NewExportEvent(e))
			continue
		}
		t.add(plain(strconv.FormatInt(e.Seq, 10)), plain(e.At.Local().Format("01-02 15:04:05.000")), plain(e.Run.Short()), plain(string(e.Kind)),
			plain(e.Actor), plain(changeWords(e)))
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	return t.print(o.f.Streams)
}

// changeWords says what an event set, in a few words.
func changeWords(e ledger.Event) string {
	var c ledger.Change
	if json.Unmarshal(e.Change, &c) != nil {
		return ""
	}
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if q := c.Requested; q != nil {
		add("%s %s on %s", q.Action, q.Target, q.Provider)
	}
	if c.State != "" {
		add("%s", c.State)
	}
	if c.Reason != nil && *c.Reason != "" {
		add("%s", *c.Reason)
	}
	if c.ExitCode != nil {
		add("exit code %d", *c.ExitCode)
	}
	if c.Signal != "" {
		add("%s", c.Signal)
	}
	if c.Verdict != "" {
		add("output %s", c.Verdict)
	}
	if c.CancelWhy != "" {
		add("%s", c.CancelWhy)
	}
	if c.CleanupErr != nil && *c.CleanupErr != "" {
		add("clean-up failed: %s", *c.CleanupErr)
	}
	if c.Message != nil && *c.Message != "" {
		add("%s", *c.Message)
	}
	for _, k := range sortedKeys(c.Detail) {
		add("%s=%s", k, c.Detail[k])
	}
	out := ""
	for i, w := range words {
		if i > 0 {
			out += ", "
		}
		out += w
	}
	return out
}

type ledgerVerifyOptions struct {
	f    *Factory
	head string
	json bool
}

func newLedgerVerify(f *Factory, runF func(context.Context, *ledgerVerifyOptions) error) *cobra.Command {
	o := &ledgerVerifyOptions{f: f}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the chain of events and the rows made from it",
		Long: `Check every link of the chain, fold the events into rows and compare them with
the rows that are stored, and compare the end with the head that is kept beside
the ledger, and with --head against one that was exported before. Each fault is
named: edited, removed, reordered, cut off. That the head beside the ledger is
missing is a fault too, unless there is --head. The exit code is 1 when there is any.`,
		Example: `  windlass ledger verify
  windlass ledger verify --head head-of-monday.json`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.head, "head", "", "compare with the head in this `file`, written by ledger export --head")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// VerifyView is what ledger verify found.
type VerifyView struct {
	LedgerID string      `json:"ledger_id" doc:"The ledger's random ID."`
	Events   int64       `json:"events" doc:"Events that were checked."`
	Runs     int64       `json:"runs" doc:"Rows that were compared."`
	Head     string      `json:"head" doc:"Hash of the last event."`
	Faults   []FaultView `json:"faults" doc:"What is wrong; empty for a sound ledger."`
}

// FaultView is one thing that is wrong with a ledger.
type FaultView struct {
	Seq    int64  `json:"seq,omitzero" doc:"Event at which it shows; 0 when it is a row's."`
	Run    string `json:"run,omitzero" doc:"ID of the row concerned."`
	What   string `json:"what" doc:"edited, removed, reordered, cut_off, row_differs, bad_head or no_head."`
	Detail string `json:"detail" doc:"What was expected and what was found."`
}

func (o *ledgerVerifyOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	dir, err := c.StatePath()
	if err != nil {
		return err
	}
	if !o.f.HasStore(dir) {
		_, err := o.f.ledger(ctx)
		return err
	}
	store, err := o.f.openStore(ctx, c, ToInspect)
	if err != nil {
		return err
	}
	o.f.keep(store)
	var rep ledger.Report
	for _, path := range []string{filepath.Join(dir, ledger.HeadFile), o.head} {
		if path == "" {
			continue
		}
		known, err := ledger.ReadHead(path)
		if err != nil {
			rep.Faults = append(rep.Faults, ledger.Fault{What: "bad_head", Detail: err.Error()})
			continue
		}
		if known == nil && path == o.head {
			return &sdk.Error{Code: sdk.NotFound, Op: "verify ledger", Err: fmt.Errorf("%s isn't there", path)}
		}
		faults := rep.Faults
		if rep, err = store.Verify(ctx, known); err != nil {
			return err
		}
		rep.Faults = mergeFaults(faults, o.noHead(known, path, rep.Events), rep.Faults)
	}
	return o.print(rep)
}

// noHead tells of a head file that is missing: it is made before the first
// event, so somebody took it, and the end may have been cut off with it. An
// exported head says as much as the file, and more.
func (o *ledgerVerifyOptions) noHead(known *ledger.Head, path string, events int64) []ledger.Fault {
	switch {
	case known != nil || events == 0:
		return nil
	case o.head != "":
		o.f.Streams.note("%s is missing: the end is compared with %s alone", path, o.head)
		return nil
	}
	return []ledger.Fault{{What: ledger.FaultNoHead, Detail: path + " is missing, so that nothing shows whether events were cut off the end; " +
		"compare with a head that was exported before: windlass ledger verify --head FILE"}}
}

// mergeFaults joins lists without doubles.
func mergeFaults(lists ...[]ledger.Fault) []ledger.Fault {
	seen := map[ledger.Fault]bool{}
	var out []ledger.Fault
	for _, x := range slices.Concat(lists...) {
		if !seen[x] {
			seen[x] = true
			out = append(out, x)
		}
	}
	return out
}

func (o *ledgerVerifyOptions) print(rep ledger.Report) error {
	s := o.f.Streams
	v := VerifyView{LedgerID: rep.Head.LedgerID, Events: rep.Events, Runs: rep.Runs, Head: rep.Head.Hash, Faults: []FaultView{}}
	for _, x := range rep.Faults {
		v.Faults = append(v.Faults, FaultView{Seq: x.Seq, Run: x.Run.String(), What: x.What, Detail: x.Detail})
	}
	code := ExitOK
	if len(v.Faults) > 0 {
		code = ExitFaults
	}
	if o.json {
		if err := writeCheckedJSON(s.Out, v, code == ExitFaults); err != nil {
			return err
		}
		return withExit(code)
	}
	for _, x := range v.Faults {
		where := "rows"
		if x.What == ledger.FaultNoHead || x.What == ledger.FaultBadHead {
			where = "end"
		}
		if x.Seq > 0 {
			where = "event " + strconv.FormatInt(x.Seq, 10)
		}
		if x.Run != "" {
			where += ", run " + x.Run
		}
		if _, err := fmt.Fprintf(s.Out, "%s: %s: %s\n", s.out(styleRed, x.What), where, clean(x.Detail)); err != nil {
			return err
		}
	}
	verdict := s.out(styleGreen, "sound")
	if code != ExitOK {
		verdict = s.out(styleRed, count(len(v.Faults), "fault", "faults"))
	}
	if _, err := fmt.Fprintf(s.Out, "ledger %s: %s in %d events, %d rows\n", v.LedgerID, verdict, v.Events, v.Runs); err != nil {
		return err
	}
	return withExit(code)
}

type ledgerExportOptions struct {
	f      *Factory
	filter ledgerFilter
	head   bool
}

func newLedgerExport(f *Factory, runF func(context.Context, *ledgerExportOptions) error) *cobra.Command {
	o := &ledgerExportOptions{f: f}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the record as lines of JSON",
		Long: `Write rows, attempts and events as lines of JSON, oldest first; the first line has
the chain's end, the last one counts the lines, so that a cut shows. Values that
may be secret are redacted. --head writes the chain's end alone: keep it where the
ledger's owner can't write, and verify against it later.`,
		Example: `  windlass ledger export > ledger.jsonl
  windlass ledger export --head > head-of-monday.json`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			filter, err := o.filter.read(f.Now())
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), filter)
		},
	}
	o.filter.bind(cmd, f)
	cmd.Flags().BoolVar(&o.head, "head", false, "write the end of the chain alone")
	return cmd
}

func (o *ledgerExportOptions) run(ctx context.Context, filter ledger.RunFilter) error {
	store, err := o.f.ledger(ctx)
	if err != nil {
		return err
	}
	if o.head {
		h, err := store.Head(ctx)
		if err != nil {
			return err
		}
		return encode(o.f.Streams.Out, h, false)
	}
	if o.filter.run != "" {
		_, run, err := o.f.look(ctx, o.filter.run)
		if err != nil {
			return err
		}
		filter = ledger.RunFilter{Suffix: run.ID.String()}
	}
	_, err = ledger.Export(ctx, store, o.f.Streams.Out, filter)
	return err
}

type ledgerPruneOptions struct {
	f      *Factory
	before string
	yes    bool
	json   bool
}

func newLedgerPrune(f *Factory, runF func(context.Context, *ledgerPruneOptions) error) *cobra.Command {
	o := &ledgerPruneOptions{f: f}
	cmd := &cobra.Command{
		Use:   "prune --before TIME --yes",
		Short: "Cut the record of finished actions before a time",
		Long: `Delete the rows and the details of events of finished actions before a time, and
the captured output that belongs to them. What is still open stays. A checkpoint in
the chain says who did it, and keeps the chain whole. It can't be undone, so it
wants --yes; export the ledger first to keep what goes. The space goes back to the
file system. retention.ledger in the configuration does the same by itself.`,
		Example: `  windlass ledger export > until-june.jsonl
  windlass ledger prune --before 2026-06-01 --yes`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if o.before == "" {
				return usagef(cmd, "--before is missing: it says until when the record is cut")
			}
			before, err := parseSince(o.before, f.Now())
			if err != nil {
				return usagef(cmd, "--before: %w", err)
			}
			return o.run(cmd.Context(), before)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.before, "before", "", "cut what was finished before this `time`: 2160h, 2026-01-31; needed")
	fs.BoolVar(&o.yes, "yes", false, "really do it")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// PrunedView is what ledger prune did.
type PrunedView struct {
	Runs   int       `json:"runs" doc:"Rows that were deleted."`
	Before time.Time `json:"before" doc:"Time before which finished actions went."`
}

func (o *ledgerPruneOptions) run(ctx context.Context, before time.Time) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	if _, err := o.f.ledgerToChange(ctx); err != nil {
		return err
	}
	if !o.yes {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "prune ledger", ID: idNoConfirm, Remedy: "repeat it with --yes",
			Err: fmt.Errorf("this deletes the record of everything finished before %s", stamp(before))}
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	n, err := s.Engine.Prune(ctx, before, c.Actor)
	if err != nil {
		return err
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, PrunedView{Runs: n, Before: before.UTC()})
	}
	_, err = fmt.Fprintf(o.f.Streams.Out, "%s deleted\n", count(n, "row", "rows"))
	return err
}

// keep closes a store with the factory.
func (f *Factory) keep(s ledger.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store == nil {
		f.store = s
	}
}
