//go:build unix

package crash

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// stepEnvs are the environments whose steps are runs, each by the provider that it
// comes to.
func stepEnvs() map[string]map[string]any {
	return map[string]map[string]any{
		"docker": {"exec_env": sandbox.LocalDocker},
		"argo":   {"exec_env": sandbox.Ephemeral, "argo_module": "argo"},
		"local":  {"exec_env": sandbox.ProviderEphemeral, "provider": "local"},
	}
}

// step writes a file with this host's job as its only step, and returns the
// arguments that run it.
func (h *host) step() []string {
	h.t.Helper()
	env := map[string]string{"EFFECT": h.effect}
	if h.held {
		env["GO"] = h.goFile()
	}
	config := map[string]any{"command": []string{"sh", "-c", script}, "env": env}
	switch h.driver {
	case "docker":
		config["image"], config["security_profile"] = "busybox:local", sdk.ProfileStandard
		config["mounts"] = []map[string]string{{"source": h.dir, "target": h.dir}}
	case "argo":
		config["image"], config["image_entrypoint"] = "img", []string{}
	}
	maps.Copy(config, stepEnvs()[h.driver])
	// JSON is YAML, too.
	b, err := json.Marshal(map[string]any{"steps": []any{map[string]any{"name": "only", "type": step.TypeSandboxExec, "config": config}}})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "f.yaml"), b, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return []string{"step", "run", "f.yaml"}
}

// TestEveryBoundaryOfAStep kills windlass step run wherever its step's run can be:
// the next command ends that run, which ran once, and nothing of it is left.
func TestEveryBoundaryOfAStep(t *testing.T) {
	t.Parallel()
	for _, driver := range slices.Sorted(maps.Keys(stepEnvs())) {
		for _, point := range control.Failpoints() {
			if scenarioOf(point) != plain {
				continue
			}
			t.Run(driver+"/"+point, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, driver)
				h.held = strings.HasPrefix(point, "write.running")
				h.start("command", "command/"+point+"=kill", h.step())
				h.takenUp(point, plain, end{7, sdk.StateFailed, true})
			})
		}
	}
}

// TestStepOutlivesItsCommand: a step whose command is killed goes on, under the
// keeper or whoever comes next, and its run ends as it would have.
func TestStepOutlivesItsCommand(t *testing.T) {
	t.Parallel()
	for _, driver := range slices.Sorted(maps.Keys(stepEnvs())) {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, driver)
			h.held = true
			cmd := h.command(t.Context(), "", h.step()...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, patience, "effect of the step", func() bool { return h.effects() == 1 })
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // it was killed
			h.release()
			rows := h.rows()
			if len(rows) != 1 {
				t.Fatalf("%d rows: %s", len(rows), errs.String())
			}
			id := rows[0].ID
			if w := h.run("", "wait", id.String()); w.code != 7 {
				t.Errorf("wait gave %d: %s", w.code, w.stderr)
			}
			if got := h.finished(id); got.State != sdk.StateFailed || h.effects() != 1 {
				t.Errorf("%s (%s), the job ran %d times", got.State, got.Reason, h.effects())
			}
			h.wholeOutput(id)
			h.nothingLeft()
			h.ledgerSound()
		})
	}
}
