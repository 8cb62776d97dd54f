package joblog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// follow reads in the background and hands over what it shows.
func follow(ctx context.Context, s *Store, k Key, o ReadOptions) (<-chan string, <-chan error) {
	out, done := make(chan string, 1000), make(chan error, 1)
	o.Follow = true
	go func() {
		defer close(out)
		var r Renderer
		for it, err := range s.Read(ctx, k, o) {
			switch {
			case err != nil:
				done <- err
				return
			case it.Entry != nil:
				out <- string(r.Append(nil, it.Entry))
			case it.Gap != nil:
				out <- fmt.Sprintf("[gap %d]", it.Gap.Bytes)
			case it.End != nil:
				out <- fmt.Sprintf("[%s]", it.End.Verdict)
			}
		}
		done <- nil
	}()
	return out, done
}

// A follower may come before the log, in the same process or another, sees
// each line soon after it was written, and ends when the log does.
func TestFollowFromBefore(t *testing.T) {
	s := mustOpen(t, Options{})
	other := mustOpenAt(t, s)
	k := newKey()
	here, hereDone := follow(t.Context(), s, k, ReadOptions{})
	there, thereDone := follow(t.Context(), other, k, ReadOptions{})
	w := mustWriter(t, s, k, 1)
	for i := range 50 {
		line := fmt.Sprintln(i)
		must(t, w.Append(kept(sdk.StreamStdout, line)))
		check(t, "here", testwait.Receive(t, 5*time.Second, "line", here), line)
		// The aim is 500 ms, on a machine that does other things too.
		check(t, "there", testwait.Receive(t, 5*time.Second, "line", there), line)
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	check(t, "here", testwait.Receive(t, 5*time.Second, "end", here), "[complete]")
	check(t, "there", testwait.Receive(t, 5*time.Second, "end", there), "[complete]")
	must(t, testwait.Receive(t, 5*time.Second, "return", hereDone))
	must(t, testwait.Receive(t, 5*time.Second, "return", thereDone))
}

// A follower stays over a change of holders and over the old one's last words.
func TestFollowOverTakeOver(t *testing.T) {
	s := mustOpen(t, Options{FlushEvery: -1})
	k := newKey()
	out, done := follow(t.Context(), mustOpenAt(t, s), k, ReadOptions{})
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "one\ntw")))
	must(t, w.Flush())
	check(t, "first", testwait.Receive(t, 5*time.Second, "chunk", out), "one\ntw")
	w2 := mustWriter(t, mustOpenAt(t, s), k, 2)
	for _, chunk := range []string{"o", "ne", "\ntwo\nth", "ree\n"} {
		must(t, w2.Append(kept(sdk.StreamStdout, chunk)))
	}
	must(t, w2.Flush())
	var got string
	for got != "o\nthree\n" {
		got += testwait.Receive(t, 5*time.Second, "chunk", out)
		if !strings.HasPrefix("o\nthree\n", got) {
			t.Fatalf("%q", got)
		}
	}
	_, err := w2.Finish(sdk.VerdictComplete)
	must(t, err)
	check(t, "end", testwait.Receive(t, 5*time.Second, "end", out), "[complete]")
	must(t, testwait.Receive(t, 5*time.Second, "return", done))
}

// A follower that wants nothing of what is there gets all that comes.
func TestFollowNewOnly(t *testing.T) {
	s := mustOpen(t, Options{FlushEvery: -1})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	must(t, w.Append(kept(sdk.StreamStdout, "one\ntw")))
	must(t, w.Flush())
	// When it looks a second time, the follower has found its place.
	other, began := mustOpenAt(t, s), make(chan struct{})
	other.fs = &secondLook{FS: s.fs, began: began}
	go func() {
		<-began
		_ = w.Append(kept(sdk.StreamStdout, "o\nthree\n"))
		_, _ = w.Finish(sdk.VerdictComplete)
	}()
	var got string
	for it, err := range other.Read(t.Context(), k, ReadOptions{Follow: true, Tail: Lines(0)}) {
		must(t, err)
		if it.Entry != nil {
			got += string(it.Entry.Data)
		}
	}
	check(t, "new", got, "o\nthree\n")
}

type secondLook struct {
	FS
	looks int
	began chan struct{}
}

func (f *secondLook) ReadDir(name string) ([]fs.DirEntry, error) {
	if f.looks++; f.looks == 2 {
		close(f.began)
	}
	return f.FS.ReadDir(name)
}

// A cancelled follower returns at once, with the cause.
func TestFollowCancel(t *testing.T) {
	s := mustOpen(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	_, done := follow(ctx, s, newKey(), ReadOptions{})
	cause := errors.New("enough")
	cancel(cause)
	if err := testwait.Receive(t, 5*time.Second, "return", done); !errors.Is(err, cause) {
		t.Fatal(err)
	}
}

// A reader that stands still holds up nobody, and gets it all when it goes on;
// what the cap dropped meanwhile, it gets as a gap.
func TestSlowReader(t *testing.T) {
	for _, limit := range []int64{DefaultMaxBytes, 1 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := mustOpen(t, Options{MaxBytes: limit, SegmentBytes: 1 << 20})
			k := newKey()
			w := mustWriter(t, s, k, 1)
			const chunk, chunks = 64 << 10, 100
			data := bytes.Repeat([]byte("x"), chunk)
			write := func(n int) {
				for range n {
					must(t, w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: data}}))
				}
			}
			write(1)
			var shown, gone int64
			started := false
			for it, err := range s.Read(t.Context(), k, ReadOptions{Follow: true}) {
				must(t, err)
				if !started {
					// The reader is in the middle of showing its first entry:
					// all that comes is captured meanwhile.
					started = true
					write(chunks - 1)
					_, err := w.Finish(sdk.VerdictComplete)
					must(t, err)
				}
				if it.Entry != nil {
					shown += int64(len(it.Entry.Data))
				}
				if it.Gap != nil {
					gone += it.Gap.Bytes
				}
			}
			if shown+gone != chunk*chunks || (gone > 0) != (limit < chunk*chunks) {
				t.Fatalf("%d shown, %d gone of %d", shown, gone, chunk*chunks)
			}
		})
	}
}

// Many write and read at once.
func TestConcurrent(t *testing.T) {
	s := mustOpen(t, Options{MaxBytes: 8 << 20, SegmentBytes: 64 << 10})
	src := &source{streams: []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr}, strips: true}
	text := map[sdk.Stream][]byte{}
	rnd := rand.New(rand.NewPCG(8, 9))
	for _, st := range src.streams {
		for len(text[st]) < 150_000 {
			text[st] = append(text[st], "abc\nd\xff"[rnd.IntN(6)])
		}
	}
	src.sections = []map[sdk.Stream][]byte{text}
	k := newKey()
	var wg sync.WaitGroup
	for i := range 6 {
		x := watch(t, fmt.Sprint("watcher ", i), src)
		st := s
		if i%2 == 0 {
			st = mustOpenAt(t, s)
		}
		wg.Go(func() {
			for x.end == nil {
				n := -1
				if i > 2 {
					n = 500 // comes back again and again
				}
				if err := x.read(context.Background(), st, k, n, ReadOptions{Follow: true}); err != nil {
					panic(err)
				}
			}
			if x.shown != src.bytes() {
				panic(fmt.Sprint(x.shown, " of ", src.bytes()))
			}
		})
	}
	w := mustWriter(t, s, k, 1)
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = w.Sync()
				_ = w.Stats()
				_ = w.Cursor()
				_, _, _ = s.Verdict(k)
				_, _ = s.Size(k.Run)
				runtime.Gosched()
			}
		}
	})
	f := src.feed(nil, rnd.IntN, 200, 10)
	for it, ok := f.next(); ok; it, ok = f.next() {
		must(t, w.Append(it))
	}
	close(stop)
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	wg.Wait()
}

// What is appended is seen without a Flush, and a writer that is idle runs
// nothing.
func TestBackgroundFlush(t *testing.T) {
	s := mustOpen(t, Options{})
	k := newKey()
	w := mustWriter(t, s, k, 1)
	for i := range 3 {
		// The second falls into the pause after the first.
		must(t, w.Append(kept(sdk.StreamStdout, fmt.Sprintln(i))))
	}
	testwait.Until(t, 5*time.Second, "line", func() bool { return readAll(t, s, k, ReadOptions{}) == "0\n1\n2\n" })
	must(t, w.Append(kept(sdk.StreamStdout, "3\n")))
	must(t, w.Close())
	check(t, "after Close", readAll(t, s, k, ReadOptions{}), "0\n1\n2\n3\n")
}
