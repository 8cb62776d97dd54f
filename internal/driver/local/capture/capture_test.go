package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/sdk"
)

// disk is a file in memory with little room.
type disk struct {
	mu   sync.Mutex
	b    []byte
	room int
}

func (d *disk) WriteAt(b []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(b)
	if end := int(off) + n; end > d.room {
		n = max(d.room-int(off), 0)
	}
	if need := int(off) + n; need > len(d.b) {
		d.b = append(d.b, make([]byte, need-len(d.b))...)
	}
	copy(d.b[off:], b[:n])
	if n < len(b) {
		return 0, errors.New("no space") // as os.File does, which tells of no part
	}
	return n, nil
}

func (d *disk) Truncate(size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.b = d.b[:size]
	return nil
}

func (d *disk) Sync() error { return nil }

func (d *disk) ReadAt(b []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.NewReader(d.b).ReadAt(b, off)
}

func (d *disk) resize(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
}

func frame(data []byte) []byte {
	return append(make([]byte, HeaderSize, HeaderSize+len(data)), data...)
}

// readAll returns the streams' bytes and the sum of the gaps.
func readAll(t interface{ Fatal(args ...any) }, r *Reader, final bool) (out map[sdk.Stream]string, lost int64, damaged int) {
	out = map[sdk.Stream]string{}
	for {
		f, err := r.Next(final)
		if errors.Is(err, io.EOF) {
			return out, lost, damaged
		}
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case f.Gap == nil:
			out[f.Stream] += string(f.Data)
		case f.Gap.Bytes < 0:
			damaged++
		default:
			lost += f.Gap.Bytes
		}
	}
}

// TestRoundTrip: whatever is written in whatever pieces, on a disk that is full
// now and then, is read back or counted, from any place on.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &disk{room: rapid.IntRange(0, 4000).Draw(t, "room")}
		limit := rapid.Int64Range(0, 6000).Draw(t, "max")
		w := NewWriter(d, limit)
		live := NewReader(d, 0)
		written := int64(0)
		var seen int64
		for range rapid.IntRange(0, 40).Draw(t, "pieces") {
			data := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "data")
			s := sdk.StreamStdout
			if rapid.Bool().Draw(t, "stderr") {
				s = sdk.StreamStderr
			}
			w.Write(s, time.Unix(1, 2), frame(data))
			written += int64(len(data))
			if rapid.IntRange(0, 4).Draw(t, "resize") == 0 {
				d.resize(len(d.b) + rapid.IntRange(0, 2000).Draw(t, "more"))
			}
			out, lost, damaged := readAll(t, live, false)
			if damaged > 0 {
				t.Fatal("damage seen while it is written")
			}
			seen += int64(len(out[sdk.StreamStdout])+len(out[sdk.StreamStderr])) + lost
		}
		d.resize(1 << 20)
		totals, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		out, lost, damaged := readAll(t, NewReader(d, 0), true)
		got := int64(len(out[sdk.StreamStdout]) + len(out[sdk.StreamStderr]))
		if damaged > 0 || got+lost != written || got != totals.Written || lost != totals.Lost+totals.Capped || totals.Size != int64(len(d.b)) {
			t.Fatalf("%d written, %d read, %d lost, %d damaged, %+v", written, got, lost, damaged, totals)
		}
		if totals.Capped == 0 && totals.Size > max(limit, 0)+5000 {
			t.Fatalf("cap %d, size %d", limit, totals.Size)
		}
		rest, restLost, _ := readAll(t, live, true)
		seen += int64(len(rest[sdk.StreamStdout])+len(rest[sdk.StreamStderr])) + restLost
		if seen != written {
			t.Fatalf("the live reader saw %d of %d", seen, written)
		}
		// From every frame on, the rest comes.
		r := NewReader(d, 0)
		for {
			before, _, _ := readAll(t, NewReader(d, r.Offset()), true)
			f, err := r.Next(true)
			if errors.Is(err, io.EOF) {
				break
			}
			after, _, _ := readAll(t, NewReader(d, r.Offset()), true)
			if f.Gap == nil {
				after[f.Stream] = string(f.Data) + after[f.Stream]
			}
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Fatalf("from offset %d another rest", r.Offset())
			}
		}
	})
}

// TestCapIsExact: the head is kept up to the cap's last byte.
func TestCapIsExact(t *testing.T) {
	d := &disk{room: 1 << 20}
	w := NewWriter(d, 1000)
	w.Write(sdk.StreamStdout, time.Now(), frame(bytes.Repeat([]byte("a"), 300)))
	w.Write(sdk.StreamStderr, time.Now(), frame(bytes.Repeat([]byte("b"), 5000)))
	w.Write(sdk.StreamStdout, time.Now(), frame([]byte("c")))
	totals, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	out, lost, _ := readAll(t, NewReader(d, 0), true)
	if len(out[sdk.StreamStdout]) != 300 || len(out[sdk.StreamStderr]) != 1000-300-2*HeaderSize || lost != 5301-int64(len(out[sdk.StreamStdout])+len(out[sdk.StreamStderr])) {
		t.Errorf("%d, %d, lost %d, %+v", len(out[sdk.StreamStdout]), len(out[sdk.StreamStderr]), lost, totals)
	}
}

// TestDamage: what is torn or overwritten is a gap, and what is behind it is
// read all the same.
func TestDamage(t *testing.T) {
	build := func() *disk {
		d := &disk{room: 4 << 20}
		w := NewWriter(d, 4<<20)
		for i := range 300 {
			w.Write(sdk.StreamStdout, time.Now(), frame(bytes.Repeat([]byte{byte(i)}, 5000)))
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, c := range map[string]struct {
		harm    func(b []byte) []byte
		frames  int
		damaged int
	}{
		"torn tail":    {func(b []byte) []byte { return b[:len(b)-1] }, 299, 1},
		"torn header":  {func(b []byte) []byte { return b[:len(b)-5024+10] }, 299, 1},
		"a byte":       {func(b []byte) []byte { b[5024*7+100] ^= 1; return b }, 299, 1},
		"a length":     {func(b []byte) []byte { b[5024*7+8] ^= 1; return b }, 299, 1},
		"a huge one":   {func(b []byte) []byte { b[5024*7+11] = 0xff; return b }, 299, 1},
		"two in a row": {func(b []byte) []byte { b[5024*7] = 0; b[5024*8] = 0; return b }, 298, 1},
		"two apart":    {func(b []byte) []byte { b[5024*7] = 0; b[5024*20] = 0; return b }, 298, 2},
		"a long part":  {func(b []byte) []byte { clear(b[5024*10 : 5024*250]); return b }, 60, 1},
		"the first":    {func(b []byte) []byte { b[0] = 0; return b }, 299, 1},
		"all":          {func(b []byte) []byte { clear(b); return b }, 0, 1},
	} {
		d := build()
		d.b = c.harm(d.b)
		out, _, damaged := readAll(t, NewReader(d, 0), true)
		if n := len(out[sdk.StreamStdout]); n != c.frames*5000 || damaged != c.damaged {
			t.Errorf("%s: %d frames and %d gaps, want %d and %d", name, n/5000, damaged, c.frames, c.damaged)
		}
	}
}

// TestWhileWriting: a reader beside two writers sees every byte once, in order.
func TestWhileWriting(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "output"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	w := NewWriter(f, 1<<30)
	const pieces = 2000
	var wg sync.WaitGroup
	done := make(chan struct{})
	for _, s := range []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr} {
		wg.Go(func() {
			for i := range pieces {
				w.Write(s, time.Now(), frame(bytes.Repeat([]byte{byte(i)}, 1+i%3000)))
			}
		})
	}
	go func() {
		wg.Wait()
		close(done)
	}()
	r := NewReader(f, 0)
	next := map[sdk.Stream]int{}
	take := func() {
		for {
			fr, err := r.Next(false)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			i := next[fr.Stream]
			if len(fr.Data) != 1+i%3000 || fr.Data[0] != byte(i) {
				t.Fatalf("%s: piece %d is %d bytes", fr.Stream, i, len(fr.Data))
			}
			next[fr.Stream]++
		}
	}
	for {
		take()
		select {
		case <-done:
			take()
			if next[sdk.StreamStdout] != pieces || next[sdk.StreamStderr] != pieces {
				t.Fatalf("got %v", next)
			}
			return
		default:
		}
	}
}

// FuzzReader: no file makes the reader fail, loop or return what it has no
// checksum for.
func FuzzReader(f *testing.F) {
	d := &disk{room: 1 << 20}
	w := NewWriter(d, 200)
	w.Write(sdk.StreamStdout, time.Now(), frame([]byte("hello")))
	w.Write(sdk.StreamStderr, time.Now(), frame(bytes.Repeat([]byte("x"), 300)))
	if _, err := w.Finish(); err != nil {
		f.Fatal(err)
	}
	f.Add(d.b, int64(0))
	f.Add(d.b[:len(d.b)-3], int64(1))
	f.Add([]byte("WLF1WLF1WLF1"), int64(2))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		if at < 0 || at > int64(len(b)) {
			return
		}
		for _, final := range []bool{false, true} {
			r := NewReader(bytes.NewReader(b), at)
			last := r.Offset()
			for range len(b) + 2 {
				_, err := r.Next(final)
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.Offset() <= last || r.Offset() > int64(len(b)) {
					t.Fatalf("offset %d after %d of %d", r.Offset(), last, len(b))
				}
				last = r.Offset()
			}
			t.Fatal("no end")
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "output"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, HeaderSize+64<<10)
	b.SetBytes(64 << 10)
	w := NewWriter(f, 1<<40)
	for i := 0; b.Loop(); i++ {
		if i%4096 == 0 {
			w = NewWriter(f, 1<<40) // over the same 256 MiB again
		}
		w.Write(sdk.StreamStdout, time.Time{}, data)
	}
}

func BenchmarkReader(b *testing.B) {
	d := &disk{room: 1 << 30}
	w := NewWriter(d, 1<<30)
	for range 256 {
		w.Write(sdk.StreamStdout, time.Now(), make([]byte, HeaderSize+64<<10))
	}
	b.SetBytes(256 * 64 << 10)
	for b.Loop() {
		r := NewReader(bytes.NewReader(d.b), 0)
		for {
			if _, err := r.Next(true); err != nil {
				break
			}
		}
	}
}
