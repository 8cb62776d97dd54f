package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// refusing is what a backend says of an execution that sets one of the fields.
func refusing(problems ...sdk.Problem) func(sandbox.Exec) []error {
	return func(sandbox.Exec) []error { return []error{sandbox.Refusal("far", problems)} }
}

// unsound is a file, whatever is wrong with it.
func unsound(t *testing.T, text string) *File {
	t.Helper()
	f, err := parseFile("f.yaml", "/dir", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// asked runs a file whose backend answers so, which must refuse it before its first
// step, and returns the problems as LINE KEY: MESSAGE.
func asked(t *testing.T, text string, ask func(sandbox.Exec) []error) []string {
	t.Helper()
	p, show := &fakeEnv{name: "far", ask: ask}, &record{}
	_, err := runnerOn(p, show, nil).Run(t.Context(), unsound(t, text))
	if len(p.execs) > 0 || len(show.lines) > 0 {
		t.Errorf("it has begun: %q", show.lines)
	}
	var out []string
	for _, x := range ProblemsOf(err) {
		out = append(out, fmt.Sprintf("%d %s: %s", x.Line, x.Key, x.Message))
	}
	if out == nil && err != nil {
		t.Error(err)
	}
	return out
}

// absentWords are those of a capability that isn't there.
func absentWords() string {
	var e *sdk.Error
	errors.As(sdk.Absent("prod", "mycloud", "JobRunner"), &e)
	return cause(e)
}

// TestBackendsAreAskedFirst: what only a step's backend knows is told before the
// first step starts, of all steps, beside what is wrong with the file.
func TestBackendsAreAskedFirst(t *testing.T) {
	got := asked(t, steps("work_dir: /", "memory_limit: 1Mi, secrets: {T: secret://env/T}", "netwrk: x"), func(e sandbox.Exec) []error {
		switch e.Name {
		case "s0":
			return nil
		case "s1":
			return []error{
				&sdk.Error{Code: sdk.NotFound, Op: "run", Field: "secrets.T", ID: "secret.not-found", Err: errors.New("the variable T isn't set"), Remedy: "export it"},
				sandbox.Refusal("far", []sdk.Problem{{Field: "memory_limit", Message: "below 6 MiB"}, {Field: "image", Value: "i", Message: "isn't there"}}),
			}
		}
		return []error{sdk.Errorf(sdk.Unavailable, "ask", "nobody is there"), sdk.Absent("prod", "mycloud", "JobRunner")}
	})
	want := []string{`3 steps[1].config.image: far refuses it: "i": isn't there`, "3 steps[1].config.memory_limit: far refuses it: below 6 MiB",
		"3 steps[1].config.secrets.T: the variable T isn't set", "4 steps[2].config.exec_env: can't be asked whether it takes this step: ask: nobody is there",
		"4 steps[2].config.exec_env: far can't run it: " + absentWords(),
		`4 steps[2].config.netwrk: is not known (did you mean "network"?)`}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], "; here may stand")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAskedOnceToldOnce: what a step's environment refuses without its backend isn't
// told in the backend's words as well.
func TestAskedOnceToldOnce(t *testing.T) {
	p := &fakeEnv{name: "far", check: []string{"network"}, ask: refusing(sdk.Problem{Field: "network", Message: "a pod has none"}, sdk.Problem{Field: "ttl", Message: "too long"}, sdk.Problem{Field: "ttl", Message: "and odd"})}
	_, err := runnerOn(p, &record{}, nil).Run(t.Context(), mustParse(t, steps("network: a, ttl: 1h")))
	var got []string
	for _, x := range ProblemsOf(err) {
		got = append(got, x.Message)
	}
	if want := []string{"far refuses it: not here", "far refuses it: too long", "far refuses it: and odd"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestTemplatesAreAskedAtTheirTurn: of what a template decides the backend sees no
// stand-in, and a refusal that hangs on it is no reason before its turn.
func TestTemplatesAreAskedAtTheirTurn(t *testing.T) {
	const tmpl = "'{{ .steps.s0.stdout | trim }}'"
	for _, x := range []struct {
		config  string
		hang    []string // fields of which a refusal waits
		settled string   // a field of which a refusal doesn't
	}{
		{"image: " + tmpl + ", memory_limit: 1Gi", []string{"image", "command", "image_entrypoint"}, "memory_limit"},
		{"memory_limit: " + tmpl + ", timeout: 1m", []string{"memory_limit", "cpu_limit"}, "timeout"},
		{"timeout: " + tmpl + ", start_timeout: " + tmpl + ", ttl: " + tmpl + ", cpu_limit: 1", []string{"timeout", "start_timeout", "ttl"}, "cpu_limit"},
		{"command: [a, " + tmpl + "], work_dir: /", []string{"command", "command[1]"}, "work_dir"},
		{"env: {A: " + tmpl + ", B: b}", []string{"env", "env.A"}, "env.B"},
		{"secrets: {A: " + tmpl + ", B: secret://env/B}", []string{"secrets", "secrets.A"}, "secrets.B"},
		{"network: " + tmpl + ", work_dir: " + tmpl + ", ttl: 1h", []string{"network", "work_dir"}, "ttl"},
		{"mounts: [{source: " + tmpl + ", target: /a, type: bind}, {source: /b, target: /b}]", []string{"mounts", "mounts[0]", "mounts[0].source"}, "mounts[1].source"},
		{"mounts: [{source: " + tmpl + ", target: /a}], ttl: 1h", []string{"mounts[0].read_only"}, "ttl"},
		{"tmpfs: [{target: " + tmpl + "}, {target: /b, size: " + tmpl + "}]", []string{"tmpfs[0].target", "tmpfs[1].size"}, "tmpfs[1].target"},
	} {
		config := x.config
		if !strings.Contains(config, "image:") {
			config = "image: i, " + config
		}
		text := steps("work_dir: /") + "  - {name: s1, type: step.sandbox_exec, config: {exec_env: far, " + config + "}}\n"
		ask := func(refuse string) func(sandbox.Exec) []error {
			return func(e sandbox.Exec) []error {
				if e.Name != "s1" {
					return nil
				}
				for _, s := range []string{e.Image, e.WorkDir, e.Network} {
					if strings.Contains(s, draftText) {
						t.Errorf("%s: a stand-in is asked for: %+v", x.config, e)
					}
				}
				for name, ref := range e.Secrets {
					if ref == draftSecret {
						t.Errorf("%s: secret %s", x.config, name)
					}
				}
				return refusing(sdk.Problem{Field: refuse, Message: "no"})(e)
			}
		}
		for _, field := range x.hang {
			p := &fakeEnv{name: "far", ask: ask(field)}
			_, err := runnerOn(p, &record{}, nil).Run(t.Context(), mustParse(t, text))
			if len(p.execs) == 0 {
				t.Errorf("%s: a refusal of %s is told before its turn: %v", x.config, field, err)
			}
		}
		if got := asked(t, text, ask(x.settled)); len(got) != 1 || !strings.Contains(got[0], x.settled+": far refuses it: no") {
			t.Errorf("%s: a refusal of %s: %q", x.config, x.settled, got)
		}
	}
	// A profile that is wrong itself has nothing else refused for it.
	if got := asked(t, steps("security_profile: stict, network: a"), refusing(sdk.Problem{Field: "network", Message: "not in strict"})); len(got) != 1 || !strings.Contains(got[0], "security_profile") {
		t.Errorf("%q", got)
	}
}

// TestReadyBeforeAsking: what the backends need is opened before the first is asked,
// and hides nothing that is wrong with the file when that fails.
func TestReadyBeforeAsking(t *testing.T) {
	ready := false
	p := &fakeEnv{name: "far"}
	p.ask = func(sandbox.Exec) []error {
		if !ready {
			t.Error("asked before it was ready")
		}
		return nil
	}
	r := runnerOn(p, &record{}, nil)
	r.Ready = func(context.Context) error { ready = true; return nil }
	if _, err := r.Run(t.Context(), mustParse(t, steps("work_dir: /"))); err != nil {
		t.Error(err)
	}
	broken := errors.New("the disk is full")
	r.Ready = func(context.Context) error { return broken }
	if _, err := r.Run(t.Context(), mustParse(t, steps("work_dir: /"))); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := r.Run(t.Context(), unsound(t, steps("work_dr: /"))); len(ProblemsOf(err)) != 1 {
		t.Error(err)
	}
}

// TestStopWhileAsking: a wish to end ends the questions, and no step starts.
func TestStopWhileAsking(t *testing.T) {
	stop := make(chan struct{})
	p := &fakeEnv{name: "far"}
	p.askCtx = func(ctx context.Context) []error {
		<-ctx.Done()
		return []error{ctx.Err()}
	}
	var once sync.Once
	done := make(chan error, 1)
	r := runnerOn(p, &record{}, stop)
	r.Ready = func(context.Context) error { once.Do(func() { close(stop) }); return nil }
	f := mustParse(t, steps("work_dir: /", "work_dir: /"))
	go func() {
		_, err := r.Run(context.Background(), f)
		done <- err
	}()
	err := testwait.Receive(t, 2*time.Minute, "the end", done)
	var failed *Failure
	if !errors.As(err, &failed) || sdk.CodeOf(err) != sdk.Canceled || failed.Step != "s0" || len(p.execs) > 0 {
		t.Errorf("%v", err)
	}
}

// TestNoStderrIsToldFirst: a template that can't do without the stderr of a step whose
// environment has none of its own is told before the first step starts; one that asks
// whether it is there isn't.
func TestNoStderrIsToldFirst(t *testing.T) {
	for tmpl, refused := range map[string]bool{
		"{{ .steps.s0.stderr }}":                                                  true,
		"{{ .steps.s0.stderr | trim }}":                                           true,
		"{{ .steps.s0.stderr }}{{ .steps.s0.stderr }}":                            true,
		`{{ index .steps "s0" "stderr" }}`:                                        true,
		"{{ with $.steps.s0.stderr }}{{ . }}{{ end }}":                            true,
		`{{ or (has .steps.s0 "stderr") .steps.s0.stderr }}`:                      false,
		`{{ if has .steps.s0 "stderr" }}{{ .steps.s0.stderr }}{{ end }}`:          false,
		`{{ if has .steps.s0 "stderr" }}{{ .steps.s0.stderr }}{{ else }}x{{end}}`: false,
		"{{ .steps.s0.stdout }}":                                                  false,
	} {
		for _, combined := range []bool{true, false} {
			p := &fakeEnv{name: "far", combined: combined}
			_, err := runnerOn(p, &record{}, nil).Run(t.Context(), mustParse(t, steps("work_dir: /", "env: {X: '"+tmpl+"'}")))
			ps := ProblemsOf(err)
			if want := refused && combined; want != (len(p.execs) == 0) || want && (len(ps) != 1 || ps[0].ID != ErrTemplate || ps[0].Line != 3 || ps[0].Key != "steps[1].config.env.X" ||
				!strings.Contains(ps[0].Message, "stderr of step s0 is null: far keeps stdout and stderr as one")) {
				t.Errorf("%s, combined %v: %v", tmpl, combined, err)
			}
		}
	}
}
