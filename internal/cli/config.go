package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
)

func newConfig(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config show|validate|schema",
		Short: "Show, check and describe the configuration",
		Args:  group,
		RunE:  groupHelp,
	}
	cmd.AddCommand(newConfigShow(f, nil), newConfigValidate(f, nil), newConfigSchema(f, nil))
	return cmd
}

type configShowOptions struct {
	f      *Factory
	origin bool
	json   bool
}

// SettingView is one setting in force.
type SettingView struct {
	Name   string `json:"name" doc:"Name of the setting, with dots."`
	Value  string `json:"value" doc:"Its value; sensitive ones are redacted."`
	Origin string `json:"origin" doc:"Where it comes from: a flag, a variable, a file with its line, or default."`
}

func newConfigShow(f *Factory, runF func(context.Context, *configShowOptions) error) *cobra.Command {
	o := &configShowOptions{f: f}
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show every setting in force",
		Example: "  windlass config show --origin",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run()
		},
	}
	cmd.Flags().BoolVar(&o.origin, "origin", false, "say where each value comes from")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *configShowOptions) run() error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	views := []SettingView{}
	t := &table{head: []string{"SETTING", "VALUE", "FROM"}, flex: 1}
	for _, r := range c.Show(o.f.Drivers()) {
		v := SettingView{Name: r.Name, Value: r.Value, Origin: r.Origin.String()}
		views = append(views, v)
		shown := v.Value
		if r.Note != "" {
			shown += " (" + r.Note + ")"
		}
		t.add(plain(v.Name), plain(shown), plain(v.Origin))
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	if !o.origin {
		t.drop(2)
	}
	for _, w := range c.Warnings {
		o.f.Streams.note("%s", w)
	}
	return t.print(o.f.Streams)
}

type configValidateOptions struct {
	f    *Factory
	file string
	json bool
}

// ValidateView is what config validate found.
type ValidateView struct {
	Files    []string      `json:"files" doc:"Files that were read, nearest first."`
	Problems []ProblemView `json:"problems" doc:"What is wrong; empty when all is well."`
	Warnings []string      `json:"warnings,omitzero" doc:"What is odd, and no error."`
}

// ProblemView is one thing that is wrong with a configuration.
type ProblemView struct {
	ID      string `json:"id" doc:"Stable name, for windlass explain."`
	Where   string `json:"where" doc:"File, line and column, or variable."`
	Key     string `json:"key,omitzero" doc:"The setting."`
	Message string `json:"message" doc:"What is wrong."`
	Remedy  string `json:"remedy,omitzero" doc:"What to do."`
}

func newConfigValidate(f *Factory, runF func(context.Context, *configValidateOptions) error) *cobra.Command {
	o := &configValidateOptions{f: f}
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check the configuration",
		Long: `Check the configuration that is in force here, or one file, and name every
problem with its place. It reaches no provider. The exit code is 1 when something
is wrong.`,
		Example: "  windlass config validate ci/windlass.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef(cmd, "%q is one argument too many", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.file = args[0]
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *configValidateOptions) run(ctx context.Context) error {
	if o.file == "" {
		o.file = o.f.configFile
	}
	c, err := config.Check(ctx, config.LoadRequest{Env: o.f.Env, Dir: o.f.Dir, ExplicitFile: o.file, KnownVars: o.f.KnownVars}, o.f.Drivers())
	v := ValidateView{Files: []string{}, Problems: []ProblemView{}}
	if c != nil {
		v.Files, v.Warnings = append(v.Files, c.Files...), c.Warnings
	}
	problems := config.ProblemsOf(err)
	if err != nil && len(problems) == 0 {
		return err
	}
	for _, p := range problems {
		v.Problems = append(v.Problems, ProblemView{ID: p.ID, Where: p.Origin.String(), Key: p.Key, Message: p.Message, Remedy: p.Remedy})
	}
	if err := o.print(v, problems); err != nil {
		return err
	}
	if len(problems) > 0 {
		return exitError{ExitFaults}
	}
	return nil
}

func (o *configValidateOptions) print(v ValidateView, problems []config.Problem) error {
	s := o.f.Streams
	if o.json {
		return writeCheckedJSON(s.Out, v, len(problems) > 0)
	}
	for _, p := range problems {
		if _, err := fmt.Fprintln(s.Out, clean(p.String())); err != nil {
			return err
		}
	}
	for _, w := range v.Warnings {
		s.note("%s", w)
	}
	if len(problems) > 0 {
		return nil
	}
	what := "the defaults are in force: no file was found"
	if len(v.Files) > 0 {
		what = "valid: " + v.Files[0]
		for _, file := range v.Files[1:] {
			what += ", " + file
		}
	}
	_, err := fmt.Fprintln(s.Out, what)
	return err
}

type configSchemaOptions struct{ f *Factory }

func newConfigSchema(f *Factory, runF func(context.Context, *configSchemaOptions) error) *cobra.Command {
	o := &configSchemaOptions{f: f}
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of windlass.yaml",
		Long: `Print the JSON schema of windlass.yaml with the settings of every kind, for
editors and for checks.`,
		Example: "  windlass config schema > windlass.schema.json",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			var plugins []string
			if c, err := f.cfg(); err == nil { // the schema is wanted to mend one, too
				plugins = c.PluginNames()
			}
			b, err := config.Schema(f.Drivers(), plugins...)
			if err != nil {
				return err
			}
			if len(b) == 0 || b[len(b)-1] != '\n' {
				b = append(b, '\n')
			}
			_, err = f.Streams.Out.Write(b)
			return err
		},
	}
}
