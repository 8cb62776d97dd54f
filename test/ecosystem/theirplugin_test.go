//go:build linux

package ecosystem

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheirPlugin: a plugin on their SDK, unchanged and without a cancel, runs jobs under
// our program, which starts it as a process of its own.
func TestTheirPlugin(t *testing.T) {
	w := theirPlugins(t, "off", "theirs")
	run := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		cmd := w.command("windlass", append([]string{"run", "--on", "my-theirs"}, args...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run() // its exit code is judged
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}
	for name, c := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"without leave":    {[]string{"--image", "app", "--", "true"}, 125, "", "--allow-no-cancel"},
		"code and streams": {[]string{"--allow-no-cancel", "--image", "app", "--", "sh", "-c", "echo out; echo err >&2; exit 7"}, 7, "out\n", "err\n"},
		"argv as it is":    {[]string{"--allow-no-cancel", "--image", "app", "--", "printf", `%s|`, "a b", "$HOME", "", `"q"`, "it's", "$(x)"}, 0, `a b|$HOME||"q"|it's|$(x)|`, ""},
		"variables":        {[]string{"--allow-no-cancel", "--image", "app", "-e", "A=b c", "--secret", "S=secret://vault/x#y", "--", "sh", "-c", `echo "$A, $S"`}, 0, "b c, value of secret://vault/x#y\n", ""},
		"a missing code":   {[]string{"--allow-no-cancel", "--image", "odd", "--", "true"}, 125, "", "failed (unknown)"},
		"too much asked":   {[]string{"--allow-no-cancel", "--image", "app", "--memory", "64m", "--workdir", "/x", "--", "true"}, 125, "", "workdir"},

		"NotFound":           {[]string{"--allow-no-cancel", "--image", "code:NotFound", "--", "true"}, 125, "", "as the image says"},
		"AlreadyExists":      {[]string{"--allow-no-cancel", "--image", "code:AlreadyExists", "--", "true"}, 125, "", "as the image says"},
		"Unauthenticated":    {[]string{"--allow-no-cancel", "--image", "code:Unauthenticated", "--", "true"}, 125, "", "failed (credentials)"},
		"PermissionDenied":   {[]string{"--allow-no-cancel", "--image", "code:PermissionDenied", "--", "true"}, 125, "", "failed (permission_denied)"},
		"InvalidArgument":    {[]string{"--allow-no-cancel", "--image", "code:InvalidArgument", "--", "true"}, 125, "", "failed (invalid_spec)"},
		"FailedPrecondition": {[]string{"--allow-no-cancel", "--image", "code:FailedPrecondition", "--", "true"}, 125, "", "failed (invalid_spec)"},
		"Unimplemented":      {[]string{"--allow-no-cancel", "--image", "code:Unimplemented", "--", "true"}, 125, "", "Unimplemented"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(c.args...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
	// An error that proves nothing leaves the run unconfirmed, and its launch is never sent
	// again: transient codes too. The command says so, and the first signal ends it, for
	// nothing could ever prove that the job is gone.
	for i, image := range []string{"plain", "code:Unavailable", "code:DeadlineExceeded"} {
		t.Run("in doubt "+image, func(t *testing.T) {
			name := fmt.Sprintf("doubt-%d", i)
			cmd := w.command("windlass", "run", "--on", "my-theirs", "--allow-no-cancel", "--name", name, "--image", image, "--", "true")
			leavesInDoubt(t, cmd)
			if out, err := w.command("windlass", "status", "--json", name).CombinedOutput(); err != nil || !strings.Contains(string(out), `"submit_unconfirmed"`) || !strings.Contains(string(out), `"cancel_reason": "SIGTERM"`) {
				t.Errorf("status: %v: %s", err, out)
			}
			if out, err := w.command("windlass", "abandon", name, "--reason", "the test is over").CombinedOutput(); err != nil {
				t.Errorf("abandon: %v: %s", err, out)
			}
		})
	}
	if out, err := w.command("windlass", "provider", "check", "my-theirs").CombinedOutput(); err != nil || !strings.Contains(string(out), "theirs 0.1.0") {
		t.Errorf("check: %v: %s", err, out)
	}
}

// leavesInDoubt runs a job whose launch loses its reply until the command says so, and
// ends it by one signal.
func leavesInDoubt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var words lockedBuffer
	cmd.Stderr = &words
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	until(t, "word of the doubt", func() bool { return strings.Contains(words.String(), "is unknown: submit_unconfirmed: ") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("one signal didn't end it: %s", words.String())
	}
	if code, text := cmd.ProcessState.ExitCode(), words.String(); code != 130 || !strings.Contains(text, "SIGTERM: my-theirs can't end jobs") || !strings.Contains(text, "windlass abandon ") {
		t.Errorf("exit %d, %s", code, text)
	}
}

// TestTheirPluginKept: hosted by the keeper their plugin's process outlives commands, so
// that jobs which it keeps in its memory are found by the next; steps run on it too.
func TestTheirPluginKept(t *testing.T) {
	t.Parallel()
	w := theirPlugins(t, "on", "theirs")
	do := func(code int, stdout string, args ...string) string {
		t.Helper()
		cmd := w.command("windlass", args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, _ := cmd.Output() // its exit code is judged
		if got := cmd.ProcessState.ExitCode(); got != code || stdout != "*" && string(out) != stdout {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, got, out, errs.String())
		}
		return string(out) + errs.String()
	}
	do(7, "out\n", "run", "--on", "my-theirs", "--allow-no-cancel", "--image", "app", "--", "sh", "-c", "echo out; exit 7")
	do(0, "*", "run", "-d", "--name", "later", "--on", "my-theirs", "--allow-no-cancel", "--image", "app", "--", "sh", "-c", "sleep 2; echo late; exit 5")
	do(5, "*", "wait", "later")
	do(0, "late\n", "logs", "-f", "later")
	leavesInDoubt(t, w.command("windlass", "run", "--on", "my-theirs", "--allow-no-cancel", "--name", "doubt", "--image", "plain", "--", "true"))
	do(0, "*", "abandon", "doubt", "--reason", "the test is over")
	step := "steps:\n  - name: one\n    type: step.sandbox_exec\n    config: {exec_env: provider-ephemeral, provider: my-theirs, image: app, command: [echo, hi]}\n"
	w.write("steps.yaml", step)
	if words := do(125, "", "step", "run", "steps.yaml"); !strings.Contains(words, "cancel") || !strings.Contains(words, "steps.yaml:") {
		t.Errorf("a step on a plugin that can't cancel: %s", words)
	}
}
