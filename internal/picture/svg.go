package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The measures of a picture, in pixels of the SVG.
const (
	charWidth  = 8.4
	lineHeight = 19
	margin     = 16
)

// sheet has the colours of a light page, and those of a dark one.
const sheet = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
rect{fill:#f6f8fa;stroke:#d0d7de}
.b{font-weight:700}.d{fill:#59636e}
.c1{fill:#cf222e}.c2{fill:#1a7f37}.c3{fill:#9a6700}.c4{fill:#0969da}.c5{fill:#8250df}.c6{fill:#1b7c83}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#0d1117;stroke:#3d444d}.d{fill:#9198a1}
.c1{fill:#ff7b72}.c2{fill:#3fb950}.c3{fill:#d29922}.c4{fill:#58a6ff}.c5{fill:#bc8cff}.c6{fill:#39c5cf}}`

// draw is rows as an SVG. Each piece stands at its own column, so that a font of
// another width moves nothing below anything else.
func draw(rows [][]piece) []byte {
	w := new(bytes.Buffer)
	wide := 0
	for _, row := range rows {
		wide = max(wide, columns(row))
	}
	width, height := int(float64(wide)*charWidth)+2*margin, len(rows)*lineHeight+2*margin
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<style>%s</style>\n", width, height, width, height, sheet)
	fmt.Fprintf(w, "<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", width-1, height-1)
	for i, row := range rows {
		y, column := margin+i*lineHeight+lineHeight*3/4, 0
		for _, p := range row {
			n := utf8.RuneCountInString(p.text)
			if strings.TrimSpace(p.text) != "" {
				fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\"%s>%s</text>\n",
					margin+float64(column)*charWidth, y, float64(n)*charWidth, p.class(), escaped(p.text))
			}
			column += n
		}
	}
	fmt.Fprintln(w, "</svg>")
	return w.Bytes()
}

func columns(row []piece) int {
	n := 0
	for _, p := range row {
		n += utf8.RuneCountInString(p.text)
	}
	return n
}

// class is the attribute that names a style's classes, or nothing.
func (s style) class() string {
	var names []string
	if s.bold {
		names = append(names, "b")
	}
	if s.dim {
		names = append(names, "d")
	}
	if s.colour > 0 && s.colour < 7 { // black and white are the page's own
		names = append(names, fmt.Sprintf("c%d", s.colour))
	}
	if len(names) == 0 {
		return ""
	}
	return ` class="` + strings.Join(names, " ") + `"`
}

func escaped(s string) string {
	var b strings.Builder
	// A strings.Builder takes everything.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
