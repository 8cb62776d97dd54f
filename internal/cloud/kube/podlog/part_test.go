package podlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// entry is one of a runtime's log file: a line, or a part of one above 16 KiB, which
// has a stamp of its own.
type entry struct {
	stamp time.Time
	text  string
}

// file is a log as a kubelet serves it: entries that are older than asked for are
// left out one by one, and only one that begins a line is shown with its stamp, so that
// the rest of a line whose beginning is too old has none.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/cri-client/pkg/logs/logs.go
type file struct {
	entries []entry
	// cut is where the n-th stream breaks off, in bytes; none is at its end.
	cut    []int
	opened int
}

func (f *file) Look(context.Context) (Sight, error) {
	return Sight{Containers: []Container{{UID: "u", Pod: "p", Started: true, Ended: true}}, Over: true}, nil
}

func (f *file) Open(_ context.Context, _ Container, since time.Time, _ bool) (io.ReadCloser, error) {
	var b bytes.Buffer
	begins := true
	for _, e := range f.entries {
		if !e.stamp.Before(since) {
			if begins {
				b.WriteString(e.stamp.Format(time.RFC3339Nano) + " ")
			}
			b.WriteString(e.text)
		}
		begins = strings.HasSuffix(e.text, "\n")
	}
	var r io.Reader = &b
	if f.opened < len(f.cut) {
		r = io.MultiReader(io.LimitReader(&b, int64(f.cut[f.opened])), broken{})
	}
	f.opened++
	return &body{r: r}, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// all reads a log to its end, and gives its text and its gaps.
func all(t *testing.T, s Source, cursor *sdk.LogCursor) (text string, gaps int, verdict sdk.Verdict, last *sdk.LogCursor) {
	t.Helper()
	for it, err := range (Reader{Kind: "k", Op: "read", Source: s, Stall: time.Minute}).Read(t.Context(), cursor, true) {
		switch {
		case err != nil:
			t.Fatal(err)
		case it.Gap != nil:
			gaps++
		case it.End != nil:
			verdict = it.End.Verdict
		case it.Entry != nil:
			text += string(it.Entry.Data)
			if it.Entry.LineEnd == sdk.LineEndStripped {
				text += "\n"
			}
			if it.Cursor != nil {
				last = it.Cursor
			}
		}
	}
	return text, gaps, verdict, last
}

// TestF54LineInParts: a line that was written over a long time, as a progress bar is,
// comes once and whole, wherever the streams are cut, and hides nothing of what is
// behind it.
func TestF54LineInParts(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	part := strings.Repeat("bar ", 16<<10/4)
	f := []entry{{at, "begin\n"}, {at.Add(time.Second), part}, {at.Add(6 * time.Second), part}, {at.Add(12 * time.Second), "rest of it\n"},
		{at.Add(12*time.Second + 100*time.Millisecond), "done\n"}, {at.Add(12*time.Second + 200*time.Millisecond), "bye\n"}}
	want := "begin\n" + part + part + "rest of it\ndone\nbye\n"
	for _, cut := range [][]int{nil, {1}, {60}, {20 << 10}, {33 << 10}, {32850, 12, 40}, {32900, 3, 11, 44}, {32920, 60, 70}} {
		synctest.Test(t, func(t *testing.T) {
			text, gaps, verdict, last := all(t, &file{entries: f, cut: cut}, nil)
			if text != want || gaps > 0 || verdict != sdk.VerdictComplete {
				t.Errorf("cut at %v: %d bytes of %d, %d gaps, %s", cut, len(text), len(want), gaps, verdict)
			}
			if text, gaps, verdict, _ := all(t, &file{entries: f}, last); text != "" || gaps > 0 || verdict != sdk.VerdictComplete {
				t.Errorf("read again from its end: %q, %d gaps, %s", text, gaps, verdict)
			}
		})
	}
}

// TestWordOfTheKubelet: what has no stamp and nothing with one behind it is no line of
// the job's, also where a read is resumed.
func TestWordOfTheKubelet(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	_, _, _, last := func() (string, int, sdk.Verdict, *sdk.LogCursor) {
		return all(t, &file{entries: []entry{{at, "a\n"}}}, nil)
	}()
	for _, cursor := range []*sdk.LogCursor{nil, last} {
		const word = "unable to retrieve container logs for containerd://0123456789"
		var err error
		for _, err = range (Reader{Kind: "k", Op: "read", Source: written{word}, Stall: time.Minute}).Read(t.Context(), cursor, false) {
			if err != nil {
				break
			}
		}
		if sdk.CodeOf(err) != sdk.Unavailable || !strings.Contains(fmt.Sprint(err), "the node has no log of the container: "+word) {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzF54Parts: however long a line takes to be written and however the streams that
// bring it are cut, each line comes once and whole.
func FuzzF54Parts(f *testing.F) {
	f.Add([]byte("a\nbbbbbbbbb\nc\nd\n"), uint8(2), uint16(900), uint8(40), uint8(0))
	f.Add([]byte("aaaaaaaaaaaa\n\n\nb\n"), uint8(1), uint16(1500), uint8(7), uint8(30))
	f.Add([]byte("one\ntwo\nthree and more\nfour\n"), uint8(4), uint16(3000), uint8(90), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, size uint8, step uint16, cut, back uint8) {
		if len(data) > 512 || size == 0 {
			t.Skip("a small file shows it")
		}
		var entries []entry
		at := time.Unix(1e9, 0).UTC()
		want := ""
		for i, line := range strings.SplitAfter(string(data), "\n") {
			if !strings.HasSuffix(line, "\n") {
				break // what was never ended has other tests
			}
			want += line
			for first := true; line != ""; first = false {
				n := min(int(size), len(line))
				if rest := line[n:]; rest == "\n" {
					n++ // a runtime has no part that is a newline alone
				}
				at = at.Add(time.Duration(step) * time.Millisecond)
				stamp := at
				if first && i%2 == 1 {
					stamp = at.Add(-time.Duration(back) * time.Millisecond)
				}
				entries, line = append(entries, entry{stamp, line[:n]}), line[n:]
			}
		}
		cuts := make([]int, 20)
		for i := range cuts {
			cuts[i] = (i + 1) * int(cut)
		}
		synctest.Test(t, func(t *testing.T) {
			text, gaps, verdict, _ := all(t, &file{entries: entries, cut: cuts}, nil)
			if text != want || gaps > 0 || verdict != sdk.VerdictComplete {
				t.Errorf("got %q, want %q; %d gaps, %s", text, want, gaps, verdict)
			}
		})
	})
}
