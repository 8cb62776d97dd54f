package joblog

import (
	"fmt"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// A follower that had seen bytes which a new holder finds lost at the backend
// is told of what it misses itself, and nothing is shown to it twice where the
// size of the gap says where the log goes on.
func TestGapBehindWhatWasShown(t *testing.T) {
	for _, c := range []struct {
		name   string
		shown  []sdk.LogItem // after "one\n", which is durable
		again  []sdk.LogItem // what the next holder gets
		follow string        // what the follower gets then
		late   string        // what a later reader gets
	}{
		{"gap within what was shown, one stream",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\nthree\n")},
			[]sdk.LogItem{kept(sdk.StreamStdout, "tw"), {Gap: &sdk.LogGap{Bytes: 3}}, kept(sdk.StreamStdout, "hree\nfour\n")},
			"four\n", "one\ntw[gap 3]hree\nfour\n"},
		{"gap beyond what was shown",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\n")},
			[]sdk.LogItem{kept(sdk.StreamStdout, "t"), {Gap: &sdk.LogGap{Bytes: 9}}, kept(sdk.StreamStdout, "four\n")},
			"[gap 6]four\n", "one\nt[gap 9]four\n"},
		{"gap just to where it was shown",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\n")},
			[]sdk.LogItem{kept(sdk.StreamStdout, "t"), {Gap: &sdk.LogGap{Bytes: 3}}, kept(sdk.StreamStdout, "four\n")},
			"four\n", "one\nt[gap 3]four\n"},
		{"gap of unknown size: told, and nothing is held back",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\n")},
			[]sdk.LogItem{kept(sdk.StreamStdout, "t"), {Gap: &sdk.LogGap{Bytes: -1}}, kept(sdk.StreamStdout, "o\nfour\n")},
			"[gap -1]o\nfour\n", "one\nt[gap -1]o\nfour\n"},
		{"two streams were shown: told, and nothing is held back",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\n"), kept(sdk.StreamStderr, "TWO\n")},
			[]sdk.LogItem{kept(sdk.StreamStdout, "t"), {Gap: &sdk.LogGap{Bytes: 2}}, kept(sdk.StreamStdout, "\nfour\n")},
			"[gap 2]\nfour\n", "one\nt[gap 2]\nfour\n"},
		{"the same gap again",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\n"), {Gap: &sdk.LogGap{Bytes: -1}}, kept(sdk.StreamStdout, "th")},
			[]sdk.LogItem{kept(sdk.StreamStdout, "t"), kept(sdk.StreamStdout, "wo\n"), {Gap: &sdk.LogGap{Bytes: -1}}, kept(sdk.StreamStdout, "three\n")},
			"ree\n", "one\ntwo\n[gap -1]three\n"},
		{"the gap is gone the second time, another comes later",
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\n"), {Gap: &sdk.LogGap{Bytes: -1}}},
			[]sdk.LogItem{kept(sdk.StreamStdout, "two\nthree\n"), {Gap: &sdk.LogGap{Bytes: 7}}, kept(sdk.StreamStdout, "five\n")},
			"three\n[gap 7]five\n", "one\ntwo\nthree\n[gap 7]five\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustOpen(t, Options{FS: newMemFS(), FlushEvery: -1})
			k := newKey()
			w := mustWriter(t, s, k, 1)
			it := kept(sdk.StreamStdout, "one\n")
			it.Cursor = cursorAt(1)
			must(t, w.Append(it))
			must(t, w.Sync())
			for _, it := range c.shown {
				must(t, w.Append(it))
			}
			must(t, w.Flush())
			var pos Position
			for it, err := range s.Read(t.Context(), k, ReadOptions{}) {
				must(t, err)
				pos = it.Pos
			}
			w = mustWriter(t, mustOpenAt(t, s), k, 2)
			for _, it := range c.again {
				must(t, w.Append(it))
			}
			v, err := w.Finish(sdk.VerdictComplete)
			must(t, err)
			if v != sdk.VerdictGap {
				t.Fatalf("verdict %s", v)
			}
			check(t, "follower", readAll(t, s, k, ReadOptions{From: pos}), c.follow+"[gap]")
			check(t, "late reader", readAll(t, s, k, ReadOptions{}), c.late+"[gap]")
			// And once more by items, each from the position of the one before.
			got := ""
			for end := false; !end; {
				for it, err := range s.Read(t.Context(), k, ReadOptions{From: pos}) {
					must(t, err)
					pos, end = it.Pos, it.End != nil
					if it.Entry != nil {
						got += string(it.Entry.Data)
					}
					if it.Gap != nil {
						got += fmt.Sprintf("[gap %d]", it.Gap.Bytes)
					}
					break
				}
			}
			check(t, "follower, in steps", got, c.follow)
		})
	}
}
