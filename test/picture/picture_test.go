package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
)

// shown is what a terminal of 20 columns shows of what was written.
func shown(t *testing.T, wrote string) [][]piece {
	t.Helper()
	screen := vt.NewEmulator(20, 4)
	defer func() { _ = screen.Close() }()
	if _, err := screen.WriteString(wrote); err != nil {
		t.Fatal(err)
	}
	return rowsOf(screen)
}

func TestPicture(t *testing.T) {
	rows := shown(t, "\x1b[1mRUN\x1b[0m  \x1b[31mfailed <3>\x1b[39m\r\n\r\n\x1b[2mdim & \x1b[22mplain\x1b[K")
	svg := string(draw(rows, themeAuto))
	for _, want := range []string{`class="b">RUN<`, `class="c1">failed &lt;3&gt;<`, `x="58.0"`, `class="d">dim &amp; <`, `>plain<`, `height="89"`, "prefers-color-scheme"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	for theme, want := range map[theme]string{themeDark: "#0d1117", themeLight: "#f6f8fa"} {
		if svg := string(draw(rows, theme)); !strings.Contains(svg, want) || strings.Contains(svg, "prefers") {
			t.Errorf("%s: %s", theme, svg)
		}
	}
}

// A terminal is read as people see it: what was written over is gone, a long line goes
// on below, what has scrolled away is there, and wide characters take two cells.
func TestRows(t *testing.T) {
	for wrote, want := range map[string]string{
		"abc\rX":                               "Xbc\n",
		strings.Repeat("x", 22):                strings.Repeat("x", 20) + "\nxx\n",
		"1\r\n2\r\n3\r\n4\r\n5\r\n6":           "1\n2\n3\n4\n5\n6\n",
		"日本|":                                  "日本|\n",
		"\x1b[?1049h\x1b[Hfull":                "full\n\n\n\n",
		"\x1b[?1049h\x1b[Hfull\x1b[?1049lback": "back\n",
	} {
		if got := textOf(shown(t, wrote)); got != want {
			t.Errorf("%q: got %q, want %q", wrote, got, want)
		}
	}
	if row := shown(t, "日本|")[0]; row[len(row)-1].col != 4 {
		t.Errorf("%+v", row)
	}
}

// A program is run on a terminal of the size that is asked for, which can be changed,
// and typed to.
func TestPlay(t *testing.T) {
	out := filepath.Join(t.TempDir(), "{theme}.svg")
	// A trap of WINCH may be run too late: what comes right before a read waits for its end.
	script := `stty size; printf 'ready\n'; while [ "$(stty size)" = '10 40' ]; do :; done; stty size; read line; echo "got $line"; exit 3`
	err := run(t.Context(), []string{"-size", "40x10", "-o", out, "-wait", "ready", "-resize", "50x12", "-wait", "12 50", "-type", `word\r`, "--", "bash", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	for _, theme := range []string{"dark", "light"} {
		svg, err := os.ReadFile(strings.ReplaceAll(out, "{theme}", theme))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{">10 40<", ">12 50<", ">got word<"} {
			if !bytes.Contains(svg, []byte(want)) {
				t.Errorf("%s: no %s in\n%s", theme, want, svg)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"is missing":               {"-size", "80x24"},
		"no COLUMNSxROWS":          {"-size", "80", "--", "true"},
		"auto, dark or light":      {"-theme", "pink", "--", "true"},
		"not done after":           {"-limit", "200ms", "-wait", "never", "--", "sleep", "60"},
		`wait for "never": EOF`:    {"-wait", "never", "--", "echo", "other words"},
		"on the screen is:\nother": {"-wait", "never", "--", "echo", "other words"},
		"start /nowhere":           {"--", "/nowhere"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("told to end")
	time.AfterFunc(50*time.Millisecond, func() { cancel(late) })
	if err := run(ctx, []string{"--", "sleep", "60"}); !errors.Is(err, late) {
		t.Error(err)
	}
}

// Whatever is written to a terminal is drawn as XML.
func FuzzPicture(f *testing.F) {
	f.Add("\x1b[1mRUN\x1b[0m <&>\r\n")
	f.Add("\x1b[7m日本\x1b[38;5;200m\x00\u202e\x1b[999C")
	f.Fuzz(func(t *testing.T, text string) {
		for d := xml.NewDecoder(bytes.NewReader(draw(shown(t, text), themeAuto))); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}
