package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/ledger"
)

// completeTime bounds what a completion may take: a shell waits for it.
const completeTime = 2 * time.Second

type completer = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// complete adds a completer to a flag, which exists.
func complete(cmd *cobra.Command, flag string, c completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c); err != nil {
		panic("complete " + flag + ": " + err.Error())
	}
}

// fixed completes from a list.
func fixed(words ...string) completer {
	return func(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeProviders completes configured providers.
func (f *Factory) completeProviders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := f.cfg()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, name := range c.ProviderNames() {
		if p, err := c.Provider(name); err == nil {
			out = append(out, p.Name+"\t"+p.Kind)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeRuns completes runs by short ID and by name, newest first. several
// allows more than one.
func (f *Factory) completeRuns(several bool, keep func(ledger.Run) bool) completer {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && !several {
			return nil, none
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		store, err := f.ledger(ctx)
		if err != nil {
			return nil, none
		}
		var out []string
		for r, err := range store.Runs(ctx, ledger.RunFilter{Limit: 100}) {
			if err != nil {
				break
			}
			if !isRun(r) || keep != nil && !keep(r) {
				continue
			}
			what := "\t" + string(r.State) + " " + shorten(clean(commandLine(r)), 40)
			if strings.HasPrefix(r.ID.Short(), word) {
				out = append(out, r.ID.Short()+what)
			}
			if r.Name != "" && clean(r.Name) == r.Name && strings.HasPrefix(r.Name, word) {
				out = append(out, r.Name+what)
			}
		}
		return out, none | cobra.ShellCompDirectiveKeepOrder
	}
}

func openRun(r ledger.Run) bool  { return !r.State.Terminal() }
func endedRun(r ledger.Run) bool { return r.State.Terminal() }

// newCompletion prints the completion script of a shell.
func newCompletion(f *Factory) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a completion script for a shell",
		Long: `Print a completion script. It completes commands, flags, providers, runs and
profiles. Bash needs no further package.`,
		Example: `  source <(windlass completion bash)
  windlass completion zsh > "${fpath[1]}/_windlass"
  windlass completion fish > ~/.config/fish/completions/windlass.fish`,
		Args:      exactly(1, "the shell (bash, zsh, fish or powershell)"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), f.Streams.Out
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(out, true); err != nil {
					return err
				}
				_, err := io.WriteString(out, bashWords)
				return err
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return usagef(cmd, "no completion for %q: it is one of %s", args[0], strings.Join(shells, ", "))
		},
	}
}
