package aci

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func stamped(at int, text string) string {
	return time.Unix(1000, int64(at)).UTC().Format(time.RFC3339Nano) + " " + text
}

// TestPositionFinds: a place is found in whatever part of the log is shown, and
// never taken for another.
func TestPositionFinds(t *testing.T) {
	var all []line
	for i := range 50 {
		// Stamps go back now and then, and the same line comes again.
		more, cut := parseLog(stamped(i-i%3, fmt.Sprintf("same %d\n", i%2)))
		if cut || len(more) != 1 {
			t.Fatal("a line isn't one")
		}
		all = append(all, more...)
	}
	for n := 1; n <= len(all); n++ {
		p := position{}.after(all[:n])
		if got, ok := p.find(all, true); !ok || got != n {
			t.Errorf("behind %d lines, all shown: %d, %t", n, got, ok)
		}
		for from := max(0, n-tracks); from < n; from++ {
			if got, ok := p.find(all[from:], false); !ok || from+got < n {
				t.Errorf("behind %d lines, shown from %d: %d, %t", n, from, from+got, ok)
			}
		}
		if _, ok := p.find(all[n:], false); ok && n > len(all)-3 {
			t.Errorf("behind %d lines, which aren't shown: found", n)
		}
	}
	if _, ok := (position{}).find(all, false); ok {
		t.Error("the beginning is found in a log without one")
	}
}

// TestPositionSteps: a log that is read as it grows, in any steps, gives each line
// once, though equal lines have equal stamps.
func TestPositionSteps(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		text.WriteString(stamped(i/7, fmt.Sprintf("line %d\n", i%2)))
	}
	all, _ := parseLog(text.String())
	for step := 1; step < 40; step++ {
		p, got := position{}, 0
		for end := step; end < len(all)+step; end += step {
			shown := all[:min(end, len(all))]
			next, ok := p.find(shown, true)
			if !ok || next != got {
				t.Fatalf("steps of %d: at %d, %t instead of %d", step, next, ok, got)
			}
			p, got = p.after(shown[next:]), len(shown)
		}
	}
}

func TestCursors(t *testing.T) {
	all, _ := parseLog(stamped(1, "a\n") + stamped(2, "b\n"))
	for _, p := range []position{{}, position{}.after(all), position{count: -1, launch: 2}.after(all)} {
		got, err := positionOf(p.cursor())
		if err != nil || got.count != p.count || got.launch != p.launch || !got.last.Equal(p.last) || strings.Join(got.marks, ",") != strings.Join(p.marks, ",") {
			t.Errorf("%+v became %+v, %v", p, got, err)
		}
	}
	for name, c := range map[string]*sdk.LogCursor{
		"another kind": {V: 1, Kind: "local"}, "no numbers": {V: 1, Kind: Kind}, "no place": {V: 1, Kind: Kind, Position: map[string]string{"count": "5", "launch": "0"}},
		"no stamp": {V: 1, Kind: Kind, Position: map[string]string{"count": "5", "launch": "0", "marks": "a"}},
	} {
		if _, err := positionOf(c); sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := positionOf(&sdk.LogCursor{V: sdk.CursorVersion + 1, Kind: Kind}); sdk.CodeOf(err) != sdk.FailedPrecondition {
		t.Errorf("a newer cursor: %v", err)
	}
}

// FuzzParseLog: all that stands behind the first stamp is some line's, in order.
func FuzzParseLog(f *testing.F) {
	f.Add(stamped(1, "a\n") + stamped(2, "b"))
	f.Add("lf of a line\n" + stamped(2, "b\nno stamp\n"))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got, cut := parseLog(text)
		var raw strings.Builder
		for _, l := range got {
			raw.WriteString(l.raw)
			if !strings.HasSuffix(l.raw, l.data) {
				t.Errorf("data %q isn't the end of %q", l.data, l.raw)
			}
		}
		if !strings.HasSuffix(text, raw.String()) || !cut && raw.String() != text {
			t.Errorf("%q became %q, cut %t", text, raw.String(), cut)
		}
		p := position{}.after(got)
		if next, ok := p.find(got, !cut); !ok && len(got) > 0 || ok && next != len(got) {
			t.Errorf("behind all of %d lines: %d, %t", len(got), next, ok)
		}
	})
}

// FuzzCursor: a cursor is refused, or is a place.
func FuzzCursor(f *testing.F) {
	f.Add("3", "0", "aa,bb", "2026-01-02T03:04:05.6Z")
	f.Add("-1", "1", "", "")
	f.Fuzz(func(t *testing.T, count, launch, marks, last string) {
		p, err := positionOf(&sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{"count": count, "launch": launch, "marks": marks, "last": last}})
		if err != nil {
			return
		}
		again, err := positionOf(p.cursor())
		if err != nil || again.count != p.count || again.launch != p.launch || len(again.marks) != len(p.marks) {
			t.Errorf("%+v became %+v, %v", p, again, err)
		}
	})
}
