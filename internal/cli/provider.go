package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

func newProvider(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "provider ls|check|describe",
		Aliases: []string{"providers"},
		Short:   "List, check and describe providers",
		Args:    group,
		RunE:    groupHelp,
	}
	cmd.AddCommand(newProviderLs(f, nil), newProviderCheck(f, nil), newProviderDescribe(f, nil))
	return cmd
}

type providerLsOptions struct {
	f     *Factory
	kinds bool
	json  bool
}

func newProviderLs(f *Factory, runF func(context.Context, *providerLsOptions) error) *cobra.Command {
	o := &providerLsOptions{f: f}
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List configured providers",
		Example: "  windlass provider ls\n  windlass provider ls --kinds",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run()
		},
	}
	cmd.Flags().BoolVar(&o.kinds, "kinds", false, "list the kinds that this program has instead")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// ProviderView is a configured provider.
type ProviderView struct {
	Name    string `json:"name" doc:"Name in the configuration."`
	Kind    string `json:"kind" doc:"Kind of backend."`
	Default bool   `json:"default" doc:"Runs go there without --on."`
	Origin  string `json:"origin" doc:"Where it is configured."`
}

// KindView is a kind of backend.
type KindView struct {
	Kind string `json:"kind" doc:"Name of the kind."`
	Doc  string `json:"doc" doc:"What it runs on."`
}

func (o *providerLsOptions) run() error {
	s := o.f.Streams
	if o.kinds {
		views := []KindView{}
		t := &table{head: []string{"KIND", "WHAT"}, flex: 1, wrap: true}
		for _, d := range o.f.Drivers() {
			views = append(views, KindView{d.Kind, d.Doc})
			t.add(plain(d.Kind), plain(d.Doc))
		}
		if o.json {
			return writeJSON(s.Out, views)
		}
		return t.print(s)
	}
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	views := []ProviderView{}
	t := &table{head: []string{"NAME", "KIND", "DEFAULT", "CONFIGURED"}, flex: 3}
	for _, name := range c.ProviderNames() {
		p, err := c.Provider(name)
		if err != nil {
			return err
		}
		v := ProviderView{Name: name, Kind: p.Kind, Default: name == c.DefaultProvider, Origin: originWords(p.Origin)}
		views = append(views, v)
		mark := ""
		switch {
		case v.Default:
			mark = "yes"
		case c.DefaultProvider == "" && name == "docker":
			mark = "with an image"
		case c.DefaultProvider == "" && name == "local":
			mark = "without"
		}
		t.add(plain(name), plain(p.Kind), plain(mark), plain(v.Origin))
	}
	if o.json {
		return writeJSON(s.Out, views)
	}
	return t.print(s)
}

func originWords(o config.Origin) string {
	if o.Kind == config.FromDefault {
		return "built in"
	}
	return o.String()
}

type providerCheckOptions struct {
	f     *Factory
	names []string
	json  bool
}

func newProviderCheck(f *Factory, runF func(context.Context, *providerCheckOptions) error) *cobra.Command {
	o := &providerCheckOptions{f: f}
	cmd := &cobra.Command{
		Use:   "check [NAME...]",
		Short: "Prove that providers can be reached and used",
		Long: `Prove reach and rights of providers, all of them by default, and say what to do
about what is missing. It changes nothing there. The exit code is 1 when a check
fails.`,
		Example: "  windlass provider check docker",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeProviders,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// CheckView is one thing that was looked at.
type CheckView struct {
	Subject string `json:"subject" doc:"Provider or part that was looked at."`
	Name    string `json:"name" doc:"What was looked at."`
	OK      bool   `json:"ok" doc:"It is as it should be."`
	Needed  bool   `json:"needed" doc:"Something that is configured needs it."`
	Detail  string `json:"detail,omitzero" doc:"What was found."`
	Remedy  string `json:"remedy,omitzero" doc:"What to do when it isn't."`
}

func (o *providerCheckOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	names := o.names
	if len(names) == 0 {
		names = c.ProviderNames()
	}
	for _, n := range names {
		if _, err := c.Provider(n); err != nil {
			return err
		}
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	var checks []CheckView
	for _, n := range names {
		checks = append(checks, checkProvider(ctx, o.f.Streams, s, n)...)
	}
	return printChecks(o.f.Streams, checks, o.json)
}

// checkProvider opens and checks one provider. A failure is a check that isn't
// OK.
func checkProvider(ctx context.Context, st *Streams, s *Session, name string) []CheckView {
	failed := func(what string, err error) []CheckView {
		b := st.describe(err)
		return []CheckView{{Subject: name, Name: what, Needed: true, Detail: b.Message, Remedy: b.Remedy}}
	}
	back, err := s.Providers.Backend(ctx, name)
	if err != nil {
		return failed("open", err)
	}
	limit := back.CallTimeout
	if limit <= 0 {
		limit = 30 * time.Second
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	res, err := back.Check(ctx, sdk.CheckRequest{})
	if err != nil {
		return failed("reach", err)
	}
	return viewChecks(name, res.Items)
}

// viewChecks shows what was looked at of a subject that is configured.
func viewChecks(subject string, items []sdk.CheckItem) []CheckView {
	var out []CheckView
	for _, it := range items {
		v := CheckView{Subject: subject, Name: it.Name, OK: it.OK, Needed: true, Detail: it.Detail}
		if !it.OK {
			v.Remedy = it.Remedy
		}
		out = append(out, v)
	}
	return out
}

// printChecks shows checks, and fails when one that is needed does.
func printChecks(s *Streams, checks []CheckView, asJSON bool) error {
	bad := false
	for _, c := range checks {
		bad = bad || !c.OK && c.Needed
	}
	if asJSON {
		if err := writeCheckedJSON(s.Out, checks, bad); err != nil {
			return err
		}
	} else {
		if err := s.checks(checks); err != nil {
			return err
		}
	}
	if bad {
		return exitError{ExitFaults}
	}
	return nil
}

type providerDescribeOptions struct {
	f    *Factory
	name string
	json bool
}

func newProviderDescribe(f *Factory, runF func(context.Context, *providerDescribeOptions) error) *cobra.Command {
	o := &providerDescribeOptions{f: f}
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Say what a provider can do and what it guarantees",
		Long: `Say what a provider, or a kind, can do, what it guarantees, which fields of a job
it honours or refuses, and which options it takes.`,
		Example: "  windlass provider describe docker",
		Args:    exactly(1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeProviders,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// DescribeView is all that is known of a provider.
type DescribeView struct {
	Name         string          `json:"name" doc:"Name in the configuration, or the kind."`
	Kind         string          `json:"kind" doc:"Kind of backend."`
	Doc          string          `json:"doc" doc:"What it runs on."`
	Identity     string          `json:"identity,omitzero" doc:"Account, region and endpoint, where it could be opened."`
	Capabilities []string        `json:"capabilities,omitzero" doc:"What it can do, where it could be opened."`
	Guarantees   []GuaranteeView `json:"guarantees" doc:"What it can truly give."`
	Fields       []FieldView     `json:"fields" doc:"What of a job it honours."`
	Options      []OptionView    `json:"options" doc:"Options for --option."`
	Config       []OptionView    `json:"config" doc:"Keys under config: in windlass.yaml."`
	Schemes      []string        `json:"secret_schemes,omitzero" doc:"Schemes of secret references that it passes on or seals."`
	Unopened     string          `json:"unopened,omitzero" doc:"Why it could not be opened."`
}

// GuaranteeView is one guarantee in words.
type GuaranteeView struct {
	Name  string `json:"name" doc:"The guarantee."`
	Value string `json:"value" doc:"What is given."`
}

// FieldView is one field of a job.
type FieldView struct {
	Field   string `json:"field" doc:"Name in the spec."`
	Values  string `json:"values,omitzero" doc:"What is honoured."`
	Refused string `json:"refused,omitzero" doc:"Why it is refused."`
}

// OptionView is one key of a schema.
type OptionView struct {
	Name      string        `json:"name" doc:"The key."`
	Type      sdk.FieldType `json:"type" doc:"Type of its value."`
	Doc       string        `json:"doc" doc:"What it does."`
	Default   string        `json:"default,omitzero" doc:"Its default."`
	Required  bool          `json:"required,omitzero" doc:"It must be given."`
	Sensitive bool          `json:"sensitive,omitzero" doc:"Its value is redacted."`
}

func viewSchema(s sdk.Schema) []OptionView {
	out := []OptionView{}
	for _, f := range s.Fields {
		out = append(out, OptionView{Name: f.Name, Type: f.Type, Doc: f.Doc, Default: f.Default, Required: f.Required, Sensitive: f.Sensitive})
	}
	return out
}

func (o *providerDescribeOptions) run(ctx context.Context) error {
	v, err := o.view(ctx)
	if err != nil {
		return err
	}
	s := o.f.Streams
	if o.json {
		return writeJSON(s.Out, v)
	}
	t := &fields{s: s}
	t.add("Provider", v.Name+" (kind "+v.Kind+")")
	t.add("Runs on", v.Doc)
	t.add("Identity", v.Identity)
	t.add("Can", strings.Join(v.Capabilities, ", "))
	t.styled("Not opened", v.Unopened, styleBold)
	for _, g := range v.Guarantees {
		t.add(g.Name, g.Value)
	}
	t.add("Secret schemes", strings.Join(v.Schemes, ", "))
	if err := t.print(); err != nil {
		return err
	}
	if len(v.Fields) > 0 {
		tab := &table{head: []string{"FIELD", "HONOURED"}, flex: 1, wrap: true}
		for _, x := range v.Fields {
			text := x.Values
			if x.Refused != "" {
				text = "refused: " + x.Refused
			}
			tab.add(plain(x.Field), plain(text))
		}
		if err := printBelow(s, tab); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		head  string
		items []OptionView
	}{{"OPTION", v.Options}, {"CONFIG", v.Config}} {
		if len(list.items) == 0 {
			continue
		}
		tab := &table{head: []string{list.head, "TYPE", "DEFAULT", "WHAT"}, flex: 3, wrap: true}
		for _, x := range list.items {
			tab.add(plain(x.Name), plain(string(x.Type)), plain(x.Default), plain(x.Doc))
		}
		if err := printBelow(s, tab); err != nil {
			return err
		}
	}
	return nil
}

func printBelow(s *Streams, t *table) error {
	if _, err := fmt.Fprintln(s.Out); err != nil {
		return err
	}
	return t.print(s)
}

func (o *providerDescribeOptions) view(ctx context.Context) (DescribeView, error) {
	c, err := o.f.cfg()
	if err != nil {
		return DescribeView{}, err
	}
	kind := o.name
	p, perr := c.Provider(o.name)
	if perr == nil {
		kind = p.Kind
	}
	var d *sdk.Driver
	for _, x := range o.f.Drivers() {
		if x.Kind == kind {
			d = &x
		}
	}
	if d == nil && perr == nil && o.f.learn(ctx, o.name) == nil {
		d = o.f.driverOf(o.name)
	}
	if d == nil && slices.Contains(c.PluginNames(), kind) {
		// A provider that can't be opened, as its config is wrong, is described too.
		if d, err = o.f.pluginDriver(ctx, kind); err != nil {
			return DescribeView{}, err
		}
	}
	if d == nil {
		if perr != nil {
			return DescribeView{}, perr
		}
		return DescribeView{}, p.Validate(o.f.Drivers())
	}
	v := DescribeView{Name: o.name, Kind: kind, Doc: d.Doc, Options: viewSchema(d.Options), Config: viewSchema(d.Config), Schemes: d.Schemes, Fields: []FieldView{}}
	g := d.Guarantees
	for _, x := range d.Support {
		v.Fields = append(v.Fields, FieldView(x))
	}
	if perr == nil {
		s, err := o.f.open(ctx)
		if err != nil {
			return v, err
		}
		back, err := s.Providers.Backend(ctx, o.name)
		if err != nil {
			v.Unopened = err.Error()
		} else {
			g = back.Info().Guarantees
			v.Identity = back.Info().Identity.String()
			v.Capabilities = sdk.CapabilityNames(back.Provider)
		}
	}
	v.Guarantees = guaranteeWords(g)
	return v, nil
}

// guaranteeWords says in words what a provider gives.
func guaranteeWords(g sdk.Guarantees) []GuaranteeView {
	var out []GuaranteeView
	add := func(name, format string, args ...any) {
		out = append(out, GuaranteeView{name, fmt.Sprintf(format, args...)})
	}
	switch g.Submit.By {
	case sdk.SubmitByToken:
		add("Submit", "at most one object per attempt, by a token that holds %s", g.Submit.TokenWindow)
	case sdk.SubmitByName:
		add("Submit", "at most one object per attempt, by a name that the backend takes once")
	case sdk.SubmitBySearch:
		add("Submit", "after a lost reply it is searched for what was made")
	default:
		add("Submit", "a lost reply can't be cleared up")
	}
	switch {
	case g.Found.Consistent && g.Found.Within == 0:
		add("Visibility", "at once, and not found proves absence")
	case g.Found.Consistent:
		add("Visibility", "within %s, and then not found proves absence", g.Found.Within)
	default:
		add("Visibility", "within %s; not found never proves absence", g.Found.Within)
	}
	add("Arguments", "%s", strings.ReplaceAll(string(g.Argv), "_", " "))
	add("Exit code", "from the %s", g.ExitCode)
	if g.ExitCode == sdk.ExitCodeAbsent {
		out[len(out)-1].Value = "none is given"
	}
	logs := string(g.Logs.Fidelity)
	if g.Logs.Apart {
		logs += ", stdout and stderr apart"
	} else {
		logs += ", stdout and stderr together"
	}
	if g.Logs.EndProven {
		logs += ", the end is proven"
	} else {
		logs += fmt.Sprintf(", taken as complete after %s of silence", g.Logs.Settle.Quiet)
	}
	add("Output", "%s", logs)
	if g.CancelReadBack {
		add("Cancel", "proven: it is read back that the job is gone")
	} else {
		add("Cancel", "accepted only: nothing proves that the job is gone")
	}
	switch {
	case g.Grace.Supported:
		upper := "any"
		if g.Grace.Max > 0 {
			upper = g.Grace.Max.String()
		}
		again := ""
		if g.Grace.Again {
			again = "; a job that doesn't end is asked again after it, and killed after another"
		}
		add("Grace", "%s to %s, %s by default%s", g.Grace.Min, upper, g.Grace.Default, again)
	case g.Grace.Default > 0:
		add("Grace", "the platform's own, %s; it can't be set", g.Grace.Default)
	default:
		add("Grace", "the platform's own, which it doesn't tell; it can't be set")
	}
	if g.Deadline.Native {
		add("Time-out", "the backend ends the job by itself too, should Windlass be gone")
	} else {
		add("Time-out", "Windlass ends the job: nobody does while no windlass process lives")
	}
	if g.Evidence > 0 {
		add("Memory of an end", "%s; an end that isn't seen by then is lost", g.Evidence)
	} else {
		add("Memory of an end", "until it is cleaned up")
	}
	add("Secrets", "%s", secretWords(g.Secrets))
	if len(g.Stdin) > 0 {
		words := make([]string, len(g.Stdin))
		for i, m := range g.Stdin {
			words[i] = string(m)
		}
		add("Input", "%s", strings.Join(words, ", "))
	}
	if g.Workload != (sdk.WorkloadGuarantees{}) {
		for _, r := range WorkloadGuaranteeRows() {
			add("Workload: "+strings.ToLower(r.Name[:1])+r.Name[1:], "%s", r.Words(g.Workload))
		}
	}
	return out
}

func secretWords(d sdk.SecretDelivery) string {
	switch d {
	case sdk.SecretReference:
		return "the backend fetches the value itself"
	case sdk.SecretSealed:
		return "a value that no describe call shows"
	case sdk.SecretFile:
		return "a file under /run/secrets that only the job reads"
	case sdk.SecretProcessEnv:
		return "a variable of the process"
	case sdk.SecretVisibleEnv:
		return "visible to whoever may describe the job; needs --allow-visible-secret"
	}
	return "none"
}
