package gcp

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// with returns a deep copy of a document with members set by their paths, like
// template.template.containers.0.image. Nil takes a member out.
func with(d doc, changes doc) doc {
	out := copied(d).(doc)
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		parts := strings.Split(path, ".")
		var at any = out
		for i, p := range parts {
			last := i == len(parts)-1
			switch v := at.(type) {
			case doc:
				switch {
				case last && changes[path] == nil:
					delete(v, p)
				case last:
					v[p] = changes[path]
				case v[p] == nil:
					v[p] = doc{}
				}
				at = v[p]
			case []any:
				var n int
				if _, err := fmt.Sscan(p, &n); err != nil {
					panic(path)
				}
				if last {
					v[n] = changes[path]
				}
				at = v[n]
			}
		}
	}
	return out
}

func copied(v any) any {
	switch v := v.(type) {
	case doc:
		out := doc{}
		for k, e := range v {
			out[k] = copied(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copied(e)
		}
		return out
	default:
		return v
	}
}

func many[T any](n int, v T) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func numbered(n int, f func(i int) (string, any)) doc {
	out := doc{}
	for i := range n {
		k, v := f(i)
		out[k] = v
	}
	return out
}

// TestRules breaks each rule of the table, and finds no rule without a case and
// no case without a rule.
func TestRules(t *testing.T) {
	c := newCloud(t, Options{})
	if _, err := c.Secrets().Put("taken", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Secrets().Put("gone", []byte("v")); err != nil {
		t.Fatal(err)
	}
	good := doc{"template": doc{"template": doc{"containers": []any{doc{"image": "app", "command": []any{"sleep", "60"}}}}}}
	c.create(t, "taken", jobOf("sleep", "60"))
	_, held := c.start(t, "taken", nil)
	c.create(t, "quick", jobOf("true"))
	over := c.ended(t, "quick", nil)

	const task, box = "template.template.", "template.template.containers.0."
	jobs, location := "/v2/"+parent+"/jobs", "/v2/"+parent
	create := func(changes doc) (string, string, any) {
		return "POST", jobs + "?jobId=new", with(good, changes)
	}
	run := func(overrides doc) (string, string, any) {
		return "POST", jobs + "/taken:run", doc{"overrides": overrides}
	}
	secrets := "/v1/projects/" + Project + "/secrets"
	automatic := doc{"replication": doc{"automatic": doc{}}}
	list := func(changes doc) (string, string, any) {
		return "POST", "/v2/entries:list", with(doc{"resourceNames": []any{"projects/" + Project}}, changes)
	}
	status, _, _ := c.rest(t, "POST", secrets+"/gone/versions/1:destroy", nil)
	if status != 200 {
		t.Fatal("destroy", status)
	}

	of := newCall
	variable := func(name, value string) []any { return []any{doc{"name": name, "value": value}} }
	secretRef := func(secret, version string) []any {
		return []any{doc{"name": "S", "valueSource": doc{"secretKeyRef": doc{"secret": secret, "version": version}}}}
	}
	limits := func(cpu, memory string) doc {
		return doc{box + "resources": doc{"limits": doc{"cpu": cpu, "memory": memory}}}
	}
	volume := func(v doc) []any { return []any{v} }
	long := strings.Repeat("x", 64)

	cases := []ruleCase{
		{"run-unsupported", of(create(doc{"binaryAuthorization": doc{"useDefault": true}}))},
		{"run-unsupported", of(create(doc{"template.delayExecution": true}))},
		{"run-unsupported", of(create(doc{task + "encryptionKey": "k"}))},
		{"run-unsupported", of(create(doc{task + "nodeSelector": doc{"accelerator": "x"}}))},
		{"run-unsupported", of(create(doc{box + "resources": doc{"limits": doc{"nvidia.com/gpu": "1"}}}))},
		{"run-unsupported", of(create(doc{box + "startupProbe": doc{}}))},
		{"run-unsupported", of(create(doc{task + "containers": []any{doc{"name": "a", "image": "app"}, doc{"name": "b", "image": "app"}}}))},
		{"run-unsupported", of(create(doc{task + "volumes": volume(doc{"name": "v", "emptyDir": doc{}}), box + "volumeMounts": []any{doc{"name": "v", "mountPath": "/v"}}}))},
		{"run-unsupported", of(run(doc{"delayExecution": true}))},
		{"run-unsupported", of("GET", jobs+"?showDeleted=true", nil)},
		{"run-unsupported", of("GET", location+"/operations?filter=x", nil)},
		{"run-location", of("GET", "/v2/projects/"+Project+"/locations/moon/jobs", nil)},
		{"run-job-missing", of("GET", jobs+"/none", nil)},
		{"run-job-missing", of("POST", jobs+"/none:run", nil)},
		{"run-job-missing", of("DELETE", jobs+"/none", nil)},
		{"run-job-missing", of("GET", jobs+"/none/executions", nil)},
		{"run-job-missing", of("PATCH", jobs+"/none", good)},
		{"run-execution-missing", of("GET", jobs+"/taken/executions/none", nil)},
		{"run-execution-missing", of("POST", jobs+"/taken/executions/none:cancel", doc{})},
		{"run-execution-missing", of("GET", jobs+"/taken/executions/none/tasks", nil)},
		{"run-task-missing", of("GET", "/v2/"+held.Name+"/tasks/none", nil)},
		{"run-operation-missing", of("GET", location+"/operations/none", nil)},
		{"run-job-id", of("POST", jobs+"?jobId=1a", good)},
		{"run-job-id", of("POST", jobs+"?jobId=a-", good)},
		{"run-job-id", of("POST", jobs+"?jobId="+strings.Repeat("a", 50), good)},
		{"run-job-exists", of("POST", jobs+"?jobId=taken", good)},
		{"run-job-required", of("POST", jobs+"?jobId=new", doc{})},
		{"run-job-required", of(create(doc{"template": doc{}}))},
		{"run-job-name", of(create(doc{"name": parent + "/jobs/other"}))},
		{"run-etag", of("DELETE", jobs+"/taken?etag=x", nil)},
		{"run-etag", of("POST", jobs+"/taken:run", doc{"etag": "x"})},
		{"run-etag", of("PATCH", jobs+"/taken", with(good, doc{"etag": "x"}))},
		{"run-etag", of("POST", "/v2/"+held.Name+":cancel", doc{"etag": "x"})},
		{"run-etag", of("DELETE", "/v2/"+held.Name+"?etag=x", nil)},
		{"run-execution-token", of(create(doc{"startExecutionToken": strings.Repeat("a", 60)}))},
		{"run-execution-token", of(create(doc{"runExecutionToken": "A"}))},
		{"run-label-count", of(create(doc{"labels": numbered(65, func(i int) (string, any) { return fmt.Sprintf("k%d", i), "v" })}))},
		{"run-label", of(create(doc{"labels": doc{"A": "v"}}))},
		{"run-label", of(create(doc{"labels": doc{"a": "V"}}))},
		{"run-label", of(create(doc{"labels": doc{long: "v"}}))},
		{"run-label", of(create(doc{"template.labels": doc{"a": long}}))},
		{"run-label-system", of(create(doc{"labels": doc{"run.googleapis.com/x": "v"}}))},
		{"run-label-system", of(create(doc{"annotations": doc{"serving.knative.dev/x": "v"}}))},
		{"run-annotation", of(create(doc{"annotations": doc{"a b": "v"}}))},
		{"run-annotation", of(create(doc{"template.annotations": doc{"a": strings.Repeat("x", 256<<10)}}))},
		{"run-launch-stage", of(create(doc{"launchStage": "DEPRECATED"}))},
		{"run-preview", of(create(doc{task + "timeout": "86401s"}))},
		{"run-task-count", of(create(doc{"template.taskCount": 10001}))},
		{"run-task-count", of(create(doc{"template.taskCount": -1}))},
		{"run-parallelism", of(create(doc{"template.parallelism": 2}))},
		{"run-max-retries", of(create(doc{task + "maxRetries": 11}))},
		{"run-max-retries", of(create(doc{task + "maxRetries": -1}))},
		{"run-timeout", of(create(doc{task + "timeout": "0.5s"}))},
		{"run-timeout", of(create(doc{"launchStage": "BETA", task + "timeout": "604801s"}))},
		{"run-service-account", of(create(doc{task + "serviceAccount": "me"}))},
		{"run-execution-environment", of(create(doc{task + "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN1"}))},
		{"run-containers", of(create(doc{task + "containers": []any{}}))},
		{"run-containers", of(create(doc{task + "containers": many(11, doc{"image": "app"})}))},
		{"run-container-name", of(create(doc{box + "name": "A"}))},
		{"run-container-name", of(create(doc{task + "containers": many(2, doc{"name": "a", "image": "app"})}))},
		{"run-image", of(create(doc{box + "image": nil}))},
		{"run-image", of(create(doc{box + "image": "a b"}))},
		{"run-ports", of(create(doc{box + "ports": []any{doc{"containerPort": 80}}}))},
		{"run-service-only", of(create(doc{box + "baseImageUri": "x"}))},
		{"run-service-only", of(create(doc{box + "resources": doc{"cpuIdle": true}}))},
		{"run-args", of(create(doc{box + "args": many(1001, "a")}))},
		{"run-args", of(run(doc{"containerOverrides": []any{doc{"args": many(1001, "a")}}}))},
		{"run-env-count", of(create(doc{box + "env": many(1001, doc{"name": "A"})}))},
		{"run-env-name", of(create(doc{box + "env": variable("", "v")}))},
		{"run-env-name", of(create(doc{box + "env": variable("A=B", "v")}))},
		{"run-env-reserved", of(create(doc{box + "env": variable("CLOUD_RUN_JOB", "v")}))},
		{"run-env-reserved", of(run(doc{"containerOverrides": []any{doc{"env": variable("CLOUD_RUN_TASK_INDEX", "v")}}}))},
		{"run-env-twice", of(create(doc{box + "env": many(2, doc{"name": "A"})}))},
		{"run-env-length", of(create(doc{box + "env": variable("A", strings.Repeat("x", 32769))}))},
		{"run-secret-ref", of(create(doc{box + "env": secretRef("taken", "")}))},
		{"run-secret-ref", of(create(doc{box + "env": secretRef("a/b", "1")}))},
		{"run-secret-missing", of(create(doc{box + "env": secretRef("none", "latest")}))},
		{"run-secret-missing", of(create(doc{box + "env": secretRef("taken", "2")}))},
		{"run-secret-missing", of(create(doc{box + "env": secretRef("gone", "1")}))},
		{"run-limits-key", of(create(doc{box + "resources": doc{"limits": doc{"disk": "1"}}}))},
		{"run-cpu", of(create(limits("0.5", "512Mi")))},
		{"run-cpu", of(create(limits("3", "2Gi")))},
		{"run-cpu", of(create(limits("much", "2Gi")))},
		{"run-memory", of(create(limits("1", "511Mi")))},
		{"run-memory", of(create(limits("8", "33Gi")))},
		{"run-memory", of(create(limits("1", "1 GB")))},
		{"run-cpu-memory", of(create(limits("1", "5Gi")))},
		{"run-cpu-memory", of(create(limits("2000m", "9Gi")))},
		{"run-cpu-memory", of(create(limits("4", "1Gi")))},
		{"run-cpu-memory", of(create(limits("6", "2Gi")))},
		{"run-cpu-memory", of(create(limits("6", "25Gi")))},
		{"run-volume-name", of(create(doc{task + "volumes": volume(doc{"name": "A", "emptyDir": doc{}})}))},
		{"run-volume-name", of(create(doc{task + "volumes": many(2, doc{"name": "a", "emptyDir": doc{}})}))},
		{"run-volume-type", of(create(doc{task + "volumes": volume(doc{"name": "a"})}))},
		{"run-volume-secret", of(create(doc{task + "volumes": volume(doc{"name": "a", "secret": doc{"secret": ""}})}))},
		{"run-volume-secret", of(create(doc{task + "volumes": volume(doc{"name": "a", "secret": doc{"secret": "taken", "defaultMode": 512}})}))},
		{"run-volume-secret", of(create(doc{task + "volumes": volume(doc{"name": "a", "secret": doc{"secret": "taken", "items": []any{doc{"path": "/x", "version": "1"}}}})}))},
		{"run-volume-mount", of(create(doc{box + "volumeMounts": []any{doc{"name": "none", "mountPath": "/v"}}}))},
		{"run-volume-mount", of(create(doc{task + "volumes": volume(doc{"name": "v", "emptyDir": doc{}}), box + "volumeMounts": []any{doc{"name": "v", "mountPath": "v"}}}))},
		{"run-vpc", of(create(doc{task + "vpcAccess": doc{}}))},
		{"run-vpc", of(create(doc{task + "vpcAccess": doc{"networkInterfaces": []any{doc{}}}}))},
		{"run-vpc", of(create(doc{task + "vpcAccess": doc{"connector": "c", "networkInterfaces": []any{doc{"network": "n"}}}}))},
		{"run-vpc-connector", of(create(doc{task + "vpcAccess": doc{"connector": "c/d"}}))},
		{"run-override-name", of(run(doc{"containerOverrides": []any{doc{"name": "none"}}}))},
		{"run-override-name", of(run(doc{"containerOverrides": many(2, doc{})}))},
		{"run-override-args", of(run(doc{"containerOverrides": []any{doc{"clearArgs": true, "args": []any{"a"}}}}))},
		{"run-override-task-count", of(run(doc{"taskCount": 10001}))},
		{"run-override-timeout", of(run(doc{"timeout": "0s"}))},
		{"run-execution-finished", of("POST", "/v2/"+over.Name+":cancel", doc{})},
		{"run-page-size", of("GET", jobs+"?pageSize=-1", nil)},

		{"logging-resource-names", of(list(doc{"resourceNames": []any{}}))},
		{"logging-resource-names-100", of(list(doc{"resourceNames": many(101, "projects/"+Project)}))},
		{"logging-resource-name", of(list(doc{"resourceNames": []any{"cats/felix"}}))},
		{"logging-order-by", of(list(doc{"orderBy": "severity"}))},
		{"logging-page-size", of(list(doc{"pageSize": 1001}))},
		{"logging-page-size", of(list(doc{"pageSize": -1}))},
		{"logging-filter-length", of(list(doc{"filter": strings.Repeat("x", 20001)}))},
		{"logging-filter", of(list(doc{"filter": `severity=`}))},
		{"logging-filter", of(list(doc{"filter": `cat="felix"`}))},
		{"logging-unsupported", of(list(doc{"filter": `ip_in_net(jsonPayload.ip, "10.0.0.0/8")`}))},
		{"logging-unsupported", of(list(doc{"resourceNames": []any{"projects/p/locations/l/buckets/b/views/v"}}))},

		{"secret-id", of("POST", "/v1/projects/"+Project+"/secrets?secretId=a.b", automatic)},
		{"secret-exists", of("POST", "/v1/projects/"+Project+"/secrets?secretId=taken", automatic)},
		{"secret-missing", of("GET", secrets+"/none", nil)},
		{"secret-missing", of("POST", secrets+"/none:addVersion", doc{"payload": doc{"data": "dg=="}})},
		{"secret-replication", of("POST", secrets+"?secretId=new", doc{})},
		{"secret-replication-immutable", of("PATCH", secrets+"/taken?updateMask=replication", automatic)},
		{"secret-update-mask", of("PATCH", secrets+"/taken", automatic)},
		{"secret-update-mask", of("PATCH", secrets+"/taken?updateMask=name", automatic)},
		{"secret-labels", of("POST", secrets+"?secretId=new", with(automatic, doc{"labels": doc{"A": "v"}}))},
		{"secret-labels", of("POST", secrets+"?secretId=new", with(automatic, doc{"labels": numbered(65, func(i int) (string, any) { return fmt.Sprintf("k%d", i), "v" })}))},
		{"secret-etag", of("DELETE", secrets+"/taken?etag=x", nil)},
		{"secret-payload", of("POST", secrets+"/taken:addVersion", doc{"payload": doc{}})},
		{"secret-payload-size", of("POST", secrets+"/taken:addVersion", doc{"payload": doc{"data": strings.Repeat("AAAA", 22000)}})},
		{"secret-payload-checksum", of("POST", secrets+"/taken:addVersion", doc{"payload": doc{"data": "dg==", "dataCrc32c": "1"}})},
		{"secret-version", of("GET", secrets+"/taken/versions/2:access", nil)},
		{"secret-version", of("GET", secrets+"/none/versions/latest:access", nil)},
		{"secret-version-state", of("GET", secrets+"/gone/versions/1:access", nil)},
		{"secret-version-destroyed", of("POST", secrets+"/gone/versions/1:enable", nil)},
		{"secret-page-size", of("GET", secrets+"?pageSize=-1", nil)},
		{"secret-unsupported", of("GET", secrets+"?filter=x", nil)},
		{"secret-unsupported", of("POST", secrets+"?secretId=new", with(automatic, doc{"ttl": "3600s"}))},
		{"secret-unsupported", of("GET", "/v1/projects/"+Project+"/locations/l/secrets/s", nil)},
	}
	cases = append(cases, serviceCases(t, c)...)
	untested, known, there := map[string]bool{}, map[string]codes.Code{}, map[string]bool{}
	for _, r := range Rules() {
		if there[r.ID] {
			t.Errorf("rule %s is there twice", r.ID)
		}
		if r.Text == "" || !strings.HasPrefix(r.Doc, "https://") {
			t.Errorf("rule %s has no text or no document", r.ID)
		}
		known[r.ID], there[r.ID], untested[r.ID] = r.Code, true, true
	}
	for _, k := range cases {
		status, header, reply := c.rest(t, k.call.method, k.call.path, k.call.body)
		if rule := header.Get("X-Pocket-Rule"); rule != k.rule || status != httpStatus(known[k.rule]) {
			t.Errorf("%s: %s %s got %d, rule %q, %v", k.rule, k.call.method, k.call.path, status, rule, reply)
		}
		delete(untested, k.rule)
	}
	for id, name := range ownTests() {
		if !there[id] || !testExists(t, name) {
			t.Errorf("rule %s or its test %s isn't there", id, name)
		}
		delete(untested, id)
	}
	for id := range untested {
		t.Errorf("rule %s has no case", id)
	}
}

// ownTests are the rules that need a cloud of their own making, each with the
// test that breaks it.
func ownTests() map[string]string {
	return map[string]string{gkeRule: "TestGKERules", "run-jobs-1000": "TestF16Quota", "run-executions-1000": "TestF16Quota", "run-deleting": "TestDelete", "run-operation-cancel": "TestOperations",
		"run-operation-running": "TestOperations", "run-retention": "TestRetention", "logging-reads": "TestF61Quota", "run-name": "TestNames", "run-traffic-revision": "TestServiceTraffic", "secret-name": "TestNames"}
}

// testExists looks for a test in the files of this package and those below.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*_test.go", "*/*_test.go"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(data), "\nfunc "+name+"(")
	})
}
