package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

// PocketRequest says how the pocket clouds are to run.
type PocketRequest struct {
	// Port is the first cloud's on 127.0.0.1, and the next ones take those that
	// follow; 0 takes free ones.
	Port int
	// Write is the configuration that will be written, beside which files of an
	// earlier start may lie; empty writes none.
	Write string
	// Docker is the engine that runs the jobs, as DOCKER_HOST is written; empty
	// runs them as processes of this machine.
	Docker string
	// State is a folder that keeps the clouds from one start to the next; empty
	// forgets them.
	State string
}

// PocketProvider is a provider on a pocket cloud.
type PocketProvider struct {
	// Kind is also its name.
	Kind string
	// Address is the cloud's.
	Address string
	// Credentials is how it gets them; empty is pocket.
	Credentials config.CredentialMode
	// Config are the settings that it needs, in their order.
	Config []PocketSetting
}

// PocketSetting is one setting of a provider's config.
type PocketSetting struct {
	Name string
	// Value is the setting, or a PocketFile that it names.
	Value any
}

// PocketFile is what a provider needs as a file, PEM or YAML, beside its
// configuration.
type PocketFile struct {
	// Suffix follows the configuration's name, less its own ending.
	Suffix string
	Data   []byte
}

// Beside is the file's path beside a configuration.
func (f PocketFile) Beside(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + f.Suffix
}

// PocketClouds are pocket clouds that run.
type PocketClouds struct {
	Providers []PocketProvider
	// Failed yields the error of a cloud that has stopped by itself.
	Failed <-chan error
	// Close ends all jobs and clouds.
	Close func(ctx context.Context) error
}

// pocketHeader begins every file that pocket up writes, and so tells a file
// that may be written over from another.
const pocketHeader = "# Written by windlass pocket up"

func newPocket(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pocket up",
		Short: "Run clouds on this machine, to try and to test with",
		Args:  group,
		RunE:  groupHelp,
	}
	cmd.AddCommand(newPocketUp(f, nil))
	return cmd
}

type pocketUpOptions struct {
	f        *Factory
	file     string
	executor string
	request  PocketRequest
}

func newPocketUp(f *Factory, runF func(context.Context, *pocketUpOptions) error) *cobra.Command {
	o := &pocketUpOptions{f: f}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the pocket clouds, and keep them until interrupted",
		Long: `Start a pocket cloud for every kind of cloud provider, on this machine alone, and
run until interrupted. A pocket cloud speaks the cloud's own protocol and really
runs the jobs, as processes of yours without isolation, or in Docker, where the
images must be there. It needs no account, and takes any credentials; a cluster
takes the token of its kubeconfig, which --write leaves.

Once all answer, the line "ready" is printed. --write leaves a configuration with
a provider for each, named like its kind, and what they need beside it: the
certificate of a cloud that speaks HTTPS alone, the kubeconfig of a cluster. At the end all that runs there
is ended.`,
		Example: "  windlass pocket up --write pocket.yaml\n  windlass run --config pocket.yaml --on aws-ecs --image busybox -- echo hello",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.executor != "process" && o.executor != "docker" {
				return usagef(cmd, "--executor %q: it is process or docker", o.executor)
			}
			if o.request.Port < 0 || o.request.Port > 65000 {
				return usagef(cmd, "--port %d: it is 0 to 65000", o.request.Port)
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.file, "write", "", "`file` to write a configuration for the clouds to")
	fl.StringVar(&o.executor, "executor", "process", "what runs the jobs: `process` or docker")
	fl.IntVar(&o.request.Port, "port", 0, "the first cloud's `port`, the others take those that follow; 0 takes free ones")
	fl.StringVar(&o.request.State, "state", "", "`folder` that keeps the clouds' objects, logs and secrets, written when they stop, for the next start")
	return cmd
}

// defaultDockerHost is where an engine is when DOCKER_HOST doesn't say.
const defaultDockerHost = "unix:///var/run/docker.sock"

func (o *pocketUpOptions) run(ctx context.Context) (err error) {
	if o.f.StartPocket == nil {
		return sdk.Errorf(sdk.Unimplemented, "pocket up", "this program has no pocket clouds")
	}
	if o.executor == "docker" {
		o.request.Docker = defaultDockerHost
		if host, ok := o.f.Env.Lookup("DOCKER_HOST"); ok && host != "" {
			o.request.Docker = host
		}
	}
	if o.file != "" {
		// Before anything is started: a file that isn't ours is a mistake.
		o.request.Write = o.path()
		if err := writablePocketFile(o.request.Write); err != nil {
			return err
		}
	}
	clouds, err := o.f.StartPocket(ctx, o.request)
	if err != nil {
		return fmt.Errorf("pocket up: %w", err)
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, clouds.Close(closeCtx))
	}()
	if o.file != "" {
		if err := o.write(ctx, clouds.Providers); err != nil {
			return err
		}
	}
	for _, p := range clouds.Providers {
		o.f.Streams.note("%s listens on %s", p.Kind, p.Address)
	}
	if _, err := fmt.Fprintln(o.f.Streams.Out, "ready"); err != nil {
		return err
	}
	select {
	case <-ctx.Done(): // the way in which it ends
		return nil
	case err := <-clouds.Failed:
		return fmt.Errorf("pocket up: %w", err)
	}
}

// path is the file's, from the folder of the command.
func (o *pocketUpOptions) path() string {
	if filepath.IsAbs(o.file) {
		return o.file
	}
	return filepath.Join(o.f.Dir, o.file)
}

// writablePocketFile refuses to write over a file that isn't pocket up's.
func writablePocketFile(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pocket up: %w", err)
	}
	if !bytes.HasPrefix(data, []byte(pocketHeader)) {
		return &sdk.Error{Code: sdk.AlreadyExists, Op: "pocket up", ID: idNoConfirm, Err: fmt.Errorf("%s is there already, and not from pocket up", path),
			Remedy: "name another file, or remove it"}
	}
	return nil
}

func (o *pocketUpOptions) write(ctx context.Context, providers []PocketProvider) error {
	path := o.path()
	files, providers := pocketFiles(path, providers)
	text, err := pocketConfig(providers)
	if err != nil {
		return fmt.Errorf("pocket up: %w", err)
	}
	for name, data := range files {
		if err := writablePocketFile(name); err != nil {
			return err
		}
		if err := os.WriteFile(name, slices.Concat([]byte(pocketHeader+" beside "+filepath.Base(path)+"\n"), data), 0o600); err != nil {
			return fmt.Errorf("pocket up: %w", err)
		}
		// A file that was there has kept its mode, and its content may open a cluster.
		if err := os.Chmod(name, 0o600); err != nil {
			return fmt.Errorf("pocket up: %w", err)
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("pocket up: %w", err)
	}
	c, err := config.Load(ctx, config.LoadRequest{Env: o.f.Env, Dir: o.f.Dir, ExplicitFile: path, KnownVars: o.f.KnownVars})
	if err == nil {
		err = c.Validate(o.f.Drivers())
	}
	if err != nil {
		return fmt.Errorf("pocket up: what was written isn't valid: %w", err)
	}
	return nil
}

// pocketFiles returns the files that go beside a configuration, and the
// providers with the files' names in their settings.
func pocketFiles(path string, providers []PocketProvider) (map[string][]byte, []PocketProvider) {
	files := map[string][]byte{}
	providers = slices.Clone(providers)
	for i, p := range providers {
		p.Config = slices.Clone(p.Config)
		for j, s := range p.Config {
			if f, ok := s.Value.(PocketFile); ok {
				name := f.Beside(path)
				files[name], p.Config[j].Value = f.Data, name
			}
		}
		providers[i] = p
	}
	return files, providers
}

// pocketConfig is a whole windlass.yaml.
func pocketConfig(providers []PocketProvider) ([]byte, error) {
	list := yaml.MapSlice{}
	for _, p := range providers {
		settings := yaml.MapSlice{}
		for _, s := range p.Config {
			settings = append(settings, yaml.MapItem{Key: s.Name, Value: s.Value})
		}
		list = append(list, yaml.MapItem{Key: p.Kind, Value: yaml.MapSlice{
			{Key: "kind", Value: p.Kind},
			{Key: "credentials", Value: string(cmp.Or(p.Credentials, config.CredentialsPocket))},
			{Key: "poll_interval", Value: "250ms"},
			{Key: "config", Value: settings},
		}})
	}
	body, err := yaml.Marshal(yaml.MapSlice{{Key: "providers", Value: list}})
	if err != nil {
		return nil, err
	}
	var kinds []string
	for _, p := range providers {
		kinds = append(kinds, p.Kind)
	}
	slices.Sort(kinds)
	return slices.Concat([]byte(pocketHeader+": providers on clouds that run only as long as it does ("+strings.Join(kinds, ", ")+").\n"), body), nil
}
