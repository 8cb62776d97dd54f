package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/price"
	"github.com/windlass-run/windlass/sdk"
)

type reapOptions struct {
	f      *Factory
	on     []string
	owner  string
	all    bool
	dryRun bool
	json   bool
}

func newReap(f *Factory, runF func(context.Context, *reapOptions) error) *cobra.Command {
	o := &reapOptions{f: f}
	cmd := &cobra.Command{
		Use:   "reap [--dry-run]",
		Short: "Remove what was left behind on providers",
		Long: `Take up the runs that nobody looks after since the process that did was killed, look
on each provider for everything that carries Windlass's labels, and remove what
nothing needs any more. Changes that killed commands left are looked up, and their
rows closed. For this ledger's objects the ledger decides. Those of other
ledgers are left alone, unless they have expired, have ended, and are of the owner
that --owner names. --dry-run takes up and removes nothing, and lists all of it: what
would go, what stays, and why, how old it is and, where list prices are known, about
what it costs.`,
		Example: `  windlass reap --dry-run
  windlass reap --on prod`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.dryRun, "dry-run", false, "remove nothing, and list everything")
	fs.StringArrayVar(&o.on, "on", nil, "only this `provider`; may be repeated")
	fs.StringVar(&o.owner, "owner", "", "also what other ledgers of this `owner` left and let expire")
	fs.BoolVarP(&o.all, "all", "a", false, "list what stays too, and why")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "on", f.completeProviders)
	return cmd
}

// ReapView is an object that reap looked at.
type ReapView struct {
	Provider string     `json:"provider" doc:"Where it is."`
	Kind     string     `json:"kind,omitzero" doc:"Kind of the provider; absent where it couldn't be opened."`
	Also     []string   `json:"also,omitzero" doc:"Other configured providers that are the same place."`
	Type     string     `json:"type,omitzero" doc:"The provider's word for what it is."`
	ID       string     `json:"id,omitzero" doc:"The provider's ID of it."`
	Name     string     `json:"name,omitzero" doc:"Its name."`
	Run      string     `json:"run,omitzero" doc:"ID of the run that made it."`
	Attempt  string     `json:"attempt,omitzero" doc:"ID of the attempt that made it."`
	Owner    string     `json:"owner,omitzero" doc:"Installation that made it."`
	Ledger   string     `json:"ledger,omitzero" doc:"ID of the ledger that made it."`
	State    string     `json:"state,omitzero" doc:"The provider's word for its state."`
	Live     bool       `json:"live" doc:"It runs, or is in use."`
	Shared   bool       `json:"shared,omitzero" doc:"It belongs to no single run."`
	Created  *time.Time `json:"created_at,omitzero" doc:"When it was made; absent is unknown."`
	Started  *time.Time `json:"started_at,omitzero" doc:"When it began to run; absent is not yet, or unknown."`
	Ended    *time.Time `json:"ended_at,omitzero" doc:"When it ended; absent is not yet, or unknown."`
	Expires  *time.Time `json:"expires_at,omitzero" doc:"When it expires, by its own label; absent is never."`
	AgeSec   int64      `json:"age_seconds,omitzero" doc:"Its age in seconds."`
	Cost     *CostView  `json:"cost,omitzero" doc:"About what it costs; absent is unknown."`
	Orphan   bool       `json:"orphan" doc:"Nothing needs it any more."`
	Why      string     `json:"why,omitzero" doc:"Why it goes, or stays."`
	Removed  bool       `json:"removed" doc:"It was removed."`
	Error    *ErrorBody `json:"error,omitzero" doc:"Why the provider or the object could not be handled."`
}

// CostView is about what an object costs, by list prices.
type CostView struct {
	HourlyUSD float64  `json:"hourly_usd" doc:"What it costs an hour at present, in US dollars."`
	TotalUSD  *float64 `json:"total_usd,omitzero" doc:"What it has cost so far, in US dollars; absent is unknown."`
	Region    string   `json:"region" doc:"Region whose list prices these are."`
	Date      string   `json:"date" doc:"Date of the table of prices."`
	Source    string   `json:"source" doc:"The vendor's page of prices."`
}

func (o *reapOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	for _, p := range o.on {
		if _, err := c.Provider(p); err != nil {
			return err
		}
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	if !o.dryRun {
		o.f.settleChanges(ctx)
	}
	var rep reapReport
	var failed []error
	for it, err := range s.Engine.Reap(ctx, control.ReapRequest{Providers: o.on, DryRun: o.dryRun, Owner: o.owner, Actor: c.Actor, TakeUp: o.takeUp(s)}) {
		if err != nil {
			return err
		}
		if it.Err != nil {
			if o.mayMiss(c, it) {
				o.f.Streams.note("%s: left out: %v", it.Provider, it.Err)
				continue
			}
			failed = append(failed, fmt.Errorf("reap on %s: %w", it.Provider, it.Err))
		}
		if it.Orphan || o.all || o.dryRun || it.Err != nil {
			rep.add(it)
		}
	}
	if n := len(s.Engine.Held()); n > 0 {
		o.f.Streams.note("%s looked after once this command has ended: windlass wait RUN takes one up", count(n, "run goes on and isn't", "runs go on and aren't"))
	}
	if o.json {
		views := []ReapView{}
		for _, x := range rep.sorted() {
			views = append(views, viewReap(o.f.Streams, x))
		}
		if err := writeJSON(o.f.Streams.Out, views); err != nil {
			return err
		}
	} else if err := o.print(rep); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// takeUp has the keeper take up what nobody drives; nil where there is none.
func (o *reapOptions) takeUp(s *Session) func(context.Context) error {
	if s.Keeper == nil {
		return nil
	}
	return func(ctx context.Context) error {
		err := s.Keeper.Wake(ctx)
		if err != nil {
			o.f.Streams.note("runs that nobody looks after are taken up by this command alone: %v", err)
		}
		return err
	}
}

// mayMiss reports whether a provider that nobody asked for by name has nothing to
// list, or is docker, which is there without being configured and may not be here.
// What a configuration names and can't be looked at is a failure: its objects may
// be many.
func (o *reapOptions) mayMiss(c *config.Config, it control.ReapItem) bool {
	if len(o.on) > 0 || it.Object.ID != "" {
		return false
	}
	switch sdk.CodeOf(it.Err) {
	case sdk.Unimplemented:
		return true
	case sdk.Unavailable, sdk.FailedPrecondition, sdk.Unauthenticated:
		p, err := c.Provider(it.Provider)
		return err == nil && p.Origin.Kind == config.FromDefault
	}
	return false
}

func viewReap(s *Streams, x reaped) ReapView {
	it, obj := x.item, x.item.Object
	v := ReapView{Provider: it.Provider, Kind: it.Kind, Also: it.Also, Type: obj.Type, ID: obj.ID, Name: obj.Name, Run: obj.RunID.String(),
		Attempt: obj.AttemptID.String(), Owner: obj.Owner, Ledger: obj.LedgerID, State: obj.State, Live: obj.Live, Shared: obj.Shared,
		Created: timeOrNil(obj.CreatedAt), Started: timeOrNil(obj.Started), Ended: timeOrNil(obj.Ended), Expires: timeOrNil(obj.Expires), AgeSec: int64(it.Age.Seconds()), Orphan: it.Orphan, Why: it.Why, Removed: it.Removed}
	if c := x.cost; c != nil {
		v.Cost = &CostView{HourlyUSD: micro(c.Hourly), Region: c.Row.Region, Date: price.Date, Source: c.Row.Source}
		if c.Total != nil {
			v.Cost.TotalUSD = new(micro(*c.Total))
		}
	}
	if it.Err != nil {
		b := s.describe(it.Err)
		v.Error = &b
	}
	return v
}

// micro rounds a sum to millionths: more is noise of the arithmetic.
func micro(sum float64) float64 { return math.Round(sum*1e6) / 1e6 }
