package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

func newDebug(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug bundle",
		Short: "Collect what a report of a defect needs",
		Args:  group,
		RunE:  groupHelp,
	}
	cmd.AddCommand(newDebugBundle(f, nil))
	return cmd
}

type debugBundleOptions struct {
	f      *Factory
	output string
	list   bool
	json   bool
}

// BundleView is what debug bundle wrote.
type BundleView struct {
	File  string           `json:"file,omitzero" doc:"Path of the archive; not with --list, which writes none."`
	Parts []BundlePartView `json:"parts" doc:"The files in it."`
}

// BundlePartView is a file in a bundle.
type BundlePartView struct {
	Name  string `json:"name" doc:"Name in the archive, below windlass-debug/."`
	Bytes int    `json:"bytes" doc:"Its size."`
	What  string `json:"what" doc:"What it holds."`
}

func newDebugBundle(f *Factory, runF func(context.Context, *debugBundleOptions) error) *cobra.Command {
	o := &debugBundleOptions{f: f}
	cmd := &cobra.Command{
		Use:   "bundle [-o FILE]",
		Short: "Write what a report of a defect needs into one file, without secrets",
		Long: `Write an archive with the version, the settings in force, what doctor finds, how the
ledger and the latest runs stand, the end of the keeper's log, the names of variables
and the names and sizes of the files in the state folder. It says what it holds before
it writes, and holds at most some megabytes.

It has no output of jobs, no arguments, no images, no environment of jobs, nothing
that providers said of runs, and no values of variables: whatever value a variable of
this command has is taken out wherever it stands, but for a few well-known ones such
as PATH, and so is what the configuration hides and what is told to plugins. What
can't be had, such as a broken ledger, is said in its place. The keeper's log is in
its own words: look at the archive before you send it.`,
		Example: `  windlass debug bundle --list
  windlass debug bundle -o report.tar.gz --json`,
		Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.output, "output", "o", "", "write to this `file`; without it windlass-debug-TIME.tar.gz")
	fs.BoolVar(&o.list, "list", false, "say what it would hold, and write nothing")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *debugBundleOptions) run(ctx context.Context) error {
	parts := o.f.bundle(ctx)
	view := BundleView{Parts: []BundlePartView{}}
	for _, p := range parts {
		view.Parts = append(view.Parts, BundlePartView{Name: p.name, Bytes: len(p.data), What: p.what})
	}
	if !o.json {
		if err := o.show(view); err != nil {
			return err
		}
	}
	if !o.list {
		if view.File = o.output; view.File == "" {
			view.File = "windlass-debug-" + o.f.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
		}
		if !filepath.IsAbs(view.File) {
			view.File = filepath.Join(o.f.Dir, view.File)
		}
		if err := writeBundle(view.File, parts, o.f.Now()); err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, view)
	}
	if o.list {
		return nil
	}
	_, err := fmt.Fprintln(o.f.Streams.Out, view.File)
	return err
}

// show says what a bundle holds, before it is written.
func (o *debugBundleOptions) show(v BundleView) error {
	t := &table{head: []string{"PART", "BYTES", "WHAT"}, flex: 2, wrap: true}
	for _, p := range v.Parts {
		t.add(plain(p.Name), plain(fmt.Sprint(p.Bytes)), plain(p.What))
	}
	return t.print(o.f.Streams)
}

// writeBundle writes an archive that only its owner can read, and leaves a file that
// is there alone.
func writeBundle(name string, parts []bundlePart, now time.Time) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	return errors.Join(archive(file, parts, now), file.Close())
}

func archive(w io.Writer, parts []bundlePart, now time.Time) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, p := range parts {
		if err := t.WriteHeader(&tar.Header{Name: "windlass-debug/" + p.name, Mode: 0o600, Size: int64(len(p.data)), ModTime: now, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := t.Write(p.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
