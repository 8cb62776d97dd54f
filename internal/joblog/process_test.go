//go:build unix

package joblog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func bigSource() *source {
	src := &source{streams: []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr}, strips: true}
	text := map[sdk.Stream][]byte{}
	rnd := rand.New(rand.NewPCG(10, 11))
	for _, st := range src.streams {
		for len(text[st]) < 200_000 {
			text[st] = append(text[st], "abc\nd\xff\x00"[rnd.IntN(7)])
		}
	}
	src.sections = []map[sdk.Stream][]byte{text}
	return src
}

// captureUntilKilled is a holder in a process of its own: it goes on where the
// last one was, and ends the log if it is left alone.
func captureUntilKilled() {
	var k Key
	var epoch uint64
	var dir, run string
	if _, err := fmt.Sscan(os.Getenv(captureEnv), &dir, &run, &epoch); err != nil {
		panic(err)
	}
	k.Run, _ = sdk.ParseID(run)
	k.Attempt = 1
	s, err := Open(dir, Options{SegmentBytes: 32 << 10, FlushEvery: time.Millisecond})
	if err != nil {
		panic(err)
	}
	w, err := s.Writer(k, epoch)
	if err != nil {
		panic(err)
	}
	f := bigSource().feed(w.Cursor(), rand.New(rand.NewPCG(epoch, 1)).IntN, 100, 5)
	for i := 0; ; i++ {
		it, ok := f.next()
		if !ok {
			break
		}
		if err := w.Append(it); err != nil {
			panic(err)
		}
		if i%100 == 0 {
			if err := w.Sync(); err != nil {
				panic(err)
			}
		}
	}
	if _, err := w.Finish(sdk.VerdictComplete); err != nil {
		panic(err)
	}
}

// Holders in processes of their own are killed in the middle, again and again;
// a follower here gets every byte once.
func TestKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	must(t, err)
	k := newKey()
	src := bigSource()
	x := watch(t, "follower", src)
	done := make(chan error, 1)
	go func() { done <- x.read(context.Background(), s, k, -1, ReadOptions{Follow: true}) }()
	rnd := rand.New(rand.NewPCG(12, 13))
	for epoch := 1; ; epoch++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", captureEnv, dir, k.Run, epoch))
		cmd.Stderr = os.Stderr
		must(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if epoch < 10 {
			// Any moment is right: nothing depends on which it is.
			select {
			case <-time.After(time.Duration(5+rnd.IntN(60)) * time.Millisecond):
				must(t, cmd.Process.Signal(syscall.SIGKILL))
			case err = <-ended:
				must(t, err)
				ended <- nil
			}
		}
		if err := testwait.Receive(t, time.Minute, "end of the holder", ended); err == nil {
			break
		}
	}
	must(t, testwait.Receive(t, time.Minute, "end of the log", done))
	late := watch(t, "late reader", src)
	must(t, late.read(t.Context(), s, k, -1, ReadOptions{}))
	for _, x := range []*watcher{x, late} {
		x.complete()
		if x.gone > 0 || x.end.Verdict != sdk.VerdictComplete {
			t.Fatalf("%s: %d gone, %s", x.name, x.gone, x.end.Verdict)
		}
	}
}
