package fake_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// bench is a provider with what tests need around it.
type bench struct {
	t     *testing.T
	p     sdk.Provider
	cloud *fake.Cloud
	ids   sdk.IDSource
}

func openRequest(t *testing.T) sdk.OpenRequest {
	return sdk.OpenRequest{Name: "test", Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Owner: "me", LedgerID: "ledger", StateDir: t.TempDir()}
}

func newBench(t *testing.T, s fake.Settings, k fake.Knobs) *bench {
	t.Helper()
	c := fake.NewCloud(fake.Options{Knobs: k, Record: true})
	return openBench(t, fake.NewDriver(c, s), c, openRequest(t))
}

func openBench(t *testing.T, d sdk.Driver, c *fake.Cloud, r sdk.OpenRequest) *bench {
	t.Helper()
	p, err := d.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &bench{t: t, p: p, cloud: c, ids: r.IDs}
}

func (b *bench) prepare(spec sdk.JobSpec) sdk.Launch {
	b.t.Helper()
	r, _ := sdk.Of(b.p, sdk.Runner())
	l, err := r.PrepareJob(b.t.Context(), sdk.PrepareJobRequest{Spec: spec, RunID: b.ids.NewID(), AttemptID: b.ids.NewID(), Attempt: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func (b *bench) run(words ...string) sdk.JobHandle {
	b.t.Helper()
	l := b.prepare(sdk.JobSpec{Args: words})
	if len(l.Problems) > 0 {
		b.t.Fatal(sdk.JoinProblems(l.Problems))
	}
	r, _ := sdk.Of(b.p, sdk.Runner())
	res, err := r.RunJob(b.t.Context(), sdk.RunJobRequest{Launch: l})
	if err != nil {
		b.t.Fatal(err)
	}
	return res.Handle
}

func (b *bench) wait(h sdk.JobHandle) sdk.JobStatusResult {
	b.t.Helper()
	r, _ := sdk.Of(b.p, sdk.Runner())
	var st sdk.JobStatusResult
	testwait.Until(b.t, 10*time.Second, "end of the job", func() bool {
		var err error
		if st, err = r.JobStatus(b.t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil {
			b.t.Fatal(err)
		}
		return st.State.Terminal()
	})
	return st
}

func (b *bench) logs(h sdk.JobHandle, follow bool) (string, sdk.Verdict) {
	b.t.Helper()
	lg, _ := sdk.Of(b.p, sdk.Logger())
	var out strings.Builder
	var v sdk.Verdict
	for it, err := range lg.JobLogs(b.t.Context(), sdk.JobLogsRequest{Handle: h, Follow: follow}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if it.Entry != nil {
			out.Write(it.Entry.Data)
		}
		if it.End != nil {
			v = it.End.Verdict
		}
	}
	return out.String(), v
}

func TestWords(t *testing.T) {
	b := newBench(t, fake.Settings{}, fake.Knobs{})
	h := b.run("echo", "hello", "world", ";", "sleep", "20ms", ";", "err", "oops", ";", "exit", "3")
	out, v := b.logs(h, true)
	if out != "hello world\noops\n" || v != sdk.VerdictComplete {
		t.Errorf("got %q, %s", out, v)
	}
	if st := b.wait(h); st.State != sdk.StateFailed || st.ExitCode == nil || *st.ExitCode != 3 || st.Reason != sdk.ReasonNonzeroExit {
		t.Errorf("got %+v", st)
	}
	l := b.prepare(sdk.JobSpec{Args: sdk.Argv{"ecko", "x"}})
	if got := sdk.JoinProblems(l.Problems); !strings.Contains(got, `args[0] "ecko"`) || !strings.Contains(got, `"echo"`) {
		t.Errorf("got %s", got)
	}
}

func TestFolderIsSharedAndSurvives(t *testing.T) {
	r := openRequest(t)
	r.Config = json.RawMessage(`{"record":true,"knobs":{"faults":[{"op":"JobStatus","kind":"error","status":503,"nth":2}]}}`)
	first := openBench(t, fake.Driver(), nil, r)
	h := first.run("echo", "hi", ";", "sleep", "50ms", ";", "exit", "4")
	if err := first.p.Close(); err != nil {
		t.Fatal(err)
	}
	second := openBench(t, fake.Driver(), nil, r)
	run, _ := sdk.Of(second.p, sdk.Runner())
	if _, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.Unavailable) {
		t.Errorf("second call: got %v, want Unavailable", err)
	}
	if st := second.wait(h); st.ExitCode == nil || *st.ExitCode != 4 {
		t.Errorf("got %+v", st)
	}
	if out, v := second.logs(h, true); out != "hi\n" || v != sdk.VerdictComplete {
		t.Errorf("got %q, %s", out, v)
	}
	cl, _ := sdk.Of(second.p, sdk.Cleaner())
	if _, err := cl.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	if _, err := run.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.NotFound) {
		t.Errorf("after clean-up: got %v, want NotFound", err)
	}
}

func BenchmarkRun(b *testing.B) {
	c := fake.NewCloud(fake.Options{})
	clock := sdk.SystemClock()
	ids := sdk.NewIDSource(clock)
	p, err := fake.NewDriver(c, fake.Settings{}).Open(b.Context(), sdk.OpenRequest{Name: "x", Clock: clock, IDs: ids, Owner: "o", LedgerID: "l"})
	if err != nil {
		b.Fatal(err)
	}
	run, _ := sdk.Of(p, sdk.Runner())
	clean, _ := sdk.Of(p, sdk.Cleaner())
	b.ReportAllocs()
	for b.Loop() {
		l, err := run.PrepareJob(b.Context(), sdk.PrepareJobRequest{Spec: sdk.JobSpec{Args: sdk.Argv{"true"}}, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1})
		if err != nil {
			b.Fatal(err)
		}
		res, err := run.RunJob(b.Context(), sdk.RunJobRequest{Launch: l})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := run.JobStatus(b.Context(), sdk.JobStatusRequest{Handle: res.Handle}); err != nil {
			b.Fatal(err)
		}
		if _, err := clean.CleanupJob(b.Context(), sdk.CleanupJobRequest{Handle: res.Handle}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConcurrent is what the engine does at a concurrency of 100: ten
// thousand jobs are there.
func BenchmarkConcurrent(b *testing.B) {
	c := fake.NewCloud(fake.Options{})
	clock := sdk.SystemClock()
	ids := sdk.NewIDSource(clock)
	p, err := fake.NewDriver(c, fake.Settings{}).Open(b.Context(), sdk.OpenRequest{Name: "x", Clock: clock, IDs: ids, Owner: "o", LedgerID: "l"})
	if err != nil {
		b.Fatal(err)
	}
	run, _ := sdk.Of(p, sdk.Runner())
	batch, _ := sdk.Of(p, sdk.Batcher())
	var handles []sdk.JobHandle
	launch := func(words ...string) sdk.JobHandle {
		l, err := run.PrepareJob(b.Context(), sdk.PrepareJobRequest{Spec: sdk.JobSpec{Args: words}, RunID: ids.NewID(), AttemptID: ids.NewID(), Attempt: 1})
		if err != nil {
			b.Error(err)
		}
		res, err := run.RunJob(b.Context(), sdk.RunJobRequest{Launch: l})
		if err != nil {
			b.Error(err)
		}
		return res.Handle
	}
	for range 10000 {
		handles = append(handles, launch("hang"))
	}
	b.ReportAllocs()
	b.SetParallelism(50)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			launch("true")
			if _, err := batch.JobStatuses(b.Context(), sdk.JobStatusesRequest{Handles: handles[:100]}); err != nil {
				b.Error(err)
			}
		}
	})
}
