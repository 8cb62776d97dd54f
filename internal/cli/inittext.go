package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/discover"
)

// initHead tells a reader how the file is meant. A line that begins with two signs is
// words; any other that begins with one is configuration, valid without it.
const initHead = `## Configuration of Windlass for this folder and those below it. All of it is
## optional; windlass config schema describes every key, and windlass config show
## --origin says what is in force. Lines with ## are words. Those with one # are
## settings: take the sign away, and the space behind it, where you want them.

`

const initTail = `
## How long captured output is kept after a run has ended.
# retention:
#   logs: 30d
`

// initText is a file that is valid as it stands, also with any of its entries
// uncommented.
func initText(standard string, seen discover.Result, used map[string]bool) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(initHead)
	b.WriteString("## Where jobs run without --on. Unset, an image means docker, none means local.\n")
	if standard != "" {
		if err := block(&b, "", yaml.MapSlice{{Key: "default_provider", Value: standard}}, true); err != nil {
			return nil, err
		}
	} else {
		b.WriteString("# default_provider: docker\n")
	}
	b.WriteString("\n## Providers by name. local and docker are there without an entry.\nproviders:\n")
	for _, x := range seen.Troubles {
		words(&b, "  ", clean(x.File)+" "+clean(x.Err.Error())+", so that nothing was taken from it.")
	}
	for _, x := range seen.Found {
		if err := foundEntry(&b, x, used[x.Name]); err != nil {
			return nil, err
		}
	}
	if len(seen.Found) == 0 {
		words(&b, "  ", "Nothing else was found here. An engine elsewhere, say:")
		err := foundEntry(&b, discover.Found{Name: "builder", Kind: "docker", Config: []discover.Setting{{Name: "host", Value: "tcp://build.example:2376", Guess: true}}}, false)
		if err != nil {
			return nil, err
		}
	}
	b.WriteString(`
  ## Each may also have:
  ##   poll_interval: 2s   time between two looks at a job
  ##   call_timeout: 30s   bounds one call to the backend
  ##   max_in_flight: 4    further runs wait for their turn
`)
	b.WriteString(initTail)
	return b.Bytes(), nil
}

// foundEntry writes a provider, as a comment unless it is used.
func foundEntry(b *bytes.Buffer, x discover.Found, used bool) error {
	if x.From != "" {
		b.WriteByte('\n')
		words(b, "  ", "Found: "+clean(x.From)+".")
	}
	for _, n := range x.Notes {
		words(b, "  ", clean(n))
	}
	if names := guesses(x); len(names) > 0 {
		words(b, "  ", "Put your own: "+strings.Join(names, ", ")+".")
	}
	entry := yaml.MapSlice{{Key: "kind", Value: x.Kind}}
	if x.Credentials != "" {
		entry = append(entry, yaml.MapItem{Key: "credentials", Value: string(x.Credentials)})
	}
	settings := yaml.MapSlice{}
	for _, s := range x.Config {
		settings = append(settings, yaml.MapItem{Key: s.Name, Value: s.Value})
	}
	if len(settings) > 0 {
		entry = append(entry, yaml.MapItem{Key: "config", Value: settings})
	}
	return block(b, "  ", yaml.MapSlice{{Key: x.Name, Value: entry}}, used)
}

// block writes YAML line by line, as comments unless it is used.
func block(b *bytes.Buffer, indent string, v yaml.MapSlice, used bool) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	if !used {
		indent = "# " + indent
	}
	for line := range strings.Lines(string(text)) {
		b.WriteString(indent + line)
	}
	return nil
}

// words writes a comment of words, which stays one when a # is taken away.
func words(b *bytes.Buffer, indent, text string) {
	const width = 86
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > width {
			fmt.Fprintf(b, "%s## %s\n", indent, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+w, " ")
	}
	fmt.Fprintf(b, "%s## %s\n", indent, line)
}

// guesses are the settings whose values only stand for the user's.
func guesses(x discover.Found) []string {
	var out []string
	for _, s := range x.Config {
		if s.Guess {
			out = append(out, s.Name)
		}
	}
	return out
}
