package joblog

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func TestSmoke(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := Key{Run: sdk.NewIDSource(sdk.SystemClock()).NewID(), Attempt: 1}
	w, err := s.Writer(k, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		if err := w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Time: time.Now(), Stream: sdk.StreamStdout, Data: []byte("hello\n"), LineEnd: sdk.LineEndKept}, Cursor: &sdk.LogCursor{V: 1, Kind: "x", Position: map[string]string{"n": "1"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sync(); err != nil {
		t.Fatal(err)
	}
	v, err := w.Finish(sdk.VerdictComplete)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(v)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for it, err := range s.Read(context.Background(), k, ReadOptions{Follow: true, Tail: Lines(2)}) {
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v %+v %s", it.Entry, it.End, it.Pos)
	}
}
