package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the most columns that help takes: longer lines are hard to read.
const helpWidth = 100

// usage shows how commands are used: on a terminal nothing is broken within a word. rank
// is the order of the commands.
type usage struct {
	s    *Streams
	rank map[*cobra.Command]int
}

// width is that of help on stdout; 0 breaks nothing, which suits a search in a pipe.
func (u *usage) width() int {
	if !u.s.OutTerminal {
		return 0
	}
	return min(u.s.Width, helpWidth)
}

// help writes the help of a command.
func (u *usage) help(cmd *cobra.Command, _ []string) {
	// The output is the caller's, who asks it for nothing.
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", u.prose(cmp.Or(cmd.Long, cmd.Short)), cmd.UsageString())
}

// prose breaks paragraphs to the width. What is indented stays as it is.
func (u *usage) prose(text string) string {
	text = strings.TrimSpace(text)
	width := u.width()
	if width == 0 {
		return text
	}
	var out, para []string
	flush := func() {
		if len(para) > 0 {
			out = append(out, wrapText(strings.Join(para, " "), width, 0)...)
			para = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "-") {
			flush()
			out = append(out, line)
			continue
		}
		para = append(para, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// write writes how a command is used.
func (u *usage) write(cmd *cobra.Command) error {
	var b strings.Builder
	section := func(title string) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(u.s.out(styleBold, title) + "\n")
	}
	section("Usage:")
	if cmd.Runnable() {
		b.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("  " + cmd.CommandPath() + " [command]\n")
	}
	if len(cmd.Aliases) > 0 {
		section("Aliases:")
		b.WriteString("  " + cmd.NameAndAliases() + "\n")
	}
	if cmd.HasExample() {
		section("Examples:")
		b.WriteString(cmd.Example + "\n")
	}
	u.commands(&b, cmd, section)
	for _, list := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags:", cmd.LocalFlags()}, {"Flags of every command:", cmd.InheritedFlags()}} {
		if text := strings.TrimRight(list.flags.FlagUsagesWrapped(u.width()), " \n"); text != "" {
			section(list.title)
			b.WriteString(text + "\n")
		}
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n" + u.prose(fmt.Sprintf("Use \"%s [command] --help\" for more information about a command.", cmd.CommandPath())) + "\n")
	}
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// commands writes a command's commands by their groups.
func (u *usage) commands(b *strings.Builder, cmd *cobra.Command, section func(string)) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	list := slices.Clone(cmd.Commands())
	slices.SortStableFunc(list, func(a, b *cobra.Command) int { return cmp.Compare(u.rank[a], u.rank[b]) })
	groups := slices.Concat(cmd.Groups(), []*cobra.Group{{Title: "Commands:"}})
	for _, g := range groups {
		begun := false
		for _, c := range list {
			if c.GroupID != g.ID || !c.IsAvailableCommand() && c.Name() != "help" {
				continue
			}
			if !begun {
				section(g.Title)
				begun = true
			}
			name := "  " + pad(c.Name(), c.NamePadding()) + " "
			lines := []string{c.Short}
			if width := u.width(); width > 0 {
				lines = wrapText(c.Short, width-cells(name), 0)
			}
			b.WriteString(name + strings.Join(lines, "\n"+strings.Repeat(" ", cells(name))) + "\n")
		}
	}
}
