package step

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

// checked are the problems of a file whose steps run on far, which refuses
// network and ttl, each as KEY: MESSAGE.
func checked(t *testing.T, text string) []string {
	t.Helper()
	far := &fakeEnv{name: "far", check: []string{"network", "ttl"}, play: func(context.Context, sandbox.Request) (sandbox.Result, error) {
		t.Errorf("it has started\n%s", text)
		return sandbox.Result{State: sdk.StateSucceeded}, nil
	}}
	_, err := runnerOn(far, &record{}, nil).Run(t.Context(), unsound(t, text))
	var out []string
	for _, p := range ProblemsOf(err) {
		if p.Line < 2 || p.Column < 1 || p.File != "f.yaml" || p.ID == "" {
			t.Errorf("no place or no ID: %+v\n%s", p, text)
		}
		out = append(out, p.Key+": "+p.Message)
	}
	if len(out) == 0 {
		t.Errorf("%v\n%s", err, text)
	}
	return out
}

// faults are lines of a config of which each is wrong in another way, under the key
// that it stands for.
func faults() map[string][]string {
	return map[string][]string{
		"image":            {"imge: x", "image: [x]", "image: ''", "image: '{{ .steps.no.stdout }}'", "image: \"a\\0b\""},
		"command":          {"comand: [x]", "command: echo", "command: []", "command: [x, 1]"},
		"env":              {"env: [A=1]", "env: {A: 1}", "env: {S: secret://env/X}", "env: {'A=B': x}"},
		"secrets":          {"secrets: {T: plain}", "secrets: {T: 1}"},
		"mounts":           {"mounts: {a: b}", "mounts: [{src: /a, target: rel}]", "mounts: [{source: /a}, {source: /a, target: rel}]", "mounts: [{source: /a, target: /b, read_only: maybe}]"},
		"tmpfs":            {"tmpfs: [{targt: rel, size: lots}]", "tmpfs: [x, {target: rel}]"},
		"memory_limit":     {"memory: 1Gi", "memory_limit: lots"},
		"timeout":          {"timeout: 90"},
		"ttl":              {"ttl: soon", "ttl: 500ms", "ttl: 90s"},
		"network":          {"netwrk: [a]", "network: a"},
		"security_profile": {"profile: stict"},
		"exec_env":         {"exec-env: nowhere", "exec_env: 5"},
		"provider":         {"provider: x"},
		"argo_module":      {"argo_module: x"},
		"no key":           {"frobnicate: 1"},
	}
}

// configOf has the lines of both faults, and what else a step needs.
func configOf(lines map[string]string) string {
	config := map[string]string{"image": "image: i", "exec_env": "exec_env: far"}
	for key, line := range lines {
		config[key] = line
	}
	var all []string
	for _, line := range config {
		all = append(all, line)
	}
	slices.Sort(all)
	return one(strings.Join(all, "\n"))
}

// TestNothingHidesAProblem: what is wrong with one value of a step, or with its
// name, is told beside everything that is wrong with another, whether the file or
// the environment says so.
func TestNothingHidesAProblem(t *testing.T) {
	type fault struct{ key, line string }
	var all []fault
	single := map[string][]string{}
	for key, lines := range faults() {
		for _, line := range lines {
			all = append(all, fault{key, line})
			single[line] = checked(t, configOf(map[string]string{key: line}))
		}
	}
	// Where a step runs decides who is asked: only what the file says by itself can
	// be told without it.
	asked := func(problem string) bool {
		return strings.Contains(problem, "far refuses it") || strings.Contains(problem, "has no meaning with exec_env")
	}
	for _, a := range all {
		for _, b := range all {
			if a.key == b.key || a.key > b.key {
				continue
			}
			text := configOf(map[string]string{a.key: a.line, b.key: b.line})
			both := checked(t, text)
			for _, want := range slices.Concat(single[a.line], single[b.line]) {
				if slices.Contains(both, want) || asked(want) && (a.key == "exec_env" || b.key == "exec_env") {
					continue
				}
				t.Errorf("%q beside %q: %q isn't told, but\n%s", a.line, b.line, want, strings.Join(both, "\n"))
			}
		}
	}
}

// TestOneFaultOneProblem: a mistyped key isn't told as a missing one, nor a value
// of the wrong type as an unset one.
func TestOneFaultOneProblem(t *testing.T) {
	for key, line := range map[string]string{"image": "imge: x", "command": "command: echo", "memory_limit": "memory: 1Gi", "timeout": "timeout: 90", "secrets": "secrets: {T: 1}",
		"mounts": "mounts: [{source: /a, targt: /b}]", "exec_env": "exec_env: 5"} {
		if ps := checked(t, configOf(map[string]string{key: line})); len(ps) != 1 {
			t.Errorf("%s: %q", line, ps)
		}
	}
}

// TestProblemsOfAllSteps: a step that is no step hides nothing of the others.
func TestProblemsOfAllSteps(t *testing.T) {
	got := checked(t, `steps:
  - nam: a
    type: step.sandbox_exec
    config: {exec_env: far, image: i, network: n}
  - x
  - {name: b, type: step.sandbox_exe, config: {exec_env: far, image: "{{ .steps.a.stdot }}", ttl: 1s}}
  - {name: c, type: step.sandbox_exec}
`)
	want := []string{
		`steps[0].nam: is not known (did you mean "name"?); here may stand name, type, config`,
		"steps[0].config.network: far refuses it: not here",
		"steps[1]: a step is a mapping with name, type and config, this is text",
		`steps[2].type: "step.sandbox_exe" is no type of step (did you mean "step.sandbox_exec"?); there is step.sandbox_exec`,
		fmt.Sprintf(`steps[2].config.image: the template: a step gives out no "stdot" (did you mean "stdout"?); there are %s`, strings.Join(outputKeys(), ", ")),
		"steps[2].config.ttl: far refuses it: not here",
		"steps[3]: has no config",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
