package joblog

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// tb is what tests and rapid's tests have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// source is a job's true output and a driver of it: the same bytes for each
// stream whenever it is read, in other chunks and another order between the
// streams each time.
type source struct {
	// sections are what lies between gaps: for each stream its units, where
	// each newline at an even place is one that the backend took off.
	sections []map[sdk.Stream][]byte
	streams  []sdk.Stream
	strips   bool

	once sync.Once
	all  map[sdk.Stream][]byte
}

func (s *source) stripped(i int) bool { return s.strips && i%2 == 0 }

// units is the whole of a stream.
func (s *source) units(st sdk.Stream) []byte {
	s.once.Do(func() {
		s.all = map[sdk.Stream][]byte{}
		for _, x := range s.sections {
			for st, b := range x {
				s.all[st] = append(s.all[st], b...)
			}
		}
	})
	return s.all[st]
}

// bytes is the number of bytes of all streams.
func (s *source) bytes() (n int64) {
	for _, st := range s.streams {
		n += s.bytesOf(st, 0, len(s.units(st)))
	}
	return n
}

func (s *source) bytesOf(st sdk.Stream, from, to int) (n int64) {
	all := s.units(st)
	for i := from; i < to; i++ {
		if all[i] != '\n' || !s.stripped(i) {
			n++
		}
	}
	return n
}

// feed is one reading of a source.
type feed struct {
	s       *source
	section int
	at      map[sdk.Stream]int
	rnd     func(n int) int
	most    int // bytes of a chunk
	cursors int // a cursor with every n-th item on average; 0 is none
}

func (s *source) feed(c *sdk.LogCursor, rnd func(n int) int, most, cursors int) *feed {
	f := &feed{s: s, at: map[sdk.Stream]int{}, rnd: rnd, most: most, cursors: cursors}
	if c == nil {
		return f
	}
	f.section, _ = strconv.Atoi(c.Position["section"])
	for _, st := range s.streams {
		f.at[st], _ = strconv.Atoi(c.Position[string(st)])
	}
	return f
}

func (f *feed) cursor() *sdk.LogCursor {
	p := map[string]string{"section": strconv.Itoa(f.section)}
	for st, n := range f.at {
		p[string(st)] = strconv.Itoa(n)
	}
	return &sdk.LogCursor{V: 1, Kind: "test", Position: p}
}

// sectionEnd is where the current section ends in a stream.
func (f *feed) sectionEnd(st sdk.Stream) (n int) {
	for _, x := range f.s.sections[:f.section+1] {
		n += len(x[st])
	}
	return n
}

// next returns the next item, and false at the end.
func (f *feed) next() (sdk.LogItem, bool) {
	var it sdk.LogItem
	var left []sdk.Stream
	for _, st := range f.s.streams {
		if f.at[st] < f.sectionEnd(st) {
			left = append(left, st)
		}
	}
	switch {
	case len(left) > 0:
		it.Entry = f.chunk(left[f.rnd(len(left))])
	case f.section+1 < len(f.s.sections):
		it.Gap = &sdk.LogGap{Bytes: -1, Why: fmt.Sprintf("gap %d", f.section)}
		f.section++
	default:
		return it, false
	}
	if f.cursors > 0 && f.rnd(f.cursors) == 0 {
		it.Cursor = f.cursor()
	}
	return it, true
}

func (f *feed) chunk(st sdk.Stream) *sdk.LogChunk {
	all := f.s.units(st)
	from := f.at[st]
	to := min(f.sectionEnd(st), from+1+f.rnd(f.most))
	c := &sdk.LogChunk{Stream: st, LineEnd: sdk.LineEndKept, Time: time.Unix(int64(1000+from), 0)}
	for i := from; i < to; i++ {
		if all[i] == '\n' && f.s.stripped(i) {
			c.LineEnd = sdk.LineEndStripped
			c.Data = bytes.Clone(all[from:i])
			f.at[st] = i + 1
			return c
		}
	}
	c.Data = bytes.Clone(all[from:to])
	f.at[st] = to
	return c
}

// watcher is a reader that checks each item against the truth, and may stop
// and go on at a position that it keeps as text.
type watcher struct {
	t    tb
	name string
	src  *source
	pos  string
	seen map[sdk.Stream]int64 // units
	// shown counts bytes, gone those of gaps.
	shown, gone int64
	gaps        []string
	end         *sdk.LogEnd
}

func watch(t tb, name string, src *source) *watcher {
	return &watcher{t: t, name: name, src: src, seen: map[sdk.Stream]int64{}}
}

// read takes up to n items, all when n is negative.
func (w *watcher) read(ctx context.Context, s *Store, k Key, n int, o ReadOptions) error {
	pos, err := ParsePosition(w.pos)
	if err != nil {
		w.t.Fatalf("%s: %v", w.name, err)
	}
	if w.pos != "" {
		o.From = pos
	}
	for it, err := range s.Read(ctx, k, o) {
		if err != nil {
			return err
		}
		w.check(it)
		if n--; n == 0 {
			break
		}
	}
	return nil
}

func (w *watcher) check(it Item) {
	w.t.Helper()
	w.pos = it.Pos.String()
	p := it.Pos.state()
	at := func(st sdk.Stream) int64 {
		n, _ := streamNumber(st)
		return p.get(&mark{Stream: n}).Units
	}
	switch {
	case it.Entry != nil:
		c := it.Entry
		var r Renderer
		shown := r.Append(nil, c)
		to := at(c.Stream)
		from := to - int64(len(shown))
		if from < w.seen[c.Stream] {
			w.t.Fatalf("%s: %s is at %d and gets %d to %d again", w.name, c.Stream, w.seen[c.Stream], from, to)
		}
		if from > w.seen[c.Stream] {
			w.t.Fatalf("%s: %s misses %d to %d without a gap", w.name, c.Stream, w.seen[c.Stream], from)
		}
		all := w.src.units(c.Stream)
		if to > int64(len(all)) || !bytes.Equal(all[from:to], shown) {
			w.t.Fatalf("%s: %s from %d to %d of %d: %.80q is not what was written", w.name, c.Stream, from, to, len(all), shown)
		}
		w.shown += int64(len(c.Data))
		w.seen[c.Stream] = to
	case it.Gap != nil:
		var gone int64
		for _, st := range w.src.streams {
			if to := at(st); to > w.seen[st] {
				gone += w.src.bytesOf(st, int(w.seen[st]), int(to))
				w.seen[st] = to
			}
		}
		if it.Gap.Bytes >= 0 && gone != it.Gap.Bytes {
			w.t.Fatalf("%s: a gap says %d bytes, but %d are missing", w.name, it.Gap.Bytes, gone)
		}
		w.gone += gone
		w.gaps = append(w.gaps, it.Gap.Why)
	case it.End != nil:
		if w.end != nil {
			w.t.Fatalf("%s: a second end", w.name)
		}
		end := *it.End
		w.end = &end
	default:
		w.t.Fatalf("%s: an empty item", w.name)
	}
}

// complete checks that nothing is missing.
func (w *watcher) complete() {
	w.t.Helper()
	if w.end == nil {
		w.t.Fatalf("%s: no end", w.name)
	}
	if all := w.src.bytes(); w.shown+w.gone != all {
		w.t.Fatalf("%s: %d bytes shown and %d told missing, %d were written", w.name, w.shown, w.gone, all)
	}
	for _, st := range w.src.streams {
		if n := len(w.src.units(st)); w.seen[st] != int64(n) {
			w.t.Fatalf("%s: %s ends at %d of %d", w.name, st, w.seen[st], n)
		}
	}
}

func newKey() Key {
	return Key{Run: sdk.NewIDSource(sdk.SystemClock()).NewID(), Attempt: 1}
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	dir := "/logs"
	if o.FS == nil {
		dir = t.TempDir()
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustWriter(t testing.TB, s *Store, k Key, epoch uint64) *Writer {
	t.Helper()
	w, err := s.Writer(k, epoch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
