package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// overviewTime bounds how long `windlass` alone looks for an engine.
const overviewTime = 500 * time.Millisecond

// overview is `windlass` alone: what was found here, and one command that
// works. It makes nothing.
func overview(ctx context.Context, f *Factory) error {
	s := f.Streams
	c, err := f.cfg()
	if err != nil {
		return err
	}
	t := &fields{s: s}
	t.add("Windlass", f.Build.Version+", runs one-off jobs on the runtimes that you have")
	file := "none; windlass init writes one"
	if len(c.Files) > 0 {
		file = strings.Join(c.Files, ", ")
	}
	t.add("Config", file)
	t.add("Providers", strings.Join(providerWords(ctx, f, c), ", ")+"; windlass provider check tries them")
	if c.DefaultProvider != "" {
		t.add("Default", c.DefaultProvider)
	}
	t.add("Runs", runWords(ctx, f))
	if err := t.print(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "\nTry:  %s\nMore: windlass --help, windlass doctor\n", s.out(styleBold, suggestion(c, f.Drivers())))
	return err
}

// answerTime bounds how long `windlass` alone waits for engines to answer.
const answerTime = 200 * time.Millisecond

// providerWords names the providers, and says of engines whether they answer:
// docker is there without an entry, and may well not run.
func providerWords(ctx context.Context, f *Factory, c *config.Config) []string {
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	names := c.ProviderNames()
	out := make([]string, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		p, err := c.Provider(name)
		if err != nil {
			continue
		}
		out[i] = name
		if p.Kind != name {
			out[i] += " (" + p.Kind + ")"
		}
		if p.Kind != "docker" || f.Answers == nil {
			continue
		}
		wg.Go(func() {
			if f.Answers(ctx, c, name) {
				out[i] += " (answers)"
			} else {
				out[i] += " (doesn't answer)"
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func runWords(ctx context.Context, f *Factory) string {
	ctx, stop := context.WithTimeout(ctx, overviewTime)
	defer stop()
	store, err := f.ledger(ctx)
	if sdk.CodeOf(err) == sdk.NotFound {
		return "none yet"
	}
	if err != nil {
		return "the ledger can't be read; windlass doctor says why"
	}
	open, text := 0, ""
	for r, err := range store.Runs(ctx, ledger.RunFilter{Open: true}) {
		if err != nil {
			return "the ledger can't be read; windlass doctor says why"
		}
		if isRun(r) {
			open++
		}
	}
	text = count(open, "open", "open")
	for r, err := range store.Runs(ctx, ledger.RunFilter{}) {
		if err != nil {
			break
		}
		if isRun(r) {
			text += fmt.Sprintf("; the last: %s, %s, %s", r.ID.Short(), stateWords(r), ago(f.Now(), r.RequestedAt))
			break
		}
	}
	return text
}

// suggestion is a command that works here without anything else.
func suggestion(c *config.Config, drivers []sdk.Driver) string {
	const hello = "sh -c 'echo hello; exit 3'"
	if slices.ContainsFunc(drivers, func(d sdk.Driver) bool { return d.Kind == "local" }) {
		if c.DefaultProvider != "" && c.DefaultProvider != "local" {
			return "windlass run --on local -- " + hello
		}
		return "windlass run -- " + hello
	}
	return "windlass provider ls --kinds"
}
