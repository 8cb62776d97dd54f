package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table prints rows in columns. On a terminal it fits the width by shortening
// one column; in a pipe nothing is cut.
type table struct {
	head []string
	rows [][]cell
	// flex is the column that gives way, -1 for none.
	flex int
	// below: where the rows are too long, their last column is put on lines of its own
	// below them. Then flex is cut in its middle, if need be: names differ at the end.
	below bool
	// middle: flex is cut in its middle, if need be.
	middle bool
}

// gap is how far columns are apart.
const gap = 2

type cell struct {
	text  string
	style style
}

func plain(text string) cell { return cell{clean(text), stylePlain} }

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// write prints the table. color paints, width 0 cuts nothing.
func (t *table) write(w io.Writer, width int, color bool) error {
	widths := make([]int, len(t.head))
	for i, h := range t.head {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	cut, below := shorten, false
	if t.middle {
		cut = shortenMiddle
	}
	if width > 0 && t.flex >= 0 {
		total := gap * (len(widths) - 1)
		for _, n := range widths {
			total += n
		}
		if t.below && total > width {
			last := len(widths) - 1
			total -= gap + widths[last]
			widths, cut, below = widths[:last], shortenMiddle, true
		}
		if over := total - width; over > 0 {
			widths[t.flex] = max(widths[t.flex]-over, 8)
		}
	}
	var b strings.Builder
	line := func(cells []cell) {
		for i, c := range cells[:len(widths)] {
			text := c.text
			if width > 0 && i == t.flex {
				text = cut(text, widths[i])
			}
			b.WriteString(paint(c.style, text, color))
			if i < len(widths)-1 {
				b.WriteString(strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(text), 0)+gap))
			}
		}
		b.WriteByte('\n')
	}
	head := make([]cell, len(t.head))
	for i, h := range t.head {
		head[i] = cell{h, styleBold}
	}
	line(head)
	for _, r := range t.rows {
		line(r)
		if last := r[len(r)-1]; below && last.text != "" {
			b.WriteString(strings.Repeat(" ", 2*gap) + paint(last.style, shorten(last.text, width-2*gap), color) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shorten cuts text to n characters, the last of them an ellipsis.
func shorten(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	r := []rune(text)
	return string(r[:max(n-1, 0)]) + "…"
}

// shortenMiddle cuts text to n characters, one in the middle of them an ellipsis.
func shortenMiddle(text string, n int) string {
	r := []rune(text)
	if len(r) <= n || n < 3 {
		return shorten(text, n)
	}
	head := (n - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}

// print writes the table on stdout as it suits it.
func (t *table) print(s *Streams) error {
	width := 0
	if s.OutTerminal {
		width = s.Width
	}
	return t.write(s.Out, width, s.OutTerminal && !s.NoColor)
}

// least is the width of the table on which its flexible column has n characters.
func (t *table) least(n int) int {
	total := n
	for i, h := range t.head {
		if i == t.flex {
			continue
		}
		w := utf8.RuneCountInString(h)
		for _, r := range t.rows {
			w = max(w, utf8.RuneCountInString(r[i].text))
		}
		total += gap + w
	}
	return total
}

// drop leaves out a column.
func (t *table) drop(col int) {
	t.head = append(t.head[:col:col], t.head[col+1:]...)
	for i, r := range t.rows {
		t.rows[i] = append(r[:col:col], r[col+1:]...)
	}
	if t.flex > col {
		t.flex--
	}
}
