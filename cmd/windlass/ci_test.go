//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

const examplesCI = "../../examples/ci"

// repository makes the program's folder a repository with files in it: what a CI system
// checks out. Its PATH has the program.
func (p *program) repository(files map[string]string) {
	p.t.Helper()
	bin := filepath.Join(p.dir, ".bin")
	err := errors.Join(os.Mkdir(bin, 0o700), os.Symlink(os.Args[0], filepath.Join(bin, "windlass")))
	for name, text := range files {
		path := filepath.Join(p.dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.env = append(p.env, "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+p.t.TempDir(), // outside of what is copied

		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org")
	if out, err := p.shell("git init -q -b main . && git remote add origin https://example.org/team/app.git && git add -A . && git commit -q -m all --allow-empty").CombinedOutput(); err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	// What a failed workflow leaves.
	p.t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(p.dir, "pocket.pid"))
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// exampleFile is the text of a file of examples/ci.
func exampleFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examplesCI, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// githubFiles are a repository with the action and a workflow.
func githubFiles(t *testing.T, workflow string) map[string]string {
	t.Helper()
	files := map[string]string{".github/workflows/jobs.yml": workflow}
	for _, name := range []string{"action.yml", "common.sh", "run.sh", "end.sh"} {
		files["examples/ci/github/"+name] = exampleFile(t, "github/"+name)
	}
	return files
}

// ends runs a command and returns all that it said and its exit code.
func (p *program) ends(cmd *exec.Cmd) (string, int) {
	p.t.Helper()
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	} else if err != nil {
		p.t.Fatal(err)
	}
	return string(out), 0
}

// act runs the repository's workflow by nektos/act, on this machine in place of a
// container, as a runner of one's own does.
func (p *program) act() (string, int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), testneed.Tool(p.t, "act"), "push", "-P", "ubuntu-latest=-self-hosted", "--env", asProgram+"=1", "--env", fastExit)
	cmd.Dir, cmd.Env = p.dir, p.env
	return p.ends(cmd)
}

// TestGitHubExample runs the workflow of examples/ci as it stands.
func TestGitHubExample(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.repository(githubFiles(t, exampleFile(t, "github/jobs.yml")))
	lint := exec.CommandContext(t.Context(), testneed.Tool(t, "actionlint"), "-shellcheck=", "-pyflakes=")
	lint.Dir, lint.Env = p.dir, p.env
	if out, code := p.ends(lint); code != 0 {
		t.Errorf("actionlint: exit %d\n%s", code, out)
	}
	out, code := p.act()
	if code != 0 || !regexp.MustCompile(`(?s)\| migrating users\n.*\| migrating orders\n.*\| run [0-9a-z]{26} ended with 0\n`).MatchString(out) {
		t.Errorf("exit %d\n%s", code, out)
	}
	// The summary, which act shows.
	if !strings.Contains(out, "### windlass: migrate\n\nRun `") || !regexp.MustCompile(`\n +State +succeeded\n`).MatchString(out) {
		t.Errorf("no summary:\n%s", out)
	}
}

// failing is a workflow whose first job's code is looked at by a later step, and whose
// last one fails it.
const failing = `
on: push
jobs:
  fails:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - run: |
          setsid windlass pocket up --write pocket.yaml >pocket.log 2>&1 &
          echo $! >pocket.pid
          timeout 60 sh -c 'until grep -q "^ready" pocket.log; do sleep 0.1; done'
      - id: job
        continue-on-error: true
        uses: ./examples/ci/github
        with:
          config: pocket.yaml
          provider: gcp-cloudrun
          image: busybox
          name: counted
          flags: |
            --timeout=5m
          command: |
            sh
            -c
            i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo "line $i"; done; echo "::error::not ours"; exit "$0"
            3
      - run: echo "code ${{ steps.job.outputs.exit-code }}, run ${{ steps.job.outputs.run }}, $(wc -l <'${{ steps.job.outputs.ledger }}') lines"
      - run: kill "$(cat pocket.pid)"
      - uses: ./examples/ci/github
        env:
          TOKEN: "hunter2-one\nhunter2-two"
        with:
          provider: local
          env: |
            GREETING=hello there
          secrets: |
            TOKEN
          script: echo "$GREETING, $TOKEN"; exit 7
`

// TestGitHubFailure: a job's code and lines come through a workflow as they are, its
// output is no command to the runner, and a secret's value isn't shown.
func TestGitHubFailure(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.repository(githubFiles(t, failing))
	out, code := p.act()
	if code != 1 || !regexp.MustCompile(`\| code 3, run [0-9a-z]{26}, [1-9][0-9]* lines\n`).MatchString(out) {
		t.Errorf("exit %d\n%s", code, out)
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)\| line (\d+)$`).FindAllStringSubmatch(out, -1) {
		lines = append(lines, m[1])
	}
	if !slices.Equal(lines, numbers(40)) {
		t.Errorf("lines %v\n%s", lines, out)
	}
	for _, shown := range []string{"⚙  ::error::not ours\n", "hello there, ", "exit code 7"} {
		if !strings.Contains(out, shown) {
			t.Errorf("no %q in\n%s", shown, out)
		}
	}
	// So act shows a command that it carries out.
	if strings.Contains(out, "❗  ::error::not ours") {
		t.Errorf("the job's output is a command:\n%s", out)
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("a secret is shown:\n%s", out)
	}
}

// githubStep is a step of the action that runs as GitHub's runner runs it: bash with the
// text of its run in a file, whose process alone is signalled.
func (p *program) githubStep(id string, env ...string) *exec.Cmd {
	p.t.Helper()
	var action struct {
		Runs struct {
			Steps []struct{ ID, Run, If string }
		}
	}
	if err := yaml.Unmarshal([]byte(exampleFile(p.t, "github/action.yml")), &action); err != nil {
		p.t.Fatal(err)
	}
	for _, s := range action.Runs.Steps {
		if s.ID != id {
			continue
		}
		if id == "end" && s.If != "always()" {
			p.t.Errorf("the step end runs if %q", s.If)
		}
		file := filepath.Join(p.dir, id+".sh")
		p.write(id+".sh", s.Run)
		cmd := exec.CommandContext(p.t.Context(), "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", file)
		path, err := filepath.Abs(filepath.Join(examplesCI, "github"))
		if err != nil {
			p.t.Fatal(err)
		}
		cmd.Dir = p.dir
		cmd.Env = append(slices.Clone(p.env), append(env, "WINDLASS_ACTOR=", "GITHUB_ACTION_PATH="+path, "RUNNER_TEMP="+p.dir, "GITHUB_JOB=job", "GITHUB_ACTOR=ada", "GITHUB_REPOSITORY=team/app",
			"GITHUB_OUTPUT="+filepath.Join(p.dir, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(p.dir, "summary.md"))...)
		return cmd
	}
	p.t.Fatalf("the action has no step %s", id)
	return nil
}

// jobThatGoesOn shows that it has begun, and goes on.
const jobThatGoesOn = "echo up; exec sleep 1000"

// TestGitHubCancel cancels a step as GitHub does, by a signal to its first process: the
// job is gone when the step ends. What a kill leaves, the action's last step ends.
func TestGitHubCancel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"asked": {syscall.SIGINT, 130}, "killed": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, "off")
			p.repository(nil)
			cmd := p.githubStep("run", "RUN_PROVIDER=local", "RUN_SCRIPT="+jobThatGoesOn)
			out := p.cancelled(cmd, func(pid int) error {
				if c.signal == syscall.SIGKILL {
					pid = -pid // the runner kills the whole tree
				}
				return syscall.Kill(pid, c.signal)
			})
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d\n%s", code, out)
			}
			p.env = append(p.env, "WINDLASS_STATE="+filepath.Join(p.dir, "windlass"))
			if open, _ := p.do("ps", "-q"); (open != "") != (c.signal == syscall.SIGKILL) {
				t.Errorf("open behind the step: %q\n%s", open, out)
			}
			end, code := p.ends(p.githubStep("end"))
			if open, _ := p.do("ps", "-q"); code != 0 || open != "" {
				t.Errorf("end: exit %d, open %q\n%s", code, open, end)
			}
			p.isCancelled("job")
			if text, err := os.ReadFile(filepath.Join(p.dir, "summary.md")); err != nil || !strings.Contains(string(text), "State  ") {
				t.Errorf("summary %q, %v", text, err)
			}
		})
	}
}

// cancelled starts a command, cancels it once its job has begun, and returns what it said.
func (p *program) cancelled(cmd *exec.Cmd, cancel func(pid int) error) string {
	p.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	testwait.Until(p.t, soon, "the job has begun", func() bool { return strings.Contains(out.String(), "\nup\n") })
	if err := cancel(cmd.Process.Pid); err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		p.t.Errorf("a cancelled step ends with 0:\n%s", out.String())
	}
	return out.String()
}

// isCancelled reports that the run of a name was, with the CI system's user on record.
func (p *program) isCancelled(name string) {
	p.t.Helper()
	state, _ := p.do("status", "--json", name)
	for _, has := range []string{`"state": "cancelled"`, `"actor": "ada@team/app"`} {
		if !strings.Contains(state, has) {
			p.t.Errorf("no %s in %s", has, state)
		}
	}
}

// gitlabFiles are a repository with the template and a pipeline.
func gitlabFiles(t *testing.T, more string) map[string]string {
	t.Helper()
	const template = "windlass.gitlab-ci.yml"
	return map[string]string{template: exampleFile(t, "gitlab/"+template), ".gitlab-ci.yml": exampleFile(t, "gitlab/.gitlab-ci.yml") + more, "examples/here": ""}
}

// failingJob is a job of the pipeline that fails, behind the example's own.
const failingJob = `
fails:
  extends: .windlass
  needs: [migrate]
  variables:
    RUN_PROVIDER: local
    RUN_ENV: |
      GREETING=hello there
    RUN_SECRETS: |
      TOKEN
    RUN_FLAGS: |
      --timeout=5m
    RUN_COMMAND: |
      sh
      -c
      seq 40 | sed "s/^/line /"; printenv GREETING; printenv TOKEN | wc -c; exit 3
    TOKEN: hunter2
`

// TestGitLabExample runs the pipeline of examples/ci, and a job that fails behind it, by
// gitlab-ci-local, which checks both by GitLab's schema.
func TestGitLabExample(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.repository(gitlabFiles(t, failingJob))
	cmd := exec.CommandContext(t.Context(), testneed.Program(t, "node"), testneed.NodeProgram(t, "windlass", "gitlab-ci-local"), "--force-shell-executor")
	cmd.Dir, cmd.Env = p.dir, p.env
	out, code := p.ends(cmd)
	if code != 1 || !strings.Contains(out, "json schema validated") || !regexp.MustCompile(`(?s)migrate +> migrating users\n.*migrate +> migrating orders\n`).MatchString(out) {
		t.Errorf("exit %d\n%s", code, out)
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)fails +> line (\d+)$`).FindAllStringSubmatch(out, -1) {
		lines = append(lines, m[1])
	}
	if !slices.Equal(lines, numbers(40)) {
		t.Errorf("lines %v\n%s", lines, out)
	}
	for _, shown := range []string{"> hello there\n", "> 8\n", "failed (exit 3)", "FAIL  fails"} {
		if !strings.Contains(out, shown) {
			t.Errorf("no %q in\n%s", shown, out)
		}
	}
}

// gitlabScript is a part of the template's job that runs as a runner with the shell
// executor runs it: bash, in a process group of its own that is signalled whole.
func (p *program) gitlabScript(part string, env ...string) *exec.Cmd {
	p.t.Helper()
	var file map[string]struct {
		Variables map[string]string
		Script    []string
		After     []string `yaml:"after_script"`
	}
	if err := yaml.Unmarshal([]byte(exampleFile(p.t, "gitlab/windlass.gitlab-ci.yml")), &file); err != nil {
		p.t.Fatal(err)
	}
	job := file[".windlass"]
	lines := job.Script
	if part == "after_script" {
		lines = job.After
	}
	cmd := exec.CommandContext(p.t.Context(), "bash", "-c", "set -eo pipefail\n"+strings.Join(lines, "\n"))
	cmd.Dir, cmd.Env = p.dir, slices.Clone(p.env)
	for name, value := range job.Variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, append(env, "CI_PROJECT_DIR="+p.dir, "CI_PROJECT_PATH=team/app", "CI_JOB_ID=17", "GITLAB_USER_LOGIN=ada", "WINDLASS_ACTOR=")...)
	return cmd
}

// TestGitLabCancel cancels a job as a runner does: by TERM to all processes of the
// script, and by a kill; then comes after_script.
func TestGitLabCancel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"asked": {syscall.SIGTERM, 130}, "killed": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, "off")
			p.repository(nil)
			cmd := p.gitlabScript("script", "RUN_PROVIDER=local", "RUN_SCRIPT="+jobThatGoesOn)
			out := p.cancelled(cmd, func(pid int) error { return syscall.Kill(-pid, c.signal) })
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d\n%s", code, out)
			}
			after, code := p.ends(p.gitlabScript("after_script"))
			p.env = append(p.env, "WINDLASS_STATE="+filepath.Join(p.dir, ".windlass"))
			if open, _ := p.do("ps", "-q"); code != 0 || open != "" {
				t.Errorf("after_script: exit %d, open %q\n%s", code, open, after)
			}
			p.isCancelled("job-17")
			if text, err := os.ReadFile(filepath.Join(p.dir, "windlass.jsonl")); err != nil || !strings.Contains(string(text), "cancelled") {
				t.Errorf("ledger %q, %v", text, err)
			}
		})
	}
}

// numbers are those from 1 to n.
func numbers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i+1))
	}
	return out
}
