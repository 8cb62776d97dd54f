package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

type initOptions struct {
	f        *Factory
	standard string
	force    bool
	json     bool
}

func newInit(f *Factory, runF func(context.Context, *initOptions) error) *cobra.Command {
	o := &initOptions{f: f}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a windlass.yaml for this folder",
		Long: `Write a windlass.yaml into this folder, with what is needed left in and the rest
as comments. A file that is there is left alone, unless --force says otherwise.
Nothing needs the file: local and docker work without one.`,
		Example: "  windlass init --default docker",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.standard, "default", "", "the `provider` that runs go to without --on")
	fs.BoolVar(&o.force, "force", false, "write over a file that is there")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "default", f.completeProviders)
	return cmd
}

// InitView is what init wrote.
type InitView struct {
	File string `json:"file" doc:"Path of the file."`
}

func (o *initOptions) run(ctx context.Context) error {
	if o.f.Dir == "" {
		return sdk.Errorf(sdk.FailedPrecondition, "init", "the working folder is gone")
	}
	if o.standard != "" {
		c, err := o.f.cfg()
		if err != nil {
			return err
		}
		if _, err := c.Provider(o.standard); err != nil {
			return err
		}
	}
	path := filepath.Join(o.f.Dir, config.FileName)
	if err := o.write(path); err != nil {
		return err
	}
	if _, err := config.Load(ctx, config.LoadRequest{Env: o.f.Env, Dir: o.f.Dir, ExplicitFile: path}); err != nil {
		return fmt.Errorf("init: what was written isn't valid: %w", err)
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, InitView{File: path})
	}
	if _, err := fmt.Fprintln(o.f.Streams.Out, path); err != nil {
		return err
	}
	o.f.Streams.hint("next: windlass doctor, then windlass run -- echo hello")
	return nil
}

func (o *initOptions) write(path string) (err error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return &sdk.Error{Code: sdk.AlreadyExists, Op: "init", ID: idNoConfirm, Err: fmt.Errorf("%s is there already", path), Remedy: "--force writes over it"}
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(initText(o.standard))
	return err
}

// initText is a file that is valid as it stands, and shows the rest.
func initText(standard string) string {
	var b strings.Builder
	b.WriteString("# Configuration of Windlass for this folder and those below it. All of it is\n")
	b.WriteString("# optional; `windlass config schema` describes every key, and\n")
	b.WriteString("# `windlass config show --origin` says what is in force.\n\n")
	if standard != "" {
		fmt.Fprintf(&b, "default_provider: %s\n", standard)
	} else {
		b.WriteString("# Where jobs run without --on. Unset, an image means docker, none means local.\n# default_provider: docker\n")
	}
	b.WriteString(`
# Providers by name. local and docker are there without an entry.
# providers:
#   builder:
#     kind: docker
#     poll_interval: 2s     # time between two looks at a job
#     call_timeout: 30s     # bounds one call to the engine
#     max_in_flight: 4      # further runs wait for their turn
#     config:
#       host: unix:///var/run/docker.sock

# How long captured output is kept after a run has ended.
# retention:
#   logs: 30d
`)
	return b.String()
}
