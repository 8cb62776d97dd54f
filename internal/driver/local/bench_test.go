//go:build linux || darwin

package local

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkTrue is one job from RunJob to the sight of its end; BenchmarkShell
// is what it is compared with.
func BenchmarkTrue(b *testing.B) {
	w := newWorld(b, "")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	changed := make(chan struct{}, 1)
	go func() {
		for _, err := range w.p.WatchJobs(ctx, sdk.WatchJobsRequest{}) {
			if err != nil {
				return
			}
			poke(changed)
		}
	}()
	var accepted time.Duration
	for b.Loop() {
		l := w.launch(sdk.JobSpec{Args: sdk.Argv{"true"}})
		begun := time.Now()
		res, err := w.p.RunJob(b.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
		if err != nil {
			b.Fatal(err)
		}
		accepted += time.Since(begun)
		for !w.status(res.Handle).State.Terminal() {
			select {
			case <-changed:
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	b.ReportMetric(float64(accepted.Microseconds())/1000/float64(b.N), "ms-to-handle")
}

func BenchmarkShell(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is a job that writes 256 MiB, up to the last byte read back.
func BenchmarkOutput(b *testing.B) {
	const size = 256 << 20
	w := newWorld(b, "")
	b.SetBytes(size)
	for b.Loop() {
		h := w.run(sh("head -c 268435456 /dev/zero"))
		n := 0
		for item, err := range w.p.JobLogs(b.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
			if err != nil {
				b.Fatal(err)
			}
			if item.Entry != nil {
				n += len(item.Entry.Data)
			}
		}
		if n != size {
			b.Fatalf("%d bytes of %d", n, size)
		}
		if _, err := w.p.CleanupJob(b.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			b.Fatal(err)
		}
	}
}
