package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// doc is a JSON object.
type doc = map[string]any

// call sends a request as any client might, and returns the status, the
// decoded reply and the rule that a refusal names.
func (c *cloud) call(t testing.TB, target string, body any) (status int, reply doc, rule string) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req := c.request(t, target, data)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return resp.StatusCode, reply, resp.Header.Get(awsjson.RuleHeader)
}

// request is one that bears a signature in the right form.
func (c *cloud) request(t testing.TB, target string, body []byte) *http.Request {
	t.Helper()
	prefixes := map[string]string{"ecs": "AmazonEC2ContainerServiceV20141113", "logs": "Logs_20140328", "secretsmanager": "secretsmanager", "ssm": "AmazonSSM", "application-autoscaling": "AnyScaleFrontendService"}
	service, action, _ := strings.Cut(target, ":")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	now := c.o.Now().UTC()
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", prefixes[service]+"."+action)
	req.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=POCKET/"+now.Format("20060102")+"/"+Region+"/"+service+
		"/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature="+strings.Repeat("0a", 32))
	return req
}

// with returns an object with members changed; a path leads inwards by dots,
// and nil takes the member out.
func with(base doc, changes doc) doc {
	data, _ := json.Marshal(base)
	var out doc
	_ = json.Unmarshal(data, &out)
	for path, value := range changes {
		at := out
		parts := strings.Split(path, ".")
		for _, p := range parts[:len(parts)-1] {
			if list, ok := at[p].([]any); ok {
				at = list[0].(doc)
			} else {
				at = at[p].(doc)
			}
		}
		last := parts[len(parts)-1]
		if value == nil {
			delete(at, last)
		} else {
			at[last] = value
		}
	}
	return out
}

func many[T any](n int, v T) []T { return slices.Repeat([]T{v}, n) }

// TestRules breaks every rule that the service keeps: each row of the table must
// have a case here, and be named by the refusal with its code.
func TestRules(t *testing.T) {
	c := newCloud(t, Options{Clusters: []string{"old", "busy", "served"}})
	logging := doc{"logDriver": "awslogs", "options": doc{"awslogs-group": "jobs", "awslogs-region": Region, "awslogs-stream-prefix": "p"}}
	fargate := doc{"family": "fargate", "networkMode": "awsvpc", "requiresCompatibilities": []string{"FARGATE"}, "cpu": "256", "memory": "512",
		"executionRoleArn": "arn:aws:iam::123456789012:role/e", "containerDefinitions": []doc{{"name": "main", "image": "app", "command": []string{"true"},
			"logConfiguration": logging, "secrets": []doc{{"name": "S", "valueFrom": "param"}}}}}
	plain := doc{"family": "plain", "containerDefinitions": []doc{{"name": "main", "image": "app", "memory": 64}}}
	small := doc{"name": "side", "image": "app", "memory": 64}
	const con = "containerDefinitions."
	network := doc{"awsvpcConfiguration": doc{"subnets": []string{"subnet-0123456789abcdef0"}}}
	run := doc{"taskDefinition": "fargate", "launchType": "FARGATE", "networkConfiguration": network}
	const vpc = "networkConfiguration.awsvpcConfiguration."
	strategy := func(items ...doc) doc { return doc{"launchType": nil, "capacityProviderStrategy": items} }
	up := with(run, doc{"taskDefinition": "long", "cluster": "served", "desiredCount": 1})
	target := func(change doc) doc {
		return with(doc{"ServiceNamespace": "ecs", "ScalableDimension": "ecs:service:DesiredCount", "ResourceId": "service/a/b", "MinCapacity": 1, "MaxCapacity": 2}, change)
	}
	override := func(o doc) doc { return doc{"overrides": o} }

	for _, setup := range []struct {
		action string
		body   doc
	}{
		{"ecs:RegisterTaskDefinition", fargate}, {"ecs:RegisterTaskDefinition", plain},
		{"ecs:RegisterTaskDefinition", with(fargate, doc{"family": "gone"})}, {"ecs:DeregisterTaskDefinition", doc{"taskDefinition": "gone:1"}},
		{"ecs:RegisterTaskDefinition", with(fargate, doc{"family": "long", con + "secrets": nil, con + "command": []string{"sleep", "60"}})},
		{"ecs:RunTask", with(run, doc{"taskDefinition": "long", "cluster": "busy", "clientToken": "one"})},
		{"ecs:DeleteCluster", doc{"cluster": "old"}},
		{"ecs:CreateCluster", doc{"clusterName": "idle", "capacityProviders": []string{"FARGATE"}}},
		{"ecs:CreateService", with(up, doc{"serviceName": "idle", "cluster": "idle", "desiredCount": 0})},
		{"ecs:CreateService", with(up, doc{"serviceName": "up"})}, {"ecs:CreateService", with(up, doc{"serviceName": "down", "desiredCount": 0})},
		{"ecs:DeleteService", doc{"service": "down", "cluster": "served"}},
		{"logs:CreateLogStream", doc{"logGroupName": "jobs", "logStreamName": "s"}},
		{"logs:TagResource", doc{"resourceArn": groupARN("jobs"), "tags": doc{"one": "v"}}},
		{"secretsmanager:CreateSecret", doc{"Name": "s", "SecretString": "v", "ClientRequestToken": strings.Repeat("t", 32)}},
		{"secretsmanager:CreateSecret", doc{"Name": "gone", "SecretString": "v"}}, {"secretsmanager:DeleteSecret", doc{"SecretId": "gone"}},
		{"ssm:PutParameter", doc{"Name": "p", "Value": "v", "Type": "String"}},
		{"ecs:TagResource", doc{"resourceArn": "arn:aws:ecs:" + Region + ":" + Account + ":cluster/busy", "tags": tags(50)}},
	} {
		if status, reply, _ := c.call(t, setup.action, setup.body); status != 200 {
			t.Fatalf("%s: %v", setup.action, reply)
		}
	}

	untested := map[string]awsjson.Rule{}
	for _, r := range Rules() {
		if _, twice := untested[r.ID]; twice {
			t.Errorf("rule %s stands twice", r.ID)
		}
		if !strings.HasPrefix(r.Doc, "https://") || r.Text == "" || (r.Code == "") == (r.Test == "") {
			t.Errorf("rule %s wants a text, a page, and a code or a test: %+v", r.ID, r)
		}
		if !strings.HasPrefix(r.ID, "batch-") { // TestBatchRules has those
			untested[r.ID] = r
		}
	}
	rules := maps.Clone(untested)
	for _, k := range []struct {
		rule, action string
		body         doc
	}{
		{"ecs-cluster", "ecs:RunTask", with(run, doc{"cluster": "nosuch"})},
		{"ecs-cluster", "ecs:ListTasks", doc{"cluster": "arn:aws:ecs:us-east-1:123456789012:cluster/default"}},
		{"ecs-cluster-inactive", "ecs:RunTask", with(run, doc{"cluster": "old"})},
		{"ecs-cluster-name", "ecs:CreateCluster", doc{"clusterName": "a b"}},
		{"ecs-cluster-tasks", "ecs:DeleteCluster", doc{"cluster": "busy"}},
		{"ecs-describe-clusters-100", "ecs:DescribeClusters", doc{"clusters": many(101, "c")}},
		{"ecs-max-results", "ecs:ListTasks", doc{"maxResults": 101}},
		{"ecs-max-results", "ecs:ListTaskDefinitions", doc{"maxResults": 0}},
		{"ecs-next-token", "ecs:ListTasks", doc{"nextToken": "x"}},
		{"ecs-tag-count", "ecs:TagResource", doc{"resourceArn": "arn:aws:ecs:" + Region + ":" + Account + ":cluster/busy", "tags": []doc{{"key": "more"}}}},
		{"ecs-tag-key", "ecs:RunTask", with(run, doc{"tags": []doc{{"value": "v"}}})},
		{"ecs-tag-prefix", "ecs:RunTask", with(run, doc{"tags": []doc{{"key": "aWs:x", "value": "v"}}})},
		{"ecs-tag-twice", "ecs:RunTask", with(run, doc{"tags": []doc{{"key": "k"}, {"key": "k"}}})},
		{"ecs-tag-arn", "ecs:ListTagsForResource", doc{"resourceArn": "task"}},
		{"ecs-tag-resource", "ecs:TagResource", doc{"resourceArn": "arn:aws:ecs:" + Region + ":" + Account + ":task/default/" + strings.Repeat("0", 32), "tags": []doc{{"key": "k"}}}},

		{"ecs-family", "ecs:RegisterTaskDefinition", with(plain, doc{"family": "a/b"})},
		{"ecs-containers", "ecs:RegisterTaskDefinition", with(plain, doc{"containerDefinitions": []doc{}})},
		{"ecs-containers-10", "ecs:RegisterTaskDefinition", with(plain, doc{"containerDefinitions": many(11, small)})},
		{"ecs-container-twice", "ecs:RegisterTaskDefinition", with(plain, doc{"containerDefinitions": many(2, small)})},
		{"ecs-container-name", "ecs:RegisterTaskDefinition", with(plain, doc{con + "name": "a b"})},
		{"ecs-image", "ecs:RegisterTaskDefinition", with(plain, doc{con + "image": nil})},
		{"ecs-image", "ecs:RegisterTaskDefinition", with(plain, doc{con + "image": "a b"})},
		{"ecs-essential", "ecs:RegisterTaskDefinition", with(plain, doc{con + "essential": false})},
		{"ecs-container-memory", "ecs:RegisterTaskDefinition", with(plain, doc{con + "memory": nil})},
		{"ecs-container-memory", "ecs:RegisterTaskDefinition", with(plain, doc{con + "memory": 3})},
		{"ecs-stop-timeout", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "stopTimeout": 121})},
		{"ecs-secrets-role", "ecs:RegisterTaskDefinition", with(fargate, doc{"executionRoleArn": nil})},
		{"ecs-secret-twice", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "environment": []doc{{"name": "S", "value": "v"}}})},
		{"ecs-log-driver", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "logConfiguration": doc{"logDriver": "json-file"}})},
		{"ecs-log-role", "ecs:RegisterTaskDefinition", with(fargate, doc{"executionRoleArn": nil, con + "secrets": nil})},
		{"ecs-log-group", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "logConfiguration.options": doc{"awslogs-region": Region}})},
		{"ecs-log-prefix", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "logConfiguration.options": doc{"awslogs-region": Region, "awslogs-group": "jobs"}})},
		{"ecs-log-option", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "logConfiguration.options.awslogs-color": "red"})},
		{"ecs-log-mode", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "logConfiguration.options.mode": "lossy"})},
		{"ecs-log-create-group", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "logConfiguration.options.awslogs-create-group": "yes"})},
		{"ecs-depends-on", "ecs:RegisterTaskDefinition", with(plain, doc{con + "dependsOn": []doc{{"containerName": "nosuch", "condition": "START"}}})},
		{"ecs-depends-on", "ecs:RegisterTaskDefinition", with(plain, doc{con + "dependsOn": []doc{{"containerName": "main", "condition": "START"}}})},
		{"ecs-cpu", "ecs:RegisterTaskDefinition", with(plain, doc{"cpu": "much"})},
		{"ecs-memory", "ecs:RegisterTaskDefinition", with(plain, doc{"memory": "x GB"})},
		{"ecs-fargate-size", "ecs:RegisterTaskDefinition", with(fargate, doc{"memory": "4096"})},
		{"ecs-fargate-network", "ecs:RegisterTaskDefinition", with(fargate, doc{"networkMode": "bridge"})},
		{"ecs-fargate-cpu", "ecs:RegisterTaskDefinition", with(fargate, doc{"cpu": nil})},
		{"ecs-fargate-memory", "ecs:RegisterTaskDefinition", with(fargate, doc{"memory": nil, con + "memory": 64})},
		{"ecs-fargate-ipc", "ecs:RegisterTaskDefinition", with(fargate, doc{"ipcMode": "task"})},
		{"ecs-fargate-pid", "ecs:RegisterTaskDefinition", with(fargate, doc{"pidMode": "host"})},
		{"ecs-fargate-placement", "ecs:RegisterTaskDefinition", with(fargate, doc{"placementConstraints": []doc{{"type": "memberOf", "expression": "x"}}})},
		{"ecs-fargate-privileged", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "privileged": true})},
		{"ecs-fargate-sum", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "memory": 1024})},
		{"ecs-fargate-sum", "ecs:RegisterTaskDefinition", with(fargate, doc{con + "cpu": 512})},
		{"ecs-ephemeral-storage", "ecs:RegisterTaskDefinition", with(fargate, doc{"ephemeralStorage": doc{"sizeInGiB": 20}})},
		{"ecs-ephemeral-storage", "ecs:RunTask", with(run, override(doc{"ephemeralStorage": doc{"sizeInGiB": 201}}))},
		{"ecs-unsupported", "ecs:RegisterTaskDefinition", with(plain, doc{con + "mountPoints": []doc{{"sourceVolume": "v"}}})},
		{"ecs-unsupported", "ecs:RegisterTaskDefinition", with(plain, doc{con + "environmentFiles": []doc{{"type": "s3", "value": "v"}}})},

		{"ecs-definition", "ecs:RunTask", with(run, doc{"taskDefinition": "nosuch"})},
		{"ecs-definition", "ecs:RunTask", with(run, doc{"taskDefinition": "fargate:99"})},
		{"ecs-definition", "ecs:RunTask", with(run, doc{"taskDefinition": "gone"})},
		{"ecs-revision", "ecs:RunTask", with(run, doc{"taskDefinition": "fargate:x"})},
		{"ecs-inactive", "ecs:RunTask", with(run, doc{"taskDefinition": "gone:1"})},
		{"ecs-describe-definition", "ecs:DescribeTaskDefinition", doc{"taskDefinition": "nosuch"}},
		{"ecs-deregister-revision", "ecs:DeregisterTaskDefinition", doc{"taskDefinition": "fargate"}},
		{"ecs-deregister-inactive", "ecs:DeregisterTaskDefinition", doc{"taskDefinition": "gone:1"}},
		{"ecs-delete-10", "ecs:DeleteTaskDefinitions", doc{"taskDefinitions": many(11, "gone:1")}},

		{"ecs-count", "ecs:RunTask", with(run, doc{"count": 11})},
		{"ecs-count", "ecs:RunTask", with(run, doc{"count": 0})},
		{"ecs-token-form", "ecs:RunTask", with(run, doc{"clientToken": strings.Repeat("x", 65)})},
		{"ecs-token-form", "ecs:RunTask", with(run, doc{"clientToken": "a b"})},
		{"ecs-token-conflict", "ecs:RunTask", with(run, doc{"taskDefinition": "long", "cluster": "busy", "clientToken": "one", "count": 2})},
		{"ecs-started-by", "ecs:RunTask", with(run, doc{"startedBy": strings.Repeat("x", 129)})},
		{"ecs-started-by", "ecs:RunTask", with(run, doc{"startedBy": "a b"})},
		{"ecs-launch-or-strategy", "ecs:RunTask", with(run, doc{"capacityProviderStrategy": []doc{{"capacityProvider": "FARGATE"}}})},
		{"ecs-propagate-service", "ecs:RunTask", with(run, doc{"propagateTags": "SERVICE"})},
		{"ecs-placement-count", "ecs:RunTask", with(run, doc{"placementConstraints": many(11, doc{"type": "distinctInstance"})})},
		{"ecs-overrides-size", "ecs:RunTask", with(run, override(doc{"containerOverrides": []doc{{"name": "main", "command": []string{strings.Repeat("x", 8192)}}}}))},
		{"ecs-override-name", "ecs:RunTask", with(run, override(doc{"containerOverrides": []doc{{"name": "nosuch"}}}))},
		{"ecs-override-twice", "ecs:RunTask", with(run, override(doc{"containerOverrides": many(2, doc{"name": "main"})}))},
		{"ecs-override-secret", "ecs:RunTask", with(run, override(doc{"containerOverrides": []doc{{"name": "main", "environment": []doc{{"name": "S", "value": "v"}}}}}))},
		{"ecs-fargate-size", "ecs:RunTask", with(run, override(doc{"memory": "4096"}))},
		{"ecs-exec-role", "ecs:RunTask", with(run, doc{"enableExecuteCommand": true})},
		{"ecs-compatible", "ecs:RunTask", with(run, doc{"taskDefinition": "plain"})},
		{"ecs-platform", "ecs:RunTask", with(run, doc{"platformVersion": "9.9.9"})},
		{"ecs-platform-storage", "ecs:RunTask", with(run, doc{"platformVersion": "1.3.0", "overrides": doc{"ephemeralStorage": doc{"sizeInGiB": 30}}})},
		{"ecs-platform-ec2", "ecs:RunTask", with(run, doc{"launchType": "EC2", "platformVersion": "LATEST"})},
		{"ecs-fargate-run-placement", "ecs:RunTask", with(run, doc{"placementConstraints": []doc{{"type": "distinctInstance"}}})},
		{"ecs-no-instances", "ecs:RunTask", doc{"taskDefinition": "plain"}},
		{"ecs-strategy-20", "ecs:RunTask", with(run, strategy(many(21, doc{"capacityProvider": "FARGATE"})...))},
		{"ecs-strategy-provider", "ecs:RunTask", with(run, strategy(doc{"capacityProvider": "mine"}))},
		{"ecs-strategy-base", "ecs:RunTask", with(run, strategy(doc{"capacityProvider": "FARGATE", "base": 1}, doc{"capacityProvider": "FARGATE_SPOT", "base": 1}))},
		{"ecs-strategy-weight", "ecs:RunTask", with(run, strategy(doc{"capacityProvider": "FARGATE"}, doc{"capacityProvider": "FARGATE_SPOT"}))},
		{"ecs-network", "ecs:RunTask", with(run, doc{"networkConfiguration": nil})},
		{"ecs-subnets", "ecs:RunTask", with(run, doc{vpc + "subnets": []string{}})},
		{"ecs-security-groups", "ecs:RunTask", with(run, doc{vpc + "securityGroups": many(6, "sg-01234567")})},
		{"ecs-subnet-id", "ecs:RunTask", with(run, doc{vpc + "subnets": []string{"net"}})},
		{"ecs-security-group-id", "ecs:RunTask", with(run, doc{vpc + "securityGroups": []string{"net"}})},

		{"ecs-describe-tasks-empty", "ecs:DescribeTasks", doc{"tasks": []string{}}},
		{"ecs-describe-tasks-100", "ecs:DescribeTasks", doc{"tasks": many(101, "t")}},
		{"ecs-task-cluster", "ecs:DescribeTasks", doc{"tasks": []string{"arn:aws:ecs:" + Region + ":" + Account + ":task/busy/" + strings.Repeat("0", 32)}}},
		{"ecs-started-by-alone", "ecs:ListTasks", doc{"startedBy": "me", "desiredStatus": "STOPPED"}},
		{"ecs-started-by-alone", "ecs:ListTasks", doc{"startedBy": "me", "family": "fargate"}},
		{"ecs-family-or-service", "ecs:ListTasks", doc{"family": "fargate", "serviceName": "s"}},
		{"ecs-service", "ecs:ListTasks", doc{"serviceName": "s"}},
		{"ecs-service", "ecs:UpdateService", doc{"service": "s"}},
		{"ecs-service", "ecs:DeleteService", doc{"service": "down", "cluster": "served"}},
		{"ecs-service-inactive", "ecs:UpdateService", doc{"service": "down", "cluster": "served", "desiredCount": 1}},
		{"ecs-service-twice", "ecs:CreateService", with(up, doc{"serviceName": "up"})},
		{"ecs-service-name", "ecs:CreateService", with(up, doc{"serviceName": "a b"})},
		{"ecs-service-definition", "ecs:CreateService", with(up, doc{"serviceName": "x", "taskDefinition": nil})},
		{"ecs-service-token", "ecs:CreateService", with(up, doc{"serviceName": "x", "clientToken": strings.Repeat("t", 37)})},
		{"ecs-service-scaled", "ecs:DeleteService", doc{"service": "up", "cluster": "served"}},
		{"ecs-describe-services-10", "ecs:DescribeServices", doc{"services": many(11, "s")}},
		{"ecs-desired-count", "ecs:CreateService", with(up, doc{"serviceName": "x", "desiredCount": -1})},
		{"ecs-desired-count", "ecs:UpdateService", doc{"service": "up", "cluster": "served", "desiredCount": -1}},
		{"ecs-percent", "ecs:UpdateService", doc{"service": "up", "cluster": "served", "deploymentConfiguration": doc{"maximumPercent": 100, "minimumHealthyPercent": 100}}},
		{"ecs-unsupported", "ecs:CreateService", with(up, doc{"serviceName": "x", "schedulingStrategy": "DAEMON"})},
		{"ecs-unsupported", "ecs:UpdateService", doc{"service": "up", "cluster": "served", "loadBalancers": []doc{}}},
		{"ecs-exec-role", "ecs:CreateService", with(up, doc{"serviceName": "x", "enableExecuteCommand": true})},
		{"ecs-network", "ecs:CreateService", with(up, doc{"serviceName": "x", "networkConfiguration": nil})},
		{"ecs-cluster-services", "ecs:DeleteCluster", doc{"cluster": "idle"}},
		{"ecs-exec-interactive", "ecs:ExecuteCommand", doc{"task": "x", "command": "true", "interactive": false}},
		{"ecs-exec-task", "ecs:ExecuteCommand", doc{"task": "x", "command": "true", "interactive": true}},
		{"autoscaling-ecs", "application-autoscaling:RegisterScalableTarget", target(doc{"ServiceNamespace": "dynamodb"})},
		{"autoscaling-resource", "application-autoscaling:RegisterScalableTarget", target(doc{"ResourceId": "cluster/a"})},
		{"autoscaling-bounds", "application-autoscaling:RegisterScalableTarget", target(doc{"MaxCapacity": nil})},
		{"autoscaling-bounds", "application-autoscaling:RegisterScalableTarget", target(doc{"MaxCapacity": 0})},
		{"autoscaling-target", "application-autoscaling:DeregisterScalableTarget", target(doc{"MinCapacity": nil, "MaxCapacity": nil})},
		{"autoscaling-next-token", "application-autoscaling:DescribeScalableTargets", doc{"ServiceNamespace": "ecs", "NextToken": "x"}},
		{"ssm-path", "ssm:GetParametersByPath", doc{"Path": "a"}},
		{"ssm-next-token", "ssm:GetParametersByPath", doc{"Path": "/a", "NextToken": "x"}},
		{"ssm-nested", "ssm:PutParameter", doc{"Name": "a", "Value": "{{ssm:p}}", "Type": "String"}},
		{"ecs-stop-reason", "ecs:StopTask", doc{"task": "t", "reason": strings.Repeat("x", 1025)}},
		{"ecs-stop-task", "ecs:StopTask", doc{"task": strings.Repeat("0", 32)}},

		{"logs-group", "logs:GetLogEvents", doc{"logGroupName": "nosuch", "logStreamName": "s"}},
		{"logs-group", "logs:PutLogEvents", doc{"logGroupName": "nosuch", "logStreamName": "s", "logEvents": []doc{event(0, "m")}}},
		{"logs-stream", "logs:GetLogEvents", doc{"logGroupName": "jobs", "logStreamName": "nosuch"}},
		{"logs-group-exists", "logs:CreateLogGroup", doc{"logGroupName": "jobs"}},
		{"logs-stream-exists", "logs:CreateLogStream", doc{"logGroupName": "jobs", "logStreamName": "s"}},
		{"logs-group-name", "logs:GetLogEvents", doc{"logStreamName": "s"}},
		{"logs-group-name", "logs:GetLogEvents", doc{"logGroupName": "jobs", "logGroupIdentifier": "jobs", "logStreamName": "s"}},
		{"logs-next-token", "logs:GetLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "nextToken": "x"}},
		{"logs-filter-streams", "logs:FilterLogEvents", doc{"logGroupName": "jobs", "logStreamNames": []string{"s"}, "logStreamNamePrefix": "s"}},
		{"logs-filter-token", "logs:FilterLogEvents", doc{"logGroupName": "jobs", "nextToken": "x"}},
		{"logs-filter-pattern", "logs:FilterLogEvents", doc{"logGroupName": "jobs", "filterPattern": "ERROR"}},
		{"logs-forward-token", "logs:GetLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "nextToken": "f/" + strings.Repeat("0", 56) + "/s"}},
		{"logs-prefix-or-pattern", "logs:DescribeLogGroups", doc{"logGroupNamePrefix": "j", "logGroupNamePattern": "j"}},
		{"logs-order-by", "logs:DescribeLogStreams", doc{"logGroupName": "jobs", "logStreamNamePrefix": "s", "orderBy": "LastEventTime"}},
		{"logs-tag-prefix", "logs:CreateLogGroup", doc{"logGroupName": "tagged", "tags": doc{"aws:x": "y"}}},
		{"logs-tags-50", "logs:TagResource", doc{"resourceArn": groupARN("jobs"), "tags": tagDoc(50)}},
		{"logs-tagged", "logs:UntagResource", doc{"resourceArn": groupARN("nosuch"), "tagKeys": []string{"a"}}},
		{"logs-tagged-arn", "logs:ListTagsForResource", doc{"resourceArn": strings.Replace(groupARN("jobs"), "log-group", "destination", 1)}},
		{"logs-retention", "logs:PutRetentionPolicy", doc{"logGroupName": "jobs", "retentionInDays": 2}},
		{"logs-batch-order", "logs:PutLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "logEvents": []doc{event(1, "a"), event(0, "b")}}},
		{"logs-batch-span", "logs:PutLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "logEvents": []doc{event(-25*3600, "a"), event(0, "b")}}},
		{"logs-batch-size", "logs:PutLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "logEvents": many(5, event(0, strings.Repeat("x", 250_000)))}},

		{"secretsmanager-secret", "secretsmanager:GetSecretValue", doc{"SecretId": "nosuch"}},
		{"secretsmanager-stage", "secretsmanager:GetSecretValue", doc{"SecretId": "s", "VersionStage": "AWSPREVIOUS"}},
		{"secretsmanager-version", "secretsmanager:GetSecretValue", doc{"SecretId": "s", "VersionId": strings.Repeat("0", 32)}},
		{"secretsmanager-deleted", "secretsmanager:GetSecretValue", doc{"SecretId": "gone"}},
		{"secretsmanager-one-value", "secretsmanager:CreateSecret", doc{"Name": "x", "SecretString": "a", "SecretBinary": "YQ=="}},
		{"secretsmanager-a-value", "secretsmanager:PutSecretValue", doc{"SecretId": "s"}},
		{"secretsmanager-exists", "secretsmanager:CreateSecret", doc{"Name": "s", "SecretString": "v"}},
		{"secretsmanager-scheduled", "secretsmanager:CreateSecret", doc{"Name": "gone", "SecretString": "v"}},
		{"secretsmanager-token", "secretsmanager:PutSecretValue", doc{"SecretId": "s", "SecretString": "other", "ClientRequestToken": strings.Repeat("t", 32)}},
		{"secretsmanager-force", "secretsmanager:DeleteSecret", doc{"SecretId": "s", "ForceDeleteWithoutRecovery": true, "RecoveryWindowInDays": 7}},
		{"secretsmanager-recovery", "secretsmanager:DeleteSecret", doc{"SecretId": "s", "RecoveryWindowInDays": 31}},

		{"ssm-name", "ssm:PutParameter", doc{"Name": "a b", "Value": "v", "Type": "String"}},
		{"ssm-name-prefix", "ssm:PutParameter", doc{"Name": "/AWS/x", "Value": "v", "Type": "String"}},
		{"ssm-name-qualified", "ssm:PutParameter", doc{"Name": "a/b", "Value": "v", "Type": "String"}},
		{"ssm-name-levels", "ssm:PutParameter", doc{"Name": strings.Repeat("/a", 16), "Value": "v", "Type": "String"}},
		{"ssm-size", "ssm:PutParameter", doc{"Name": "a", "Value": strings.Repeat("v", 4097), "Type": "String"}},
		{"ssm-allowed-pattern", "ssm:PutParameter", doc{"Name": "a", "Value": "v", "Type": "String", "AllowedPattern": "("}},
		{"ssm-pattern-mismatch", "ssm:PutParameter", doc{"Name": "a", "Value": "v", "Type": "String", "AllowedPattern": "^w$"}},
		{"ssm-type", "ssm:PutParameter", doc{"Name": "a", "Value": "v"}},
		{"ssm-exists", "ssm:PutParameter", doc{"Name": "p", "Value": "w", "Type": "String"}},
		{"ssm-parameter", "ssm:GetParameter", doc{"Name": "nosuch"}},
		{"ssm-parameter", "ssm:DeleteParameter", doc{"Name": "nosuch"}},
		{"ssm-version", "ssm:GetParameter", doc{"Name": "p:2"}},
		{"ssm-names-twice", "ssm:GetParameters", doc{"Names": many(2, "p")}},
	} {
		status, reply, rule := c.call(t, k.action, k.body)
		if rule != k.rule || status != 400 || reply["__type"] != rules[k.rule].Code {
			t.Errorf("%s: %s got %d, rule %q, %v %v", k.rule, k.action, status, rule, reply["__type"], reply["message"])
		}
		delete(untested, k.rule)
	}
	// These need a cloud of another making, and have tests of their own.
	for _, elsewhere := range []string{"eks-cluster", "eks-next-token", "cloudwatch-required", "cloudwatch-times", "cloudwatch-queries", "cloudwatch-next-token", "cloudwatch-query-id", "cloudwatch-expression", "cloudwatch-period",
		"ecs-exec-enabled", "ecs-exec-container", "ecs-exec-agent", "ecs-family-lock", "ecs-network-forbidden", "ecs-public-ip", "ecs-strategy-mixed"} {
		delete(untested, elsewhere)
	}
	for id, r := range untested {
		if r.Code != "" {
			t.Errorf("rule %s has no case", id)
		} else if !hasTest(t, r.Test) {
			t.Errorf("rule %s names a test %s that isn't here", id, r.Test)
		}
	}
}

// hasTest looks for a test in this package's files.
func hasTest(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(data, []byte("func "+name+"(t *testing.T)"))
	})
}

// event is a log event some seconds from now.
func event(seconds int64, message string) doc {
	return doc{"timestamp": time.Now().Unix()*1000 + seconds*1000, "message": message}
}

func groupARN(name string) string {
	return "arn:aws:logs:" + Region + ":" + Account + ":log-group:" + name
}

func tagDoc(n int) doc {
	out := doc{}
	for i := range n {
		out[fmt.Sprintf("k%d", i)] = "v"
	}
	return out
}

func tags(n int) []doc {
	var out []doc
	for i := range n {
		out = append(out, doc{"key": fmt.Sprintf("k%d", i)})
	}
	return out
}

// TestRulesEC2 breaks the rules that need container instances.
func TestRulesEC2(t *testing.T) {
	c := newCloud(t, Options{Instances: true})
	def := doc{"family": "plain", "containerDefinitions": []doc{{"name": "main", "image": "app", "memory": 64, "command": []string{"true"}}}}
	vpc := with(def, doc{"family": "vpc", "networkMode": "awsvpc"})
	for _, d := range []doc{def, vpc} {
		if status, reply, _ := c.call(t, "ecs:RegisterTaskDefinition", d); status != 200 {
			t.Fatal(reply)
		}
	}
	if status, reply, _ := c.call(t, "ecs:CreateCluster", doc{"clusterName": "mixed", "capacityProviders": []string{"FARGATE", "asg"}}); status != 200 {
		t.Fatal(reply)
	}
	network := doc{"awsvpcConfiguration": doc{"subnets": []string{"subnet-01234567"}, "assignPublicIp": "ENABLED"}}
	for _, k := range []struct {
		rule string
		body doc
	}{
		{"ecs-network-forbidden", doc{"taskDefinition": "plain", "networkConfiguration": network}},
		{"ecs-public-ip", doc{"taskDefinition": "vpc", "networkConfiguration": network}},
		{"ecs-strategy-mixed", doc{"taskDefinition": "plain", "cluster": "mixed", "capacityProviderStrategy": []doc{{"capacityProvider": "FARGATE", "weight": 1}, {"capacityProvider": "asg"}}}},
	} {
		if status, reply, rule := c.call(t, "ecs:RunTask", k.body); rule != k.rule || status != 400 {
			t.Errorf("%s: got %d, rule %q, %v", k.rule, status, rule, reply)
		}
	}
	status, reply, _ := c.call(t, "ecs:RunTask", doc{"taskDefinition": "plain"})
	if status != 200 {
		t.Fatal(reply)
	}
	task := reply["tasks"].([]any)[0].(doc)
	if task["launchType"] != "EC2" || task["containerInstanceArn"] == nil || task["platformVersion"] != nil {
		t.Errorf("a task of launch type EC2 is %v", task)
	}
	c.until(t, task["taskArn"].(string), "STOPPED")
}

// TestValidation sends what the model forbids.
func TestValidation(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		action string
		body   any
		code   string
	}{
		"unknown member":      {"ecs:RunTask", doc{"taskDefinition": "a", "cuont": 1}, "SerializationException"},
		"wrong case":          {"ecs:RunTask", doc{"TaskDefinition": "a"}, "SerializationException"},
		"unknown deep inside": {"ecs:RunTask", doc{"taskDefinition": "a", "overrides": doc{"containerOverrides": []doc{{"nom": "x"}}}}, "SerializationException"},
		"wrong type":          {"ecs:RunTask", doc{"taskDefinition": 7}, "SerializationException"},
		"number too large":    {"ecs:RunTask", doc{"taskDefinition": "a", "count": 1 << 40}, "SerializationException"},
		"list for object":     {"ecs:RunTask", doc{"taskDefinition": "a", "overrides": []string{}}, "SerializationException"},
		"no object":           {"ecs:RunTask", []string{}, "SerializationException"},
		"null":                {"ecs:RunTask", nil, "SerializationException"},
		"missing":             {"ecs:RunTask", doc{}, "InvalidParameterException"},
		"null for missing":    {"ecs:RunTask", doc{"taskDefinition": nil}, "InvalidParameterException"},
		"enum":                {"ecs:RunTask", doc{"taskDefinition": "a", "launchType": "fargate"}, "InvalidParameterException"},
		"long tag":            {"ecs:RunTask", doc{"taskDefinition": "a", "tags": []doc{{"key": strings.Repeat("k", 129)}}}, "InvalidParameterException"},
		"tag pattern":         {"ecs:RunTask", doc{"taskDefinition": "a", "tags": []doc{{"key": "a;b"}}}, "InvalidParameterException"},
		"weight":              {"ecs:RunTask", doc{"taskDefinition": "a", "capacityProviderStrategy": []doc{{"capacityProvider": "p", "weight": 1001}}}, "InvalidParameterException"},
		"no stream":           {"logs:GetLogEvents", doc{"logGroupName": "jobs"}, "InvalidParameterException"},
		"101 streams":         {"logs:FilterLogEvents", doc{"logGroupName": "jobs", "logStreamNames": slices.Repeat([]string{"s"}, 101)}, "InvalidParameterException"},
		"limit":               {"logs:GetLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "limit": 10001}, "InvalidParameterException"},
		"stream with colon":   {"logs:GetLogEvents", doc{"logGroupName": "jobs", "logStreamName": "a:b"}, "InvalidParameterException"},
		"empty message":       {"logs:PutLogEvents", doc{"logGroupName": "jobs", "logStreamName": "s", "logEvents": []doc{{"timestamp": 1, "message": ""}}}, "InvalidParameterException"},
		"no secret":           {"secretsmanager:GetSecretValue", doc{}, "InvalidParameterException"},
		"eleven parameters":   {"ssm:GetParameters", doc{"Names": many(11, "a")}, "ValidationException"},
		"ssm unknown member":  {"ssm:GetParameters", doc{"Names": []string{"a"}, "Decrypt": true}, "SerializationException"},
		"no such action":      {"ecs:CreateTaskSet", doc{}, "UnknownOperationException"},
	} {
		if status, reply, _ := c.call(t, k.action, k.body); status != 400 || reply["__type"] != k.code {
			t.Errorf("%s: got %d %v, want %s", name, status, reply, k.code)
		}
	}
}
