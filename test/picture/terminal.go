package main

import (
	"image/color"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// style is how a piece of text looks.
type style struct {
	bold, dim, reverse bool
	// colour is the index of one of a terminal's sixteen colours, or none; other
	// colours are drawn as none and named by textOf's caller.
	colour int
}

const none = -1

// piece is a stretch of one style from a column on.
type piece struct {
	style
	col, width int
	text       string
}

// rowsOf reads a terminal: what has scrolled out of it, and what stands on it, without
// the empty rows below.
func rowsOf(t *vt.Emulator) [][]piece {
	var rows [][]piece
	if !t.IsAltScreen() {
		for y := range t.ScrollbackLen() {
			rows = append(rows, rowOf(t.Width(), func(x int) *uv.Cell { return t.ScrollbackCellAt(x, y) }))
		}
	}
	for y := range t.Height() {
		rows = append(rows, rowOf(t.Width(), func(x int) *uv.Cell { return t.CellAt(x, y) }))
	}
	if t.IsAltScreen() {
		return rows
	}
	for len(rows) > 0 && len(rows[len(rows)-1]) == 0 {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// rowOf is a row in pieces. A character that isn't plain is a piece of its own, since
// fonts disagree on its width.
func rowOf(cols int, at func(x int) *uv.Cell) []piece {
	var row []piece
	for x := 0; x < cols; {
		c := at(x)
		if c == nil || c.Width == 0 {
			x++
			continue
		}
		text := c.Content
		if text == "" {
			text = " "
		}
		p := piece{styleOf(c.Style), x, max(c.Width, 1), text}
		if last := len(row) - 1; last >= 0 && row[last].style == p.style && row[last].col+row[last].width == x && ascii(text) && ascii(row[last].text) {
			row[last].text += text
			row[last].width += p.width
		} else {
			row = append(row, p)
		}
		x += max(c.Width, 1)
	}
	for len(row) > 0 && !row[len(row)-1].reverse {
		last := &row[len(row)-1]
		if last.text = strings.TrimRight(last.text, " "); last.text != "" {
			last.width = min(last.width, cells(last.text, last.width))
			break
		}
		row = row[:len(row)-1]
	}
	return row
}

// cells is the width of a text: its length where it is plain, else what it had.
func cells(text string, had int) int {
	if ascii(text) {
		return len(text)
	}
	return had
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func styleOf(s uv.Style) style {
	return style{bold: s.Attrs&uv.AttrBold != 0, dim: s.Attrs&uv.AttrFaint != 0, reverse: s.Attrs&uv.AttrReverse != 0, colour: indexOf(s.Fg)}
}

// indexOf is the index of a colour of the sixteen, or none.
func indexOf(c color.Color) int {
	switch c := c.(type) {
	case ansi.BasicColor:
		return int(c)
	case ansi.IndexedColor:
		if c < 16 {
			return int(c)
		}
	}
	return none
}

// textOf is what a person reads, in lines.
func textOf(rows [][]piece) string {
	var b strings.Builder
	for _, row := range rows {
		col := 0
		for _, p := range row {
			b.WriteString(strings.Repeat(" ", max(p.col-col, 0)) + p.text)
			col = p.col + p.width
		}
		b.WriteByte('\n')
	}
	return b.String()
}
