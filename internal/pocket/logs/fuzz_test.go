package logs

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzToken reads any token, and writes each that it takes the same way.
func FuzzToken(f *testing.F) {
	f.Add(token{forward: true, position: position{1700000000000, 7}, empties: 2}.String())
	f.Add(token{}.String())
	f.Add("f/" + strings.Repeat("9", 56) + "/s")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseToken(text)
		if err == nil && got.String() != text && !strings.Contains(text, "+") {
			t.Errorf("%q is read as %q", text, got)
		}
	})
}

// FuzzDriver writes output in two portions cut anywhere: the events are the
// lines that aren't empty, in valid UTF-8, each within its bound.
func FuzzDriver(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), 3)
	f.Add([]byte("é\xff\n家\r\n"), 1)
	f.Fuzz(func(t *testing.T, output []byte, cut int) {
		if cut < 0 || cut > len(output) || len(output) > maxEventBytes {
			return
		}
		s, err := New(Options{Account: "1", Region: "r", Now: func() time.Time { return time.Unix(0, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.OpenDriver("g", "s", true)
		if err != nil {
			t.Fatal(err)
		}
		w := d.Writer()
		for _, part := range [][]byte{output[:cut], output[cut:]} {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		d.Close()
		var want []string
		for line := range strings.SplitSeq(string(output), "\n") {
			if line != "" {
				want = append(want, string([]rune(line)))
			}
		}
		var got []string
		for _, e := range s.groups["g"].Streams["s"].Events {
			got = append(got, e.Text)
			if !utf8.ValidString(e.Text) || len(e.Text) > maxEventBytes || e.Text == "" {
				t.Errorf("event %q", e.Text)
			}
		}
		// A line may be longer in UTF-8 than its bytes, and so be cut.
		if strings.Join(got, "") != strings.Join(want, "") || len(got) < len(want) {
			t.Errorf("%q gives %q", output, got)
		}
	})
}
