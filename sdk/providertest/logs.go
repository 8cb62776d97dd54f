package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

func notBytes(g sdk.Guarantees) string {
	if g.Logs.Fidelity != sdk.LogBytes {
		return "Logs.Fidelity"
	}
	return ""
}

func notApart(g sdk.Guarantees) string {
	if !g.Logs.Apart {
		return "Logs.Apart"
	}
	return ""
}

func notLive(g sdk.Guarantees) string {
	if !g.Logs.Live {
		return "Logs.Live"
	}
	return ""
}

func logChecks() []Check {
	logs := []string{"JobLogger"}
	return []Check{
		{Name: "log-text", Doc: "Lines of text arrive whole, once and in order.", Needs: logs, run: checkLogText},
		{Name: "log-bytes", Doc: "Any bytes arrive as written, without a newline at the end too.", Needs: logs, Waivable: notBytes, run: checkLogBytes},
		{Name: "log-apart", Doc: "Stdout and stderr are told apart.", Needs: logs, Waivable: notApart, run: checkLogApart},
		{Name: "log-long-line", Doc: "A line of 1 MiB and a short one behind it arrive whole.", Needs: logs, run: checkLogLong},
		{Name: "log-many-lines", Doc: "Of 10,000 lines none is lost or doubled.", Needs: logs, run: checkLogMany},
		{Name: "log-empty", Doc: "A job without output has a log, which is empty.", Needs: logs, run: checkLogEmpty},
		{Name: "log-early", Doc: "The log of a job that has not started is an empty one.", Needs: logs, run: checkLogEarly},
		{Name: "log-follow", Doc: "Following begins before the job and brings output while it runs, up to the end.", Needs: logs, Waivable: notLive, run: checkLogFollow},
		{Name: "log-looks", Doc: "Where looks are told of, following a silent job tells of them.", Needs: logs, run: checkLogLooks},
		{Name: "log-end", Doc: "A stream ends with End or an error, and its verdict is what is proven.", Needs: logs, run: checkLogEnd},
		{Name: "log-resume", Doc: "Reading from any cursor gives each later byte once, in another process too.", Needs: logs, run: checkLogResume},
		{Name: "log-break", Doc: "Breaking out of a log, or cancelling it, frees everything.", Needs: logs, run: checkLogBreak},
		{Name: "log-cancelled", Doc: "What a job wrote before its cancel is in the log.", Needs: []string{"JobLogger", "JobCanceler"}, run: checkLogCancelled},
	}
}

func (s *suite) compareLog(t T, o output, stdout, stderr string) {
	t.Helper()
	if o.gaps > 0 {
		t.Errorf("%d gaps in the log of an undisturbed job", o.gaps)
	}
	if !s.g.Logs.Apart {
		// Order is promised within a stream only.
		if got := string(o.all()); len(got) != len(stdout)+len(stderr) {
			t.Errorf("%d bytes instead of %d", len(got), len(stdout)+len(stderr))
		}
		return
	}
	s.compareText(t, "stdout", string(o.by[sdk.StreamStdout]), stdout)
	s.compareText(t, "stderr", string(o.by[sdk.StreamStderr]), stderr)
}

func checkLogText(s *suite, t T) {
	j := s.start(t, Do(Print("one\n"), Sleep(s.h.Second/10), Print("two\nthree é家🚀\n\n"), Print("fo"), Sleep(s.h.Second/10), Print("ur\n")))
	o := s.wholeLog(t, j.handle, nil)
	want := "one\ntwo\nthree é家🚀\n\nfour\n"
	if s.g.Logs.DropsEmptyLines {
		want = strings.ReplaceAll(want, "\n\n", "\n")
	}
	s.compareText(t, "log", string(o.all()), want)
}

func checkLogBytes(s *suite, t T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	half := []byte("家")
	j := s.start(t, Do(Step{Do: ActPrint, Data: every}, Step{Do: ActPrint, Data: half[:1]}, Sleep(s.h.Second/10),
		Step{Do: ActPrint, Data: half[1:]}, Print("\r\nno newline at the end")))
	o := s.wholeLog(t, j.handle, nil)
	s.compareText(t, "log", string(o.all()), string(every)+"家\r\nno newline at the end")
}

func checkLogApart(s *suite, t T) {
	j := s.start(t, Do(Print("a\n"), PrintErr("1\n"), Print("b\n"), PrintErr("2\n")))
	o := s.wholeLog(t, j.handle, nil)
	if got := string(o.by[sdk.StreamStdout]); got != "a\nb\n" {
		t.Errorf("stdout is %q", got)
	}
	if got := string(o.by[sdk.StreamStderr]); got != "1\n2\n" {
		t.Errorf("stderr is %q", got)
	}
}

func checkLogLong(s *suite, t T) {
	const n = 1 << 20
	j := s.start(t, Do(Step{Do: ActLongLine, N: n}, Print("short\n")))
	o := s.wholeLog(t, j.handle, nil)
	s.compareText(t, "log", string(o.all()), strings.Repeat("x", n)+"\nshort\n")
}

func checkLogMany(s *suite, t T) {
	const n = 10000
	j := s.start(t, Do(Step{Do: ActLines, N: n}))
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	o := s.wholeLog(t, j.handle, nil)
	s.compareText(t, "log", string(o.all()), want.String())
}

func checkLogEmpty(s *suite, t T) {
	j := s.start(t, Do())
	s.ended(t, j.handle)
	o := s.wholeLog(t, j.handle, nil)
	if o.entries != 0 || o.gaps != 0 {
		t.Errorf("%d entries and %d gaps of a job that wrote nothing: %q", o.entries, o.gaps, o.all())
	}
	if o.end == nil {
		t.Errorf("the stream has no End")
	}
}

func checkLogEarly(s *suite, t T) {
	j := s.start(t, Do(Hang()))
	o := s.readLog(t.Context(), s.p, j.handle, nil, false)
	if o.err != nil || o.end == nil || o.entries > 0 {
		t.Errorf("the log right behind the launch: %d entries, end %v, %v", o.entries, o.end, o.err)
	}
}

// checkLogFollow: where a busy machine took longer over the first output than the job
// paused behind it, a job that pauses for longer decides.
func checkLogFollow(s *suite, t T) {
	if late := s.followLate(t, 2*s.h.Second); late == nil {
		return
	}
	if late := s.followLate(t, 20*s.h.Second); late != nil {
		t.Errorf("the first output came when the job had ended: %s", essence(*late))
	}
}

// followLate follows a job that pauses between two outputs. It returns the job's state
// where that had ended when the first came.
func (s *suite) followLate(t T, pause time.Duration) (late *sdk.JobStatusResult) {
	l := s.prepare(t, s.spec(t, Do(Print("first\n"), Sleep(pause), PrintErr("second\n"))))
	j := s.startLaunch(t, l, nil)
	ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually)
	defer cancel()
	var o output
	for it, err := range need(s.p, sdk.Logger()).JobLogs(ctx, sdk.JobLogsRequest{Handle: j.handle, Follow: true}) {
		if err != nil {
			o.err = err
			break
		}
		o.add(it)
		if it.Entry != nil && bytes.Contains(it.Entry.Data, []byte("first")) {
			if st := s.status(t, j.handle); st.State.Terminal() {
				late = &st
			}
		}
		if !s.g.Logs.EndProven && len(o.all()) >= len("first\nsecond\n") {
			break
		}
	}
	if o.err != nil {
		t.Fatalf("follow: %v", o.err)
	}
	s.compareLog(t, o, "first\n", "second\n")
	return late
}

func checkLogLooks(s *suite, t T) {
	if !s.g.Logs.Looks {
		t.Skipf("looks are not told of")
	}
	j := s.start(t, Do(Hang()))
	s.running(t, j.handle)
	ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually)
	defer cancel()
	for it, err := range need(s.p, sdk.Logger()).JobLogs(ctx, sdk.JobLogsRequest{Handle: j.handle, Follow: true}) {
		if err != nil {
			t.Fatalf("follow: %v", err)
		}
		if it == (sdk.LogItem{}) {
			break
		}
	}
}

func checkLogEnd(s *suite, t T) {
	j := s.start(t, Do(Print("x\n"), Sleep(3*s.h.Second)))
	s.running(t, j.handle)
	judge := func(what string, o output, best sdk.Verdict) {
		t.Helper()
		switch {
		case o.err != nil:
			t.Errorf("%s: %v", what, o.err)
		case o.end == nil:
			t.Errorf("%s: the stream ended without End", what)
		case o.items[len(o.items)-1].End == nil:
			t.Errorf("%s: items follow End", what)
		case o.end.Verdict.Worse(best) != o.end.Verdict:
			t.Errorf("%s: the verdict is %s, no better than %s is proven", what, o.end.Verdict, best)
		case o.end.Verdict != sdk.VerdictComplete && o.end.Verdict != sdk.VerdictQuiet:
			t.Errorf("%s: the verdict is %s for an undisturbed job", what, o.end.Verdict)
		case o.items[len(o.items)-1].Cursor == nil:
			t.Errorf("%s: End has no cursor", what)
		}
	}
	o := s.readLog(t.Context(), s.p, j.handle, nil, false)
	if st := s.status(t, j.handle); !st.State.Terminal() {
		judge("not following a running job", o, sdk.VerdictQuiet)
	}
	s.ended(t, j.handle)
	best := sdk.VerdictQuiet
	if s.g.Logs.EndProven {
		best = sdk.VerdictComplete
		o := s.wholeLog(t, j.handle, nil)
		judge("following to the end", o, best)
		if o.end != nil && o.end.Verdict != sdk.VerdictComplete {
			t.Errorf("following to the end: the verdict is %s, and the end is guaranteed to be proven", o.end.Verdict)
		}
	}
	judge("not following an ended job", s.readLog(t.Context(), s.p, j.handle, nil, false), best)
}

func checkLogResume(s *suite, t T) {
	steps := []Step{}
	for i := range 8 {
		steps = append(steps, Print(fmt.Sprintf("out %d\n", i)), PrintErr(fmt.Sprintf("err %d\n", i)))
		if i == 3 {
			steps = append(steps, Sleep(s.h.Second/10))
		}
	}
	steps = append(steps, Step{Do: ActLines, N: 200})
	j := s.start(t, Do(steps...))
	s.ended(t, j.handle)
	whole := s.wholeLog(t, j.handle, nil)
	if len(whole.all()) == 0 {
		t.Fatalf("the log is empty")
	}
	other := s.reopen(t)
	cursors := 0
	var seen output
	for i, it := range whole.items {
		seen.add(it)
		if it.Cursor == nil {
			continue
		}
		cursors++
		if cursors > 40 && it.End == nil {
			continue
		}
		b, err := it.Cursor.Encode()
		if err != nil {
			t.Fatalf("encode cursor: %v", err)
		}
		c, err := sdk.DecodeCursor(b)
		if err != nil {
			t.Fatalf("decode cursor: %v", err)
		}
		rest := s.readLog(t.Context(), other, j.handle, &c, false)
		if rest.err != nil {
			t.Fatalf("resume behind item %d: %v", i, rest.err)
		}
		for _, stream := range []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr, sdk.StreamCombined} {
			got := string(seen.by[stream]) + string(rest.by[stream])
			s.compareText(t, fmt.Sprintf("%s resumed behind item %d", stream, i), got, string(whole.by[stream]))
		}
		if t.Failed() {
			return
		}
	}
	if cursors == 0 {
		t.Errorf("the stream has no cursor")
	}
}

// frees checks that f leaves no goroutine behind.
func (s *suite) frees(t T, f func()) {
	t.Helper()
	f() // what stays for good, such as a connection, is there after the first time
	before := runtime.NumGoroutine()
	for range 12 {
		f()
	}
	// One connection more, with both its ends in this process, is no leak: one
	// goroutine left by each call is, even where some that were there have ended
	// meanwhile.
	s.eventually(t, "end of the goroutines that were started", func() bool { return runtime.NumGoroutine() <= before+4 })
}

func checkLogBreak(s *suite, t T) {
	j := s.start(t, Do(Step{Do: ActLines, N: 1000}, Hang()))
	s.up(t, j.handle)
	logger := need(s.p, sdk.Logger())
	s.frees(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually)
		defer cancel()
		for _, err := range logger.JobLogs(ctx, sdk.JobLogsRequest{Handle: j.handle, Follow: s.g.Logs.Live}) {
			if err != nil {
				t.Fatalf("logs: %v", err)
			}
			break
		}
	})
	s.frees(t, func() {
		ctx, cancel := context.WithTimeout(t.Context(), s.h.Second/5)
		defer cancel()
		items, last := 0, error(nil)
		for it, err := range logger.JobLogs(ctx, sdk.JobLogsRequest{Handle: j.handle, Follow: true}) {
			if last != nil {
				t.Fatalf("an item follows the error %v", last)
			}
			if last = err; err == nil && it.End != nil {
				t.Fatalf("the log of a running job came to its end: %s", it.End.Verdict)
			}
			items++
		}
		if c := sdk.CodeOf(last); c != sdk.Canceled && c != sdk.DeadlineExceeded {
			t.Fatalf("following until ctx ends: got %v after %d items, want the context's error", last, items)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := s.readLog(ctx, s.p, j.handle, nil, true); !errors.Is(o.err, sdk.Canceled) && !errors.Is(o.err, context.Canceled) {
		t.Errorf("reading with a context that has ended: got %v", o.err)
	}
}

func checkLogCancelled(s *suite, t T) {
	j := s.start(t, Do(Print("before\n"), Hang()))
	s.up(t, j.handle)
	s.cancel(t, j.handle, nil)
	if !s.g.CancelReadBack {
		return
	}
	s.ended(t, j.handle)
	var out string
	deadline := time.Now().Add(s.h.Eventually)
	for out = s.shown(t, j.handle); out != "before\n" && time.Now().Before(deadline); out = s.shown(t, j.handle) {
		s.pause(t)
	}
	if out != "before\n" {
		t.Errorf("the log of the cancelled job is %q", out)
	}
}
