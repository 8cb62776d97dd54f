package cli

import (
	"encoding/base64"
	"io"
	"strings"
	"unicode/utf8"
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

func (t *fields) print() error {
	width := 0
	for _, r := range t.rows {
		width = max(width, utf8.RuneCountInString(r.name))
	}
	var b strings.Builder
	for _, r := range t.rows {
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(r.name)+2)
		b.WriteString(t.s.out(styleBold, r.name) + pad)
		for i, line := range t.wrap(r.value, width+2) {
			if i > 0 {
				b.WriteString("\n" + strings.Repeat(" ", width+2))
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
	room := t.s.Width - indent
	if !t.s.OutTerminal || room < 20 {
		return []string{text}
	}
	return wrapText(text, room)
}

func wrapText(text string, room int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
