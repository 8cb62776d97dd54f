//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/all"
	pocketargo "github.com/windlass-run/windlass/internal/pocket/argo"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// onSteps is the program with a provider called build on Docker and a remote
// runner called far.
func onSteps(t *testing.T) *runnerServer {
	t.Helper()
	s := onRunner(t)
	var config strings.Builder
	for _, name := range []string{"build.windlass.yaml", "far.windlass.yaml"} {
		b, err := os.ReadFile(filepath.Join("../../examples/step", name))
		if err != nil {
			t.Fatal(err)
		}
		config.Write(b)
	}
	s.write("windlass.yaml", strings.Replace(config.String(), "127.0.0.1:9443", s.addr, 1))
	return s
}

func (p *program) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// TestStepDocument runs the examples of docs/exec-environments.md.
func TestStepDocument(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	for name, want := range map[string]string{
		"local-docker.yaml":       "measured 42, then exit code 3\n",
		"provider-ephemeral.yaml": "hello from a provider\n",
		"remote-runner.yaml":      "hello from afar, with a secret of 20 bytes\n",
	} {
		b, err := os.ReadFile(filepath.Join("../../examples/step", name))
		if err != nil {
			t.Fatal(err)
		}
		s.write(name, strings.ReplaceAll(string(b), "image: busybox\n", "image: busybox:local\n"))
		out, code := s.do("step", "run", name)
		if code != 0 || !strings.HasSuffix(out, want) {
			t.Errorf("%s: exit %d, %q", name, code, out)
		}
	}
	s.settled("the examples")
	if _, code := s.do("ledger", "verify"); code != 0 {
		t.Errorf("verify: exit %d", code)
	}
}

// settled waits until nothing is left to do for any run, and looks for objects
// that are left: a remote runner proves and cleans at its side, a moment later.
func (s *runnerServer) settled(after string) {
	s.t.Helper()
	testwait.Until(s.t, soon, "no unfinished run after "+after, func() bool {
		out, code := s.do("ps", "-a", "--json")
		return code == 0 && !strings.Contains(out, `"finished_at": null`)
	})
	s.nothingLeft()
}

// stepPlaces are the environments that a Docker engine is enough for, as keys of
// a step's config.
func stepPlaces() map[string]string {
	return map[string]string{
		"local-docker":       "exec_env: local-docker",
		"provider-ephemeral": "exec_env: provider-ephemeral, provider: build",
		"remote runner":      "exec_env: far",
	}
}

func oneStep(config string) string {
	return "steps:\n  - {name: only, type: step.sandbox_exec, config: {image: 'busybox:local', " + config + "}}\n"
}

// TestF77StepCancel: Ctrl-C reaches the container wherever the step runs, with
// what it started, also one that ignores TERM; the command ends with 130 once it
// is gone, and nothing is left.
func TestF77StepCancel(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	for name, place := range stepPlaces() {
		trap := `exit 9`
		if name == "local-docker" {
			trap = ``
		}
		s.write("f.yaml", oneStep(place+`, command: [sh, -c, 'trap "`+trap+`" TERM; sleep 1000 & echo up; while :; do sleep 0.1; done']`))
		cmd := s.command("step", "run", "f.yaml")
		var out, errs lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, soon, "the step on "+name, func() bool { return strings.Contains(out.String(), "up\n") })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the code tells
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%s: exit %d: %s", name, code, errs.String())
		}
		far := name == "remote runner"
		if got := errs.String(); far != strings.Contains(got, "proves that at its own side") || far == strings.Contains(got, "waiting for proof") {
			t.Errorf("%s: %s", name, got)
		}
		s.settled(name)
	}
	var v struct {
		Data []struct{ State string }
	}
	list, _ := s.do("ps", "-a", "--json")
	if err := json.Unmarshal([]byte(list), &v); err != nil || len(v.Data) != len(stepPlaces()) {
		t.Fatalf("%v: %s", err, list)
	}
	for _, r := range v.Data {
		if r.State != "cancelled" {
			t.Errorf("a run is %s", r.State)
		}
	}
}

// TestStepTimeout: the time-out ends the container wherever the step runs.
func TestStepTimeout(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	for name, place := range stepPlaces() {
		s.write("f.yaml", oneStep(place+`, timeout: 2s, command: [sh, -c, 'sleep 1000']`))
		if out, code := s.do("step", "run", "f.yaml"); code != 124 {
			t.Errorf("%s: exit %d, %q", name, code, out)
		}
		s.settled(name)
	}
}

// TestStepStrict: an unset profile is strict on local-docker and the remote
// runner, for real, and a code comes back from each.
func TestStepStrict(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	for name, place := range stepPlaces() {
		s.write("f.yaml", oneStep(place+`, command: [sh, -c, 'touch /x 2>/dev/null || echo read-only; ls /sys/class/net; exit 7']`))
		if out, code := s.do("step", "run", "f.yaml"); code != 7 || out != "read-only\nlo\n" {
			t.Errorf("%s: exit %d, %q", name, code, out)
		}
		for command, want := range map[string]int{"no-such-program": 127, "/etc": 126} {
			s.write("f.yaml", oneStep(place+", command: ["+command+"]"))
			out, code := s.do("step", "run", "--json", "f.yaml")
			if code != want || !strings.Contains(out, `"exit_code":null`) {
				t.Errorf("%s on %s: exit %d, %s", command, name, code, out)
			}
		}
	}
	s.write("f.yaml", oneStep("exec_env: far, security_profile: permissive, command: ['true']"))
	if out, code := s.do("step", "run", "--json", "f.yaml"); code != 0 || !strings.Contains(out, "security_profile is standard, and not permissive") || !strings.Contains(out, `"security_profile":"standard"`) {
		t.Errorf("a lowered profile: exit %d, %s", code, out)
	}
	for config, want := range map[string]int{
		"network: host": 125, "memory_limit: 512Mi": 125,
		"command: [sh, -c, 'exit 3'], fail_on_error: false": 0,
	} {
		s.write("f.yaml", oneStep(config))
		if out, code := s.do("step", "run", "f.yaml"); code != want {
			t.Errorf("%s: exit %d, want %d: %s", config, code, want, out)
		}
	}
}

// TestStepFileIsAskedWhole: what only a later step's backend refuses, or hasn't got, is
// told before the first step starts.
func TestStepFileIsAskedWhole(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	s.write("whole.yaml", `steps:
  - {name: a, type: step.sandbox_exec, config: {image: "busybox:local", command: [echo, started]}}
  - {name: b, type: step.sandbox_exec, config: {image: "busybox:local", memory_limit: 1Gi}}
  - {name: c, type: step.sandbox_exec, config: {image: "{{ .steps.a.stdout }}", mounts: [{source: ./none, target: /x, read_only: true}]}}
  - name: d
    type: step.sandbox_exec
    config: {exec_env: provider-ephemeral, provider: build, image: "busybox:local", secrets: {T: secret://env/NOWHERE, U: "secret://aws-sm/x"}, network: "{{ .steps.a.stdout }}"}
`)
	out, code := s.do("step", "run", "--json", "whole.yaml")
	if code != 125 || strings.Contains(out, "step_begin") {
		t.Errorf("exit %d, %s", code, out)
	}
	for _, want := range []string{"check steps: 4 problems", "whole.yaml:3:87: steps[1].config.memory_limit", "local-docker refuses it: the profile strict",
		"whole.yaml:4:99: steps[2].config.mounts[0].source", "whole.yaml:7:98: steps[3].config.secrets.T", "the variable NOWHERE isn't set",
		"whole.yaml:7:123: steps[3].config.secrets.U", "provider-ephemeral refuses it"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q isn't in\n%s", want, out)
		}
	}
	s.nothingLeft()
}

// TestStepJSON: the events of a file, each a line, with the run's ID or null.
func TestStepJSON(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	for name, place := range stepPlaces() {
		s.write("f.yaml", oneStep(place+`, command: [echo, hi]`))
		out, code := s.do("step", "run", "--json", "f.yaml")
		if code != 0 {
			t.Fatalf("%s: exit %d", name, code)
		}
		var kinds, data string
		for line := range strings.Lines(out) {
			var e struct {
				Event string
				Data  []byte
				Step  struct {
					RunID    *string `json:"run_id"`
					ExitCode *int    `json:"exit_code"`
				}
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v: %s", name, err, line)
			}
			kinds += e.Event + " "
			data += string(e.Data)
			if e.Event == "step_end" && (e.Step.ExitCode == nil || *e.Step.ExitCode != 0 || (e.Step.RunID == nil) != (name == "remote runner")) {
				t.Errorf("%s: %s", name, line)
			}
		}
		if !strings.HasPrefix(kinds, "step_begin ") || !strings.HasSuffix(kinds, "output step_end ") || data != "hi\n" {
			t.Errorf("%s: %s, %q", name, kinds, data)
		}
	}
}

// TestStepReadInterrupted: Ctrl-C ends the command while it waits for its file.
func TestStepReadInterrupted(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.command("step", "run", "-")
	var errs lockedBuffer
	cmd.Stdin, cmd.Stderr = r, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: when it is written the command reads, and it has
	// listened for signals before.
	if _, err := w.Write(make([]byte, 128<<10)); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	_, _ = r.Close(), w.Close()
}

// TestF84StepSecret: a secret reaches the step as a file, and nothing of it stays.
func TestF84StepSecret(t *testing.T) {
	t.Parallel()
	s := onSteps(t)
	s.write("f.yaml", oneStep("secrets: {ALLOWED: 'secret://env/ALLOWED'}, command: [sh, -c, 'wc -c < /run/secrets/ALLOWED; env']"))
	out, code := s.do("step", "run", "f.yaml")
	if code != 0 || !strings.HasPrefix(out, "20\n") || strings.Contains(out, "canary") {
		t.Errorf("exit %d, %q", code, out)
	}
	s.write("f.yaml", oneStep("secrets: {NOT_HERE: 'secret://env/NOT_HERE'}"))
	if _, code := s.do("step", "run", "f.yaml"); code != 125 {
		t.Errorf("a secret that isn't here: exit %d", code)
	}
	list, _ := s.do("ps", "-a", "-q")
	if n := len(strings.Fields(list)); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	err := filepath.WalkDir(s.stateDir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "canary-of-the-runner") {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// onArgo is the program with one provider of kind argo, on a pocket cluster.
func onArgo(t *testing.T) (*program, *pocketargo.Server) {
	t.Helper()
	if !slices.ContainsFunc(all.Drivers(), func(d sdk.Driver) bool { return d.Kind == "argo" }) {
		t.Skip("this program has no kind argo")
	}
	p := newProgram(t, "off")
	cloud := pocketargo.New(pocketargo.Options{Executor: runtest.Contained{Executor: pocketrun.NewProcesses(nil)}, Record: true})
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	p.env = append(p.env, "ARGO_TOKEN="+pocketargo.Token)
	p.write("windlass.yaml", fmt.Sprintf("providers: {wf: {kind: argo, poll_interval: 100ms, config: {endpoint: '%s', namespace: %s}}}\n", web.URL, kube.Namespace))
	return p, cloud
}

// TestStepEphemeral runs steps as Workflows: a code and outputs, a time-out and
// Ctrl-C that end the Workflow, and nothing left.
func TestStepEphemeral(t *testing.T) {
	t.Parallel()
	p, cloud := onArgo(t)
	one := func(config string) string {
		return "steps:\n  - {name: only, type: step.sandbox_exec, config: {image: busybox, exec_env: ephemeral, " + config + "}}\n"
	}
	p.write("f.yaml", one("command: [sh, -c, 'echo out; exit 7']"))
	if out, code := p.do("step", "run", "f.yaml"); code != 7 || out != "out\n" {
		t.Errorf("exit %d, %q", code, out)
	}
	example, err := os.ReadFile("../../examples/step/ephemeral.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.write("ephemeral.yaml", string(example))
	if out, code := p.do("step", "run", "ephemeral.yaml"); code != 0 || out != "hello from a workflow\n" {
		t.Errorf("the example: exit %d, %q", code, out)
	}
	p.write("f.yaml", one("command: [echo, out]")+"  - {name: next, type: step.sandbox_exec, config: {image: busybox, env: {E: '{{ .steps.only.stderr }}'}}}\n")
	if out, code := p.do("step", "run", "--json", "f.yaml"); code != 125 || strings.Contains(out, "step_begin") || !strings.Contains(out, "f.yaml:3:") || !strings.Contains(out, "stderr of step only is null: ephemeral keeps stdout and stderr as one") {
		t.Errorf("a stderr that is never there: exit %d, %s", code, out)
	}
	p.write("f.yaml", one("argo_module: wf, timeout: 2s, command: [sleep, '1000']"))
	if _, code := p.do("step", "run", "f.yaml"); code != 124 {
		t.Errorf("exit %d, want 124", code)
	}
	p.write("f.yaml", one(`command: [sh, -c, 'trap "exit 9" TERM; echo up; while :; do sleep 0.1; done']`))
	cmd := p.command("step", "run", "f.yaml")
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "the step", func() bool { return strings.Contains(out.String(), "up\n") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the code tells
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d, want 130: %s", code, errs.String())
	}
	if n := p.orphans("wf"); n > 0 {
		t.Errorf("%d objects left", n)
	}
	calls := cloud.Cluster().Calls().Calls("")
	if !slices.ContainsFunc(calls, func(c fault.Call) bool { return strings.Contains(string(c.Request), `"secondsAfterCompletion":300`) }) {
		t.Error("no Workflow has the TTL of ephemeral")
	}
}

// TestF14StepNames: names of steps that no backend would take, as long as they may be
// and alike but for their end, make objects that it takes, one each.
func TestF14StepNames(t *testing.T) {
	t.Parallel()
	p, cloud := onArgo(t)
	var file strings.Builder
	file.WriteString("steps:\n")
	for _, end := range []string{"x", "X", "_", "-"} {
		fmt.Fprintf(&file, "  - {name: %s%s, type: step.sandbox_exec, config: {image: busybox, exec_env: ephemeral, command: [echo, '%s']}}\n", strings.Repeat("Ab_", 20)+"12", end, end)
	}
	p.write("names.yaml", file.String())
	if out, code := p.do("step", "run", "names.yaml"); code != 0 || out != "x\nX\n_\n-\n" {
		t.Errorf("exit %d, %q", code, out)
	}
	made := map[string]bool{}
	for _, c := range cloud.Cluster().Calls().Calls("") {
		var body struct {
			Workflow struct {
				Metadata struct{ Name string }
			}
		}
		if json.Unmarshal(c.Request, &body) == nil && body.Workflow.Metadata.Name != "" {
			made[body.Workflow.Metadata.Name] = true
		}
	}
	if len(made) != 4 {
		t.Errorf("4 steps made %v", made)
	}
	if n := p.orphans("wf"); n > 0 {
		t.Errorf("%d objects left", n)
	}
}
