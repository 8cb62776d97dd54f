package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// bundlePartBytes bounds a part of a bundle; of more the end is kept.
	bundlePartBytes = 1 << 20
	// bundleRuns and bundleEvents are how many of the newest are in it.
	bundleRuns   = 200
	bundleEvents = 1000
	// bundleFiles is how many files of the state folder are listed.
	bundleFiles = 5000
	// bundleTime bounds what doctor asks of providers.
	bundleTime = 20 * time.Second
)

// bundlePart is a file in a bundle.
type bundlePart struct {
	name, what string
	data       []byte
}

// bundle collects the parts. What fails says so in its place: a bundle is asked for
// where something is broken.
func (f *Factory) bundle(ctx context.Context) []bundlePart {
	red := f.bundleRedactor()
	dir, dirErr := f.bundleState()
	var out []bundlePart
	for _, p := range []struct {
		name, what string
		get        func(io.Writer) error
	}{
		{"version.json", "version of the program and system", func(w io.Writer) error { return f.bundleVersion(w) }},
		{"config.json", "settings in force and where they come from; sensitive ones are redacted", func(w io.Writer) error { return f.bundleConfig(w) }},
		{"variables.txt", "names of the variables, without values", func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.Join(f.Env.Names(), "\n"))
			return err
		}},
		{"doctor.json", "what doctor finds", func(w io.Writer) error {
			ctx, stop := context.WithTimeout(ctx, bundleTime)
			defer stop()
			return encode(w, (&doctorOptions{f: f}).checks(ctx), false)
		}},
		{"runs.json", fmt.Sprintf("how the newest %d actions stand, without names, targets, specs and messages", bundleRuns), func(w io.Writer) error { return f.bundleRuns(ctx, w) }},
		{"events.txt", fmt.Sprintf("the newest %d events of the ledger, without what they say", bundleEvents), func(w io.Writer) error { return f.bundleEvents(ctx, w) }},
		{"keeper.log", "the end of the keeper's log", func(w io.Writer) error {
			if dirErr != nil {
				return dirErr
			}
			return copyEnd(w, filepath.Join(dir, "keeper.log"))
		}},
		{"files.txt", "names, sizes and modes of the files in the state folder", func(w io.Writer) error {
			if dirErr != nil {
				return dirErr
			}
			return listFiles(w, dir)
		}},
	} {
		var b bytes.Buffer
		if err := p.get(&b); err != nil {
			_, _ = fmt.Fprintf(&b, "\ncould not be had: %v\n", err)
		}
		data := []byte(red.Redact(b.String()))
		if over := len(data) - bundlePartBytes; over > 0 {
			data = append(fmt.Appendf(nil, "[%d bytes before this are left out]\n", over), data[over:]...)
		}
		out = append(out, bundlePart{p.name, p.what, data})
	}
	return out
}

// bundleRedactor knows the value of every variable but the well-known ones, since which
// of them are secrets isn't told by their names; and what the configuration hides, with
// all that plugins are told: their last words may stand in the keeper's log.
func (f *Factory) bundleRedactor() *secret.Redactor {
	harmless := []string{"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "HOSTNAME", "LANG", "TZ", "TERM", "EDITOR", "PAGER", "TMPDIR", "SHLVL",
		"WINDLASS_STATE", "WINDLASS_CONFIG", "WINDLASS_KEEPER", "WINDLASS_ACTOR", "WINDLASS_OWNER", "WINDLASS_DEFAULT_PROVIDER", "WINDLASS_LOG_MAX_BYTES"}
	red := &secret.Redactor{}
	for _, v := range f.Env.Vars() {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(harmless, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "WINDLASS_RETENTION_") {
			continue
		}
		red.Know(sdk.NewSecretValue([]byte(value)))
	}
	if c, err := f.cfg(); err == nil {
		for _, v := range c.Hidden(f.Drivers()) {
			red.Know(v)
		}
	}
	return red
}

// bundleState is the state folder, whether or not the configuration can be read.
func (f *Factory) bundleState() (string, error) {
	c, err := f.cfg()
	if err == nil {
		return c.StatePath()
	}
	c, lerr := config.Load(context.Background(), config.LoadRequest{Env: config.EnvOf([]string{
		"WINDLASS_STATE=" + f.Env.Get("WINDLASS_STATE"), "XDG_STATE_HOME=" + f.Env.Get("XDG_STATE_HOME"), "HOME=" + f.Env.Get("HOME")}), Dir: f.Dir, ExplicitFile: os.DevNull})
	if lerr != nil {
		return "", err
	}
	return c.StatePath()
}

func (f *Factory) bundleVersion(w io.Writer) error {
	return encode(w, map[string]string{"version": f.Build.Version, "commit": f.Build.Commit, "date": f.Build.Date,
		"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}, false)
}

func (f *Factory) bundleConfig(w io.Writer) error {
	c, err := f.cfg()
	if err != nil {
		return err
	}
	var views []SettingView
	for _, r := range c.Show(f.Drivers()) {
		views = append(views, SettingView{Name: r.Name, Value: r.Value, Origin: r.Origin.String()})
	}
	return encode(w, views, false)
}

// bundleRuns writes what became of runs. What people typed and providers said isn't in
// it: arguments, names, targets and messages may hold anything.
func (f *Factory) bundleRuns(ctx context.Context, w io.Writer) error {
	store, err := f.bundleStore(ctx)
	if err != nil {
		return err
	}
	views := []RunView{}
	for r, err := range store.Runs(ctx, ledger.RunFilter{Limit: bundleRuns}) {
		if err != nil {
			return err
		}
		v := viewRun(r, nil)
		v.Name, v.Target, v.RequestID, v.CancelWhy, v.Message = "", "", "", "", ""
		v.Spec, v.Before, v.Outcome, v.Next = nil, nil, nil, nil
		views = append(views, v)
	}
	return encode(w, views, false)
}

func (f *Factory) bundleEvents(ctx context.Context, w io.Writer) error {
	store, err := f.bundleStore(ctx)
	if err != nil {
		return err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	for e, err := range store.Events(ctx, ledger.EventFilter{After: head.Count - bundleEvents}) {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%d %s %s %d %s\n", e.Seq, e.At.UTC().Format(time.RFC3339Nano), e.Run, e.Attempt, e.Kind); err != nil {
			return err
		}
	}
	return nil
}

// bundleStore opens the ledger for looking, in whatever state it is.
func (f *Factory) bundleStore(ctx context.Context) (ledger.Store, error) {
	f.mu.Lock()
	store := f.store
	f.mu.Unlock()
	if store != nil {
		return store, nil
	}
	c, err := f.cfg()
	if err != nil {
		return nil, err
	}
	dir, err := c.StatePath()
	if err != nil {
		return nil, err
	}
	if !f.HasStore(dir) {
		return nil, fmt.Errorf("there is no ledger in %s", dir)
	}
	if store, err = f.openStore(ctx, c, ToInspect); err != nil {
		return nil, err
	}
	f.keep(store)
	return store, nil
}

// copyEnd copies the last bytes of a file.
func copyEnd(w io.Writer, name string) (err error) {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(file, max(0, st.Size()-bundlePartBytes), bundlePartBytes))
	return err
}

// listFiles lists a folder, bounded.
func listFiles(w io.Writer, dir string) error {
	n := 0
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			_, err = fmt.Fprintf(w, "? %v\n", err)
			return err
		}
		if n++; n > bundleFiles {
			_, _ = fmt.Fprintln(w, "[further files are left out]")
			return filepath.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it went meanwhile
		}
		rel, _ := filepath.Rel(dir, path)
		_, err = fmt.Fprintf(w, "%s %10d %s %s\n", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), rel)
		return err
	})
}
