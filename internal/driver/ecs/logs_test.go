package ecs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/sdk"
)

// lines writes n numbered lines at once.
func lines(n int) string {
	return fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done`, n)
}

func linesText(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestF51Pages: over empty pages, small pages and hundreds of events of one
// millisecond nothing is lost or doubled, and the end is where the token
// repeats.
func TestF51Pages(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Logs().SetKnobs(logs.Knobs{EmptyPages: 2, PageSize: 37, Tick: time.Second})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(lines(500))))
	w.Ended(p, h)
	w.Eventually("whole log", func() bool {
		got, _ := w.Text(p, h, nil)
		return got == linesText(500)
	})
}

// TestF51LostToken: a token that has expired costs nothing: the place is found
// again by time, also among events of one millisecond.
func TestF51LostToken(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Logs().SetKnobs(logs.Knobs{PageSize: 10, Tick: 50 * time.Millisecond})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(lines(95))))
	w.Ended(p, h)
	want := linesText(95)
	w.Eventually("whole log", func() bool {
		got, _ := w.Text(p, h, nil)
		return got == want
	})
	w.cloud.Logs().SetKnobs(logs.Knobs{PageSize: 10})
	var seen strings.Builder
	for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Entry != nil {
			seen.Write(it.Entry.Data)
			seen.WriteByte('\n')
		}
		if it.Cursor == nil {
			continue
		}
		for name, token := range map[string]string{"no token": "", "a bad token": "f/expired"} {
			c := *it.Cursor
			c.Position = map[string]string{"time": it.Cursor.Position["time"], "same": it.Cursor.Position["same"]}
			if token != "" {
				c.Position["token"] = token
			}
			rest, _ := w.Text(p, h, &c)
			if got := seen.String() + rest; got != want {
				t.Fatalf("%s: %d bytes instead of %d: %q", name, len(got), len(want), rest[:min(len(rest), 80)])
			}
		}
	}
}

// has is what a follower waits for.
func has(want string) func(text string) bool {
	return func(text string) bool { return strings.Contains(text, want) }
}

// TestF48LateStream: a stream that isn't there yet is an empty log; one that
// never comes is told of once the job has ended.
func TestF48LateStream(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Logs().SetKnobs(logs.Knobs{StreamDelay: 500 * time.Millisecond})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo here; sleep 100")))
	if got, _ := w.Text(p, h, nil); got != "" {
		t.Errorf("an early read gave %q", got)
	}
	if got, err := w.Follow(t.Context(), p, h, has("here")); err != nil || got != "here\n" {
		t.Errorf("following gave %q, %v", got, err)
	}
	w.cloud.Logs().SetKnobs(logs.Knobs{StreamDelay: time.Hour})
	h = w.Run(p, w.Plan(p, shell("echo lost")))
	w.Ended(p, h)
	_, err := w.Follow(t.Context(), p, h, nil)
	if sdk.CodeOf(err) != sdk.NotFound || !strings.Contains(err.Error(), h.Metadata[keyLogStream]) || !strings.Contains(err.Error(), "logs:CreateLogStream") {
		t.Errorf("a stream that never came: %v", err)
	}
}

// TestNeverStarted: a task whose container was never made has a log that is
// proven to be empty.
func TestNeverStarted(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	defer w.cloud.ECS().Strike(pocketecs.Mishap{Stage: pocketecs.StageENI})()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Ended(p, h)
	// The poller of this process has seen its end; a process of its own asks.
	for _, q := range []*provider{p, w.Open()} {
		for it, err := range q.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
			if err == nil && it == (sdk.LogItem{}) {
				continue // a look
			}
			if err != nil || it.End == nil || it.End.Verdict != sdk.VerdictComplete {
				t.Errorf("got %+v, %v", it, err)
			}
		}
	}
}

// TestF49LateEvents: output that arrives after the task has stopped is read.
func TestF49LateEvents(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Logs().SetKnobs(logs.Knobs{EventDelay: 700 * time.Millisecond})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo late")))
	w.Ended(p, h)
	if got, err := w.Follow(t.Context(), p, h, has("late")); err != nil || got != "late\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestLogErrors: a failure of a read is told, and the cursor before it serves.
func TestLogErrors(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo one; sleep 0.3; echo two")))
	w.Ended(p, h)
	w.cloud.Faults().Add(fault.Rule{Action: "logs:GetLogEvents", Skip: 1, Count: 1, Effect: fault.Effect{Reset: true}})
	var cursor *sdk.LogCursor
	var last error
	var got strings.Builder
	for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h}) {
		if last = err; err != nil {
			break
		}
		if it.Entry != nil {
			got.Write(it.Entry.Data)
			got.WriteByte('\n')
		}
		if it.Cursor != nil {
			cursor = it.Cursor
		}
	}
	if sdk.CodeOf(last) != sdk.Unavailable || sdk.IsClear(last) {
		t.Errorf("a cut read: %v", last)
	}
	rest, _ := w.Text(p, h, cursor)
	if all := got.String() + rest; all != "one\ntwo\n" {
		t.Errorf("got %q", all)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := w.Follow(ctx, p, h, nil); sdk.CodeOf(err) != sdk.Canceled {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// TestF62HandleFindsLog: a handle alone finds the log, on any machine and
// whatever that machine's config says of logs.
func TestF62HandleFindsLog(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"log_group": "/team/jobs", "log_prefix": "nightly"})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo found")))
	w.Ended(p, h)
	encoded, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := sdk.DecodeHandle(encoded)
	if err != nil {
		t.Fatal(err)
	}
	w.Config["log_group"], w.Config["log_prefix"] = "/elsewhere", "other"
	fresh := w.Open()
	w.Eventually("output", func() bool {
		got, _ := w.Text(fresh, decoded, nil)
		return got == "found\n"
	})
	// So does a handle that was found by labels alone.
	run, err := fresh.describe(t.Context(), "test", h.Metadata[keyCluster], []string{h.ID}, false)
	if err != nil {
		t.Fatal(err)
	}
	id, err := sdk.ParseID(str(run[h.ID].StartedBy))
	if err != nil {
		t.Fatal(err)
	}
	res, err := fresh.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: id})
	if err != nil || len(res.Jobs) != 1 || res.Jobs[0].Handle.Metadata[keyLogStream] != h.Metadata[keyLogStream] || res.Jobs[0].Handle.Metadata[keyLogGroup] != "/team/jobs" {
		t.Errorf("found %+v, %v", res.Jobs, err)
	}
}

// TestLogBudget: however many read, and by however many providers of one
// account, reads keep to the budget.
func TestLogBudget(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"log_rate": 50})
	driver := Driver()
	var ps []*provider
	for range 2 {
		p, err := driver.Open(t.Context(), w.Request())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		ps = append(ps, p.(*provider))
	}
	h := w.Run(ps[0], w.Plan(ps[0], shell("sleep 100")))
	w.Running(ps[0], h)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	for i := range 100 {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				for _, err := range ps[i%2].JobLogs(ctx, sdk.JobLogsRequest{Handle: h}) {
					if err != nil && ctx.Err() == nil {
						t.Errorf("read: %v", err)
						return
					}
				}
			}
		}()
	}
	for range 100 {
		<-done
	}
	most := 50 + int(50*time.Since(begun).Seconds()) + 1
	if n := w.Count("logs:GetLogEvents"); n > most || n < 50 {
		t.Errorf("%d reads within %s, at most %d are allowed", n, time.Since(begun), most)
	}
}
