package joblog

import (
	"bytes"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func benchWriter(b *testing.B, o Options) (*Store, Key, *Writer) {
	b.Helper()
	s := mustOpen(b, o)
	k := newKey()
	return s, k, mustWriter(b, s, k, 1)
}

// BenchmarkAppendLines is a million lines of about 100 bytes, each with a
// time; none is lost.
func BenchmarkAppendLines(b *testing.B) {
	const lines = 1_000_000
	line := bytes.Repeat([]byte("x"), 100)
	line[99] = '\n'
	b.SetBytes(lines * 100)
	b.ReportAllocs()
	for b.Loop() {
		_, _, w := benchWriter(b, Options{})
		it := sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: line, Time: time.Unix(1, 2)}, Cursor: cursorAt(1)}
		for range lines {
			if err := w.Append(it); err != nil {
				b.Fatal(err)
			}
		}
		if v, err := w.Finish(sdk.VerdictComplete); err != nil || v != sdk.VerdictComplete {
			b.Fatal(v, err)
		}
		must(b, w.Close())
		b.StopTimer()
		must(b, w.s.Remove(w.k.Run))
		b.StartTimer()
	}
}

// BenchmarkAppendBulk is 200 MB in chunks of a megabyte, made durable.
func BenchmarkAppendBulk(b *testing.B) {
	const chunks = 200
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	b.SetBytes(chunks << 20)
	b.ReportAllocs()
	for b.Loop() {
		_, _, w := benchWriter(b, Options{})
		for range chunks {
			if err := w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: data}}); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Finish(sdk.VerdictComplete); err != nil {
			b.Fatal(err)
		}
		must(b, w.Close())
		b.StopTimer()
		must(b, w.s.Remove(w.k.Run))
		b.StartTimer()
	}
}

// BenchmarkAppendBulkUnsynced is the same without waiting for the disk.
func BenchmarkAppendBulkUnsynced(b *testing.B) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	_, _, w := benchWriter(b, Options{})
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: data}}); err != nil {
			b.Fatal(err)
		}
	}
}

func filled(b *testing.B, lines int) (*Store, Key) {
	b.Helper()
	s, k, w := benchWriter(b, Options{})
	line := bytes.Repeat([]byte("x"), 100)
	line[99] = '\n'
	for range lines {
		must(b, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: line, Time: time.Unix(1, 2)}}))
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(b, err)
	return s, k
}

// BenchmarkRead reads and renders a million lines.
func BenchmarkRead(b *testing.B) {
	const lines = 1_000_000
	s, k := filled(b, lines)
	b.SetBytes(lines * 100)
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		n := 0
		var r Renderer
		for it, err := range s.Read(b.Context(), k, ReadOptions{Follow: true}) {
			if err != nil {
				b.Fatal(err)
			}
			if it.Entry != nil {
				n++
				out = r.Append(out[:0], it.Entry)
			}
		}
		if n != lines {
			b.Fatal(n)
		}
	}
}

// BenchmarkTail reads the last ten of a million lines.
func BenchmarkTail(b *testing.B) {
	s, k := filled(b, 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for it, err := range s.Read(b.Context(), k, ReadOptions{Tail: Lines(10)}) {
			if err != nil {
				b.Fatal(err)
			}
			if it.Entry != nil {
				n++
			}
		}
		if n != 10 {
			b.Fatal(n)
		}
	}
}

// BenchmarkSmallLog is the whole life of the log of a small job.
func BenchmarkSmallLog(b *testing.B) {
	s := mustOpen(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		w, err := s.Writer(newKey(), 1)
		must(b, err)
		must(b, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: []byte("hello\n")}, Cursor: cursorAt(1)}))
		_, err = w.Finish(sdk.VerdictComplete)
		must(b, err)
		must(b, w.Close())
	}
}

// BenchmarkSmallLogs is the same for many jobs at once, which share commits of
// the file system's journal.
func BenchmarkSmallLogs(b *testing.B) {
	s := mustOpen(b, Options{})
	b.ReportAllocs()
	b.SetParallelism(50)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			w, err := s.Writer(newKey(), 1)
			must(b, err)
			must(b, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: []byte("hello\n")}, Cursor: cursorAt(1)}))
			_, err = w.Finish(sdk.VerdictComplete)
			must(b, err)
			must(b, w.Close())
		}
	})
}
