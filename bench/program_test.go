package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// build makes the program as `make build` does; WINDLASS_BENCH_PROGRAM names one that is
// made already.
func build(b *testing.B) string {
	b.Helper()
	if made := os.Getenv("WINDLASS_BENCH_PROGRAM"); made != "" {
		return made
	}
	path := filepath.Join(b.TempDir(), "windlass")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/windlass-run/windlass/cmd/windlass")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// timed runs a command to its end and returns how long it took.
func timed(b *testing.B, env []string, name string, args ...string) time.Duration {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stderr = &out
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v\n%s", cmd, err, out.String())
	}
	return time.Since(begin)
}

// pair runs ours and theirs in turn, reports both, the difference and the ratio,
// of medians, and returns the two.
func pair(b *testing.B, ours, theirs func() time.Duration) (x, y time.Duration) {
	b.Helper()
	ours()
	theirs()
	var a, p []time.Duration
	b.ResetTimer()
	for range b.N {
		a = append(a, ours())
		p = append(p, theirs())
	}
	b.StopTimer()
	x, y = median(a), median(p)
	b.ReportMetric(float64(x.Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(y.Microseconds())/1000, "plain-ms")
	b.ReportMetric(float64((x-y).Microseconds())/1000, "added-ms")
	b.ReportMetric(float64(x)/float64(y), "ratio")
	return x, y
}

// state is a state directory of its own. The keeper may still be at work in it
// when the benchmark ends, and put something there while it is removed.
func state(b *testing.B) []string {
	b.Helper()
	dir, err := os.MkdirTemp("", "windlass-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		testwait.Until(b, time.Minute, "removal of the state directory", func() bool { return os.RemoveAll(dir) == nil })
	})
	return []string{"WINDLASS_STATE=" + filepath.Join(dir, "state"), "WINDLASS_ACTOR=bench@bench"}
}

// BenchmarkRunLocal is `windlass run -- true`, with its durable ledger, beside
// `sh -c true`.
func BenchmarkRunLocal(b *testing.B) {
	bin, env := build(b), state(b)
	pair(b,
		func() time.Duration { return timed(b, env, bin, "run", "--", "true") },
		func() time.Duration { return timed(b, nil, "sh", "-c", "true") })
}

// BenchmarkRunDocker is a run on a Docker engine beside `docker run --rm`.
func BenchmarkRunDocker(b *testing.B) {
	host := testneed.Docker(b)
	docker := testneed.Program(b, "docker")
	bin, env := build(b), append(state(b), "DOCKER_HOST="+host)
	pair(b,
		func() time.Duration {
			return timed(b, env, bin, "run", "--on", "docker", "--image", testneed.Image, "--", "true")
		},
		func() time.Duration { return timed(b, env, docker, "run", "--rm", testneed.Image, "true") })
}

// BenchmarkVersion is the start-up alone; the minimum is what counts.
func BenchmarkVersion(b *testing.B) {
	bin := build(b)
	least := time.Hour
	b.ResetTimer()
	for range b.N {
		least = min(least, timed(b, nil, bin, "version"))
	}
	b.ReportMetric(float64(least.Microseconds())/1000, "min-ms")
}

// BenchmarkOutput copies a big file through a local run beside `cat`, both into
// a file.
func BenchmarkOutput(b *testing.B) {
	const size = 256 << 20
	dir := b.TempDir()
	big := filepath.Join(dir, "big")
	line := bytes.Repeat([]byte("0123456789abcdef"), 6)
	line = append(line[:95], '\n')
	if err := os.WriteFile(big, bytes.Repeat(line, size/len(line)), 0o600); err != nil {
		b.Fatal(err)
	}
	bin, env := build(b), state(b)
	into := func(name string, env []string, args ...string) time.Duration {
		out, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.CommandContext(b.Context(), name, args...)
		cmd.Env, cmd.Stdout = append(os.Environ(), env...), out
		begin := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatalf("%s: %v", cmd, err)
		}
		d := time.Since(begin)
		fi, err := out.Stat()
		if err != nil || fi.Size() != int64(size/len(line)*len(line)) {
			b.Fatalf("%s wrote %d bytes, want %d: %v", cmd, fi.Size(), size/len(line)*len(line), err)
		}
		if err := out.Close(); err != nil {
			b.Fatal(err)
		}
		return d
	}
	x, y := pair(b,
		func() time.Duration { return into(bin, env, "run", "--", "cat", big) },
		func() time.Duration { return into("cat", nil, big) })
	// The framework's own MB/s would be of both together.
	b.ReportMetric(size/1e6/x.Seconds(), "ours-MB/s")
	b.ReportMetric(size/1e6/y.Seconds(), "plain-MB/s")
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}
