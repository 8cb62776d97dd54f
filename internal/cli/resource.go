package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/resource"
	"github.com/windlass-run/windlass/sdk"
)

func newResource(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resource read|diff|apply|delete|scale|health|troubleshoot",
		Aliases: []string{"resources"},
		Short:   "Keep what stands beside jobs, such as networks and log groups",
		Long: `Keep resources as a file describes them: each has a name, a type, a provider and
a config. docs/resources.md describes the file, windlass provider describe the types.

What changes something has its row in the ledger first, and is done only to what
windlass resource made.`,
		Args: group,
		RunE: groupHelp,
	}
	cmd.AddCommand(newResourceRead(f, nil), newResourceDiff(f, nil), newResourceApply(f, nil), newResourceDelete(f, nil),
		newResourceScale(f, nil), newResourceHealth(f, nil), newResourceTroubleshoot(f, nil))
	return cmd
}

// resourceOptions are what the verbs share.
type resourceOptions struct {
	f       *Factory
	file    string
	names   []string
	dryRun  bool
	yes     bool
	message string
	// replicas are by name.
	replicas map[string]int
	json     bool
}

// verb makes the command of a verb.
func (o *resourceOptions) verb(use, short, long, example string, run func(context.Context) error, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if o.file == "" {
				return usagef(cmd, "-f is missing: it names the file of resources")
			}
			if err := o.parse(cmd); err != nil {
				return err
			}
			return run(cmd.Context())
		},
		ValidArgsFunction: o.completeNames,
	}
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "the `file` of resources; - is standard input; needed")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// parse reads NAME=REPLICAS, where the verb takes that.
func (o *resourceOptions) parse(cmd *cobra.Command) error {
	if cmd.Name() != "scale" {
		return nil
	}
	if len(o.names) == 0 {
		return usagef(cmd, "NAME=REPLICAS is missing")
	}
	o.replicas = map[string]int{}
	for i, arg := range o.names {
		name, text, ok := strings.Cut(arg, "=")
		n, err := strconv.Atoi(text)
		switch {
		case !ok || name == "" || err != nil || n < 0:
			return usagef(cmd, "%q isn't NAME=REPLICAS, with a number from 0 on", arg)
		case o.has(name):
			return usagef(cmd, "%s stands twice", name)
		}
		o.names[i], o.replicas[name] = name, n
	}
	return nil
}

func (o *resourceOptions) has(name string) bool {
	_, ok := o.replicas[name]
	return ok
}

func (o *resourceOptions) completeNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if o.file == "" || o.file == "-" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := resource.Read(cmd.Context(), o.file, o.f.Dir, o.f.Streams.In)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range f.Entries {
		out = append(out, e.Spec.Name+"\t"+e.Spec.Type)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// entries reads the file, checks all of it before anything is opened, and returns what
// was chosen of it.
func (o *resourceOptions) entries(ctx context.Context) ([]resource.Entry, error) {
	c, err := o.f.cfg()
	if err != nil {
		return nil, err
	}
	file, err := resource.Read(ctx, o.file, o.f.Dir, o.f.Streams.In)
	if err != nil && len(file.Entries) == 0 {
		return nil, err
	}
	drivers := o.f.Drivers()
	err = resource.Check(file, func(name string) (*sdk.Driver, error) {
		p, err := c.Provider(name)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(drivers, func(d sdk.Driver) bool { return d.Kind == p.Kind }); i >= 0 {
			return &drivers[i], nil
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return file.Choose(o.names)
}

// each opens the engine and does something with each entry. The first failure ends it:
// what follows may depend on what failed.
func (o *resourceOptions) each(ctx context.Context, entries []resource.Entry, do func(i int, e Engine, r control.ResourceRequest) error) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	for i, e := range entries {
		answered := o.f.unanswered(func() {
			o.f.Streams.note("%s %s: %s hasn't answered yet%s", e.Spec.Type, e.Spec.Name, e.Provider, o.f.boundOf(e.Provider))
		})
		err := do(i, s.Engine, control.ResourceRequest{Provider: e.Provider, Spec: e.Spec, Actor: c.Actor})
		answered()
		if err != nil {
			return fmt.Errorf("%s %s: %w", e.Spec.Type, e.Spec.Name, err)
		}
	}
	return nil
}

func newResourceRead(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	return o.verb("read -f FILE [NAME...]", "Show resources as they are",
		`Show resources as they are on their providers. What is sensitive is masked. The exit
code is 1 when one isn't there.`,
		"  windlass resource read -f resources.yaml", o.read, runF)
}

func (o *resourceOptions) read(ctx context.Context) error {
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	views := []ResourceView{}
	missing := false
	err = o.each(ctx, entries, func(_ int, e Engine, r control.ResourceRequest) error {
		v := ResourceView{Name: r.Spec.Name, Type: r.Spec.Type, Provider: r.Provider}
		st, err := e.ReadResource(ctx, r)
		switch {
		case sdk.CodeOf(err) == sdk.NotFound:
			missing = true
		case err != nil:
			return err
		default:
			v.set(st)
		}
		views = append(views, v)
		return nil
	})
	if err == nil {
		err = o.show(views, func() error { return printResources(o.f.Streams, views) })
	}
	if err == nil && missing {
		err = exitError{ExitFaults}
	}
	return err
}

// show prints views as JSON, or as print does.
func (o *resourceOptions) show(views any, print func() error) error {
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	return print()
}

func newResourceDiff(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	return o.verb("diff -f FILE [NAME...]", "Show what apply would change",
		`Show what apply would do and why, and what it would refuse. Nothing is changed. The
exit code is 1 when there is something to do.`,
		"  windlass resource diff -f resources.yaml backend", o.diff, runF)
}

func (o *resourceOptions) diff(ctx context.Context) error {
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	plans, err := o.plans(ctx, entries)
	if err == nil {
		err = o.showPlans(plans)
	}
	if err == nil && slices.ContainsFunc(plans, func(p resourcePlan) bool { return p.Action != control.ResourceNothing }) {
		err = exitError{ExitFaults}
	}
	return err
}

// resourcePlan is what apply would do with an entry.
type resourcePlan struct {
	control.ResourcePlan
	entry resource.Entry
}

// plans asks each entry's provider what apply would do. Values that providers don't take
// are the file's, and come back all at once.
func (o *resourceOptions) plans(ctx context.Context, entries []resource.Entry) ([]resourcePlan, error) {
	var plans []resourcePlan
	var wrong []resource.Finding
	err := o.each(ctx, entries, func(i int, e Engine, r control.ResourceRequest) error {
		p, err := e.DiffResource(ctx, r)
		if err != nil {
			return err
		}
		for _, problem := range p.Problems {
			if problem.Code == sdk.InvalidArgument {
				wrong = append(wrong, resource.Finding{Entry: entries[i], Problem: problem, ID: resource.ErrFile})
			}
		}
		plans = append(plans, resourcePlan{p, entries[i]})
		return nil
	})
	if len(wrong) > 0 {
		err = errors.Join(resource.Refuse("compare resources", wrong), err)
	}
	return plans, err
}

func (o *resourceOptions) showPlans(plans []resourcePlan) error {
	views := make([]ResourcePlanView, len(plans))
	for i, p := range plans {
		views[i] = viewPlan(p)
	}
	return o.show(views, func() error { return printPlans(o.f.Streams, views) })
}

func newResourceApply(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	cmd := o.verb("apply -f FILE [NAME...]", "Make resources as the file says",
		`Make what isn't there, change what differs, and leave what is as wanted, in the
file's order. Nothing is done before all of it is known to be possible, as far as the
providers can tell; the first failure ends it then.

Where another resource is needed in the place of one that is there, nothing at all is
done without --yes: deleting a resource takes what is in it.`,
		"  windlass resource apply -f resources.yaml --dry-run\n  windlass resource apply -f resources.yaml", o.apply, runF)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be done, and change nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "delete what has to be replaced")
	return cmd
}

func (o *resourceOptions) apply(ctx context.Context) error {
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	plans, err := o.plans(ctx, entries)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.showPlans(plans)
	}
	if err := o.possible(plans); err != nil {
		return err
	}
	return o.change(ctx, entries, func(e Engine, r control.ResourceRequest) (control.ResourceOutcome, error) {
		return e.ApplyResource(ctx, r, o.yes)
	})
}

// possible refuses, before anything is done, what would fail or delete something.
func (o *resourceOptions) possible(plans []resourcePlan) error {
	var refused []resource.Finding
	var replaced []string
	for _, p := range plans {
		for _, problem := range p.Problems {
			refused = append(refused, resource.Finding{Entry: p.entry, Problem: problem, ID: control.ErrResourceRefused})
		}
		if p.Action == control.ResourceReplace {
			replaced = append(replaced, p.entry.Spec.Type+" "+p.entry.Spec.Name)
		}
	}
	if len(refused) > 0 {
		return resource.Refuse("apply resources", refused)
	}
	if len(replaced) == 0 || o.yes {
		return nil
	}
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: "apply resources", ID: control.ErrResourceReplace,
		Remedy: "windlass resource diff shows why; --yes deletes what is there, and makes another",
		Err:    fmt.Errorf("another is needed in the place of %s; nothing was changed", strings.Join(replaced, ", "))}
}

func newResourceDelete(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	cmd := o.verb("delete -f FILE [NAME...]", "Delete resources",
		`Delete resources, the last of the file first. One that isn't there is done. Where
one of them is refused, such as one that windlass resource didn't make, nothing is
deleted.`,
		"  windlass resource delete -f resources.yaml --dry-run\n  windlass resource delete -f resources.yaml --yes data", o.delete, runF)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be deleted, and change nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "really delete them; needed")
	return cmd
}

func (o *resourceOptions) delete(ctx context.Context) error {
	if o.dryRun {
		return o.read(ctx)
	}
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	if !o.yes {
		inIt := "it"
		if len(entries) > 1 {
			inIt = "them"
		}
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "delete resources", ID: idNoConfirm, Remedy: "repeat it with --yes; --dry-run shows what is there",
			Err: fmt.Errorf("%s would be deleted, with what is in %s", count(len(entries), "resource", "resources"), inIt)}
	}
	if err := o.deletable(ctx, entries); err != nil {
		return err
	}
	entries = slices.Clone(entries)
	slices.Reverse(entries)
	return o.change(ctx, entries, func(e Engine, r control.ResourceRequest) (control.ResourceOutcome, error) {
		return e.DeleteResource(ctx, r)
	})
}

// deletable refuses, before anything is deleted, what would be refused at its turn.
func (o *resourceOptions) deletable(ctx context.Context, entries []resource.Entry) error {
	var refused []resource.Finding
	err := o.each(ctx, entries, func(i int, e Engine, r control.ResourceRequest) error {
		plan, err := e.PlanDeleteResource(ctx, r)
		for _, problem := range plan.Problems {
			refused = append(refused, resource.Finding{Entry: entries[i], Problem: problem, ID: control.ErrResourceRefused})
		}
		return err
	})
	if err == nil && len(refused) > 0 {
		err = resource.Refuse("delete resources", refused)
	}
	return err
}

// change makes a change of each entry, and tells of each as soon as it is made. The end of
// ctx lets the one that is under way come to its end, and no other begin.
func (o *resourceOptions) change(ctx context.Context, entries []resource.Entry, do func(e Engine, r control.ResourceRequest) (control.ResourceOutcome, error)) error {
	views := []ResourceChangeView{}
	err := o.each(ctx, entries, func(i int, e Engine, r control.ResourceRequest) error {
		out, err := o.one(ctx, func() (control.ResourceOutcome, error) { return do(e, r) })
		if err != nil {
			if i > 0 {
				before := "the failure"
				if ctx.Err() != nil {
					before = "it was interrupted"
				}
				o.f.Streams.note("%d of %d were done before %s", i, len(entries), before)
			}
			return err
		}
		v := viewChange(r, out)
		views = append(views, v)
		if o.json {
			return nil
		}
		return printChange(o.f.Streams, v)
	})
	if err == nil && o.json {
		err = writeJSON(o.f.Streams.Out, views)
	}
	return err
}

// one makes one change, and says so where it goes on after the end of ctx.
func (o *resourceOptions) one(ctx context.Context, do func() (control.ResourceOutcome, error)) (control.ResourceOutcome, error) {
	if ctx.Err() != nil {
		return control.ResourceOutcome{}, context.Cause(ctx)
	}
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(said)
		o.f.Streams.note("a call that was sent has its reply first; Ctrl-C again leaves at once, and the next change of it looks what became of it")
	})
	out, err := do()
	if !stop() {
		<-said
	}
	return out, err
}

func newResourceScale(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	return o.verb("scale -f FILE NAME=REPLICAS...", "Set numbers of replicas",
		`Set the number of replicas of resources that have some.`,
		"  windlass resource scale -f resources.yaml web=3", o.scale, runF)
}

func (o *resourceOptions) scale(ctx context.Context) error {
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	return o.change(ctx, entries, func(e Engine, r control.ResourceRequest) (control.ResourceOutcome, error) {
		return e.ScaleResource(ctx, r, o.replicas[r.Spec.Name])
	})
}

func newResourceHealth(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	return o.verb("health -f FILE [NAME...]", "Tell whether resources are fit for use",
		`Tell whether resources are fit for use. The exit code is 1 when one isn't, or isn't
there.`,
		"  windlass resource health -f resources.yaml", o.health, runF)
}

func (o *resourceOptions) health(ctx context.Context) error {
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	views := []ResourceHealthView{}
	err = o.each(ctx, entries, func(_ int, e Engine, r control.ResourceRequest) error {
		h, err := e.HealthCheckResource(ctx, r)
		if sdk.CodeOf(err) == sdk.NotFound {
			h, err = sdk.HealthCheckResourceResult{Message: "it isn't there"}, nil
		}
		views = append(views, ResourceHealthView{Name: r.Spec.Name, Type: r.Spec.Type, Provider: r.Provider, Healthy: h.Healthy, Message: h.Message})
		return err
	})
	if err == nil {
		err = o.show(views, func() error { return printHealth(o.f.Streams, views) })
	}
	if err == nil && slices.ContainsFunc(views, func(v ResourceHealthView) bool { return !v.Healthy }) {
		err = exitError{ExitFaults}
	}
	return err
}

func newResourceTroubleshoot(f *Factory, runF func(context.Context, *resourceOptions) error) *cobra.Command {
	o := &resourceOptions{f: f}
	cmd := o.verb("troubleshoot -f FILE [NAME...]", "Ask why resources aren't as they should be",
		`Ask the provider why resources aren't as they should be. Not every provider can tell.`,
		"  windlass resource troubleshoot -f resources.yaml web", o.troubleshoot, runF)
	cmd.Flags().StringVar(&o.message, "message", "", "the failure that is to be explained, in its own `words`")
	return cmd
}

func (o *resourceOptions) troubleshoot(ctx context.Context) error {
	entries, err := o.entries(ctx)
	if err != nil {
		return err
	}
	views := []ResourceTroubleView{}
	err = o.each(ctx, entries, func(_ int, e Engine, r control.ResourceRequest) error {
		ds, err := e.TroubleshootResource(ctx, r, o.message)
		if err == nil {
			views = append(views, viewTrouble(r, ds))
		}
		return err
	})
	if err != nil {
		return err
	}
	return o.show(views, func() error { return printTrouble(o.f.Streams, views) })
}
