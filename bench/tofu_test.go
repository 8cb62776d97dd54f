package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tofu is OpenTofu with a configuration of one resource, whose replacement runs a
// command. The resource is of a kind that is built in, and the state is a file
// beside it: no provider is started, no cloud is asked, nothing is refreshed. So it
// is a lower bound of what a change through Terraform costs.
type tofu struct {
	program, dir string
	env          []string
	applied      int
}

// newTofu makes a configuration that runs a command of the shell.
func newTofu(b *testing.B, command string, env ...string) *tofu {
	b.Helper()
	build := exec.CommandContext(b.Context(), "bash", "scripts/tool", "tofu")
	build.Dir, build.Stderr = "..", os.Stderr
	path, err := build.Output()
	if err != nil {
		b.Skipf("needs OpenTofu: scripts/tool tofu: %v", err)
	}
	t := &tofu{program: strings.TrimSpace(string(path)), dir: b.TempDir()}
	t.env = append(env, "TF_DATA_DIR="+filepath.Join(t.dir, "data"), "TF_CLI_CONFIG_FILE="+os.DevNull, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	config, err := json.Marshal(map[string]any{
		"variable": map[string]any{"change": map[string]any{"type": "string"}},
		"resource": map[string]any{"terraform_data": map[string]any{"change": map[string]any{
			"triggers_replace": "${var.change}", "provisioner": []any{map[string]any{"local-exec": map[string]any{"command": command}}}}}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(t.dir, "main.tf.json"), config, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	timed(b, t.env, t.program, "-chdir="+t.dir, "init", "-input=false")
	return t
}

// apply has the command run with one more variable.
func (t *tofu) apply(b *testing.B, variable string) time.Duration {
	b.Helper()
	t.applied++
	return timed(b, append(t.env[:len(t.env):len(t.env)], variable), t.program, "-chdir="+t.dir, "apply", "-auto-approve", "-input=false", fmt.Sprintf("-var=change=%d", t.applied))
}

// contest is one change of a workload by three programs: a line of ours, a line of the
// backend's own for the workload of a name, and the same line run by OpenTofu. n is
// the number of instances, for a line that has one.
type contest struct {
	env   []string
	ours  func(n string) []string
	plain func(name, n string) []string
	// settle, when not nil, comes before each change and isn't timed.
	settle func()
}

// run has the three change something in turn, and reports the medians of all and the
// two ratios. Counts go from one to two and back.
func (c contest) run(b *testing.B) {
	b.Helper()
	terraform := newTofu(b, strings.Join(c.plain("tofu", "$REPLICAS"), " "), c.env...)
	do := func(line []string) time.Duration { return timed(b, c.env, line[0], line[1:]...) }
	n := "1"
	ways := [3]func() time.Duration{
		func() time.Duration { return do(c.ours(n)) },
		func() time.Duration { return do(c.plain("plain", n)) },
		func() time.Duration { return terraform.apply(b, "REPLICAS="+n) },
	}
	var took [3][]time.Duration
	round := func() {
		n = map[string]string{"1": "2", "2": "1"}[n]
		for i, change := range ways {
			if c.settle != nil {
				c.settle()
			}
			took[i] = append(took[i], change())
		}
	}
	round()
	round()
	clear(took[:])
	b.ResetTimer()
	for range b.N {
		round()
	}
	b.StopTimer()
	var mid [3]time.Duration
	for i, name := range [3]string{"ours", "plain", "tofu"} {
		mid[i] = median(took[i])
		b.ReportMetric(float64(mid[i].Microseconds())/1000, name+"-ms")
	}
	b.ReportMetric(float64(mid[0])/float64(mid[1]), "ratio")
	b.ReportMetric(float64(mid[2])/float64(mid[0]), "tofu-ratio")
}
