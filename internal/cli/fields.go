package cli

import (
	"encoding/base64"
	"io"
	"strings"
)

// fields prints names and values, one a line, values in a column.
type fields struct {
	s    *Streams
	rows []fieldRow
}

type fieldRow struct {
	name, value string
	style       style
}

func (t *fields) add(name, value string) { t.styled(name, value, stylePlain) }

func (t *fields) styled(name, value string, st style) {
	if value != "" {
		t.rows = append(t.rows, fieldRow{name, clean(value), st})
	}
}

// wordsOf adds what a provider says in words of its own. What the message has said
// already is told of by name alone.
func (t *fields) wordsOf(says map[string]string, message string) {
	name := "Provider says"
	for _, k := range sortedKeys(says) {
		switch says[k] {
		case "":
			continue
		case message:
			t.add(name, k+": as the message says")
		default:
			t.add(name, k+": "+says[k])
		}
	}
}

func (t *fields) print() error {
	width := 0
	for _, r := range t.rows {
		width = max(width, cells(r.name))
	}
	var b strings.Builder
	before := ""
	for _, r := range t.rows {
		name := r.name
		if name == before {
			name = "" // the rows of one name stand below it
		}
		before = r.name
		b.WriteString(t.s.out(styleBold, name) + strings.Repeat(" ", width-cells(name)+gap))
		for i, line := range t.wrap(r.value, width+gap) {
			if i > 0 {
				b.WriteString("\n" + strings.Repeat(" ", width+gap))
			}
			b.WriteString(t.s.out(r.style, line))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(t.s.Out, b.String())
	return err
}

// wrap breaks a value at blanks so that it fits the terminal; in a pipe a
// value is one line.
func (t *fields) wrap(text string, indent int) []string {
	if room := t.s.Width - indent; t.s.OutTerminal {
		return wrapText(text, max(room, 1), 0)
	}
	return []string{text}
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
