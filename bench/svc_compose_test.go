package bench

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkSvcCompose is `windlass svc scale` and `svc restart` of a Compose service
// on a real engine, with the row in the durable ledger, beside Compose and Docker
// themselves, and beside `tofu apply` of a resource that runs the same command.
// Compose's end is "accepted". The programs are started anew for each change.
func BenchmarkSvcCompose(b *testing.B) {
	if testing.Short() {
		b.Skip("needs an engine: left out by -short")
	}
	host, compose, docker := testneed.Docker(b), testneed.Compose(b), testneed.Program(b, "docker")
	dir := b.TempDir()
	project := "wl-bench-" + strings.ToLower(sdk.NewIDSource(sdk.SystemClock()).NewID().Short())
	services := map[string]any{}
	for _, name := range []string{"ours", "plain", "tofu"} {
		services[name] = map[string]any{"image": testneed.Image, "command": []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"}}
	}
	put := func(name string, v any) string {
		data, err := json.Marshal(v)
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
		return path
	}
	put("compose.yaml", map[string]any{"services": services})
	config := put("windlass.yaml", map[string]any{"providers": map[string]any{"shop": map[string]any{"kind": "compose",
		"config": map[string]any{"project": project, "directory": dir, "compose": compose}}}})
	windlass, env := build(b), append(state(b), "DOCKER_HOST="+host, "WINDLASS_CONFIG="+config)
	of := func(args ...string) []string {
		return append([]string{compose, "--progress", "quiet", "--project-name", project, "--project-directory", dir}, args...)
	}
	b.Cleanup(func() {
		down := exec.CommandContext(context.Background(), compose, of("down", "--timeout", "0")[1:]...)
		down.Env = append(os.Environ(), env...)
		if out, err := down.CombinedOutput(); err != nil {
			b.Errorf("down: %v\n%s", err, out)
		}
	})
	timed(b, env, compose, of("up", "--detach")[1:]...)
	b.Run("scale", contest{env: env, ours: func(n string) []string { return []string{windlass, "svc", "scale", "shop/ours", n} },
		plain: func(name, n string) []string {
			return of("up", "--detach", "--no-deps", "--no-recreate", "--scale", name+"="+n, name)
		}}.run)
	timed(b, env, compose, of("up", "--detach")[1:]...)
	b.Run("restart", contest{env: env, ours: func(string) []string { return []string{windlass, "svc", "restart", "shop/ours"} },
		plain: func(name, _ string) []string { return []string{docker, "restart", project + "-" + name + "-1"} }}.run)
}
