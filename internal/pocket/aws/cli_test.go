package aws

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// cli is AWS's own command line against a pocket cloud.
type cli struct {
	program, url string
	home         string
}

func newCLI(t *testing.T, url string) *cli {
	t.Helper()
	if testing.Short() {
		t.Skip("the aws command line is slow: left out by -short")
	}
	return &cli{program: testneed.Program(t, "aws"), url: url, home: t.TempDir()}
}

// run returns the decoded JSON on stdout, nil for none.
func (c *cli) run(t *testing.T, args ...string) map[string]any {
	t.Helper()
	out, err := c.command(t, args...).Output()
	if err != nil {
		var text string
		if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it bare
			text = string(e.Stderr)
		}
		t.Fatalf("aws %s: %v: %s", strings.Join(args, " "), err, text)
	}
	if len(out) == 0 {
		return nil
	}
	var v map[string]any
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("aws %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return v
}

// fails returns what stands on stderr of a command that must fail.
func (c *cli) fails(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(t, args...).CombinedOutput()
	if err == nil {
		t.Fatalf("aws %s: no failure: %s", strings.Join(args, " "), out)
	}
	return string(out)
}

func (c *cli) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.program, append([]string{"--endpoint-url", c.url, "--output", "json", "--region", Region}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+c.home, "AWS_ACCESS_KEY_ID=POCKET", "AWS_SECRET_ACCESS_KEY=pocket",
		"AWS_CONFIG_FILE="+c.home+"/none", "AWS_SHARED_CREDENTIALS_FILE="+c.home+"/none", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "AWS_EC2_METADATA_DISABLED=true")
	cmd.Dir = c.home
	return cmd
}

// TestCLI lets a client that nobody here wrote go through a job's life.
func TestCLI(t *testing.T) {
	c := newCloud(t, Options{})
	aws := newCLI(t, c.url)

	if got := aws.run(t, "sts", "get-caller-identity"); got["Account"] != Account || got["Arn"] != "arn:aws:iam::"+Account+":user/POCKET" {
		t.Errorf("get-caller-identity: %v", got)
	}
	secret := aws.run(t, "secretsmanager", "create-secret", "--name", "db", "--secret-string", `{"password":"hush"}`)
	aws.run(t, "ssm", "put-parameter", "--name", "/app/mode", "--value", "quick", "--type", "SecureString")
	if got := aws.run(t, "ssm", "get-parameters", "--names", "/app/mode", "nosuch", "--with-decryption"); got["Parameters"].([]any)[0].(map[string]any)["Value"] != "quick" || got["InvalidParameters"].([]any)[0] != "nosuch" {
		t.Errorf("get-parameters: %v", got)
	}
	if got := aws.run(t, "secretsmanager", "get-secret-value", "--secret-id", "db"); got["SecretString"] != `{"password":"hush"}` {
		t.Errorf("get-secret-value: %v", got)
	}

	def := definition("cli", "sh", "-c", `echo "$MODE $PASSWORD"; exit 3`)
	containers, err := json.Marshal([]map[string]any{{"name": "main", "image": "app", "command": def.ContainerDefinitions[0].Command,
		"secrets":          []map[string]string{{"name": "MODE", "valueFrom": "/app/mode"}, {"name": "PASSWORD", "valueFrom": secret["ARN"].(string) + ":password::"}},
		"logConfiguration": map[string]any{"logDriver": "awslogs", "options": map[string]string{"awslogs-group": "made", "awslogs-create-group": "true", "awslogs-region": Region, "awslogs-stream-prefix": "p"}}}})
	if err != nil {
		t.Fatal(err)
	}
	aws.run(t, "ecs", "register-task-definition", "--family", "cli", "--network-mode", "awsvpc", "--requires-compatibilities", "FARGATE", "--cpu", "256", "--memory", "512",
		"--execution-role-arn", *def.ExecutionRoleArn, "--container-definitions", string(containers))
	network := "awsvpcConfiguration={subnets=[subnet-0123456789abcdef0],assignPublicIp=ENABLED}"
	out := aws.run(t, "ecs", "run-task", "--task-definition", "cli", "--launch-type", "FARGATE", "--network-configuration", network, "--started-by", "cli")
	arn := out["tasks"].([]any)[0].(map[string]any)["taskArn"].(string)
	c.until(t, arn, "STOPPED")
	aws.run(t, "ecs", "wait", "tasks-stopped", "--tasks", arn)
	got := aws.run(t, "ecs", "describe-tasks", "--tasks", arn)["tasks"].([]any)[0].(map[string]any)
	if code := got["containers"].([]any)[0].(map[string]any)["exitCode"]; code != float64(3) || got["stopCode"] != "EssentialContainerExited" {
		t.Errorf("describe-tasks: exit code %v, stopped by %v: %v", code, got["stopCode"], got["stoppedReason"])
	}
	events := aws.run(t, "logs", "get-log-events", "--log-group-name", "made", "--log-stream-name", "p/main/"+arn[len(arn)-32:], "--start-from-head")
	if list := events["events"].([]any); len(list) != 1 || list[0].(map[string]any)["message"] != "quick hush" {
		t.Errorf("get-log-events: %v", events)
	}
	events = aws.run(t, "logs", "filter-log-events", "--log-group-name", "made", "--log-stream-names", "p/main/"+arn[len(arn)-32:])
	if list := events["events"].([]any); len(list) != 1 || list[0].(map[string]any)["message"] != "quick hush" || list[0].(map[string]any)["eventId"] == "" {
		t.Errorf("filter-log-events: %v", events)
	}
	if got := aws.fails(t, "ecs", "run-task", "--task-definition", "nosuch"); !strings.Contains(got, "(ClientException)") || !strings.Contains(got, "TaskDefinition not found.") {
		t.Errorf("run-task of no definition: %s", got)
	}
	if got := aws.fails(t, "logs", "get-log-events", "--log-group-name", "made", "--log-stream-name", "no"); !strings.Contains(got, "(ResourceNotFoundException)") {
		t.Errorf("get-log-events of no stream: %s", got)
	}

	long := c.register(t, definition("long", "sleep", "60"))
	task := c.run(t, onFargate(long))
	c.until(t, *task.TaskArn, "RUNNING")
	listed := aws.run(t, "ecs", "list-tasks", "--family", "long")["taskArns"].([]any)
	if len(listed) != 1 || listed[0] != *task.TaskArn {
		t.Errorf("list-tasks: %v", listed)
	}
	stopped := aws.run(t, "ecs", "stop-task", "--task", *task.TaskArn, "--reason", "enough")["task"].(map[string]any)
	if stopped["desiredStatus"] != "STOPPED" || stopped["stopCode"] != "UserInitiated" || stopped["stoppedReason"] != "enough" {
		t.Errorf("stop-task: %v", stopped)
	}
	c.until(t, *task.TaskArn, "STOPPED")
}
