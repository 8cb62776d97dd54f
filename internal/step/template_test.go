package step

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

func ended(code int) *Output {
	o := &Output{Step: "first", Ended: true, Result: sandbox.Result{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, Verdict: sdk.VerdictComplete,
		ExitCode: &code, Duration: 1500 * time.Millisecond}}
	o.RunID, _ = sdk.ParseID("01m8h2295eeh4bdq7sxyx8k6ev")
	left := &budget{MaxKeptFile}
	o.stdout.add(left, []byte("out\n"))
	o.stderr.add(left, []byte("err"))
	return o
}

// file has a step called first, one with a dash, and one with the template.
func file(tmpl string) string {
	return "steps:\n  - {name: first, type: step.sandbox_exec, config: {image: i}}\n  - {name: has-dash, type: step.sandbox_exec, config: {image: i}}\n" +
		"  - name: last\n    type: step.sandbox_exec\n    config:\n      image: i\n      env:\n        X: '" + tmpl + "'\n"
}

func fillIn(t *testing.T, tmpl string, o *Output) (string, error) {
	t.Helper()
	f, err := parseFile("f.yaml", "/dir", []byte(file(tmpl)))
	if err != nil {
		return "", err
	}
	e, err := f.Steps[2].exec(map[string]*Output{"first": o, "has-dash": ended(7)})
	return e.Env["X"], err
}

func TestTemplates(t *testing.T) {
	for tmpl, want := range map[string]string{
		"{{ .steps.first.stdout | trim }}":                                      "out",
		"{{ .steps.first.stdout }}|{{ .steps.first.stderr }}":                   "out\n|err",
		"{{ .steps.first.exit_code }}":                                          "0",
		"{{ .steps.first.run_id }}":                                             "01m8h2295eeh4bdq7sxyx8k6ev",
		"{{ .steps.first.state }} {{ .steps.first.reason }}":                    "succeeded completed",
		"{{ .steps.first.verdict }} {{ .steps.first.duration }}":                "complete 1.5s",
		`{{ index .steps "has-dash" "exit_code" }}`:                             "7",
		"{{ if eq .steps.first.exit_code 0 }}ok{{ else }}bad{{ end }}":          "ok",
		`{{ if has .steps.first "exit_code" }}known{{ end }}`:                   "known",
		"{{ with .steps.first }}{{ .stdout | trim }}{{ end }}":                  "out",
		"{{ json .steps.first.stdout }}":                                        `"out\n"`,
		"{{ range $name, $o := .steps }}{{ $name }}={{ $o.exit_code }} {{end}}": "first=0 has-dash=7 ",
		"$(HOME) ${HOME} $HOME":                                                 "$(HOME) ${HOME} $HOME",
		"{ {":                                                                   "{ {",
	} {
		if got, err := fillIn(t, tmpl, ended(0)); err != nil || got != want {
			t.Errorf("%s: %q, %v", tmpl, got, err)
		}
	}
}

// TestF18NullIsNoText: what isn't known, or isn't whole, can't be used.
func TestF18NullIsNoText(t *testing.T) {
	none := &Output{Step: "first", Env: "far", Ended: true, Result: sandbox.Result{State: sdk.StateFailed}}
	killed := &Output{Step: "first", Env: "ephemeral", Ended: true, Result: sandbox.Result{State: sdk.StateFailed, Reason: sdk.ReasonTimedOut}}
	long := ended(0)
	long.stdout.add(&budget{MaxKeptFile}, make([]byte, MaxKept))
	one := ended(0)
	one.combined = true
	part := ended(0)
	part.Partial, part.Result.Verdict = true, sdk.VerdictUnavailable
	for _, x := range []struct {
		tmpl string
		o    *Output
		want string
	}{
		{"{{ .steps.first.exit_code }}", none, "exit_code of step first is null: it ended as failed, and far gave no exit code"},
		{"{{ .steps.first.exit_code }}", killed, `exit_code of step first is null: it ended as failed (timed_out), and ephemeral gave no exit code; {{ if has (index .steps "first") "exit_code" }} asks first`},
		{"{{ with .steps.first }}{{ .exit_code }}{{ end }}", killed, "exit_code of step first is null: it ended as failed (timed_out)"},
		{"{{ $x := .steps.first }}{{ $x.exit_code }}", killed, "exit_code of step first is null: it ended as failed (timed_out)"},
		{"{{ .steps.first.run_id }}", none, "run_id of step first is null: far doesn't tell it"},
		{"{{ .steps.first.reason }}", none, "reason of step first is null"},
		{"{{ .steps.first.verdict }}", none, "verdict of step first is null"},
		{`{{ index .steps "first" "exit_code" }}`, none, "exit_code of step first is null"},
		{`{{ index .steps.first "exit_code" }}`, none, "exit_code of step first is null"},
		{`{{ index .steps "first" "nothing" }}`, none, `there is no "nothing"`},
		{"{{ .steps.first.stdout }}", long, "longer than the 1 MiB that templates may use"},
		{"{{ with .steps.first }}{{ .stdout }}{{ end }}", long, "stdout of step first is longer than the 1 MiB"},
		{"{{ .steps.first.stdout }}", part, "stdout of step first is null: a part of its output is missing (unavailable), and half of one would look like a whole one; windlass logs"},
		{"{{ .steps.first.stderr }}", part, "stderr of step first is null: a part of its output is missing"},
		{"{{ .steps.first.stderr }}", one, "keeps stdout and stderr as one"},
		{"{{ .nothing }}", none, "no entry for key"},
		{`{{ index .steps "first" 5 }}`, none, "has no 5"},
		{"{{ range $i, $x := .steps }}{{ $x.nothing }}{{ end }}", none, "no entry for key"},
	} {
		_, err := fillIn(t, x.tmpl, x.o)
		if err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "f.yaml:9:12") {
			t.Errorf("%s: %v", x.tmpl, err)
		}
		if err != nil && strings.Contains(err.Error(), "template: t:") {
			t.Errorf("%s: %v has the library's words", x.tmpl, err)
		}
	}
	if got, err := fillIn(t, `{{ if has .steps.first "exit_code" }}x{{ else }}unknown{{ end }}`, none); err != nil || got != "unknown" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := fillIn(t, "{{ .steps.first.verdict }}", long); err != nil || got != string(sdk.VerdictTruncatedByUs) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestArgumentsStayWhole: what a template brings into a command is one word.
func TestArgumentsStayWhole(t *testing.T) {
	f := mustParse(t, "steps:\n  - {name: first, type: step.sandbox_exec, config: {image: i}}\n"+
		"  - {name: last, type: step.sandbox_exec, config: {image: i, command: [echo, '{{ .steps.first.stdout }}']}}\n")
	o := ended(0)
	o.stdout = kept{data: []byte("a b; rm -rf '\"$(x)\n\xff")}
	e, err := f.Steps[1].exec(map[string]*Output{"first": o})
	if err != nil || len(e.Command) != 2 || e.Command[1] != "a b; rm -rf '\"$(x)\n\xff" {
		t.Errorf("%q, %v", e.Command, err)
	}
}

// TestFilledInValuesAreStrict: a quantity that a template makes is read as one
// that is written.
func TestFilledInValuesAreStrict(t *testing.T) {
	f := mustParse(t, "steps:\n  - {name: first, type: step.sandbox_exec, config: {image: i}}\n"+
		"  - {name: last, type: step.sandbox_exec, config: {image: i, memory_limit: '{{ .steps.first.stdout }}'}}\n")
	o := ended(0)
	for text, want := range map[string]string{"64Mi": "", "64Mi\n": "no unit of memory", "64m": "64Mi", "": "is no number"} {
		o.stdout = kept{data: []byte(text)}
		e, err := f.Steps[1].exec(map[string]*Output{"first": o})
		if want == "" {
			if err != nil || e.Memory != 64<<20 {
				t.Errorf("%q: %d, %v", text, e.Memory, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHugeTemplate: what a template makes is bounded.
func TestHugeTemplate(t *testing.T) {
	o := ended(0)
	o.stdout = kept{data: make([]byte, MaxKept)}
	if _, err := fillIn(t, strings.Repeat("{{ .steps.first.stdout }}", 5), o); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("%v", err)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{ .steps.first.stdout }}", "{{ index .steps \"first\" \"x\" }}", "{{ has . 1 }}", "{{range .steps}}{{.stdout}}{{end}}",
		"{{ index 1 2 }}", "{{ index nil }}", "{{ json . }}", "{{ template \"t\" }}", "{{ block \"x\" . }}{{ end }}", "{{ break }}"} {
		f.Add(s)
	}
	out := map[string]*Output{"first": ended(0)}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "template") || strings.Contains(s, "range") || len(s) > 300 {
			t.Skip("may take long")
		}
		tmpl, err := compile(s)
		if err != nil {
			return
		}
		x := texts{file: &File{}}
		_ = x.references(tmpl.Root, place{}, "")
		var b limited
		_ = tmpl.Execute(&b, map[string]any{"steps": valuesOf(out)})
	})
}
