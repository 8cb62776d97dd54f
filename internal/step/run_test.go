package step

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/runner"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

// fakeEnv is an environment that plays a script by the image's name.
type fakeEnv struct {
	name     string
	combined bool
	execs    []sandbox.Exec
	// check are the fields that it refuses.
	check  []string
	ask    func(e sandbox.Exec) []error
	askCtx func(ctx context.Context) []error
	play   func(ctx context.Context, r sandbox.Request) (sandbox.Result, error)
}

func (p *fakeEnv) Name() string                { return p.name }
func (p *fakeEnv) Combined() bool              { return p.combined }
func (p *fakeEnv) Support() []sdk.FieldSupport { return nil }

func (p *fakeEnv) Check(e sandbox.Exec) []sdk.Problem {
	ps := e.Validate()
	for _, f := range p.check {
		if e.IsSet(f) {
			ps = append(ps, sdk.Problem{Field: f, Message: "not here", Code: sdk.Unimplemented})
		}
	}
	return ps
}

func (p *fakeEnv) Ask(ctx context.Context, e sandbox.Exec) []error {
	if p.askCtx != nil {
		return p.askCtx(ctx)
	}
	if p.ask == nil {
		return nil
	}
	return p.ask(e)
}

func (p *fakeEnv) Exec(ctx context.Context, r sandbox.Request) (sandbox.Result, error) {
	p.execs = append(p.execs, r.Exec)
	if p.play != nil {
		return p.play(ctx, r)
	}
	if err := r.Output.Write(sdk.StreamStdout, []byte(r.Exec.Name+" said\n")); err != nil {
		return sandbox.Result{}, err
	}
	code := 0
	return sandbox.Result{State: sdk.StateSucceeded, ExitCode: &code, Duration: time.Second}, nil
}

// record is a Show that notes what it is told.
type record struct{ lines []string }

type shown struct {
	r    *record
	step string
}

func (r *record) Begin(s *Step, env string) sandbox.Output {
	r.lines = append(r.lines, "begin "+s.Name+" on "+env)
	return shown{r, s.Name}
}

func (r *record) End(s *Step, o *Output, err error) {
	line := fmt.Sprintf("end %s %s", s.Name, o.State)
	if o.Forgiven {
		line += " forgiven"
	}
	if err != nil {
		line += " error"
	}
	r.lines = append(r.lines, line)
}

func (s shown) Write(stream sdk.Stream, data []byte) error {
	s.r.lines = append(s.r.lines, fmt.Sprintf("%s %s %q", s.step, stream, data))
	return nil
}
func (s shown) Note(text string)   { s.r.lines = append(s.r.lines, s.step+" note "+text) }
func (s shown) Started(run sdk.ID) { s.r.lines = append(s.r.lines, s.step+" started") }

func runnerOn(p *fakeEnv, show Show, stop chan struct{}) *Runner {
	return &Runner{Show: show, Stop: stop, Why: func() string { return "Ctrl-C" }, Places: sandbox.Places{Runners: []string{p.name},
		Dial: func(context.Context, string) (sandbox.Environment, error) { return p, nil }}}
}

// steps are steps on the place called far.
func steps(configs ...string) string {
	text := "steps:\n"
	for i, c := range configs {
		text += fmt.Sprintf("  - {name: s%d, type: step.sandbox_exec, config: {exec_env: far, image: i, %s}}\n", i, c)
	}
	return text
}

func fails(code int) func(context.Context, sandbox.Request) (sandbox.Result, error) {
	return func(_ context.Context, r sandbox.Request) (sandbox.Result, error) {
		if r.Exec.Name != "s0" {
			return sandbox.Result{State: sdk.StateSucceeded}, nil
		}
		return sandbox.Result{State: sdk.StateFailed, ExitCode: &code}, nil
	}
}

// TestForgiven: fail_on_error forgives a command that ran and failed, and no job that
// never started or was taken away.
func TestForgiven(t *testing.T) {
	three := 3
	for _, x := range []struct {
		result sandbox.Result
		want   bool
	}{
		{sandbox.Result{Reason: sdk.ReasonNonzeroExit, ExitCode: &three}, true},
		{sandbox.Result{Reason: sdk.ReasonSignaled}, true},
		{sandbox.Result{Reason: sdk.ReasonOOMKilled}, true},
		{sandbox.Result{Reason: sdk.ReasonTimedOut}, true},
		{sandbox.Result{ExitCode: &three}, true}, // a remote runner gives no reason
		{sandbox.Result{}, false},
		{sandbox.Result{Reason: sdk.ReasonImagePull}, false},
		{sandbox.Result{Reason: sdk.ReasonFailedToStart}, false},
		{sandbox.Result{Reason: sdk.ReasonStartTimeout}, false},
		{sandbox.Result{Reason: sdk.ReasonPermissionDenied}, false},
		{sandbox.Result{Reason: sdk.ReasonEvicted, ExitCode: &three}, false},
		{sandbox.Result{Reason: sdk.ReasonNodeLost}, false},
	} {
		x.result.State = sdk.StateFailed
		far := &fakeEnv{name: "far", play: func(context.Context, sandbox.Request) (sandbox.Result, error) { return x.result, nil }}
		all, err := runnerOn(far, &record{}, nil).Run(t.Context(), mustParse(t, steps("fail_on_error: false")))
		if err != nil || len(all) != 1 || all[0].Forgiven != x.want {
			t.Errorf("%q: %v, %+v; want forgiven %v", x.result.Reason, err, all, x.want)
		}
	}
}

func TestRunInOrder(t *testing.T) {
	p, show := &fakeEnv{name: "far"}, &record{}
	all, err := runnerOn(p, show, nil).Run(t.Context(), mustParse(t, steps("network: a", "network: '{{ .steps.s0.stdout | trim }}'")))
	if err != nil || len(all) != 2 || !all[1].Passed() || p.execs[1].Network != "s0 said" {
		t.Errorf("%v, %v", all, err)
	}
	want := []string{"begin s0 on far", `s0 stdout "s0 said\n"`, "end s0 succeeded", "begin s1 on far", `s1 stdout "s1 said\n"`, "end s1 succeeded"}
	if !reflect.DeepEqual(show.lines, want) {
		t.Errorf("%q", show.lines)
	}
}

func TestFailOnError(t *testing.T) {
	for _, x := range []struct {
		config string
		play   func(context.Context, sandbox.Request) (sandbox.Result, error)
		want   []string
		err    bool
	}{
		{"fail_on_error: true", fails(3), []string{"begin s0 on far", "end s0 failed"}, false},
		{"work_dir: /", fails(3), []string{"begin s0 on far", "end s0 failed"}, false},
		{"fail_on_error: false", fails(3), []string{"begin s0 on far", "end s0 failed forgiven", "begin s1 on far", "end s1 succeeded"}, false},
		{"fail_on_error: false", func(context.Context, sandbox.Request) (sandbox.Result, error) {
			return sandbox.Result{State: sdk.StateCancelled}, nil
		}, []string{"begin s0 on far", "end s0 cancelled"}, false},
		{"fail_on_error: false", func(context.Context, sandbox.Request) (sandbox.Result, error) {
			return sandbox.Result{State: sdk.StateLost}, nil
		}, []string{"begin s0 on far", "end s0 lost"}, false},
		{"fail_on_error: false", func(context.Context, sandbox.Request) (sandbox.Result, error) {
			return sandbox.Result{}, sdk.Errorf(sdk.Unknown, "exec", "the line is dead")
		}, []string{"begin s0 on far", "end s0  error"}, true},
	} {
		show := &record{}
		all, err := runnerOn(&fakeEnv{name: "far", play: x.play}, show, nil).Run(t.Context(), mustParse(t, steps(x.config, "work_dir: /")))
		if (err != nil) != x.err || !reflect.DeepEqual(show.lines, x.want) {
			t.Errorf("%s: %q, %v", x.config, show.lines, err)
		}
		var failed *Failure
		if err != nil && (!errors.As(err, &failed) || failed.Line != 2 || failed.Step != "s0" || !strings.HasPrefix(err.Error(), "f.yaml:2: step s0: exec: the line is dead")) {
			t.Errorf("%v", err)
		}
		if len(all) == 0 {
			t.Errorf("%s: nothing", x.config)
		}
	}
}

// TestRefusedBeforeTheFirst: the whole file is checked first, and every refusal
// comes back with its place.
func TestRefusedBeforeTheFirst(t *testing.T) {
	p, show := &fakeEnv{name: "far", check: []string{"network", "memory_limit"}}, &record{}
	text := steps("work_dir: /", "network: none, memory_limit: '{{ .steps.s0.stdout }}'") +
		"  - {name: p, type: step.sandbox_exec, config: {image: i, exec_env: provider-ephemeral}}\n" +
		"  - {name: q, type: step.sandbox_exec, config: {image: i, exec_env: near}}\n" +
		"  - {name: r, type: step.sandbox_exec, config: {image: i, exec_env: far, work_dir: /x, mounts: [{source: v, target: rel}], tmpfs: [{target: /a}, {target: /a}]}}\n"
	r := runnerOn(p, show, nil)
	r.Ready = func(context.Context) error { return errors.New("opened for a file that is refused") }
	all, err := r.Run(t.Context(), mustParse(t, text))
	if len(all) > 0 || len(p.execs) > 0 || len(show.lines) > 0 {
		t.Errorf("something began: %q", show.lines)
	}
	var got []string
	for _, x := range ProblemsOf(err) {
		got = append(got, fmt.Sprintf("%d %s", x.Line, x.Key))
	}
	want := []string{"3 steps[1].config.network", "3 steps[1].config.memory_limit", "4 steps[2].config.provider", "5 steps[3].config.exec_env",
		"6 steps[4].config.mounts[0].target", "6 steps[4].config.tmpfs[1].target"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q\n%v", got, err)
	}
}

// TestRefusedWhenFilledIn: what a template brings is refused before the step
// starts.
func TestRefusedWhenFilledIn(t *testing.T) {
	p, show := &fakeEnv{name: "far"}, &record{}
	_, err := runnerOn(p, show, nil).Run(t.Context(), mustParse(t, steps("work_dir: /", "tmpfs: [{target: '{{ .steps.s0.stdout | trim }}'}]")))
	if len(p.execs) != 1 || len(ProblemsOf(err)) != 1 || !strings.Contains(err.Error(), `f.yaml:3: step s1: run step: f.yaml:3:`) || !strings.Contains(err.Error(), "tmpfs[0].target") {
		t.Errorf("%v", err)
	}
}

// TestStop: closing Stop reaches the environment, and starts no further step.
func TestStop(t *testing.T) {
	stop := make(chan struct{})
	p := &fakeEnv{name: "far", play: func(_ context.Context, r sandbox.Request) (sandbox.Result, error) {
		close(stop)
		<-r.Stop
		return sandbox.Result{State: sdk.StateCancelled}, nil
	}}
	all, err := runnerOn(p, &record{}, stop).Run(t.Context(), mustParse(t, steps("work_dir: /", "work_dir: /")))
	if err != nil || len(all) != 1 || all[0].State != sdk.StateCancelled {
		t.Errorf("%v, %v", all, err)
	}
	// Between two steps.
	stop = make(chan struct{})
	p.play = func(context.Context, sandbox.Request) (sandbox.Result, error) {
		close(stop)
		return sandbox.Result{State: sdk.StateSucceeded}, nil
	}
	all, err = runnerOn(p, &record{}, stop).Run(t.Context(), mustParse(t, steps("work_dir: /", "work_dir: /")))
	if sdk.CodeOf(err) != sdk.Canceled || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestF70BigOutput: output of any size is passed on whole, and memory holds only
// what templates may use, of one step and of all.
func TestF70BigOutput(t *testing.T) {
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = 'x'
	}
	p := &fakeEnv{name: "far", play: func(_ context.Context, r sandbox.Request) (sandbox.Result, error) {
		for range 100 << 20 / len(block) {
			if err := r.Output.Write(sdk.StreamStdout, block); err != nil {
				return sandbox.Result{}, err
			}
		}
		return sandbox.Result{State: sdk.StateSucceeded, Verdict: sdk.VerdictComplete}, nil
	}}
	show := &counter{}
	all, err := runnerOn(p, show, nil).Run(t.Context(), mustParse(t, steps("work_dir: /")))
	if err != nil || show.bytes != 100<<20 || len(all[0].stdout.data) != MaxKept || all[0].Verdict() != sdk.VerdictTruncatedByUs || all[0].Result.Verdict != sdk.VerdictComplete {
		t.Errorf("%d bytes, %v", show.bytes, err)
	}
	left := &budget{5}
	var a, b kept
	a.add(left, []byte("abcd"))
	b.add(left, []byte("abcd"))
	b.add(left, []byte("e"))
	if a.cut || !b.cut || string(b.data) != "a" || left.left != 0 {
		t.Errorf("%+v %+v %+v", a, b, left)
	}
}

type counter struct{ bytes int }

func (c *counter) Begin(*Step, string) sandbox.Output { return c }
func (c *counter) End(*Step, *Output, error)          {}
func (c *counter) Note(string)                        {}
func (c *counter) Started(sdk.ID)                     {}
func (c *counter) Write(_ sdk.Stream, data []byte) error {
	c.bytes += len(data)
	return nil
}

// TestEveryValueIsHonouredOrRefused goes through every field on every kind of
// environment: a value that is set is refused with its name, or stands in what
// the environment gets.
func TestEveryValueIsHonouredOrRefused(t *testing.T) {
	values := map[string]string{"image": "image: j", "command": "command: [a]", "image_entrypoint": "image_entrypoint: []", "allow_visible_secret": "allow_visible_secret: true", "env": "env: {A: b}", "secrets": "secrets: {T: secret://env/T}",
		"mounts": "mounts: [{source: v, target: /v}]", "work_dir": "work_dir: /w", "tmpfs": "tmpfs: [{target: /t}]", "memory_limit": "memory_limit: 64Mi",
		"cpu_limit": "cpu_limit: 0.5", "timeout": "timeout: 5s", "start_timeout": "start_timeout: 5m", "ttl": "ttl: 5m", "network": "network: none", "security_profile": "security_profile: strict"}
	if len(values) != len(sandbox.Fields()) {
		t.Fatalf("%d values for %d fields", len(values), len(sandbox.Fields()))
	}
	far, err := runner.NewEnvironment(runner.ClientOptions{Name: "far", Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	refusesAll := []sdk.FieldSupport{{Field: "network", Refused: "none"}, {Field: "mounts", Refused: "none"}, {Field: "ttl", Refused: "none"}}
	places := sandbox.Places{Jobs: &sandbox.Jobs{}, Runners: []string{"far"}, Providers: []sandbox.Provider{{Name: "docker", Kind: "docker"},
		{Name: "wf", Kind: "argo", Support: refusesAll[:1]}, {Name: "poor", Kind: "poor", Support: refusesAll}},
		Dial: func(context.Context, string) (sandbox.Environment, error) { return far, nil }}
	for env, refused := range map[string][]string{
		"": nil, "exec_env: local-docker": nil, "exec_env: ephemeral, argo_module: wf": {"network"},
		"exec_env: provider-ephemeral, provider: poor": {"network", "mounts", "tmpfs", "ttl"},
		"exec_env: far": {"image_entrypoint", "allow_visible_secret", "mounts", "tmpfs", "memory_limit", "cpu_limit", "network", "start_timeout", "ttl"},
	} {
		for _, field := range sandbox.Fields() {
			config := values[field]
			if field != "image" {
				config += ", image: i"
			}
			if env != "" {
				config += ", " + env
			}
			f := mustParse(t, "steps:\n  - {name: a, type: step.sandbox_exec, config: {"+config+"}}\n")
			place, err := places.Find(t.Context(), f.Steps[0].Choice)
			if err != nil {
				t.Fatal(err)
			}
			e, err := f.Steps[0].exec(nil)
			if err != nil || !e.IsSet(field) {
				t.Errorf("%s: %s is dropped: %v", env, field, err)
			}
			ps := place.Check(e)
			if slices.Contains(refused, field) != (len(ps) == 1 && ps[0].Field == field && ps[0].Message != "") || len(ps) > 1 {
				t.Errorf("%s: %s: %v", env, field, ps)
			}
		}
		// What says where it runs has no meaning elsewhere.
		for _, x := range []struct{ field, text, with string }{{"provider", "provider: docker", "provider-ephemeral"}, {"argo_module", "argo_module: wf", "ephemeral,"}} {
			if strings.Contains(env, x.with) || strings.Contains(env, x.field) {
				continue
			}
			config := strings.TrimPrefix(env+", image: i, "+x.text, ", ")
			f := mustParse(t, "steps:\n  - {name: a, type: step.sandbox_exec, config: {"+config+"}}\n")
			var e *sdk.Error
			if _, err := places.Find(t.Context(), f.Steps[0].Choice); !errors.As(err, &e) || e.Field != x.field {
				t.Errorf("%s: %s: %v", env, x.field, err)
			}
		}
	}
}

// TestRelativeMountsStartAtTheFile is the one place where the file's folder counts.
func TestRelativeMountsStartAtTheFile(t *testing.T) {
	f := mustParse(t, steps("mounts: [{source: ./a, target: /a}, {source: '{{ \"./b\" }}', target: /b}]"))
	p := &fakeEnv{name: "far"}
	if _, err := runnerOn(p, &record{}, nil).Run(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if m := p.execs[0].Mounts; m[0].Source != filepath.FromSlash("/dir/a") || m[1].Source != filepath.FromSlash("/dir/b") {
		t.Errorf("%+v", m)
	}
}
