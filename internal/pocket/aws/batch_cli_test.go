package aws

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	pocket "github.com/windlass-run/windlass/internal/pocket/batch"
)

// TestBatchCLI lets a client that nobody here wrote go through a job's life.
func TestBatchCLI(t *testing.T) {
	c := newBatchCloud(t, Options{})
	aws := newCLI(t, c.url)
	properties, err := json.Marshal(map[string]any{"image": "app", "command": []string{"sh", "-c", "echo Ref::who; exit 3"}, "executionRoleArn": "arn:aws:iam::123456789012:role/e",
		"resourceRequirements": []map[string]string{{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "512"}}})
	if err != nil {
		t.Fatal(err)
	}
	def := aws.run(t, "batch", "register-job-definition", "--job-definition-name", "cli", "--type", "container", "--platform-capabilities", "FARGATE",
		"--container-properties", string(properties), "--tags", "a=b")
	if def["revision"] != float64(1) {
		t.Errorf("register-job-definition: %v", def)
	}
	id := aws.run(t, "batch", "submit-job", "--job-name", "one", "--job-queue", pocket.DefaultQueue, "--job-definition", "cli", "--parameters", "who=you", "--timeout", "attemptDurationSeconds=60")["jobId"].(string)
	c.ended(t, id)
	got := aws.run(t, "batch", "describe-jobs", "--jobs", id)["jobs"].([]any)[0].(map[string]any)
	container := got["container"].(map[string]any)
	if got["status"] != "FAILED" || container["exitCode"] != float64(3) || got["jobDefinition"] != def["jobDefinitionArn"] {
		t.Errorf("describe-jobs: %v", got)
	}
	events := aws.run(t, "logs", "get-log-events", "--log-group-name", pocket.DefaultLogGroup, "--log-stream-name", container["logStreamName"].(string), "--start-from-head")
	if list := events["events"].([]any); len(list) != 1 || list[0].(map[string]any)["message"] != "you" {
		t.Errorf("get-log-events: %v", events)
	}
	listed := aws.run(t, "batch", "list-jobs", "--job-queue", pocket.DefaultQueue, "--filters", "name=JOB_NAME,values=o*")["jobSummaryList"].([]any)
	if len(listed) != 1 || listed[0].(map[string]any)["jobId"] != id {
		t.Errorf("list-jobs: %v", listed)
	}
	remove := c.Batch().Strike(pocket.Mishap{Stage: pocket.StageStuck})
	stuck := aws.run(t, "batch", "submit-job", "--job-name", "two", "--job-queue", pocket.DefaultQueue, "--job-definition", "cli:1")["jobId"].(string)
	remove()
	c.until(t, stuck, types.JobStatusRunnable)
	aws.run(t, "batch", "terminate-job", "--job-id", stuck, "--reason", "enough")
	if j := c.ended(t, stuck); *j.StatusReason != "enough" {
		t.Errorf("terminate-job: %s", *j.StatusReason)
	}
	arn := got["jobArn"].(string)
	aws.run(t, "batch", "tag-resource", "--resource-arn", arn, "--tags", "k=v")
	aws.run(t, "batch", "untag-resource", "--resource-arn", arn, "--tag-keys", "nosuch")
	if got := aws.run(t, "batch", "list-tags-for-resource", "--resource-arn", arn)["tags"].(map[string]any); got["k"] != "v" {
		t.Errorf("list-tags-for-resource: %v", got)
	}
	if got := aws.run(t, "batch", "describe-job-queues")["jobQueues"].([]any); len(got) != 1 {
		t.Errorf("describe-job-queues: %v", got)
	}
	if got := aws.run(t, "batch", "describe-compute-environments")["computeEnvironments"].([]any); len(got) != 1 {
		t.Errorf("describe-compute-environments: %v", got)
	}
	aws.run(t, "batch", "deregister-job-definition", "--job-definition", "cli:1")
	if got := aws.run(t, "batch", "describe-job-definitions", "--job-definition-name", "cli")["jobDefinitions"].([]any); got[0].(map[string]any)["status"] != "INACTIVE" {
		t.Errorf("describe-job-definitions: %v", got)
	}
	if got := aws.fails(t, "batch", "submit-job", "--job-name", "x", "--job-queue", pocket.DefaultQueue, "--job-definition", "cli"); !strings.Contains(got, "(ClientException)") {
		t.Errorf("submit-job of no definition: %s", got)
	}
}
