package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
)

// BenchmarkStep is a file of three steps on local-docker beside three `docker run
// --rm` with what the profile strict sets.
func BenchmarkStep(b *testing.B) {
	const steps = 3
	host := testneed.Docker(b)
	docker := testneed.Program(b, "docker")
	bin, env := build(b), append(state(b), "DOCKER_HOST="+host)
	file := filepath.Join(b.TempDir(), "steps.yaml")
	text := "steps:\n"
	for i := range steps {
		text += "  - {name: s" + string(rune('0'+i)) + ", type: step.sandbox_exec, config: {image: '" + testneed.Image + "', command: ['true']}}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	plain := strings.Fields("run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges --memory 256m --memory-swap 256m " +
		"--cpus 0.5 --pids-limit 64 --tmpfs /tmp:size=64m " + testneed.Image + " true")
	pair(b,
		func() time.Duration { return timed(b, env, bin, "step", "run", file) },
		func() time.Duration {
			var sum time.Duration
			for range steps {
				sum += timed(b, env, docker, plain...)
			}
			return sum
		})
}
