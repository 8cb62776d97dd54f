//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestPluginStep: a step runs on a provider of a plugin as on any other: its output and
// code are the job's, later steps use them, and what the plugin can't do is refused before
// the first one starts.
func TestPluginStep(t *testing.T) {
	for _, keeper := range []string{"off", "on"} {
		t.Run("keeper "+keeper, func(t *testing.T) {
			t.Parallel()
			p := withPlugin(t, keeper)
			on := "    config: {exec_env: provider-ephemeral, provider: stage, image: any, command: "
			p.write("steps.yaml", "steps:\n"+
				"  - name: first\n    type: step.sandbox_exec\n"+on+"[echo, hello]}\n"+
				"  - name: second\n    type: step.sandbox_exec\n"+on+"[echo, \"{{ .steps.first.stdout }}\", ;, exit, \"7\"]}\n")
			out, code := p.do("step", "run", "steps.yaml")
			if code != 7 || !strings.Contains(out, "hello\nhello") {
				t.Errorf("exit %d: %s", code, out)
			}
			if out, code := p.do("ps", "-a", "--json"); code != 0 || strings.Count(out, `"provider": "stage"`) != 2 || !strings.Contains(out, `"nonzero_exit"`) {
				t.Errorf("ps: exit %d: %s", code, out)
			}
			p.write("steps.yaml", "steps:\n"+
				"  - name: first\n    type: step.sandbox_exec\n"+on+"[echo, early]}\n"+
				"  - name: second\n    type: step.sandbox_exec\n"+strings.Replace(on, "image: any", "image: any, network: other", 1)+"[echo, late]}\n")
			var errs strings.Builder
			cmd := p.command("step", "run", "steps.yaml")
			cmd.Stderr = &errs
			got, _ := cmd.Output()
			if code := cmd.ProcessState.ExitCode(); code != 125 || len(got) > 0 || !strings.Contains(errs.String(), "steps.yaml:") || !strings.Contains(errs.String(), "network") {
				t.Errorf("what it can't do: exit %d, output %q, %s", code, got, errs.String())
			}
		})
	}
}

// TestPluginConfig: a provider's config that the plugin doesn't take is told with its
// place, and where to read on works.
func TestPluginConfig(t *testing.T) {
	p := withPlugin(t, "off")
	p.write("windlass.yaml", "providers:\n  stage: {kind: pretend, config: {evidense: 1h}}\n")
	out, code := p.do("provider", "describe", "stage")
	if code != 0 || !strings.Contains(out, "Not opened") || !strings.Contains(out, "evidence") || !strings.Contains(out, "CONFIG") {
		t.Errorf("describe: exit %d: %s", code, out)
	}
	if out, code := p.do("provider", "describe", "pretend"); code != 0 || !strings.Contains(out, "CONFIG") {
		t.Errorf("describe the kind: exit %d: %s", code, out)
	}
	var errs strings.Builder
	cmd := p.command("run", "--on", "stage", "--image", "any", "--", "echo")
	cmd.Stderr = &errs
	_ = cmd.Run() // its exit code is judged
	if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(errs.String(), "windlass.yaml:2:35: providers.stage.config.evidense") ||
		!strings.Contains(errs.String(), "`windlass provider describe stage` shows what the plugin pretend takes") {
		t.Errorf("run: exit %d: %s", code, errs.String())
	}
	// So it is for what the plugin's own entry has for all its providers.
	p.write("windlass.yaml", "plugins:\n  pretend: {config: {evidense: 5}}\nproviders:\n  stage: {kind: pretend, config: {evidence: 1h}}\n")
	if out, code := p.do("plugin", "check", "pretend"); code != 1 || !strings.Contains(out, "windlass.yaml:2:22: plugins.pretend.config.evidense") || !strings.Contains(out, "windlass provider describe pretend") {
		t.Errorf("check: exit %d: %s", code, out)
	}
	errs.Reset()
	cmd = p.command("run", "--on", "stage", "--image", "any", "--", "echo")
	cmd.Stderr = &errs
	_ = cmd.Run() // its exit code is judged
	if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(errs.String(), "windlass.yaml:2:22: plugins.pretend.config.evidense") {
		t.Errorf("run: exit %d: %s", code, errs.String())
	}
	// What is wrong with both is told in one round.
	p.write("windlass.yaml", "plugins:\n  pretend: {config: {evidense: 5}}\nproviders:\n  stage: {kind: pretend, config: {evidence: [1]}}\n")
	errs.Reset()
	cmd = p.command("run", "--on", "stage", "--image", "any", "--", "echo")
	cmd.Stderr = &errs
	_ = cmd.Run() // its exit code is judged
	if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(errs.String(), "windlass.yaml:2:22: plugins.pretend.config.evidense: is not known") ||
		!strings.Contains(errs.String(), "providers.stage.config.evidence: wants text, has [1]") {
		t.Errorf("run: exit %d: %s", code, errs.String())
	}
	p.write("windlass.yaml", "plugins:\n  pretend: {config: {evidence: 1h}}\nproviders:\n  stage: {kind: pretend}\n")
	if out, code := p.do("plugin", "check", "pretend"); code != 0 || !strings.Contains(out, "config: the plugin takes what plugins.pretend.config has") {
		t.Errorf("check: exit %d: %s", code, out)
	}
}

// TestPluginAbsent: a capability that a plugin doesn't advertise isn't there. A command
// that needs it is refused with Unimplemented, which names provider, plugin and
// capability, and leaves nothing in the ledger.
func TestPluginAbsent(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.plugin(pretendShelf)
	p.plugin(pretendBench)
	p.write("windlass.yaml", "providers:\n  things: {kind: shelf, config: {capabilities: [ResourceDriver, Troubleshooter]}}\n  jobs: {kind: bench, config: {capabilities: [JobRunner, JobCanceler]}}\n")
	p.write("r.yaml", "resources:\n  - {name: a, type: fake.box, provider: jobs}\n")
	p.write("steps.yaml", "steps:\n  - {name: one, type: step.sandbox_exec, config: {exec_env: provider-ephemeral, provider: things, image: any, command: [echo]}}\n")
	for _, c := range []struct {
		provider, plugin, capability, id string

		args []string
	}{
		{"things", "shelf", "JobRunner", "code.unimplemented", []string{"run", "--on", "things", "--image", "any", "--", "echo"}},
		{"steps[0].config.provider", "shelf", "JobRunner", "step.refused", []string{"step", "run", "steps.yaml"}},
		{"jobs", "bench", "ResourceDriver", "code.unimplemented", []string{"resource", "apply", "-f", "r.yaml"}},
		{"jobs", "bench", "ResourceDriver", "code.unimplemented", []string{"resource", "read", "-f", "r.yaml"}},
	} {
		var errs strings.Builder
		cmd := p.command(c.args...)
		cmd.Stderr = &errs
		_ = cmd.Run() // its exit code is judged
		if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(errs.String(), c.provider) || !strings.Contains(errs.String(), "kind "+c.plugin+" has no "+c.capability) ||
			!strings.Contains(errs.String(), "windlass explain "+c.id) {
			t.Errorf("%q: exit %d: %s", c.args, code, errs.String())
		}
	}
	if out, code := p.do("ledger", "log", "--json"); code == 0 && !strings.Contains(out, `"data": []`) {
		t.Errorf("the ledger: exit %d: %s", code, out)
	}
	p.write("r.yaml", "resources:\n  - {name: a, type: fake.box, provider: things, config: {label: x}}\n")
	if out, code := p.do("resource", "apply", "-f", "r.yaml"); code != 0 || !strings.Contains(out, "a on things: create") {
		t.Errorf("what is there: exit %d: %s", code, out)
	}
}
