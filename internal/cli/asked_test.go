package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// newest is the ID of the ledger's newest row.
func (w *liveWorld) newest() string {
	w.t.Helper()
	rows := decode[[]RunView](w.t, w.must(0, "ledger", "log", "--json"))
	if len(rows) == 0 {
		w.t.Fatal("the ledger has no rows")
	}
	return rows[0].ID
}

// TestStatusOfAChange has the row of each verb say what was asked for, without the
// values of settings and variables, and what to do next.
func TestStatusOfAChange(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 2)
	file := filepath.Join(w.dir, "web.yaml")
	if err := os.WriteFile(file, []byte("target: alpha/main/web\nimage: img:2\ncommand: [serve, a b]\nenv: {MODE: env-canary}\nconfig: {LEVEL: config-canary}\nports: [{port: 80}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   []string
		action string
		target string
		spec   string
		lines  []string
	}{
		{[]string{"scale", "api", "4"}, "svc.scale", "alpha/main/api", `{"replicas":4}`, []string{"replicas: 4", "desired: 2", "generation: 1"}},
		{[]string{"restart", "api"}, "svc.restart", "alpha/main/api", `{}`, nil},
		{[]string{"config", "api", "--set", "LEVEL=config-canary", "--secret", "TOKEN=secret://env/TOKEN", "--unset", "OLD"}, "svc.config", "alpha/main/api",
			`{"secrets":{"TOKEN":"secret://env/TOKEN"},"set":{"LEVEL":"[redacted]"},"unset":["OLD"]}`,
			[]string{"set.LEVEL: [redacted]", "secrets.TOKEN: secret://env/TOKEN", "unset.0: OLD"}},
		{[]string{"exec", "api", "--", "echo", "a b"}, "svc.exec", "alpha/main/api", `{"command":["echo","a b"]}`, []string{"command: echo 'a b'"}},
		{[]string{"stop", "api", "--yes"}, "svc.stop", "alpha/main/api", `{}`, nil},
		{[]string{"start", "-f", file}, "svc.start", "alpha/main/web",
			`{"deployment":{"command":["serve","a b"],"config":{"LEVEL":"[redacted]"},"env":{"MODE":"[redacted]"},"image":"img:2","name":"web","ports":[{"port":80}],"v":1}}`,
			[]string{"deployment.command: serve 'a b'", "deployment.config.LEVEL: [redacted]", "deployment.env.MODE: [redacted]", "deployment.ports.0.port: 80"}},
	} {
		w.must(0, append([]string{"svc"}, tc.args...)...)
		id := w.newest()
		out := w.must(0, "status", "--json", id)
		validate(t, out)
		v := decode[RunView](t, out)
		spec, err := json.Marshal(v.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if v.Action != tc.action || v.Target != tc.target || string(spec) != tc.spec {
			t.Errorf("%s %s asked for\n%s, want\n%s", v.Action, v.Target, spec, tc.spec)
		}
		if len(v.Next) != 1 || v.Next[0] != "windlass svc status "+tc.target {
			t.Errorf("%s: next %q", tc.action, v.Next)
		}
		text := w.must(0, "status", id)
		words := strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " | ")), " ")
		for _, line := range append(tc.lines, "Action "+tc.action+" "+tc.target) {
			if !strings.Contains(words, line+" |") {
				t.Errorf("%s: no line %q in\n%s", tc.action, line, text)
			}
		}
		if all := out + text + w.must(0, "ledger", "export"); strings.Contains(all, "canary") || strings.Contains(all, "sha256:") {
			t.Errorf("%s: a value is shown:\n%s", tc.action, all)
		}
	}
}

// TestAskedOfOddRecords shows nothing that isn't there.
func TestAskedOfOddRecords(t *testing.T) {
	for _, spec := range []string{"", "x", "[1]", "null", `"text"`} {
		if v := viewSpec(ledger.Run{Action: "svc.scale", Spec: []byte(spec)}); v != nil {
			t.Errorf("%q is shown as %v", spec, v)
		}
	}
	if v := viewSpec(ledger.Run{Action: "svc.exec", Spec: []byte(`{"command":"words"}`)}); v == nil {
		t.Error("a command that isn't a list hides the record")
	}
	next := nextFor(ledger.Run{Action: "resource.create", Target: "aws.log_group/a b", Name: "a b", State: sdk.StateFailed, Reason: sdk.ReasonInfrastructure}, false)
	if want := []string{"windlass ledger log --target 'aws.log_group/a b'", "windlass resource diff -f FILE 'a b'"}; !slices.Equal(next, want) {
		t.Errorf("a resource's row has the next commands %q", next)
	}
}

// TestDescribeWorkloads says what svc restart --help sends people for, and nothing
// of a kind without workloads.
func TestDescribeWorkloads(t *testing.T) {
	text := func(g sdk.Guarantees) string {
		var b strings.Builder
		for _, v := range guaranteeWords(g) {
			b.WriteString(v.Name + ": " + v.Value + "\n")
		}
		return b.String()
	}
	if out := text(sdk.Guarantees{}); strings.Contains(out, "Workload") {
		t.Errorf("a kind without workloads:\n%s", out)
	}
	for _, tc := range []struct {
		g    sdk.WorkloadGuarantees
		want []string
	}{
		{sdk.WorkloadGuarantees{Ops: sdk.OpGuarantee{By: sdk.OpInHistory}, Compares: true, Restart: sdk.RestartRolling, Stop: sdk.StopZero, Failures: true,
			Exec: sdk.ExecGuarantee{ExitCode: true, Argv: sdk.ArgvOneList, Stdin: true, Terminal: true, Apart: true, Signals: true}, Warms: time.Minute},
			[]string{"lost reply of a change: every change can be found for a while\n", "expected generation: the backend compares it", "restart: one instance after another",
				"stop: the count becomes zero, and the workload keeps", "reason of a failure: the backend's own\n",
				"exec: the command's own exit code, arguments one list, input, a terminal, stdout and stderr apart, signals\n", "metrics: up to 1m0s after"}},
		{sdk.WorkloadGuarantees{Ops: sdk.OpGuarantee{By: sdk.OpOnObject, Within: time.Second}, Restart: sdk.RestartInPlace, Stop: sdk.StopStops},
			[]string{"lost reply of a change: the last change can be found, an earlier one can't, surely after 1s\n", "read right before", "started where it stands",
				"stop: the backend has a state", "reason of a failure: not told\n", "exec: exit code not told\n", "metrics: from an instance's start\n"}},
		{sdk.WorkloadGuarantees{Restart: sdk.RestartReplaces}, []string{"lost reply of a change: can't be cleared up\n", "all instances end before", "the ledger alone knows"}},
	} {
		out := text(sdk.Guarantees{Workload: tc.g})
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
}
