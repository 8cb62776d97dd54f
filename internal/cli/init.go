package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/discover"
	"github.com/windlass-run/windlass/sdk"
)

type initOptions struct {
	f        *Factory
	standard string
	use      []string
	force    bool
	show     bool
	json     bool
}

func newInit(f *Factory, runF func(context.Context, *initOptions) error) *cobra.Command {
	o := &initOptions{f: f}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a windlass.yaml from what is found here",
		Long: `Write a windlass.yaml into this folder, with a provider for each backend that this
machine's files and variables point to: Docker's contexts, Podman's sockets, Compose
files, kubeconfigs, AWS's profiles, gcloud, az and doctl. Nothing is called, and no
value of a credential is read into the file.

What was found stands there as comments, and does nothing until you take them away;
--use does so at once. A value that stands for one of yours is named above its entry.
A file that is there is left alone, unless --force says otherwise. Nothing needs the
file: local and docker work without one.`,
		Example: "  windlass init\n  windlass init --use kind-dev --default kind-dev\n  windlass init --print",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.show && (o.force || o.json) {
				return usagef(cmd, "--print writes no file: leave out --force and --json")
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.standard, "default", "", "the `provider` that runs go to without --on")
	fs.StringSliceVar(&o.use, "use", nil, "leave these `providers` of what is found uncommented, or all")
	fs.BoolVar(&o.force, "force", false, "write over a file that is there")
	fs.BoolVar(&o.show, "print", false, "print the text, and write nothing")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "default", f.completeProviders)
	complete(cmd, "use", f.completeFound)
	return cmd
}

// completeFound completes what init finds.
func (f *Factory) completeFound(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, x := range discover.Look(discover.Request{Env: f.Env, Dir: f.Dir}).Found {
		out = append(out, x.Name+"\t"+clean(x.From))
	}
	return append(out, useAll+"\teach of them"), cobra.ShellCompDirectiveNoFileComp
}

// useAll stands for all that was found.
const useAll = "all"

// InitView is what init wrote.
type InitView struct {
	File     string        `json:"file" doc:"Path of the file."`
	Found    []FoundView   `json:"found" doc:"The backends that were found."`
	Troubles []TroubleView `json:"troubles,omitzero" doc:"Files that were there and of no use."`
	Notes    []string      `json:"notes,omitzero" doc:"What else to know, one sentence each."`
}

// FoundView is a backend that init found.
type FoundView struct {
	Name        string   `json:"name" doc:"The provider's name in the file."`
	Kind        string   `json:"kind" doc:"The provider's kind."`
	From        string   `json:"from" doc:"What it was found in."`
	Credentials string   `json:"credentials" doc:"How the provider gets its credentials."`
	Replace     []string `json:"replace,omitzero" doc:"Settings whose values stand only for yours."`
	Used        bool     `json:"used" doc:"The entry isn't a comment."`
}

// TroubleView is a file that init could make nothing of.
type TroubleView struct {
	File  string `json:"file" doc:"Path of the file."`
	Error string `json:"error" doc:"Why."`
}

func (o *initOptions) run(ctx context.Context) error {
	if o.f.Dir == "" {
		return sdk.Errorf(sdk.FailedPrecondition, "init", "the working folder is gone")
	}
	seen := discover.Look(discover.Request{Env: o.f.Env, Dir: o.f.Dir})
	used, err := o.chosen(seen.Found)
	if err != nil {
		return err
	}
	user, err := o.defaultOf(ctx, seen.Found)
	if err != nil {
		return err
	}
	if o.standard != "" && slices.ContainsFunc(seen.Found, func(x discover.Found) bool { return x.Name == o.standard }) {
		used[o.standard] = true
	}
	text, err := initText(o.standard, seen, used)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if o.show {
		_, err := o.f.Streams.Out.Write(text)
		return err
	}
	path := filepath.Join(o.f.Dir, config.FileName)
	view := InitView{File: path, Found: []FoundView{}, Notes: o.shadows(ctx, path)}
	judged := text
	if user { // this file alone doesn't have it
		if judged, err = initText("", seen, used); err != nil {
			return fmt.Errorf("init: %w", err)
		}
	}
	if err := o.write(ctx, path, text, judged); err != nil {
		return err
	}
	for _, x := range seen.Found {
		view.Found = append(view.Found, FoundView{Name: x.Name, Kind: x.Kind, From: x.From, Credentials: string(x.Credentials), Replace: guesses(x), Used: used[x.Name]})
	}
	for _, x := range seen.Troubles {
		view.Troubles = append(view.Troubles, TroubleView{File: x.File, Error: x.Err.Error()})
	}
	return o.tell(view)
}

// tell says what was found and written.
func (o *initOptions) tell(v InitView) error {
	s := o.f.Streams
	if o.json {
		return writeJSON(s.Out, v)
	}
	if _, err := fmt.Fprintln(s.Out, v.File); err != nil {
		return err
	}
	for _, x := range v.Troubles {
		s.note("%s %s, so that nothing was taken from it", x.File, x.Error)
	}
	for _, n := range v.Notes {
		s.note("%s", n)
	}
	for _, x := range v.Found {
		s.hint("found %s (%s): %s", x.Name, x.Kind, x.From)
	}
	if len(v.Found) == 0 {
		s.hint("found nothing beyond local and docker, which need no entry")
	}
	s.hint("next: windlass doctor, then windlass run -- echo hello")
	return nil
}

// chosen are the names of --use.
func (o *initOptions) chosen(found []discover.Found) (map[string]bool, error) {
	used, names := map[string]bool{}, []string{useAll}
	for _, x := range found {
		names = append(names, x.Name)
	}
	for _, want := range o.use {
		if want != useAll && !slices.Contains(names, want) {
			return nil, noSuch("use", want, names)
		}
		for _, x := range found {
			if want == useAll || want == x.Name {
				used[x.Name] = true
			}
		}
	}
	return used, nil
}

// defaultOf checks --default; user reports that it is a provider of the user's own file.
// The file that is written over may be broken, and isn't asked.
func (o *initOptions) defaultOf(ctx context.Context, found []discover.Found) (user bool, err error) {
	names := []string{"local", "docker"}
	for _, x := range found {
		names = append(names, x.Name)
	}
	if o.standard == "" || slices.Contains(names, o.standard) {
		return false, nil
	}
	if c, err := config.Load(ctx, config.LoadRequest{Env: o.f.Env}); err == nil {
		if _, err := c.Provider(o.standard); err == nil {
			return true, nil
		}
	}
	return false, noSuch("default", o.standard, names)
}

func noSuch(flag, name string, names []string) error {
	e := &sdk.Error{Code: sdk.NotFound, Op: "init", Field: flag, Err: fmt.Errorf("--%s: no provider %q was found here", flag, name), Remedy: "there are " + strings.Join(names, ", ")}
	if near := nearest(name, names); near != "" {
		e.Remedy = fmt.Sprintf("did you mean %q? There are %s", near, strings.Join(names, ", "))
	}
	return e
}

// shadows says which files the new one takes the place of, or gives way to.
func (o *initOptions) shadows(ctx context.Context, path string) []string {
	var out []string
	explicit := o.f.Env.Get("WINDLASS_CONFIG")
	if c, err := o.f.cfg(); err == nil && explicit == "" {
		for _, file := range c.Files {
			if filepath.Base(file) == config.FileName && filepath.Dir(file) != o.f.Dir && strings.HasPrefix(path, strings.TrimSuffix(filepath.Dir(file), string(filepath.Separator))+string(filepath.Separator)) {
				out = append(out, file+" was read in this folder until now; the new file stands in its place, here and below")
			}
		}
	}
	if explicit != "" {
		out = append(out, "WINDLASS_CONFIG names "+explicit+", so that the new file isn't read while it is set")
	}
	return out
}

// write makes the file whole or not at all, once it is known to be valid.
func (o *initOptions) write(ctx context.Context, path string, text, judged []byte) (err error) {
	mode := fs.FileMode(0o644)
	st, err := os.Lstat(path)
	switch {
	case err == nil && st.IsDir():
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "init", ID: idFile, Err: fmt.Errorf("%s is a folder", path), Remedy: "remove it, or call init elsewhere"}
	case err == nil && !o.force:
		return isThere(path)
	case err == nil:
		// A link is written through.
		if to, err := filepath.EvalSymlinks(path); err == nil {
			path = to
		}
		if st, err := os.Stat(path); err == nil {
			mode = st.Mode().Perm()
		}
	}
	tmp := path + ".new-" + rand.Text()[:8]
	if err := writeNew(tmp, judged, mode); err != nil {
		e := &sdk.Error{Code: sdk.PermissionDenied, Op: "init", ID: idFile, Err: err, Remedy: "call it in a folder that you may write to; windlass init --print writes nothing"}
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errReadOnly) {
			e.Code, e.Remedy = sdk.FailedPrecondition, "mend what the message names; windlass init --print writes nothing"
		}
		return e
	}
	defer func() {
		if rerr := os.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	c, err := config.Load(ctx, config.LoadRequest{Env: o.f.Env, Dir: o.f.Dir, ExplicitFile: tmp, KnownVars: o.f.KnownVars})
	if err == nil {
		err = c.Validate(o.f.Drivers())
	}
	if err != nil {
		return fmt.Errorf("init: nothing was written, what would have been isn't valid: %w", err)
	}
	if string(judged) != string(text) {
		if err := os.WriteFile(tmp, text, mode); err != nil {
			return fmt.Errorf("init: %w", err)
		}
	}
	if o.force {
		if err := os.Rename(tmp, path); err != nil {
			return fmt.Errorf("init: %w", err)
		}
		return nil
	}
	switch err := os.Link(tmp, path); {
	case errors.Is(err, fs.ErrExist):
		return isThere(path)
	case err != nil: // the file system has no links
		if err := writeNew(path, text, mode); err != nil {
			return fmt.Errorf("init: %w", err)
		}
	}
	return nil
}

func isThere(path string) error {
	return &sdk.Error{Code: sdk.AlreadyExists, Op: "init", ID: idNoConfirm, Err: fmt.Errorf("%s is there already", path),
		Remedy: "--force writes over it; --print shows what would be written"}
}

// writeNew writes a file that isn't there.
func writeNew(path string, text []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
