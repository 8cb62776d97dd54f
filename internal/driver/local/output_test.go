//go:build linux || darwin

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestF44ShortJobs: jobs that end at once lose neither output nor exit code.
func TestF44ShortJobs(t *testing.T) {
	w := newWorld(t, "")
	n := 60
	if testing.Short() {
		n = 10
	}
	for i := range n {
		h := w.run(sh(fmt.Sprintf("echo %d; exit %d", i, i)))
		out := w.logs(h, nil, true)
		if want := fmt.Sprintf("%d\n", i); out.stdout.String() != want || out.verdict != sdk.VerdictComplete {
			t.Fatalf("output %q, %s", out.stdout.String(), out.verdict)
		}
		if res := w.status(h); !res.State.Terminal() || res.ExitCode == nil || *res.ExitCode != i {
			t.Fatalf("after the end of the log: %s, %v", res.State, res.ExitCode)
		}
		w.cleanUp(h)
	}
}

// TestF64Bytes: output is bytes, wherever it is cut.
func TestF64Bytes(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh(`i=0; while [ $i -lt 50 ]; do printf '\303'; printf '\251\345\256'; printf '\266\360\237\232'; printf '\200\377\000'; i=$((i+1)); done`))
	out := w.logs(h, nil, true)
	if want := strings.Repeat("é家🚀\xff\x00", 50); out.stdout.String() != want {
		t.Errorf("got %d bytes %q", out.stdout.Len(), out.stdout.String()[:min(40, out.stdout.Len())])
	}
}

// TestF65LongLines: a line of a megabyte and a short one behind it arrive whole.
func TestF65LongLines(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh(`head -c 3000000 /dev/zero | tr '\0' x; echo; echo short`))
	out := w.logs(h, nil, true)
	if want := strings.Repeat("x", 3000000) + "\nshort\n"; out.stdout.String() != want || out.verdict != sdk.VerdictComplete {
		t.Errorf("got %d bytes, %s", out.stdout.Len(), out.verdict)
	}
}

// TestF67Streams: each stream keeps its order and loses nothing, and a reader
// that comes back to any cursor gets the rest once.
func TestF67Streams(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh(`i=0; while [ $i -lt 3000 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done`))
	var out, errs strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&out, "out %d\n", i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}
	whole := w.logs(h, nil, true)
	if whole.stdout.String() != out.String() || whole.stderr.String() != errs.String() {
		t.Errorf("got %d and %d bytes, want %d and %d", whole.stdout.Len(), whole.stderr.Len(), out.Len(), errs.Len())
	}
	var first, second strings.Builder
	var at *sdk.LogCursor
	var all []sdk.LogItem
	for it, err := range w.p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Entry != nil {
			it.Entry.Data = bytes.Clone(it.Entry.Data)
		}
		all = append(all, it)
	}
	cursors := 0
	for i, it := range all {
		if it.Entry != nil {
			fmt.Fprintf(&first, "%s%s", it.Entry.Stream, it.Entry.Data)
		}
		if it.Cursor == nil {
			continue
		}
		cursors++
		at = it.Cursor
		second.Reset()
		second.WriteString(first.String())
		for _, later := range all[i+1:] {
			if later.Entry != nil {
				fmt.Fprintf(&second, "%s%s", later.Entry.Stream, later.Entry.Data)
			}
		}
		var again strings.Builder
		again.WriteString(first.String())
		for it, err := range w.p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Cursor: at}) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil {
				fmt.Fprintf(&again, "%s%s", it.Entry.Stream, it.Entry.Data)
			}
		}
		if again.String() != second.String() {
			t.Fatalf("from %v: another log", at.Position)
		}
	}
	if cursors < 2 {
		t.Errorf("%d cursors", cursors)
	}
}

func TestCursors(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("echo x"))
	w.ended(h)
	end := w.logs(h, nil, true).end
	for name, c := range map[string]struct {
		cursor sdk.LogCursor
		code   sdk.Code
	}{
		"newer":     {sdk.LogCursor{V: 99, Kind: Kind, Position: end.Position}, sdk.FailedPrecondition},
		"kind":      {sdk.LogCursor{V: 1, Kind: "docker", Position: end.Position}, sdk.InvalidArgument},
		"attempt":   {sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{keyOffset: "0"}}, sdk.InvalidArgument},
		"no offset": {sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{keyAttempt: h.ID}}, sdk.InvalidArgument},
		"far":       {sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{keyAttempt: h.ID, keyOffset: "99999"}}, sdk.OutOfRange},
	} {
		var last error
		for _, err := range w.p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Cursor: &c.cursor}) {
			last = err
		}
		if sdk.CodeOf(last) != c.code {
			t.Errorf("%s: got %v, want %s", name, last, c.code)
		}
	}
}

// TestF70OutputCap: past its cap output is counted and dropped, the head is
// kept to the byte, and the job goes on.
func TestF70OutputCap(t *testing.T) {
	w := newWorld(t, `{"max_output":65536}`)
	h := w.run(sh(`head -c 1000000 /dev/zero | tr '\0' x; exit 3`))
	out := w.logs(h, nil, true)
	if res := w.ended(h); res.ExitCode == nil || *res.ExitCode != 3 {
		t.Errorf("got %s", res.Message)
	}
	if out.verdict != sdk.VerdictTruncatedByUs || len(out.gaps) != 1 || out.gaps[0].Bytes+int64(out.stdout.Len()) != 1000000 || out.stdout.Len() < 64000 {
		t.Errorf("%d bytes, %+v, %s", out.stdout.Len(), out.gaps, out.verdict)
	}
	spec := sh(`head -c 100000 /dev/zero`)
	spec.Options = []byte(`{"max_output":200000}`)
	if out := w.logs(w.run(spec), nil, true); out.stdout.Len() != 100000 || out.verdict != sdk.VerdictComplete {
		t.Errorf("with the option: %d bytes, %s", out.stdout.Len(), out.verdict)
	}
}

// TestFullDisk: on a full disk the job goes on, its end is recorded, what was
// lost is said, and a cancel works.
func TestFullDisk(t *testing.T) {
	testneed.Root(t)
	w := newWorld(t, "")
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	mountSmall(t, small)
	w.state = small
	w.p = openIn(t, small, "")
	filler := filepath.Join(small, "filler")
	fill := func() {
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(f, zeros{})
		if cerr := f.Close(); err == nil || cerr != nil {
			t.Fatalf("the disk is not full: %v, %v", err, cerr)
		}
	}
	gate := filepath.Join(t.TempDir(), "gate")
	h := w.run(sh("echo up; while [ ! -e " + gate + ".1 ]; do sleep 0.01; done; head -c 200000 /dev/zero; touch " + gate + ".done;" +
		"while [ ! -e " + gate + ".2 ]; do sleep 0.01; done; echo end; exit 3"))
	w.up(h)
	hung := w.run(sh("echo up; trap '' TERM; sleep 1000 & wait; sleep 1000"))
	w.up(hung)
	fill()
	touch(t, gate+".1")
	testwait.Until(t, patience, "job that wrote on a full disk", func() bool { return exists(gate + ".done") })
	if res := w.cancel(hung, span(0)); !res.Accepted {
		t.Errorf("cancel on a full disk: %+v", res)
	}
	if res := w.ended(hung); res.State != sdk.StateCancelled {
		t.Errorf("got %s, %s", res.State, res.Message)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	touch(t, gate+".2")
	out := w.logs(h, nil, true)
	lost := int64(0)
	for _, g := range out.gaps {
		lost += g.Bytes
	}
	if out.verdict != sdk.VerdictGap || !strings.HasSuffix(out.stdout.String(), "end\n") || lost == 0 || lost+int64(out.stdout.Len()) != 200000+7 {
		t.Errorf("%d bytes, %d lost, %s, %+v", out.stdout.Len(), lost, out.verdict, out.gaps)
	}
	if res := w.ended(h); res.ExitCode == nil || *res.ExitCode != 3 {
		t.Errorf("got %s", res.Message)
	}

	// Full to the end: the record has its room.
	full := w.run(sh("echo up; while [ ! -e " + gate + ".3 ]; do sleep 0.01; done; head -c 100000 /dev/zero; exit 4"))
	w.up(full)
	fill()
	touch(t, gate+".3")
	if res := w.ended(full); res.ExitCode == nil || *res.ExitCode != 4 {
		t.Errorf("got %s", res.Message)
	}
	out = w.logs(full, nil, true)
	lost = 0
	for _, g := range out.gaps {
		lost += g.Bytes
	}
	if out.verdict != sdk.VerdictGap || lost+int64(out.stdout.Len()) != 100000+3 {
		t.Errorf("%d bytes, %d lost, %s", out.stdout.Len(), lost, out.verdict)
	}
	// And a new job is refused clearly, and leaves nothing.
	l := w.launch(sh("true"))
	if _, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()}); !sdk.IsClear(err) || !strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v", err)
	}
	if exists(string(attempt.In(small, l.AttemptID))) {
		t.Error("the refused job left its folder")
	}
	w.cleanUp(full)
	w.sweep()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestFollowLive: output is seen while the job runs, from before its first
// byte on.
func TestFollowLive(t *testing.T) {
	w := newWorld(t, "")
	gate := filepath.Join(t.TempDir(), "gate")
	h := w.run(sh("while [ ! -e " + gate + " ]; do sleep 0.01; done; echo one; while [ ! -e " + gate + ".2 ]; do sleep 0.01; done; echo two"))
	got := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(got)
		for it, err := range w.p.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
			if err != nil {
				return
			}
			if it.Entry != nil {
				got <- string(it.Entry.Data)
			}
		}
	}()
	touch(t, gate)
	if s := testwait.Receive(t, patience, "first line", got); s != "one\n" {
		t.Errorf("got %q", s)
	}
	touch(t, gate+".2")
	if s := testwait.Receive(t, patience, "second line", got); s != "two\n" {
		t.Errorf("got %q", s)
	}
	testwait.Until(t, patience, "end of the stream", func() bool {
		select {
		case _, ok := <-got:
			return !ok
		default:
			return false
		}
	})
	w.ended(h)
}

// TestWatch: a watcher hears of a job's start and end at once, and a resumed
// one of what happened meanwhile.
func TestWatch(t *testing.T) {
	w := newWorld(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan sdk.WatchEvent, 100)
	finished := make(chan error, 1)
	go func() {
		var last error
		for ev, err := range w.p.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: "owner"}) {
			if last = err; err == nil {
				events <- ev
			}
		}
		finished <- last
	}()
	gate := filepath.Join(t.TempDir(), "gate")
	var h sdk.JobHandle
	var ev sdk.WatchEvent
	// The watch may begin after the first job did.
	testwait.Until(t, patience, "event of a start", func() bool {
		h = w.run(sh("while [ ! -e " + gate + " ]; do sleep 0.01; done"))
		select {
		case ev = <-events:
			return true
		case <-time.After(200 * time.Millisecond):
			return false
		}
	})
	if ev.AttemptID.IsZero() {
		t.Errorf("got %+v", ev)
	}
	touch(t, gate)
	ended := time.Now()
	for ev = testwait.Receive(t, patience, "event of the end", events); ev.AttemptID.String() != h.ID || !w.status(h).State.Terminal(); {
		ev = testwait.Receive(t, patience, "event of the end", events)
	}
	t.Logf("told %s after the gate", time.Since(ended))
	cancel()
	if err := testwait.Receive(t, patience, "end of the watch", finished); !errors.Is(err, sdk.Canceled) {
		t.Errorf("got %v", err)
	}
	other := w.run(sh("exit 0"))
	w.ended(other)
	for again, err := range w.p.WatchJobs(t.Context(), sdk.WatchJobsRequest{Resume: ev.Resume}) {
		if err != nil {
			t.Fatal(err)
		}
		if again.AttemptID.String() == other.ID {
			break
		}
	}
}

// TestF84SecretsStayInMemory: the value is in the job's environment, and in no
// file of ours and no command line but the job's own.
func TestF84SecretsStayInMemory(t *testing.T) {
	w := newWorld(t, "")
	spec := sh(`echo up; [ "$CANARY" = ` + strings.Replace(canary, "-", "'-'", 1) + ` ] && exec sleep 1000; exit 9`)
	spec.Secrets = map[string]sdk.SecretRef{"CANARY": "secret://env/CANARY"}
	spec.Env = sdk.Env{"PLAIN": "plain-8e1c-value"}
	l := w.launch(spec)
	amb := ambient()
	amb.Env = append(amb.Env, []byte("PRIVATE=inherited-55aa-value"))
	res, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: amb})
	if err != nil {
		t.Fatal(err)
	}
	w.up(res.Handle)
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	handle, err := res.Handle.Encode()
	if err != nil {
		t.Fatal(err)
	}
	seen := w.exposed(t, res.Handle)
	seen["launch"], seen["handle"] = b, handle
	seen["output"] = []byte(w.logs(res.Handle, nil, false).stdout.String())
	for name, data := range seen {
		for _, secret := range []string{canary, "inherited-55aa-value"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s shows %s", name, secret)
			}
		}
		// F87: what the launch may hold stands in no command line.
		if strings.HasSuffix(name, "cmdline") && bytes.Contains(data, []byte("plain-8e1c-value")) {
			t.Errorf("%s shows the environment", name)
		}
	}
	if res := w.status(res.Handle); res.State != sdk.StateRunning {
		t.Errorf("the job did not get its secret: %s, %s", res.State, res.Message)
	}
}
