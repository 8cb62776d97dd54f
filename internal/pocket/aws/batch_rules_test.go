package aws

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// batchRequest is one that bears a signature in the right form.
func (c *cloud) batchRequest(t testing.TB, method, path string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		t.Skip(err) // no path of a request
	}
	now := c.o.Now().UTC()
	req.Header.Set("X-Amz-Date", now.Format("20060102T150405Z"))
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=POCKET/"+now.Format("20060102")+"/"+Region+
		"/batch/aws4_request, SignedHeaders=host;x-amz-date, Signature="+strings.Repeat("0a", 32))
	return req
}

// rest sends a request as any client might.
func (c *cloud) rest(t testing.TB, method, path string, body any) (resp *http.Response, reply doc) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err = http.DefaultClient.Do(c.batchRequest(t, method, path, data))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return resp, reply
}

// TestBatchRules breaks every rule that AWS Batch keeps, as TestRules does for
// the others.
func TestBatchRules(t *testing.T) {
	c := newCloud(t, Options{JobQueues: []batch.Queue{{Name: "big", Instances: true}, {Name: "off", Disabled: true}}})
	need := func(vcpu, memory string) []doc {
		return []doc{{"type": "VCPU", "value": vcpu}, {"type": "MEMORY", "value": memory}}
	}
	fargate := doc{"jobDefinitionName": "fargate", "type": "container", "platformCapabilities": []string{"FARGATE"}, "containerProperties": doc{"image": "app", "command": []string{"true"},
		"executionRoleArn": "arn:aws:iam::123456789012:role/e", "resourceRequirements": need("0.25", "512"), "secrets": []doc{{"name": "S", "valueFrom": "param"}}}}
	plain := doc{"jobDefinitionName": "plain", "type": "container", "containerProperties": doc{"image": "app", "resourceRequirements": need("1", "64")}}
	const con = "containerProperties."
	job := doc{"jobName": "job", "jobQueue": "default", "jobDefinition": "fargate"}
	long := strings.Repeat("x", 129)
	fifty := map[string]string{}
	for _, k := range tags(50) {
		fifty[k["key"].(string)] = "v"
	}
	queueTags := "/v1/tags/" + strings.ReplaceAll("arn:aws:batch:"+Region+":"+Account+":job-queue/default", "/", "%2F")
	for _, setup := range []struct {
		path string
		body doc
	}{
		{"/v1/registerjobdefinition", fargate}, {"/v1/registerjobdefinition", plain}, {"/v1/registerjobdefinition", with(fargate, doc{"jobDefinitionName": "gone"})},
		{"/v1/deregisterjobdefinition", doc{"jobDefinition": "gone:1"}}, {queueTags, doc{"tags": fifty}},
	} {
		if resp, reply := c.rest(t, http.MethodPost, setup.path, setup.body); resp.StatusCode != 200 {
			t.Fatalf("%s: %v", setup.path, reply)
		}
	}
	untested := map[string]awsjson.Rule{}
	for _, r := range batch.Rules() {
		untested[r.ID] = r
	}
	rules := maps.Clone(untested)
	filter := func(list ...doc) doc { return doc{"jobQueue": "default", "filters": list} }
	stop := doc{"jobId": "00000000-0000-0000-0000-000000000000", "reason": "r"}
	for _, k := range []struct {
		rule, op string
		body     doc
	}{
		{"batch-definition-name", "registerjobdefinition", with(plain, doc{"jobDefinitionName": "a b"})},
		{"batch-definition-name", "registerjobdefinition", with(plain, doc{"jobDefinitionName": long})},
		{"batch-container", "registerjobdefinition", with(plain, doc{"containerProperties": nil})},
		{"batch-unsupported", "registerjobdefinition", with(plain, doc{"type": "multinode"})},
		{"batch-unsupported", "registerjobdefinition", with(plain, doc{"retryStrategy": doc{"attempts": 2, "evaluateOnExit": []doc{{"action": "EXIT", "onExitCode": "1"}}}})},
		{"batch-unsupported", "registerjobdefinition", with(plain, doc{con + "mountPoints": []doc{{"sourceVolume": "v"}}})},
		{"batch-unsupported", "submitjob", with(job, doc{"arrayProperties": doc{"size": 2}})},
		{"batch-unsupported", "submitjob", with(job, doc{"dependsOn": []doc{{"jobId": "x"}}})},
		{"batch-image", "registerjobdefinition", with(plain, doc{con + "image": "a b"})},
		{"batch-image", "registerjobdefinition", with(plain, doc{con + "image": nil})},
		{"batch-definition-size", "registerjobdefinition", with(plain, doc{con + "command": []string{strings.Repeat("x", 24<<10)}})},
		{"batch-environment", "registerjobdefinition", with(plain, doc{con + "environment": []doc{{"name": "AWS_BATCH_X", "value": "v"}}})},
		{"batch-environment", "submitjob", with(job, doc{"containerOverrides": doc{"environment": []doc{{"name": "AWS_BATCH", "value": "v"}}}})},
		{"batch-resources", "registerjobdefinition", with(plain, doc{con + "resourceRequirements": need("1", "64")[:1]})},
		{"batch-resource-twice", "registerjobdefinition", with(plain, doc{con + "resourceRequirements": append(need("1", "64"), need("1", "64")...)})},
		{"batch-vcpu", "registerjobdefinition", with(plain, doc{con + "resourceRequirements": need("0.5", "64")})},
		{"batch-memory", "registerjobdefinition", with(plain, doc{con + "resourceRequirements": need("1", "3")})},
		{"batch-memory", "registerjobdefinition", with(plain, doc{con + "resourceRequirements": need("1", "1GB")})},
		{"batch-fargate-size", "registerjobdefinition", with(fargate, doc{con + "resourceRequirements": need("0.25", "4096")})},
		{"batch-fargate-size", "submitjob", with(job, doc{"containerOverrides": doc{"resourceRequirements": need("3", "8192")}})},
		{"batch-fargate-role", "registerjobdefinition", with(fargate, doc{con + "executionRoleArn": nil, con + "secrets": nil})},
		{"batch-fargate-deprecated", "registerjobdefinition", with(fargate, doc{con + "vcpus": 1})},
		{"batch-fargate-only", "registerjobdefinition", with(plain, doc{con + "networkConfiguration": doc{"assignPublicIp": "ENABLED"}})},
		{"batch-fargate-never", "registerjobdefinition", with(fargate, doc{con + "privileged": true})},
		{"batch-fargate-never", "registerjobdefinition", with(fargate, doc{con + "ulimits": []doc{{"name": "nofile", "softLimit": 1, "hardLimit": 1}}})},
		{"batch-ephemeral-storage", "registerjobdefinition", with(fargate, doc{con + "ephemeralStorage": doc{"sizeInGiB": 20}})},
		{"batch-log-driver", "registerjobdefinition", with(fargate, doc{con + "logConfiguration": doc{"logDriver": "json-file"}})},
		{"batch-log-option", "registerjobdefinition", with(fargate, doc{con + "logConfiguration": doc{"logDriver": "awslogs", "options": doc{"awslogs-color": "red"}}})},
		{"batch-log-option", "registerjobdefinition", with(fargate, doc{con + "logConfiguration": doc{"logDriver": "awslogs", "options": doc{"mode": "lossy"}}})},
		{"batch-secrets-role", "registerjobdefinition", with(plain, doc{con + "secrets": []doc{{"name": "S", "valueFrom": "p"}}})},
		{"batch-secret-twice", "registerjobdefinition", with(fargate, doc{con + "environment": []doc{{"name": "S", "value": "v"}}})},
		{"batch-attempts", "registerjobdefinition", with(plain, doc{"retryStrategy": doc{"attempts": 11}})},
		{"batch-attempts", "submitjob", with(job, doc{"retryStrategy": doc{"attempts": 0}})},
		{"batch-timeout", "submitjob", with(job, doc{"timeout": doc{"attemptDurationSeconds": 59}})},
		{"batch-platforms", "registerjobdefinition", with(plain, doc{"platformCapabilities": []string{"EC2", "FARGATE"}})},
		{"batch-priority", "registerjobdefinition", with(plain, doc{"schedulingPriority": 10000})},
		{"batch-tag-prefix", "submitjob", with(job, doc{"tags": doc{"aWs:x": "v"}})},
		{"batch-deregister", "deregisterjobdefinition", doc{"jobDefinition": "plain:9"}},
		{"batch-deregister", "deregisterjobdefinition", doc{"jobDefinition": "plain"}},
		{"batch-describe-definitions-100", "describejobdefinitions", doc{"jobDefinitions": many(101, "plain:1")}},
		{"batch-describe-definitions-100", "describejobdefinitions", doc{"jobDefinitions": []string{"plain"}}},

		{"batch-job-name", "submitjob", with(job, doc{"jobName": "-a"})},
		{"batch-job-name", "submitjob", with(job, doc{"jobName": long})},
		{"batch-queue", "submitjob", with(job, doc{"jobQueue": "nosuch"})},
		{"batch-queue", "listjobs", doc{"jobQueue": "nosuch"}},
		{"batch-queue-disabled", "submitjob", with(job, doc{"jobQueue": "off"})},
		{"batch-definition", "submitjob", with(job, doc{"jobDefinition": "nosuch"})},
		{"batch-definition", "submitjob", with(job, doc{"jobDefinition": "fargate:9"})},
		{"batch-inactive", "submitjob", with(job, doc{"jobDefinition": "gone"})},
		{"batch-inactive", "submitjob", with(job, doc{"jobDefinition": "gone:1"})},
		{"batch-revision", "submitjob", with(job, doc{"jobDefinition": "fargate:x"})},
		{"batch-payload", "submitjob", with(job, doc{"parameters": doc{"p": strings.Repeat("x", 30<<10)}})},
		{"batch-command-empty", "submitjob", with(job, doc{"containerOverrides": doc{"command": []string{"echo", ""}}})},
		{"batch-override-secret", "submitjob", with(job, doc{"containerOverrides": doc{"environment": []doc{{"name": "S", "value": "v"}}}})},
		{"batch-share", "submitjob", with(job, doc{"shareIdentifier": "s"})},
		{"batch-platform", "submitjob", with(job, doc{"jobQueue": "big"})},
		{"batch-platform", "submitjob", with(job, doc{"jobDefinition": "plain"})},

		{"batch-describe-jobs-100", "describejobs", doc{"jobs": many(101, "j")}},
		{"batch-list-one", "listjobs", doc{}},
		{"batch-list-one", "listjobs", doc{"jobQueue": "default", "arrayJobId": "a"}},
		{"batch-filter-one", "listjobs", filter(doc{"name": "JOB_NAME", "values": []string{"a"}}, doc{"name": "JOB_NAME", "values": []string{"b"}})},
		{"batch-filter-name", "listjobs", filter(doc{"name": "JOB_COLOR", "values": []string{"a"}})},
		{"batch-filter-value", "listjobs", filter(doc{"name": "JOB_NAME", "values": []string{}})},
		{"batch-filter-value", "listjobs", filter(doc{"name": "AFTER_CREATED_AT", "values": []string{"yesterday"}})},
		{"batch-max-results", "listjobs", doc{"jobQueue": "default", "maxResults": 0}},
		{"batch-next-token", "listjobs", doc{"jobQueue": "default", "nextToken": "x"}},
		{"batch-terminate-reason", "terminatejob", with(stop, doc{"reason": strings.Repeat("x", 1025)})},
		{"batch-terminate-missing", "canceljob", with(stop, doc{"jobId": "job"})},
	} {
		c.breaks(t, rules[k.rule], http.MethodPost, "/v1/"+k.op, k.body)
		delete(untested, k.rule)
	}
	for rule, path := range map[string]string{"batch-tag-count": queueTags, "batch-tag-arn": "/v1/tags/job", "batch-tag-resource": "/v1/tags/arn:aws:batch:" + Region + ":" + Account + ":job%2Fx"} {
		c.breaks(t, rules[rule], http.MethodPost, path, doc{"tags": doc{"one": "more"}})
		delete(untested, rule)
	}
	// An unknown type is refused by the model, and the last by a closed cloud.
	for _, elsewhere := range []string{"batch-type", "batch-closed"} {
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

// breaks sends a call that breaks a rule.
func (c *cloud) breaks(t testing.TB, rule awsjson.Rule, method, path string, body doc) {
	t.Helper()
	resp, reply := c.rest(t, method, path, body)
	message, _ := reply["message"].(string)
	if got := resp.Header.Get(awsjson.RuleHeader); got != rule.ID || resp.StatusCode != 400 || resp.Header.Get("X-Amzn-Errortype") != rule.Code ||
		!strings.HasPrefix(message, "Error executing request, Exception : ") || reply["__type"] != nil {
		t.Errorf("%s: %s %s got %d, rule %q, %v", rule.ID, method, path, resp.StatusCode, got, reply)
	}
}

// TestBatchStrict refuses what the model doesn't have, and paths and methods of
// no operation.
func TestBatchStrict(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		method, path string
		body         any
		code         string
		status       int
	}{
		"unknown member": {"POST", "/v1/describejobs", doc{"jobs": []string{}, "x": 1}, "SerializationException", 400},
		"wrong type":     {"POST", "/v1/describejobs", doc{"jobs": "a"}, "SerializationException", 400},
		"missing member": {"POST", "/v1/describejobs", doc{}, "ClientException", 400},
		"enum":           {"POST", "/v1/registerjobdefinition", doc{"jobDefinitionName": "a", "type": "container2"}, "ClientException", 400},
		"empty tag":      {"POST", "/v1/tags/arn", doc{"tags": doc{"": "v"}}, "ClientException", 400},
		"no object":      {"POST", "/v1/tags/arn", []int{1}, "SerializationException", 400},
		"arn twice":      {"POST", "/v1/tags/arn", doc{"resourceArn": "x"}, "SerializationException", 400},
		"no path":        {"POST", "/v1/submitjobs", doc{}, "UnknownOperationException", 404},
		"no method":      {"PUT", "/v1/describejobs", doc{}, "UnknownOperationException", 404},
		"no tag method":  {"PUT", "/v1/tags/arn", doc{}, "UnknownOperationException", 404},
	} {
		resp, reply := c.rest(t, k.method, k.path, k.body)
		if resp.StatusCode != k.status || resp.Header.Get("X-Amzn-Errortype") != k.code || reply["message"] == "" {
			t.Errorf("%s: %d %s, %v", name, resp.StatusCode, resp.Header.Get("X-Amzn-Errortype"), reply)
		}
	}
	s := newServer(t, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	closed := &cloud{Server: s}
	w := httptest.NewRecorder()
	r := closed.batchRequest(t, http.MethodPost, "/v1/submitjob", []byte(`{"jobName":"a","jobQueue":"default","jobDefinition":"a"}`))
	r.URL.Path = "/v1/submitjob"
	if s.ServeHTTP(w, r); w.Code != 400 || w.Header().Get(awsjson.RuleHeader) != "batch-closed" {
		t.Errorf("a closed cloud: %d %s", w.Code, w.Body)
	}
}

// FuzzServeBatch sends any body to any path: the answer is a reply of the
// protocol, and never a fault of ours.
func FuzzServeBatch(f *testing.F) {
	paths := []string{"registerjobdefinition", "deregisterjobdefinition", "describejobdefinitions", "submitjob", "describejobs", "listjobs", "terminatejob", "canceljob",
		"describejobqueues", "describecomputeenvironments", "tags/arn:aws:batch:" + Region + ":" + Account + ":job-queue%2Fdefault"}
	bodies := []string{`{}`, `{"jobDefinitionName":"f","type":"container","platformCapabilities":["FARGATE"],"containerProperties":{"image":"i","command":["Ref::a"],"executionRoleArn":"r","resourceRequirements":[{"type":"VCPU","value":"0.25"},{"type":"MEMORY","value":"512"}]},"tags":{"k":"v"}}`,
		`{"jobName":"j","jobQueue":"default","jobDefinition":"f","parameters":{"a":"b"},"containerOverrides":{"command":["x"],"environment":[{"name":"A","value":"b"}]},"timeout":{"attemptDurationSeconds":60}}`,
		`{"jobs":["a"]}`, `{"jobQueue":"default","filters":[{"name":"JOB_NAME","values":["j*"]}],"maxResults":1}`, `{"jobId":"00000000-0000-0000-0000-000000000000","reason":"r"}`, `{"jobDefinition":"f:1"}`, `{"tags":{"a":"b"}}`}
	for i := range paths {
		for _, b := range bodies {
			f.Add(i, "POST", []byte(b))
		}
	}
	c := &cloud{Server: newServer(f, Options{Executor: run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("line\n")} })})}
	c.Batch().SetKnobs(batch.Knobs{KeepEnded: time.Millisecond})
	f.Fuzz(func(t *testing.T, path int, method string, body []byte) {
		if path < 0 || path >= len(paths) || !slices.Contains([]string{"POST", "GET", "DELETE"}, method) {
			return
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, c.batchRequest(t, method, "/v1/"+paths[path], body))
		if !json.Valid(w.Body.Bytes()) || w.Code >= 500 || w.Code != 200 && w.Header().Get("X-Amzn-Errortype") == "" {
			t.Errorf("%s %s of %q: %d %s", method, paths[path], body, w.Code, w.Body)
		}
	})
}
