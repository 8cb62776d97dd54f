package fake_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// shared opens the same folder anew, as another process does.
func shared(t *testing.T, dir, more string) *bench {
	t.Helper()
	r := openRequest(t)
	r.Config = json.RawMessage(`{"dir":"` + dir + `"` + more + `}`)
	return openBench(t, fake.Driver(), nil, r)
}

// TestFolderMakesOne races many processes' worth of clouds for one name.
func TestFolderMakesOne(t *testing.T) {
	dir := t.TempDir()
	first := shared(t, dir, "")
	l := first.prepare(sdk.JobSpec{Args: sdk.Argv{"mark", "k"}})
	const n = 8
	var wg sync.WaitGroup
	errs, adopted := make([]error, n), make([]bool, n)
	for i := range n {
		b := shared(t, dir, "")
		wg.Go(func() {
			run, _ := sdk.Of(b.p, sdk.Runner())
			res, err := run.RunJob(t.Context(), sdk.RunJobRequest{Launch: l})
			errs[i], adopted[i] = err, res.Adopted
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	fresh := 0
	for _, a := range adopted {
		if !a {
			fresh++
		}
	}
	c, err := fake.OpenCloud(dir, fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if fresh != 1 || c.Made(l.AttemptID) != 1 || c.Marks("k") != 1 || c.Calls(fake.OpRunJob) != n {
		t.Errorf("%d made it, %d objects, %d marks, %d calls", fresh, c.Made(l.AttemptID), c.Marks("k"), c.Calls(fake.OpRunJob))
	}
}

// TestFolderFaultsHitOnce: a fault of the config hits one call, whichever
// process makes it.
func TestFolderFaultsHitOnce(t *testing.T) {
	dir := t.TempDir()
	const fault = `,"knobs":{"faults":[{"op":"JobStatus","kind":"error","status":503,"times":3}]}`
	h := shared(t, dir, fault).run("hang")
	failed := 0
	for range 10 {
		b := shared(t, dir, fault)
		run, _ := sdk.Of(b.p, sdk.Runner())
		if _, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); errors.Is(err, sdk.Unavailable) {
			failed++
		}
	}
	if failed != 3 {
		t.Errorf("%d calls failed, want 3", failed)
	}
}

// TestFolderBlock: a file holds calls up for as long as it is there.
func TestFolderBlock(t *testing.T) {
	dir := t.TempDir()
	b := shared(t, dir, "")
	h := b.run("hang")
	file := filepath.Join(dir, "block", "JobStatus")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run, _ := sdk.Of(b.p, sdk.Runner())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := run.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
		done <- err
	}()
	cloud, err := fake.OpenCloud(dir, fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, 10*time.Second, "blocked call", func() bool { return cloud.Calls(fake.OpJobStatus) == 1 })
	cancel()
	if err := testwait.Receive(t, 10*time.Second, "end of the blocked call", done); !errors.Is(err, sdk.Canceled) {
		t.Errorf("got %v", err)
	}
	go func() {
		_, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		done <- err
	}()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := testwait.Receive(t, 10*time.Second, "end of the call", done); err != nil {
		t.Error(err)
	}
}

// TestFolderFollowsOthers: a log is followed, a job watched and cancelled across
// processes.
func TestFolderFollowsOthers(t *testing.T) {
	dir := t.TempDir()
	a, b := shared(t, dir, ""), shared(t, dir, "")
	w, _ := sdk.Of(b.p, sdk.Watcher())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	told := make(chan sdk.ID, 10_000)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for e, err := range w.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: "me"}) {
			if err != nil {
				return
			}
			told <- e.AttemptID
		}
	}()
	h := a.run("echo", "up", ";", "hang")
	lg, _ := sdk.Of(b.p, sdk.Logger())
	var out strings.Builder
	for it, err := range lg.JobLogs(ctx, sdk.JobLogsRequest{Handle: h, Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Entry != nil {
			out.Write(it.Entry.Data)
			can, _ := sdk.Of(a.p, sdk.Canceler())
			if _, err := can.CancelJob(ctx, sdk.CancelJobRequest{Handle: h}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out.String() != "up\n" {
		t.Errorf("got %q", out.String())
	}
	if st := b.wait(h); st.State != sdk.StateCancelled {
		t.Errorf("got %s", st.State)
	}
	// The watch may have begun behind that job's end: others follow until it tells of one.
	testwait.Until(t, 30*time.Second, "event", func() bool {
		select {
		case <-told:
			return true
		default:
			a.run("exit", "0")
			return false
		}
	})
	stop()
	testwait.Receive(t, 10*time.Second, "end of the watch", closed(watching))
}

// closed turns the closing of a channel into a value.
func closed(c <-chan struct{}) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		<-c
		out <- struct{}{}
	}()
	return out
}

// TestFolderKeepsIDsInside: a handle from outside names no other file.
func TestFolderKeepsIDsInside(t *testing.T) {
	b := shared(t, t.TempDir(), "")
	h := b.run("true")
	for _, id := range []string{"wl-../../x", "wl-/etc/passwd", "wl-a\x00", "wl-A"} {
		h.ID = id
		run, _ := sdk.Of(b.p, sdk.Runner())
		if _, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.NotFound) {
			t.Errorf("%q: got %v", id, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, good := range []string{``, `{}`,
		`{"submit":"token","token_window":"1m","found_within":"5s","list_consistent":false,"exit_code":"absent","logs":"lines","logs_combined":true,"logs_quiet":"1s",
		"cancel_read_back":false,"no_grace":true,"native_deadline":true,"evidence":"1h","secrets":"sealed","batch_max":10,"max_in_flight":3,"rate":100,
		"capabilities":["JobRunner"],"name":"other","record":true,"knobs":{"latency":"1ms","flicker":3,"missing_images":["a"]}}`} {
		r := openRequest(t)
		r.Config = json.RawMessage(good)
		p, err := fake.Driver().Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if good != "" && len(good) > 10 {
			g, i := p.Info().Guarantees, p.Info()
			if g.Submit.TokenWindow != time.Minute || g.Found.Consistent || g.ExitCode != sdk.ExitCodeAbsent || g.Logs.Apart || g.Logs.EndProven || g.CancelReadBack ||
				g.Grace.Supported || !g.Deadline.Native || g.Evidence != time.Hour || g.Secrets != sdk.SecretSealed || i.BatchMax != 10 || i.MaxInFlight != 3 || i.Rate != 100 ||
				i.Identity.Account != "other" || len(sdk.CapabilityNames(p)) != 1 {
				t.Errorf("got %+v", i)
			}
		}
		_ = p.Close()
	}
	for _, bad := range []string{`{"submitt":"name"}`, `{"submit":"magic"}`, `{"knobs":{"latncy":"1s"}}`, `{"knobs":{"faults":[{"op":"Nothing","kind":"error"}]}}`,
		`{"knobs":{"faults":[{"op":"RunJob"}]}}`, `{"capabilities":["JobFlyer"]}`, `{"evidence":3}`, `[]`} {
		r := openRequest(t)
		r.Config = json.RawMessage(bad)
		if p, err := fake.Driver().Open(t.Context(), r); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: got %v, %v", bad, p, err)
		}
	}
}

// TestStepsTable: each form of the table is understood, and gives the step.
func TestStepsTable(t *testing.T) {
	b := newBench(t, fake.Settings{}, fake.Knobs{})
	example := map[string]string{"N": "3", "DURATION": "1s", "NAME": "KILL", "REASON": "preempted", "PATH": "/x", "WORD...": "a b"}
	for _, row := range fake.Steps() {
		for _, form := range strings.Split(row.Words, " | ") {
			var words []string
			for _, w := range strings.Fields(form) {
				if x, ok := example[strings.Trim(w, "[]")]; ok {
					w = x
				}
				words = append(words, strings.Fields(w)...)
			}
			l := b.prepare(sdk.JobSpec{Args: words})
			if len(l.Problems) > 0 {
				t.Errorf("%q: %s", form, sdk.JoinProblems(l.Problems))
			}
			if !strings.Contains(string(l.Request), `"do":"`+row.Do+`"`) && row.Do != "args" && row.Do != "stdin" && row.Do != "output" {
				t.Errorf("%q: no step %s in %s", form, row.Do, l.Request)
			}
		}
	}
	for _, bad := range []string{"exit", "exit x", "exit 256", "sleep", "sleep x", "sleep -1s", "signal", "fail succeeded", "true false", "sh -c true", "lines -1", "mark"} {
		if l := b.prepare(sdk.JobSpec{Args: strings.Fields(bad)}); len(l.Problems) == 0 {
			t.Errorf("%q is understood", bad)
		}
	}
	if l := b.prepare(sdk.JobSpec{}); len(l.Problems) > 0 {
		t.Errorf("nothing at all: %s", sdk.JoinProblems(l.Problems))
	}
}
