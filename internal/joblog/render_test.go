package joblog

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"pgregory.net/rapid"
)

// Times stand at the start of each line, once, however the line is cut and
// whatever other streams say in between.
func TestTimestamps(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600))
	const ts = "2026-01-02T02:04:05.000000600Z "
	var out []byte
	r := Renderer{Timestamps: true}
	add := func(st sdk.Stream, at time.Time, end sdk.LineEnd, data string) {
		out = r.Append(out, &sdk.LogChunk{Stream: st, Time: at, LineEnd: end, Data: []byte(data)})
	}
	add(sdk.StreamStdout, at, sdk.LineEndKept, "one\ntw")
	add(sdk.StreamStderr, time.Time{}, sdk.LineEndStripped, "warn")
	add(sdk.StreamStdout, at, sdk.LineEndKept, "o")
	add(sdk.StreamStdout, at, sdk.LineEndStripped, "")
	add(sdk.StreamStdout, at, sdk.LineEndStripped, "")
	add(sdk.StreamStdout, at, sdk.LineEndKept, "\n\xff")
	check(t, "rendered", string(out), ts+"one\n"+ts+"tw"+"- warn\n"+"o"+"\n"+ts+"\n"+ts+"\n"+ts+"\xff")
}

// However bytes are cut into chunks, without times they come out as they are,
// and as the same lines.
func TestRenderCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.SampledFrom([]byte("a\n\xff\xc3"))).Draw(t, "data")
		most := rapid.IntRange(1, 5).Draw(t, "most")
		var r Renderer
		var out []byte
		sp := LineSplitter{Max: most}
		var lines []string
		part := ""
		emit := func(l Line) bool {
			if len(l.Data) > most || (l.Continued && len(l.Data) != most) {
				t.Fatalf("a line of %d bytes, the most is %d", len(l.Data), most)
			}
			part += string(l.Data)
			if !l.Continued {
				lines = append(lines, part)
				part = ""
			}
			if l.Partial == (l.LineEnd == sdk.LineEndStripped) && !l.Continued {
				t.Fatalf("%+v", l)
			}
			return true
		}
		for rest := data; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			c := &sdk.LogChunk{Stream: sdk.StreamStdout, Data: bytes.Clone(rest[:n]), LineEnd: sdk.LineEndKept}
			rest = rest[n:]
			if i := n - 1; c.Data[i] == '\n' && rapid.Bool().Draw(t, "strip") {
				c.Data, c.LineEnd = c.Data[:i], sdk.LineEndStripped
			}
			out = r.Append(out, c)
			if !sp.Add(c, emit) {
				t.Fatal("stopped")
			}
			clear(c.Data)
		}
		sp.End(emit)
		if !bytes.Equal(out, data) {
			t.Fatalf("%q became %q", data, out)
		}
		want := strings.Split(string(data), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		if strings.Join(want, "|") != strings.Join(lines, "|") || len(want) != len(lines) {
			t.Fatalf("%q became lines %q", data, lines)
		}
	})
}
