package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// The measures of a picture, in pixels of the SVG.
const (
	charWidth  = 8.4
	lineHeight = 19
	margin     = 16
)

// theme is which page a picture is for.
type theme string

const (
	themeAuto  theme = "auto"
	themeDark  theme = "dark"
	themeLight theme = "light"
)

// Both pages have the colours of terminals that are in use: the light one those of
// GitHub's, the dark one too. internal/cli's test holds more palettes against each other.
const (
	fonts = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}.b{font-weight:700}
`
	lightSheet = `text{fill:#1f2328}rect{fill:#f6f8fa;stroke:#d0d7de}.d{fill:#59636e}.r{fill:#1f2328;stroke:none}.i{fill:#f6f8fa}
.c1{fill:#cf222e}.c2{fill:#1a7f37}.c3{fill:#9a6700}.c4{fill:#0969da}.c5{fill:#8250df}.c6{fill:#1b7c83}`
	darkSheet = `text{fill:#e6edf3}rect{fill:#0d1117;stroke:#3d444d}.d{fill:#9198a1}.r{fill:#e6edf3;stroke:none}.i{fill:#0d1117}
.c1{fill:#ff7b72}.c2{fill:#3fb950}.c3{fill:#d29922}.c4{fill:#58a6ff}.c5{fill:#bc8cff}.c6{fill:#39c5cf}`
)

func (t theme) sheet() string {
	switch t {
	case themeDark:
		return fonts + darkSheet
	case themeLight:
		return fonts + lightSheet
	}
	return fonts + lightSheet + "\n@media(prefers-color-scheme:dark){" + darkSheet + "}"
}

// draw is rows as an SVG. Each piece stands at its own column, so that a font of
// another width moves nothing below anything else.
func draw(rows [][]piece, t theme) []byte {
	w := new(bytes.Buffer)
	wide := 0
	for _, row := range rows {
		for _, p := range row {
			wide = max(wide, p.col+p.width)
		}
	}
	width, height := int(float64(wide)*charWidth)+2*margin, len(rows)*lineHeight+2*margin
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n<style>%s</style>\n", width, height, width, height, t.sheet())
	fmt.Fprintf(w, "<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", width-1, height-1)
	for i, row := range rows {
		for _, p := range row {
			x, y := margin+float64(p.col)*charWidth, margin+i*lineHeight
			if p.reverse {
				fmt.Fprintf(w, "<rect class=\"r\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", x, y, float64(p.width)*charWidth, lineHeight)
			}
			if strings.TrimSpace(p.text) != "" {
				fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\" textLength=\"%.1f\"%s>%s</text>\n", x, y+lineHeight*3/4, float64(p.width)*charWidth, p.class(), escaped(p.text))
			}
		}
	}
	fmt.Fprintln(w, "</svg>")
	return w.Bytes()
}

// class is the attribute that names a style's classes, or nothing.
func (s style) class() string {
	var names []string
	if s.bold {
		names = append(names, "b")
	}
	switch {
	case s.reverse:
		names = append(names, "i")
	case s.colour > 0 && s.colour%8 > 0 && s.colour%8 < 7: // black and white are the page's own
		names = append(names, fmt.Sprintf("c%d", s.colour%8))
	case s.dim, s.colour == 8:
		names = append(names, "d")
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
