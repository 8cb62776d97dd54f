package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/driver/all"
)

// commandDocs is the reference of the command line: a page and a manual page
// for each command, the errors, and the schema of --json.
func commandDocs() []document {
	docs := []document{
		{"docs/cli/json-schema.json", cli.JSONSchema},
		{"docs/cli/errors.md", catalog},
		{"docs/cli/README.md", commandIndex},
	}
	for _, cmd := range commands() {
		docs = append(docs,
			document{"docs/cli/" + pageOf(cmd), func() ([]byte, error) { return page(cmd) }},
			document{"docs/cli/man/" + strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1", func() ([]byte, error) { return manual(cmd) }})
	}
	return docs
}

// commands lists every command that people may use.
func commands() []*cobra.Command {
	root := cli.NewRoot(&cli.Factory{Drivers: all.Drivers})
	root.DisableAutoGenTag = true
	var out []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.IsAdditionalHelpTopicCommand() {
			return
		}
		c.DisableAutoGenTag = true
		out = append(out, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return out
}

func pageOf(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "_") + ".md" }

func page(c *cobra.Command) ([]byte, error) {
	b := bytes.NewBufferString(header)
	err := doc.GenMarkdown(c, b)
	return trimLines(b.Bytes()), err
}

func manual(c *cobra.Command) ([]byte, error) {
	var b bytes.Buffer
	// The date is fixed, so that the pages change only with the commands.
	when := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "Windlass", Manual: "Windlass", Date: &when}, &b)
	return trimLines(b.Bytes()), err
}

// trimLines takes blanks off the ends of lines, and blank lines off the end.
func trimLines(b []byte) []byte {
	lines := strings.Split(string(b), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return []byte(strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n")
}

func catalog() ([]byte, error) {
	var b strings.Builder
	b.WriteString(header + "# Errors\n\nEvery error has a stable ID, which stands in its message and in `--json`.\n`windlass explain ID` says the same as this page.\n")
	for _, e := range cli.Catalog() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", e.ID, e.Title)
		for _, text := range []string{e.Cause, e.Remedy} {
			if text != "" {
				b.WriteString("\n" + text + "\n")
			}
		}
	}
	return []byte(b.String()), nil
}

func commandIndex() ([]byte, error) {
	var rows [][]string
	for _, c := range commands() {
		rows = append(rows, []string{fmt.Sprintf("[%s](%s)", c.CommandPath(), pageOf(c)), c.Short})
	}
	return render("commands.md", map[string]string{"Commands": table([]string{"Command", "What it does"}, rows)})
}
