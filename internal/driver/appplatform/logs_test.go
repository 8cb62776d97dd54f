package appplatform

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// TestF48LogThatComesLate: a log that isn't there yet is an empty one, and is
// waited for.
func TestF48LogThatComesLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Faults().Add(fault.Rule{Action: "apps_get_logs_aggregate", Count: 3, Effect: fault.Effect{Refuse: &fault.Refusal{Status: http.StatusBadRequest, Message: "no logs are available"}}})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo late; exit 3")))
	if text, _ := w.Text(p, h, nil); text != "" {
		t.Errorf("at first it is %q", text)
	}
	text, err := w.Follow(t.Context(), p, h, nil)
	if err != nil || text != "late\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// follow reads a log to its end, with what else stands in it.
func follow(t *testing.T, p *provider, h sdk.JobHandle) (text string, gaps int, v sdk.Verdict) {
	t.Helper()
	for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case it.Entry != nil:
			if text += string(it.Entry.Data); it.Entry.LineEnd == sdk.LineEndStripped {
				text += "\n"
			}
		case it.Gap != nil:
			gaps++
		case it.End != nil:
			v = it.End.Verdict
		}
	}
	return text, gaps, v
}

// TestF49OddLogs: lines that come late, twice or after the job's end, a live log
// that breaks off and an archive that comes late: each line comes once and in
// order, and the end is proven.
func TestF49OddLogs(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := range 12 {
		fmt.Fprintf(&want, "line %d\n\n", i)
	}
	for name, knobs := range map[string]pocket.Knobs{
		"late lines":   {LogDelay: 300 * time.Millisecond},
		"doubled":      {LogTwice: true},
		"broken off":   {LiveCut: 5},
		"late archive": {ArchiveDelay: 500 * time.Millisecond},
		"all of it":    {LogDelay: 200 * time.Millisecond, LogTwice: true, LiveCut: 7, ArchiveDelay: 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pocket.Options{}, nil)
			w.cloud.TuneKnobs(func(k *pocket.Knobs) { knobs.Pace, *k = k.Pace, knobs })
			p := w.Open()
			h := w.Run(p, w.Plan(p, shell(`i=0; while [ $i -lt 12 ]; do echo "line $i"; echo; [ $i = 6 ] && sleep 0.2; i=$((i+1)); done`)))
			if text, gaps, v := follow(t, p, h); text != want.String() || gaps != 0 || v != sdk.VerdictComplete {
				t.Errorf("%q, %d gaps, %s", text, gaps, v)
			}
		})
	}
}

// TestLogsUnderFire: calls, live logs and archives that fail now and then change
// nothing of what comes.
func TestLogsUnderFire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{Seed: 7}, nil)
	p := w.Open()
	w.cloud.Faults().Add(fault.Rule{Action: "log_*", Share: 0.4, Effect: fault.Effect{Reset: true}})
	h := w.Run(p, w.Plan(p, shell("echo one; sleep 0.2; echo two")))
	text, gaps, v := follow(t, p, h)
	if text != "one\ntwo\n" || gaps != 0 || v != sdk.VerdictComplete {
		t.Errorf("%q, %d gaps, %s", text, gaps, v)
	}
}

// TestNoArchive: without an archive the end isn't proven, and the wait for it ends.
func TestNoArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, map[string]any{"log_max": "600ms"})
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.ArchiveDelay = time.Hour })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one")))
	if text, _, v := follow(t, p, h); text != "one\n" || v != sdk.VerdictQuiet {
		t.Errorf("%q, %s", text, v)
	}
	w.cloud.Faults().Add(fault.Rule{Action: "apps_get_logs_aggregate", Effect: fault.Effect{Refuse: &fault.Refusal{Status: http.StatusBadRequest, Message: "no"}}})
	if text, _, v := follow(t, p, h); text != "" || v != sdk.VerdictUnavailable {
		t.Errorf("without any log: %q, %s", text, v)
	}
}

// TestNeverRan: a job that never ran has a log, which is empty and whole.
func TestNeverRan(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Strike(pocket.Mishap{Stage: pocket.StageBuild})
	p := w.Open()
	if text, _, v := follow(t, p, w.Run(p, w.Plan(p, shell("echo one")))); text != "" || v != sdk.VerdictComplete {
		t.Errorf("%q, %s", text, v)
	}
}

// TestF62HandleFindsLog: a handle alone is enough to read a log, also one that
// doesn't name the deployment, in another process.
func TestF62HandleFindsLog(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; echo two")))
	w.Ended(p, h)
	raw, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := sdk.DecodeHandle(raw)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := w.Text(w.Open(), back, nil); text != "one\ntwo\n" {
		t.Errorf("%q", text)
	}
	delete(back.Metadata, keyDeployment)
	q := w.Open()
	if text, _, v := follow(t, q, back); text != "one\ntwo\n" || v != sdk.VerdictComplete {
		t.Errorf("without the deployment: %q, %s", text, v)
	}
	if st := w.Status(q, back); st.Handle == nil || st.Handle.Metadata[keyDeployment] != h.Metadata[keyDeployment] {
		t.Errorf("the handle is not completed: %+v", st.Handle)
	}
}

// TestF61CallsOfARun: a run that is followed while another asks for its state costs
// a few calls for its log, however long it waits.
func TestF61CallsOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.Pace.Building = 400 * time.Millisecond })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; sleep 0.4; echo two")))
	ctx, cancel := context.WithCancel(t.Context())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for sdk.SystemClock().Sleep(ctx, 20*time.Millisecond) == nil {
			if _, err := p.JobStatus(ctx, sdk.JobStatusRequest{Handle: h}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	text, _, v := follow(t, p, h)
	cancel()
	<-polled
	if text != "one\ntwo\n" || v != sdk.VerdictComplete {
		t.Errorf("%q, %s", text, v)
	}
	if n := w.Count("apps_get_logs_aggregate"); n > 4 {
		t.Errorf("%d calls for a log", n)
	}
}

// TestF53Batch: the states of many jobs that run cost one call, on several pages
// one for each.
func TestF53Batch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	handles := make([]sdk.JobHandle, 40)
	drivertest.AtOnce(len(handles), func(i int) { handles[i] = w.Run(p, w.Plan(p, shell("sleep 100"))) })
	for _, h := range handles {
		w.Running(p, h)
	}
	for size, want := range map[int]int{0: 1, 10: 4} {
		w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.PageSize = size })
		before, one := w.Count("apps_list"), w.Count("apps_list_deployments")
		res, err := p.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles})
		if err != nil {
			t.Fatal(err)
		}
		for i, it := range res.Items {
			if it.Err != nil || it.Result.State != sdk.StateRunning || it.Result.StartedAt.IsZero() || it.Result.Launches != 1 {
				t.Errorf("job %d: %+v, %v", i, it.Result, it.Err)
			}
		}
		if l, o := w.Count("apps_list")-before, w.Count("apps_list_deployments")-one; l != want || o != 0 {
			t.Errorf("pages of %d: %d lists and %d single looks for %d jobs", size, l, o, len(handles))
		}
	}
}

// TestPass: of a log that is read again from its beginning what is behind the
// place comes once, wherever the place was, also where lines come twice; a log that
// begins elsewhere is a gap, and nothing comes twice.
func TestPass(t *testing.T) {
	base := time.Date(2026, 3, 1, 10, 0, 0, 1001, time.UTC)
	var lines []string
	for i := range 30 {
		at := base.Add(time.Duration(i/2) * time.Second)
		if i == 11 {
			at = at.Add(-time.Microsecond) // stdout and stderr may overtake each other
		}
		lines = append(lines, fmt.Sprintf("%s %s line %d", jobName, at.Format(time.RFC3339Nano), i%4))
	}
	read := func(from position, lines []string) (out []string, at position, gaps int) {
		f := &follower{h: sdk.JobHandle{}, at: from}
		f.yield = func(it sdk.LogItem, _ error) bool {
			if it.Gap != nil {
				gaps++
			} else {
				out = append(out, string(it.Entry.Data))
			}
			return true
		}
		pass := &pass{from: from}
		for _, l := range lines {
			if err := f.give(pass, l); err != nil {
				t.Fatal(err)
			}
		}
		return out, f.at, gaps
	}
	whole, _, _ := read(position{}, lines)
	if len(whole) != len(lines) {
		t.Fatalf("%d lines of %d", len(whole), len(lines))
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	for cut := range len(lines) + 1 {
		head, at, _ := read(position{}, lines[:cut])
		again := make([]string, 0, 2*len(lines))
		for _, l := range lines {
			if again = append(again, l); random.IntN(2) == 0 {
				again = append(again, l)
			}
		}
		back, err := readCursor(at.cursor())
		if err != nil || back != at {
			t.Fatalf("cursor %+v came back as %+v, %v", at, back, err)
		}
		tail, _, gaps := read(back, again)
		if !slices.Equal(append(head, tail...), whole) || gaps != 0 {
			t.Errorf("cut at %d: %q then %q, %d gaps", cut, head, tail, gaps)
		}
	}
	_, at, _ := read(position{}, lines[:10])
	tail, _, gaps := read(at, lines[6:])
	if gaps != 1 || len(tail) != 20 {
		t.Errorf("a log that begins later: %d lines, %d gaps", len(tail), gaps)
	}
}

// FuzzLine: a line loses nothing but the platform's words.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "job", "job ", "job 2026-03-01T10:00:00.000000001Z ", "job 2026-03-01T10:00:00Z text", "job x y", "web 2026-03-01T10:00:00Z text", "\xff", "job 2026-03-01T10:00:00+25:00 x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l := parseLine(raw)
		if l.raw != raw || !strings.HasSuffix(raw, l.text) || l.at.IsZero() && l.text != raw {
			t.Errorf("%q became %q at %s", raw, l.text, l.at)
		}
	})
}

// FuzzCursor: what is read is written as it was.
func FuzzCursor(f *testing.F) {
	f.Add("3", "ff", "1700000000000000000")
	f.Add("-1", "", "x")
	f.Fuzz(func(t *testing.T, lines, last, at string) {
		c := &sdk.LogCursor{V: 1, Kind: Kind, Position: map[string]string{keyLines: lines, keyLast: last, keyAt: at}}
		p, err := readCursor(c)
		if err != nil {
			return
		}
		if back, err := readCursor(p.cursor()); err != nil || back != p {
			t.Errorf("%+v came back as %+v, %v", p, back, err)
		}
	})
}
