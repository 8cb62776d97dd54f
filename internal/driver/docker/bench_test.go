package docker

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkAgainstDockerRun runs the same job by the driver and by `docker run
// --rm`, in turns, and reports the medians and their ratio. A run by the driver
// is what the engine of Windlass makes of it: prepare, run, read the log to its
// proven end, read the state, clean up.
func BenchmarkAgainstDockerRun(b *testing.B) {
	w := realEngine(b)
	cli := testneed.Program(b, "docker")
	spec := sdk.JobSpec{V: 1, Image: testneed.Image, Args: sdk.Argv{"echo", "hello"}, Profile: sdk.ProfilePermissive}
	var ours, theirs []time.Duration
	one := func() {
		h := w.run(b, spec)
		o := w.logs(b, h, true, nil)
		st, err := w.JobStatus(b.Context(), sdk.JobStatusRequest{Handle: h})
		if err != nil || st.State != sdk.StateSucceeded || o.out != "hello\n" {
			b.Fatalf("%+v, %+v, %v", o, st, err)
		}
		if _, err := w.CleanupJob(b.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			b.Fatal(err)
		}
	}
	host := w.identity.Endpoint
	other := func() {
		out, err := exec.CommandContext(b.Context(), cli, "-H", host, "run", "--rm", testneed.Image, "echo", "hello").Output()
		if err != nil || string(out) != "hello\n" {
			b.Fatalf("%q, %v", out, err)
		}
	}
	one()
	other()
	for b.Loop() {
		for into, f := range map[*[]time.Duration]func(){&ours: one, &theirs: other} {
			begun := time.Now()
			f()
			*into = append(*into, time.Since(begun))
		}
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(median(ours), "ms/run")
	b.ReportMetric(median(theirs), "ms/docker-run")
	b.ReportMetric(median(ours)/median(theirs), "ratio")
}

// BenchmarkLogs reads a log of 100,000 lines from the engine, which is the
// engine's speed for the most part.
func BenchmarkLogs(b *testing.B) {
	w := realEngine(b)
	const lines = 100_000
	spec := sh(`yes 'a line of sixty-four bytes, as programs write them all the time' | head -n 100000`)
	spec.Network = networkNone
	h := w.run(b, spec)
	w.ended(b, h)
	n := 0
	for b.Loop() {
		o := w.logs(b, h, false, nil)
		if n = len(o.out); strings.Count(o.out, "\n") != lines {
			b.Fatalf("%d lines", strings.Count(o.out, "\n"))
		}
	}
	b.SetBytes(int64(n))
}

// BenchmarkFrames is the driver's own part of reading a log.
func BenchmarkFrames(b *testing.B) {
	var raw bytes.Buffer
	at := time.Unix(1e9, 0)
	line := strings.Repeat("x", 63) + "\n"
	for range 10_000 {
		raw.Write(frameOf(1, at, line))
	}
	b.SetBytes(int64(10_000 * len(line)))
	for b.Loop() {
		f := newFrames(bytes.NewReader(raw.Bytes()))
		var pos position
		for {
			r, err := f.next()
			if err != nil {
				break
			}
			pos.took(r)
		}
		if pos.out.total != 10_000 {
			b.Fatal(pos.out.total)
		}
	}
}
