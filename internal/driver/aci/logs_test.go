package aci

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// whole reads a log once and returns its text, how many gaps it has, and the
// verdict.
func (w *world) whole(p *provider, h sdk.JobHandle, from *sdk.LogCursor) (text string, gaps int, v sdk.Verdict) {
	w.T.Helper()
	var b strings.Builder
	for it, err := range p.JobLogs(w.T.Context(), sdk.JobLogsRequest{Handle: h, Cursor: from}) {
		if err != nil {
			w.T.Fatal(err)
		}
		if it.Entry != nil {
			b.Write(it.Entry.Data)
			if it.Entry.LineEnd == sdk.LineEndStripped {
				b.WriteByte('\n')
			}
		}
		if it.Gap != nil {
			gaps++
		}
		if it.End != nil {
			v = it.End.Verdict
		}
	}
	return b.String(), gaps, v
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestLongLogIsFollowedWhole: a log of many times what one read gives is followed
// without a loss, by reads of its last lines.
func TestLongLogIsFollowedWhole(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	const rounds, each = 12, 450
	text, dir := strings.Repeat("x", 1000), t.TempDir()
	// A round is written once the one before was read.
	script := fmt.Sprintf(`r=0; while [ $r -lt %d ]; do i=0; while [ $i -lt %d ]; do echo "$((r*%d+i)) %s"; i=$((i+1)); done; r=$((r+1)); while [ ! -e '%s/'$r ]; do sleep 0.01; done; done; echo end`,
		rounds, each, each, text, dir)
	h := w.Run(p, w.Plan(p, shell(script)))
	n, size := 0, 0
	for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Gap != nil {
			t.Fatalf("gap behind line %d: %s", n, it.Gap.Why)
		}
		if it.Entry == nil {
			continue
		}
		if string(it.Entry.Data) == "end" {
			break
		}
		if want := fmt.Sprintf("%d %s", n, text); string(it.Entry.Data) != want {
			t.Fatalf("line %d is %.20q", n, it.Entry.Data)
		}
		if n, size = n+1, size+len(it.Entry.Data); n%each == 0 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, n/each), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != rounds*each || size < 5<<20 {
		t.Errorf("%d lines, %d bytes", n, size)
	}
}

// TestProviderTruncates: of a log that is longer than what Azure keeps, the lack is
// told, at the place where it is.
func TestProviderTruncates(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(`echo first; sleep 0.5; head -c 6000000 /dev/zero | tr '\0' 'x' | fold -w 99; echo; echo last`)))
	var cursor *sdk.LogCursor
	w.Eventually("first line", func() bool {
		var text string
		text, cursor = w.Text(p, h, nil)
		return text == "first\n"
	})
	w.Ended(p, h)
	for name, from := range map[string]*sdk.LogCursor{"from the start": nil, "from a cursor": cursor} {
		text, gaps, v := w.whole(p, h, from)
		if gaps != 1 || v != sdk.VerdictTruncatedByProvider || !strings.HasSuffix(text, "x\nlast\n") || len(text) < 3<<20 || strings.Contains(text, "first") {
			t.Errorf("%s: %d bytes, %d gaps, verdict %s", name, len(text), gaps, v)
		}
	}
}

// TestSmallLogOfAnEndedContainer: where Azure keeps only the last thousand lines of
// a container that has ended, a fresh reader says so, and one that has followed has
// lost nothing.
func TestSmallLogOfAnEndedContainer(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.EndedLogSmall = true })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(`i=0; while [ $i -lt 1500 ]; do echo "line $i"; i=$((i+1)); done; sleep 0.5; echo end`)))
	var cursor *sdk.LogCursor
	w.Eventually("all lines", func() bool {
		var text string
		text, cursor = w.Text(p, h, nil)
		return text == lines(0, 1500)
	})
	w.Ended(p, h)
	if text, gaps, v := w.whole(p, h, cursor); text != "end\n" || gaps != 0 || v != sdk.VerdictQuiet {
		t.Errorf("from the cursor: %q, %d gaps, %s", text, gaps, v)
	}
	text, gaps, v := w.whole(w.Open(), h, nil)
	if gaps != 1 || v != sdk.VerdictTruncatedByProvider || !strings.HasSuffix(text, "line 1499\nend\n") || strings.HasPrefix(text, "line 0\n") {
		t.Errorf("from the start: %d bytes, %d gaps, %s", len(text), gaps, v)
	}
}

// TestCancelKeepsTheLog: a stopped group shows no log; what was there before the
// stop is found by every process of the state directory, until it is cleaned up.
func TestCancelKeepsTheLog(t *testing.T) {
	for name, drop := range map[string]bool{"nothing shown": true, "little shown": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pocket.Options{}, nil)
			w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.StopDropsView = drop })
			dir := t.TempDir()
			here := func(r *sdk.OpenRequest) { r.StateDir = dir }
			p, other := w.Open(here), w.Open(here)
			h := w.Run(p, w.Plan(p, shell(`trap 'echo bye; exit 1' TERM; i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; while :; do sleep 1 & wait $!; done`)))
			w.Eventually("all lines", func() bool {
				text, _ := w.Text(p, h, nil)
				return text == lines(0, 3000)
			})
			if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
				t.Fatal(err)
			}
			if st := w.Ended(p, h); st.State != sdk.StateCancelled {
				t.Fatalf("after the cancel: %s", st.State)
			}
			want := lines(0, 3000)
			if !drop {
				want += "bye\n"
			}
			for _, q := range []*provider{p, other} {
				if text, gaps, v := w.whole(q, h, nil); text != want || gaps != 0 || v != sdk.VerdictQuiet {
					t.Errorf("%d bytes of %d, %d gaps, %s", len(text), len(want), gaps, v)
				}
			}
			if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
				t.Fatal(err)
			}
			if text, err := p.spool.read(h.ID); text != "" || err != nil {
				t.Errorf("after the clean-up %d bytes are left, %v", len(text), err)
			}
		})
	}
}

// TestReadFurtherThanKept: who has read more than was kept before a stop, of a log
// that isn't shown any more, gets nothing twice.
func TestReadFurtherThanKept(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; echo two; echo three; sleep 100")))
	var cursor *sdk.LogCursor
	w.Eventually("three lines", func() bool {
		var text string
		text, cursor = w.Text(p, h, nil)
		return text == "one\ntwo\nthree\n"
	})
	whole, err := p.fetch(t.Context(), h, 0)
	if err != nil {
		t.Fatal(err)
	}
	early, _, _ := strings.Cut(whole, "\n")
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.StopDropsView = true })
	if err := p.stop(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	w.Ended(p, h)
	if err := p.spool.keep(h.ID, early+"\n"); err != nil {
		t.Fatal(err)
	}
	if text, gaps, v := w.whole(p, h, cursor); text != "" || gaps != 0 || v != sdk.VerdictQuiet {
		t.Errorf("behind all of it: %q, %d gaps, %s", text, gaps, v)
	}
	if text, _, _ := w.whole(p, h, nil); text != "one\n" {
		t.Errorf("from the start: %q", text)
	}
}

// TestLogBeginsAnew: when a container was run again and its log with it, that is
// told, and both runs' lines come.
func TestLogBeginsAnew(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.RestartDropsLog = true })
	read := make(chan struct{})
	w.cloud.Strike(pocket.Mishap{Stage: pocket.StageMaintenance, When: read})
	p := w.Open()
	gate := filepath.Join(t.TempDir(), "gate")
	h := w.Run(p, w.Plan(p, shell("echo up; until [ -e "+gate+" ]; do sleep 0.05; done; echo done")))
	var launches []int
	gaps := 0
	for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Gap != nil {
			gaps++
		}
		if it.Entry != nil {
			launches = append(launches, it.Entry.Launch)
			switch len(launches) {
			case 1:
				close(read)
			case 2:
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if string(it.Entry.Data) == "done" {
				break
			}
		}
	}
	if gaps != 1 || fmt.Sprint(launches) != "[0 1 1]" {
		t.Errorf("%d gaps, launches %v", gaps, launches)
	}
}

// TestF49LateLines: lines that show after the job's end are read.
func TestF49LateLines(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.LogDelay = 300 * time.Millisecond })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; echo two; printf three")))
	w.Ended(p, h)
	text, cursor := w.Text(p, h, nil)
	w.Eventually("late lines", func() bool {
		var more string
		more, cursor = w.Text(p, h, cursor)
		text += more
		return text == "one\ntwo\nthree"
	})
}

// TestEarlyLog: the log of a container that hasn't started is an empty one, however
// Azure words that.
func TestEarlyLog(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.cloud.Strike(pocket.Mishap{Stage: pocket.StageWait})
	h := w.Run(p, w.Plan(p, shell("true")))
	for _, code := range []string{"", "ContainerGroupTransitioning", "ContainerLogNotAvailable"} {
		w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.EarlyLogs = code })
		if text, gaps, v := w.whole(p, h, nil); text != "" || gaps != 0 || v != sdk.VerdictQuiet {
			t.Errorf("%q: %q, %d gaps, %s", code, text, gaps, v)
		}
	}
}

// TestF62HandleFindsTheLog: a handle alone, in a process that knows nothing else,
// finds the log; of a group that is gone the error says so.
func TestF62HandleFindsTheLog(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo found")))
	w.Ended(p, h)
	raw, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := sdk.DecodeHandle(raw)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := w.Text(w.Open(), again, nil); text != "found\n" {
		t.Errorf("the log is %q", text)
	}
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	for _, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if sdk.CodeOf(err) != sdk.NotFound {
			t.Errorf("the log of a group that is gone: %v", err)
		}
	}
}

// TestLogErrorsPass: a read that fails is an error of the stream, and the cursor
// goes on behind it.
func TestLogErrorsPass(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; sleep 0.3; echo two")))
	w.Eventually("first line", func() bool {
		text, _ := w.Text(p, h, nil)
		return text == "one\n"
	})
	_, cursor := w.Text(p, h, nil)
	remove := w.cloud.Faults().Add(fault.Rule{Action: "Containers_ListLogs", Effect: fault.Effect{Refuse: &fault.Refusal{Status: 500, Code: "InternalServerError", Message: "words"}}})
	_, err := w.Follow(context.WithoutCancel(t.Context()), p, h, nil)
	if sdk.CodeOf(err) != sdk.Unavailable {
		t.Errorf("got %v", err)
	}
	remove()
	w.Ended(p, h)
	if text, _ := w.Text(p, h, cursor); text != "two\n" {
		t.Errorf("behind the cursor stands %q", text)
	}
}
