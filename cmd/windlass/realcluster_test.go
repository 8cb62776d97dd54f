//go:build linux

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/internal/testwait"
)

// realPatience is for a machine that has other things to do than to run a cluster.
const realPatience = 5 * time.Minute

// onRealCluster is the program with a provider kubernetes, jobs, in a namespace of its
// own of a real cluster, and a provider argo, flows.
func onRealCluster(t *testing.T, keeper string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster of its own: left out by -short")
	}
	c := cluster.Join(t, cluster.Argo)
	p := newProgram(t, keeper)
	p.env = append(p.env, "KUBECONFIG="+c.Kubeconfig)
	p.write("windlass.yaml", fmt.Sprintf("providers:\n  jobs: {kind: kubernetes, poll_interval: 200ms, config: {namespace: %s}}\n"+
		"  flows: {kind: argo, poll_interval: 200ms, config: {namespace: argo}}\n", c.Namespace(t)))
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p
}

// interrupted starts the program, sends it Ctrl-C once it has put out a line, and
// returns all that it put out. It must end with 130.
func (p *program) interrupted(line string, args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	testwait.Until(p.t, realPatience, line, func() bool { return strings.Contains(out.String(), line) })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Error(err)
	}
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		p.t.Errorf("exit %d, want 130: %s", code, errs.String())
	}
	return out.String()
}

// clean waits until the ledger has nothing left to do, and asks for what is left on a
// provider.
func (p *program) clean(provider string) {
	p.t.Helper()
	testwait.Until(p.t, realPatience, "no unfinished run", func() bool {
		out, code := p.do("ps", "-a", "--json")
		return code == 0 && !strings.Contains(out, `"finished_at": null`)
	})
	list, code := p.do("reap", "--dry-run", "--on", provider)
	if code != 0 {
		p.t.Errorf("reap: exit %d", code)
	}
	for line := range strings.Lines(list) {
		// Other tests work in the namespace that Argo has.
		if strings.Contains(line, "windlass-0") && !strings.Contains(line, "belongs to another ledger") {
			p.t.Errorf("left on %s: %s", provider, line)
		}
	}
}

// TestRealWaitIsTold: why a pod doesn't start is told on stderr while it waits, by a run
// and by a step, on both kinds; and no output is said to be missing of a job that never
// ran. Of a job that does, the executor's lines stay in the record.
func TestRealWaitIsTold(t *testing.T) {
	t.Parallel()
	p := onRealCluster(t, "off")
	said := func(want int, args ...string) string {
		cmd := p.command(args...)
		var errs lockedBuffer
		cmd.Stderr = &errs
		_ = cmd.Run() // the code tells
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%q: exit %d, want %d: %s", args, code, want, errs.String())
		}
		return errs.String()
	}
	p.write("waits.yaml", "steps:\n  - {name: a, type: step.sandbox_exec, config: {exec_env: ephemeral, image: \"nope.invalid/x:1\", image_entrypoint: [], command: [\"true\"], start_timeout: 8s}}\n")
	for _, args := range [][]string{
		{"run", "--on", "jobs", "--image", "nope.invalid/x:1", "--start-timeout", "8s", "--", "true"},
		{"run", "--on", "flows", "--image", "nope.invalid/x:1", "--image-entrypoint", "", "--start-timeout", "8s", "--", "true"},
		{"step", "run", "waits.yaml"},
	} {
		errs := said(125, args...)
		if n := strings.Count(errs, "yet: image_pull: "); n != 1 || !strings.Contains(errs, "it waits up to its start time-out of 8s") || strings.Contains(errs, "isn't whole") {
			t.Errorf("%q: told %d times: %s", args, n, errs)
		}
	}
	if errs := said(0, "run", "--on", "flows", "--image", "busybox:local", "--image-entrypoint", "", "--", "true"); strings.Contains(errs, "level=") {
		t.Errorf("a clean run says %s", errs)
	}
	p.clean("jobs")
}

// TestRealRun runs jobs with the real program on a real Kubernetes: output, code and
// secret; a run whose command has gone, which the keeper holds; Ctrl-C, with the job's
// last words; and nothing is left.
func TestRealRun(t *testing.T) {
	t.Parallel()
	p := onRealCluster(t, "on")
	p.env = append(p.env, "THE_TOKEN=sesame")
	run := func(more ...string) []string {
		return append([]string{"run", "--on", "jobs", "--image", "busybox:local"}, more...)
	}
	out, code := p.do(run("-e", "WHO=world", "--secret", "TOKEN=secret://env/THE_TOKEN", "--", "sh", "-c", `echo "hello $WHO ${#TOKEN}"; echo '$(x) {{y}}'; exit 7`)...)
	if code != 7 || out != "hello world 6\n$(x) {{y}}\n" {
		t.Errorf("exit %d, output %q", code, out)
	}
	out, code = p.do(run("-d", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")...)
	id := strings.TrimSpace(out)
	if code != 0 || len(id) != 26 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	if out, code := p.do("logs", "-f", id); code != 0 || out != "begin\nend\n" {
		t.Errorf("logs: exit %d, output %q", code, out)
	}
	if _, code := p.do("wait", id); code != 4 {
		t.Errorf("wait: exit %d", code)
	}
	if out := p.interrupted("up\n", run("--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)...); out != "up\nbye\n" {
		t.Errorf("the output of what was interrupted is %q", out)
	}
	p.clean("jobs")
	if _, code := p.do("ledger", "verify"); code != 0 {
		t.Errorf("verify: exit %d", code)
	}
}

// TestRealSteps runs steps with the real program on a real Kubernetes and a real Argo:
// what one puts out is the next one's, what looks like Argo's variables stays as it was
// typed, the code of the failed one is the file's, Ctrl-C ends the Workflow, and
// nothing is left.
func TestRealSteps(t *testing.T) {
	t.Parallel()
	p := onRealCluster(t, "off")
	step := func(name, config string) string {
		return "  - {name: " + name + ", type: step.sandbox_exec, config: {image: 'busybox:local', " + config + "}}\n"
	}
	p.write("two.yaml", "steps:\n"+
		step("measure", "exec_env: provider-ephemeral, provider: jobs, command: [sh, -c, 'printf 42']")+
		// Argo can't ask a registry there what the image's entrypoint is.
		step("use", `exec_env: ephemeral, image_entrypoint: [], command: [sh, -c, 'echo "got $X, {{ "{{workflow.name}}" }}"; exit 7'], env: {X: '{{ .steps.measure.stdout }}'}`))
	if out, code := p.do("step", "run", "two.yaml"); code != 7 || !strings.HasSuffix(out, "got 42, {{workflow.name}}\n") {
		t.Errorf("exit %d, %q", code, out)
	}
	p.write("stop.yaml", "steps:\n"+
		step("only", `exec_env: ephemeral, argo_module: flows, image_entrypoint: [], command: [sh, -c, 'trap "exit 9" TERM; echo up; while :; do sleep 0.1; done']`))
	p.interrupted("up\n", "step", "run", "stop.yaml")
	list, code := p.do("ps", "-a", "--json")
	if code != 0 || strings.Count(list, `"cancelled"`) == 0 {
		t.Errorf("not cancelled on record (exit %d): %s", code, list)
	}
	p.clean("jobs")
	p.clean("flows")
}
