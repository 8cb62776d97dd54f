package joblog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// packable writes a log of several segments that has ended, and returns its bytes.
func packable(t testing.TB, s *Store, k Key) string {
	t.Helper()
	w := mustWriter(t, s, k, 1)
	var want strings.Builder
	for i := range 4000 {
		line := fmt.Sprintf("line %d of a job that says much the same again\n", i)
		if i == 2000 {
			must(t, w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: 7, Why: "rotated"}}))
			want.WriteString("[gap 7]")
		}
		must(t, w.Append(kept(sdk.StreamStdout, line)))
		want.WriteString(line)
	}
	_, err := w.Finish(sdk.VerdictComplete)
	must(t, err)
	must(t, w.Close())
	return want.String() + "[gap]"
}

func names(t testing.TB, s *Store, k Key, suffix string) (out []string) {
	t.Helper()
	entries, err := s.fs.ReadDir(s.attemptDir(k))
	must(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			out = append(out, e.Name())
		}
	}
	return out
}

func mustPack(t testing.TB, s *Store, k Key) Packed {
	t.Helper()
	p, err := s.Pack(context.Background(), k.Run)
	must(t, err)
	return p
}

func TestPackedLogReadsTheSame(t *testing.T) {
	s, k := mustOpen(t, Options{SegmentBytes: 32 << 10}), newKey()
	want := packable(t, s, k)
	check(t, "before", readAll(t, s, k, ReadOptions{}), want)
	size, err := s.Size(k.Run)
	must(t, err)
	// Every place of before is good afterwards, and so are tails.
	var places []Position
	for it, err := range s.Read(t.Context(), k, ReadOptions{}) {
		must(t, err)
		places = append(places, it.Pos)
	}
	rests := map[int]string{}
	for i := 0; i < len(places); i += 97 {
		rests[i] = readAll(t, s, k, ReadOptions{From: places[i]})
	}
	tail := readAll(t, s, k, ReadOptions{Tail: Lines(1500)})

	p := mustPack(t, s, k)
	now, err := s.Size(k.Run)
	must(t, err)
	if plain := names(t, s, k, segSuffix); len(plain) != 0 || len(names(t, s, k, packSuffix)) < 5 {
		t.Errorf("segments: %v, %v", plain, names(t, s, k, packSuffix))
	}
	if p.Before != size || p.After != now || now*4 > size {
		t.Errorf("%d bytes became %d, reported as %+v", size, now, p)
	}
	check(t, "after", readAll(t, s, k, ReadOptions{}), want)
	check(t, "the tail", readAll(t, s, k, ReadOptions{Tail: Lines(1500)}), tail)
	for i, rest := range rests {
		check(t, fmt.Sprintf("from item %d", i), readAll(t, s, k, ReadOptions{From: places[i]}), rest)
	}
	if p := mustPack(t, s, k); p != (Packed{}) {
		t.Errorf("packed twice: %+v", p)
	}
	// A writer that comes late finds the same end.
	w := mustWriter(t, mustOpenAt(t, s), k, 2)
	if v, err := w.Finish(sdk.VerdictComplete); err != nil || v != sdk.VerdictGap {
		t.Errorf("verdict %s, %v", v, err)
	}
	must(t, w.Close())
	must(t, s.Remove(k.Run))
	if _, err := s.fs.Stat(s.runDir(k.Run)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
}

// TestPackUnderReaders: a reader that is in the middle of a log when it is packed goes
// on as if nothing had happened.
func TestPackUnderReaders(t *testing.T) {
	s, k := mustOpen(t, Options{SegmentBytes: 16 << 10}), newKey()
	want := packable(t, s, k)
	for _, at := range []int{1, 500, 1999, 3500} {
		other := mustOpen(t, Options{SegmentBytes: 16 << 10})
		// A plain copy of it, for packing is for good.
		must(t, os.CopyFS(other.dir, os.DirFS(s.dir)))
		var b []byte
		var r Renderer
		n := 0
		for it, err := range other.Read(t.Context(), k, ReadOptions{Follow: true}) {
			must(t, err)
			switch {
			case it.Entry != nil:
				b = r.Append(b, it.Entry)
			case it.Gap != nil:
				b = fmt.Appendf(b, "[gap %d]", it.Gap.Bytes)
			case it.End != nil:
				b = fmt.Appendf(b, "[%s]", it.End.Verdict)
			}
			if n++; n == at {
				if p := mustPack(t, other, k); p.After == 0 {
					t.Fatal("nothing was packed")
				}
			}
		}
		check(t, fmt.Sprintf("packed at item %d", at), string(b), want)
	}
}

func TestPackLeavesAlone(t *testing.T) {
	s := mustOpen(t, Options{})
	t.Run("what has not ended", func(t *testing.T) {
		k := newKey()
		w := mustWriter(t, s, k, 1)
		for range 1000 {
			must(t, w.Append(kept(sdk.StreamStdout, "again and again\n")))
		}
		must(t, w.Sync())
		if p := mustPack(t, s, k); p != (Packed{}) || len(names(t, s, k, segSuffix)) != 1 {
			t.Errorf("%+v", p)
		}
		must(t, w.Append(kept(sdk.StreamStdout, "the end\n")))
		_, err := w.Finish(sdk.VerdictComplete)
		must(t, err)
		must(t, w.Close())
		if p := mustPack(t, s, k); p.After == 0 {
			t.Error("it was not packed at its end")
		}
		if got := readAll(t, s, k, ReadOptions{Tail: Lines(1)}); got != "the end\n[complete]" {
			t.Errorf("tail %q", got)
		}
	})
	t.Run("what takes no less room", func(t *testing.T) {
		k := newKey()
		w := mustWriter(t, s, k, 1)
		noise := make([]byte, 64<<10)
		rnd := rand.NewChaCha8([32]byte{1})
		_, _ = rnd.Read(noise)
		must(t, w.Append(kept(sdk.StreamStdout, string(noise))))
		_, err := w.Finish(sdk.VerdictComplete)
		must(t, err)
		must(t, w.Close())
		for range 2 { // the second time it isn't even read
			if p := mustPack(t, s, k); p != (Packed{}) || len(names(t, s, k, segSuffix)) != 1 || len(names(t, s, k, packedMark)) != 1 {
				t.Errorf("%+v", p)
			}
		}
		check(t, "noise", readAll(t, s, k, ReadOptions{}), string(noise)+"[complete]")
	})
	t.Run("what isn't there", func(t *testing.T) {
		if p := mustPack(t, s, newKey()); p != (Packed{}) {
			t.Errorf("%+v", p)
		}
	})
}

// TestPackCrash: wherever a packing is cut short, and the power with it, the log is
// whole, and the next packing ends what this one began.
func TestPackCrash(t *testing.T) {
	start := newMemFS()
	s := mustOpen(t, Options{FS: start, SegmentBytes: 64 << 10})
	k := newKey()
	want := packable(t, s, k)
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		mem := start.powerLoss(func(int) int { return 1 }) // all of it is on the disk
		left := rnd.IntN(20)
		cut := errors.New("the process dies here")
		die := func() error {
			if left--; left < 0 {
				return cut
			}
			return nil
		}
		mem.onSync = func(string) error { return die() }
		mem.onWrite = func(_ string, n int) (int, error) {
			if err := die(); err != nil {
				return rnd.IntN(n + 1), err
			}
			return n, nil
		}
		o := mustOpen(t, Options{FS: mem, SegmentBytes: 64 << 10})
		o.dir = s.dir
		if _, err := o.Pack(t.Context(), k.Run); err == nil && left < 0 {
			t.Fatalf("seed %d: a failure was swallowed", seed)
		}
		mem.onSync, mem.onWrite = nil, nil
		after := mem.powerLoss(rnd.IntN)
		p := mustOpen(t, Options{FS: after, SegmentBytes: 64 << 10})
		p.dir = s.dir
		check(t, fmt.Sprintf("seed %d: after the crash", seed), readAll(t, p, k, ReadOptions{}), want)
		mustPack(t, p, k)
		check(t, fmt.Sprintf("seed %d: packed", seed), readAll(t, p, k, ReadOptions{}), want)
		if rest := append(names(t, p, k, segSuffix), names(t, p, k, packTemp)...); len(rest) != 0 {
			t.Fatalf("seed %d: left over: %v", seed, rest)
		}
	}
}

// TestDamagedPack: what can't be unpacked is a gap, as it is in a plain segment.
func TestDamagedPack(t *testing.T) {
	s, k := mustOpen(t, Options{SegmentBytes: 32 << 10}), newKey()
	want := packable(t, s, k)
	mustPack(t, s, k)
	files := names(t, s, k, packSuffix)
	name := filepath.Join(s.attemptDir(k), files[2])
	whole, err := os.ReadFile(name)
	must(t, err)
	for _, bad := range [][]byte{whole[:len(whole)-9], whole[:len(whole)/2], bytes.Join([][]byte{whole[:len(whole)-200], make([]byte, 200)}, nil)} {
		must(t, os.WriteFile(name, bad, 0o600))
		got := readAll(t, s, k, ReadOptions{})
		before, after, ok := strings.Cut(got, "[gap ")
		if _, rest, _ := strings.Cut(after, "]"); !ok || !strings.HasPrefix(want, before) || !strings.HasSuffix(want, rest) || len(rest) < 1000 || strings.HasPrefix(after, "7]") {
			t.Errorf("%d bytes of %d: got %.80q … %.200q", len(bad), len(whole), before, after)
		}
	}
}

// FuzzUnpack: no bytes make unpacking fail in another way than by ending early.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("head and no frame"), uint8(4))
	f.Add([]byte("\x28\xb5\x2f\xfd\x24\x01\x09\x00\x00a\xb4\xd2\x92\x4e"), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, head uint8) {
		mem := newMemFS()
		mem.dirs["/"] = true
		file, err := mem.OpenFile("/x", os.O_CREATE, 0o600)
		must(t, err)
		_, err = file.WriteAt(b, 0)
		must(t, err)
		u, err := unpack(file, int64(head))
		must(t, err)
		buf := make([]byte, 64)
		if n, err := u.ReadAt(buf, int64(head)); n == 0 && err == nil {
			t.Error("neither bytes nor an end")
		}
	})
}
