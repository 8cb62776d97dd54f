package cli

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// hostile are words that names and messages may have.
func hostile() []string {
	return []string{"", "a", "nightly-report-of-the-whole-company-17", "夜間バッチ-日本語の名前-とても長い", "👩‍👩‍👧‍👦🚀🚀🚀-emoji-🚀🚀🚀🚀",
		"cafe\u0301-cafe\u0301-cafe\u0301-cafe\u0301", "שלום-עולם-שלום-עולם", "evil\x1b[2J\u202egnp.exe\u2066\u2028x",
		"registry.example.com/team/app:1@sha256:" + strings.Repeat("0123456789abcdef", 4), strings.Repeat("many words of prose ", 12)}
}

// TestTableFitsEveryWidth: no line of a table is wider than its terminal, whatever its
// columns, and what stands in them.
func TestTableFitsEveryWidth(t *testing.T) {
	words := hostile()
	for name, tab := range map[string]*table{
		"ps": {head: []string{"RUN", "NAME", "PROVIDER", "STATE", "AGE", "TOOK", "WHAT"}, flex: 6,
			gives: []give{{"NAME", 12}, {"TOOK", 0}, {"WHAT", 12}, {"AGE", 0}}},
		"prose": {head: []string{"FIELD", "TYPE", "DEFAULT", "WHAT"}, flex: 3, wrap: true},
		"below": {head: []string{"NAME", "TYPE", "ID", "OUTPUTS"}, flex: 2, below: true},
		"none":  {head: []string{"A", "B"}, flex: -1},
		"one":   {head: []string{"ONLY"}, flex: 0},
	} {
		for i := range words {
			row := make([]cell, len(tab.head))
			for j := range row {
				row[j] = plain(words[(i+j)%len(words)])
			}
			tab.add(row...)
		}
		for width := 8; width <= 220; width++ {
			var b strings.Builder
			if err := tab.write(&b, width, false); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := cells(strings.TrimSuffix(line, "\n")); n > width {
					t.Fatalf("%s at %d: %d cells: %s", name, width, n, line)
				}
			}
		}
		var b strings.Builder
		if err := tab.write(&b, 0, false); err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(b.String(), clean(w)) {
				t.Errorf("%s: in a pipe %q is cut", name, w)
			}
		}
	}
}

// TestColumnsStandBelowEachOther: also behind wide and combining characters.
func TestColumnsStandBelowEachOther(t *testing.T) {
	tab := &table{head: []string{"NAME", "STATE"}, flex: 0}
	for _, w := range hostile() {
		tab.add(plain(w), plain("|"))
	}
	for _, width := range []int{0, 200, 80, 40} {
		var b strings.Builder
		if err := tab.write(&b, width, false); err != nil {
			t.Fatal(err)
		}
		at := -1
		for line := range strings.Lines(b.String()) {
			before, _, ok := strings.Cut(line, "|")
			if !ok {
				continue // the head
			}
			if n := cells(before); at >= 0 && n != at {
				t.Errorf("width %d: column at %d and %d: %s", width, at, n, line)
			} else {
				at = n
			}
		}
	}
}

// TestNamesKeepTheirEnds: names that differ at their end differ when they are cut too.
func TestNamesKeepTheirEnds(t *testing.T) {
	for text, want := range map[string]string{"nightly-report-1": "nig…t-1", "日本語日本語": "日…本語", "日本": "日本", "short": "short"} {
		if got := shortenMiddle(text, 7); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{"日本語日本": "日本語…", "abcdefgh": "abcdef…", "cafe\u0301cafe\u0301": "cafe\u0301ca…", "": ""} {
		if got := shorten(text, 7); got != want || cells(got) > 7 {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := shorten("abc", 0); got != "" {
		t.Errorf("no room: %q", got)
	}
}

// TestTextIsWrapped: what Windlass says is broken at blanks, each line behind the
// prefix; a word that is too long stays whole, so that it can be copied.
func TestTextIsWrapped(t *testing.T) {
	var out, err strings.Builder
	s := &Streams{In: strings.NewReader(""), Out: &out, Err: &err, OutTerminal: true, ErrTerminal: true, NoColor: true, Width: 40}
	url := "https://example.com/" + strings.Repeat("x", 60)
	s.note("the registry at %s can't be reached, since its name isn't known here", url)
	writeError(s, &sdk.Error{Code: sdk.NotFound, Op: "find", Err: fmt.Errorf("%s isn't there, and nobody knows where it went", "x"), Remedy: "look for it in the place where you saw it last, or make it"})
	f := &fields{s: s}
	f.add("Command", "busybox "+url)
	f.add("Why", strings.Repeat("word ", 30))
	if e := f.print(); e != nil {
		t.Fatal(e)
	}
	if e := s.checks([]CheckView{{Subject: "a", Name: strings.Repeat("word ", 20), OK: true}, {Subject: "b", Name: "c", Needed: true, Detail: strings.Repeat("word ", 20), Remedy: strings.Repeat("mend ", 20)}}); e != nil {
		t.Fatal(e)
	}
	for _, text := range []string{err.String(), out.String()} {
		if !strings.Contains(text, url) {
			t.Errorf("the URL is broken: %s", text)
		}
		for line := range strings.Lines(strings.NewReplacer(url, "URL", "windlass explain code.not-found", "COMMAND").Replace(text)) {
			if n := cells(strings.TrimSuffix(line, "\n")); n > 40 {
				t.Errorf("%d cells: %s", n, line)
			}
		}
	}
	for line := range strings.Lines(err.String()) {
		if !strings.HasPrefix(line, prefix) {
			t.Errorf("a line without the prefix: %s", line)
		}
	}
	if !strings.Contains(err.String(), "windlass:   to do: look for it in the") || !strings.Contains(err.String(), "\nwindlass:       ") {
		t.Errorf("%s", err.String())
	}
}

// TestCommandsAreNotBroken: a command that is told of stands in one line.
func TestCommandsAreNotBroken(t *testing.T) {
	text := "left run b7nk3gqy82 before it was proven to be gone; windlass status b7nk3gqy82 tells; windlass wait, or windlass ps -a"
	for room := 30; room < 120; room++ {
		lines := strings.Join(wrapText(text, room, 0), "\n")
		for _, want := range []string{"windlass status b7nk3gqy82", "windlass wait,", "windlass ps -a"} {
			if !strings.Contains(lines, want) {
				t.Errorf("at %d %q is broken:\n%s", room, want, lines)
			}
		}
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// TestNoInformationByColourAlone: with NO_COLOR and in a pipe there isn't one escape
// sequence, and without the sequences a coloured screen says the same.
func TestNoInformationByColourAlone(t *testing.T) {
	w, _ := seeded(t)
	coloured := 0
	for _, args := range [][]string{{}, {"ps", "-a"}, {"status", "bad"}, {"status", "doubt"}, {"ledger", "log"}, {"ledger", "log", "--events"}, {"ledger", "verify"},
		{"provider", "ls"}, {"provider", "describe", "local"}, {"provider", "ls", "--kinds"}, {"config", "show"}, {"explain", "exit codes"}, {"explain", "run.refused"},
		{"status", "nosuchrun"}, {"rnu"}, {"run", "--nope"}, {"help"}, {"help", "run"}, {"version"}} {
		said := func(terminal, plain bool) string {
			w.runIn(t.Context(), func(f *Factory) {
				f.Streams.OutTerminal, f.Streams.ErrTerminal, f.Streams.NoColor = terminal, terminal, plain
			}, args...)
			return w.out.String() + w.err.String()
		}
		for name, text := range map[string]string{"a pipe": said(false, false), "NO_COLOR": said(true, true)} {
			if strings.Contains(text, "\x1b") {
				t.Errorf("%v in %s has escape sequences: %q", args, name, text)
			}
		}
		colour, bare := said(true, false), said(true, true)
		if strings.Contains(colour, "\x1b") {
			coloured++
		}
		if got := escapes.ReplaceAllString(colour, ""); got != bare {
			t.Errorf("%v with colour says\n%s\nwithout it\n%s", args, got, bare)
		}
		for line := range strings.Lines(bare) {
			if text := strings.TrimSpace(line); cells(strings.TrimSuffix(line, "\n")) > 80 && strings.Contains(text, " ") && args != nil && len(args) > 0 && args[0] != "version" {
				if longest(text) < 50 {
					t.Errorf("%v: %d cells: %s", args, cells(line), line)
				}
			}
		}
	}
	if coloured < 8 {
		t.Errorf("only %d commands have colour", coloured)
	}
}

func longest(text string) int {
	n := 0
	for word := range strings.FieldsSeq(text) {
		n = max(n, cells(word))
	}
	return n
}

// TestChecksFold: on a terminal the rights that are there are one line; what fails, and
// everything in a pipe, stands alone.
func TestChecksFold(t *testing.T) {
	var list []CheckView
	for i := range 9 {
		list = append(list, CheckView{Subject: "prod", Name: "right" + strconv.Itoa(i), OK: i != 7, Needed: true, Detail: "allowed"})
	}
	for terminal, want := range map[bool]int{false: 9, true: 3} {
		var out strings.Builder
		s := &Streams{Out: &out, Err: io.Discard, OutTerminal: terminal, NoColor: true, Width: 80}
		if err := s.checks(list); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != want || !strings.Contains(out.String(), "FAIL  prod: right7: allowed\n") {
			t.Errorf("terminal %t:\n%s", terminal, out.String())
		}
		if terminal && !strings.Contains(out.String(), "ok    prod: right0, right1, right2 and 4 more: allowed\n") {
			t.Errorf("%s", out.String())
		}
	}
}

// TestCleanHidesNothing: what turns text around, ends a line or can't be seen comes out
// in letters; what makes up characters stays.
func TestCleanHidesNothing(t *testing.T) {
	for text, want := range map[string]string{"a\x1b[2Jb": `a\x1b[2Jb`, "x\u202egnp.exe": `x\u202egnp.exe`, "\u2066\u2069\u200f\u061c": `\u2066\u2069\u200f\u061c`,
		"a\u2028b\ufeff": `a\u2028b\ufeff`, "a\tb\nc\r": `a b\nc\r`, "\u0085": `\u0085`, "👩‍👧 é שלום 日本": "👩‍👧 é שלום 日本", "\x80": "\uFFFD"} {
		if got := clean(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// palette is what a terminal draws with: background, text, red and green.
type palette struct{ back, text, red, green uint32 }

// palettes are those that terminals and editors come with.
func palettes() map[string]palette {
	return map[string]palette{
		"xterm light":        {0xffffff, 0x000000, 0xcd0000, 0x00cd00},
		"xterm dark":         {0x000000, 0xe5e5e5, 0xcd0000, 0x00cd00},
		"GNOME light":        {0xffffff, 0x171421, 0xc01c28, 0x26a269},
		"GNOME dark":         {0x1e1e1e, 0xd0cfcc, 0xc01c28, 0x26a269},
		"Tango light":        {0xffffff, 0x2e3436, 0xcc0000, 0x4e9a06},
		"Tango dark":         {0x2e3436, 0xd3d7cf, 0xcc0000, 0x4e9a06},
		"macOS Basic":        {0xffffff, 0x000000, 0xc23621, 0x25bc24},
		"macOS Pro":          {0x000000, 0xf2f2f2, 0xc23621, 0x25bc24},
		"Windows Campbell":   {0x0c0c0c, 0xcccccc, 0xc50f1f, 0x13a10e},
		"One Half light":     {0xfafafa, 0x383a42, 0xe45649, 0x50a14f},
		"One Half dark":      {0x282c34, 0xdcdfe4, 0xe06c75, 0x98c379},
		"VS Code light":      {0xffffff, 0x333333, 0xcd3131, 0x107c10},
		"VS Code dark":       {0x1e1e1e, 0xcccccc, 0xcd3131, 0x0dbc79},
		"Solarized light":    {0xfdf6e3, 0x657b83, 0xdc322f, 0x859900},
		"Solarized dark":     {0x002b36, 0x839496, 0xdc322f, 0x859900},
		"our pictures light": {0xf6f8fa, 0x1f2328, 0xcf222e, 0x1a7f37},
		"our pictures dark":  {0x0d1117, 0xe6edf3, 0xff7b72, 0x3fb950},
	}
}

// contrast is that of WCAG 2.2, from 1 to 21.
func contrast(a, b uint32) float64 {
	light := func(c uint32) float64 {
		part := func(shift uint) float64 {
			v := float64(c>>shift&255) / 255
			if v <= 0.04045 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
	}
	x, y := light(a), light(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// TestStylesCanBeRead: of each style that is used, the contrast on the palettes that
// terminals come with. Three to one is what WCAG asks of large text and of signs; where
// it isn't reached the palette is named here, and the words say the same (ADR 0048).
// Yellow would be below it on four, 1.7 on one, and isn't used.
func TestStylesCanBeRead(t *testing.T) {
	weak := map[string]bool{"green on xterm light": true, "green on macOS Basic": true, "green on Solarized light": true,
		"red on GNOME dark": true, "red on Tango dark": true, "dim on Solarized light": true, "dim on Solarized dark": true}
	for name, p := range palettes() {
		for _, st := range styles() {
			colour, words := p.text, "text"
			switch st {
			case stylePlain, styleBold:
			case styleDim: // two thirds of the way from the background, as VTE draws it
				words, colour = "dim", 0
				for shift := uint(0); shift < 24; shift += 8 {
					colour |= (p.text>>shift&255*2 + p.back>>shift&255) / 3 << shift
				}
			case styleRed:
				words, colour = "red", p.red
			case styleGreen:
				words, colour = "green", p.green
			default:
				t.Fatalf("style %q has no place in the palettes", st)
			}
			what, ratio := words+" on "+name, contrast(colour, p.back)
			switch {
			case ratio < 2:
				t.Errorf("%s: %.1f can't be read", what, ratio)
			case ratio < 3 && !weak[what]:
				t.Errorf("%s: %.1f", what, ratio)
			case ratio >= 3 && weak[what]:
				t.Errorf("%s: %.1f is no weak one", what, ratio)
			}
		}
	}
}
