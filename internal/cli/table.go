package cli

import (
	"io"
	"slices"
	"strings"
)

// table prints rows in columns. On a terminal no line is wider than it: columns give way
// in the order of gives, then the widest. In a pipe nothing is cut.
type table struct {
	head []string
	rows [][]cell
	// flex is the column that gives way first, -1 for none.
	flex int
	// below: where the rows are too long, their last column is put on lines of its own
	// below them.
	below bool
	// wrap: the last column is prose, of which nothing is cut: it goes on in further lines.
	wrap bool
	// gives are what else gives way, in this order.
	gives []give
}

// give lets a column go down to so many cells; 0 leaves it out.
type give struct {
	column string
	to     int
}

const (
	// gap is how far columns are apart.
	gap = 2
	// flexLeast is what the flexible column keeps while others can give way, columnLeast
	// what every one keeps before the last are left out, wrapLeast what prose needs.
	flexLeast   = 16
	columnLeast = 6
	wrapLeast   = 30
)

type cell struct {
	text  string
	style style
}

func plain(text string) cell { return cell{clean(text), stylePlain} }

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// column is one column as it is printed.
type column struct {
	at    int // in the rows
	width int
}

// isName reports whether a column has names, which are cut in their middle.
func isName(head string) bool {
	switch head {
	case "NAME", "WORKLOAD", "TARGET", "INSTANCE", "IMAGE", "PATH", "WHO", "BY", "OWNER", "ID", "SETTING", "CONFIGURED":
		return true
	}
	return false
}

// natural are all columns, as wide as what stands in them.
func (t *table) natural() []column {
	out := make([]column, len(t.head))
	for i, h := range t.head {
		out[i] = column{i, cells(h)}
	}
	for _, r := range t.rows {
		for i, c := range r {
			out[i].width = max(out[i].width, cells(c.text))
		}
	}
	return out
}

func widthOf(cols []column) int {
	total := gap * (len(cols) - 1)
	for _, c := range cols {
		total += c.width
	}
	return total
}

// fit gives the columns for a width, and whether the last goes below the rows.
func (t *table) fit(width int) (cols []column, below bool) {
	cols = t.natural()
	if width <= 0 || widthOf(cols) <= width {
		return cols, false
	}
	last := len(cols) - 1
	if t.below {
		if cols, below = cols[:last], true; widthOf(cols) <= width {
			return cols, true
		}
	}
	shrink := func(at, least int) {
		for i := range cols {
			if over := widthOf(cols) - width; cols[i].at == at && over > 0 {
				cols[i].width = max(cols[i].width-over, min(cols[i].width, least))
			}
		}
	}
	least := flexLeast
	if t.wrap {
		least = wrapLeast
	}
	shrink(t.flex, least)
	for _, g := range t.gives {
		at := slices.Index(t.head, g.column)
		if at < 0 || widthOf(cols) <= width {
			continue
		}
		if g.to > 0 {
			shrink(at, g.to)
			continue
		}
		cols = slices.DeleteFunc(cols, func(c column) bool { return c.at == at })
		t.regrow(cols, width)
	}
	for widthOf(cols) > width {
		widest := 0
		for i := range cols {
			if cols[i].width > cols[widest].width {
				widest = i
			}
		}
		switch {
		case cols[widest].width > columnLeast:
			cols[widest].width--
		case len(cols) > 1:
			cols = cols[:len(cols)-1]
		default:
			cols[0].width = width
		}
	}
	return cols, below
}

// regrow gives the flexible column what a column that was left out has freed.
func (t *table) regrow(cols []column, width int) {
	for i := range cols {
		if cols[i].at == t.flex {
			cols[i].width = max(cols[i].width, min(cols[i].width+width-widthOf(cols), t.natural()[t.flex].width))
		}
	}
}

// write prints the table. color paints, width 0 cuts nothing.
func (t *table) write(w io.Writer, width int, color bool) error {
	cols, below := t.fit(width)
	var b strings.Builder
	line := func(row []cell) {
		indent := 0 // of the last column
		for i, c := range cols {
			text := row[c.at].text
			last := i == len(cols)-1
			if last && t.wrap && width > 0 && c.at == len(t.head)-1 {
				for j, part := range wrapHard(text, c.width) {
					if j > 0 {
						b.WriteString("\n" + strings.Repeat(" ", indent))
					}
					b.WriteString(paint(row[c.at].style, part, color))
				}
				continue
			}
			if cells(text) > c.width {
				if isName(t.head[c.at]) {
					text = shortenMiddle(text, c.width)
				} else {
					text = shorten(text, c.width)
				}
			}
			b.WriteString(paint(row[c.at].style, text, color))
			if !last {
				b.WriteString(strings.Repeat(" ", c.width-cells(text)+gap))
			}
			indent += c.width + gap
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
			for _, part := range wrapHard(last.text, max(width-2*gap, 1)) {
				b.WriteString(strings.Repeat(" ", 2*gap) + paint(last.style, part, color) + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// print writes the table on stdout as it suits it.
func (t *table) print(s *Streams) error {
	width := 0
	if s.OutTerminal {
		width = s.Width
	}
	return t.write(s.Out, width, s.OutTerminal && !s.NoColor)
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
