package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPicture(t *testing.T) {
	rows, err := parse(strings.NewReader("\x1b[1mRUN\x1b[0m  \x1b[31mfailed <3>\x1b[39m\r\n\r\n\x1b[2mdim & \x1b[22mplain"))
	if err != nil {
		t.Fatal(err)
	}
	svg := string(draw(rows))
	for _, want := range []string{`class="b">RUN<`, `class="c1">failed &lt;3&gt;<`, `x="58.0"`, `class="d">dim &amp; <`, `>plain<`, `height="89"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

// What can't be drawn truly is told of, with its line.
func TestPictureRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\x1b[2K":  "line 2: escape sequence",
		"\x1b[4m":     "style 4",
		"\x1b[":       "EOF",
		"\x1b]0;x\a":  "escape sequence",
		"a\b":         "control character",
		"\x1b[1;;31m": "",
	} {
		if _, err := parse(strings.NewReader(text)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever is parsed is drawn as XML.
func FuzzPicture(f *testing.F) {
	f.Add("\x1b[1mRUN\x1b[0m <&>\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for d := xml.NewDecoder(bytes.NewReader(draw(rows))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
