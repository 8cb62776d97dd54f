package gcp

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
)

// problem is the error of a REST reply.
func problem(reply doc) (status, message string, code float64) {
	e, _ := reply["error"].(doc)
	status, _ = e["status"].(string)
	message, _ = e["message"].(string)
	code, _ = e["code"].(float64)
	return status, message, code
}

// TestREST goes through a job's life by REST.
func TestREST(t *testing.T) {
	c := newCloud(t, Options{})
	job := doc{"template": doc{"template": doc{"maxRetries": 0, "timeout": "60s", "containers": []doc{{"image": "app", "command": []string{"sh", "-c", "echo hello; exit 0"}}}}}}
	status, _, op := c.rest(t, "POST", "/v2/"+parent+"/jobs?jobId=web&alt=json&prettyPrint=false&key=x", job)
	if status != 200 || !strings.HasPrefix(op["name"].(string), parent+"/operations/") || op["metadata"].(doc)["@type"] != "type.googleapis.com/google.cloud.run.v2.Job" {
		t.Fatalf("create: %d %v", status, op)
	}
	await := func(op doc) doc {
		t.Helper()
		for op["done"] != true {
			var status int
			if status, _, op = c.rest(t, "POST", "/v2/"+op["name"].(string)+":wait", doc{"timeout": "10s"}); status != 200 {
				t.Fatal(status, op)
			}
		}
		return op
	}
	if got := await(op)["response"].(doc); got["name"] != parent+"/jobs/web" || got["generation"] != "1" || got["template"].(doc)["template"].(doc)["maxRetries"] != 0.0 {
		t.Errorf("the job is %v", got)
	}
	_, _, op = c.rest(t, "POST", "/v2/"+parent+"/jobs/web:run", nil)
	name := op["metadata"].(doc)["name"].(string)
	testwait.Until(t, long, "execution that succeeded", func() bool {
		_, _, e := c.rest(t, "GET", "/v2/"+name, nil)
		return e["succeededCount"] == 1.0 && e["completionTime"] != nil
	})
	_, _, list := c.rest(t, "GET", "/v2/"+parent+"/jobs/web/executions?pageSize=1", nil)
	if e := list["executions"].([]any)[0].(doc); e["name"] != name || e["conditions"].([]any)[0].(doc)["state"] != "CONDITION_SUCCEEDED" {
		t.Errorf("the execution is %v", e)
	}
	_, _, list = c.rest(t, "GET", "/v2/"+name+"?$alt=json%3Benum-encoding=int", nil)
	if e := list["conditions"].([]any)[0].(doc); e["state"] != 4.0 {
		t.Errorf("with enums as numbers the condition is %v", e)
	}
	_, _, tasks := c.rest(t, "GET", "/v2/"+name+"/tasks", nil)
	if got := tasks["tasks"].([]any)[0].(doc)["lastAttemptResult"]; got == nil {
		t.Errorf("the tasks are %v", tasks)
	}
	status, _, logs := c.rest(t, "POST", "/v2/entries:list", doc{"resourceNames": []string{"projects/" + Project}, "filter": `resource.type="cloud_run_job" AND textPayload="HELLO"`})
	if status != 200 || logs["entries"].([]any)[0].(doc)["textPayload"] != "hello" {
		t.Errorf("entries.list: %d %v", status, logs)
	}
	if _, err := c.Secrets().Put("s", []byte("v")); err != nil {
		t.Fatal(err)
	}
	status, _, secret := c.rest(t, "GET", "/v1/projects/"+Project+"/secrets/s/versions/latest:access", nil)
	if status != 200 || secret["payload"].(doc)["data"] != "dg==" || secret["name"] != "projects/"+Number+"/secrets/s/versions/1" {
		t.Errorf("access: %d %v", status, secret)
	}
	_, _, ops := c.rest(t, "GET", "/v2/"+parent+"/operations", nil)
	if len(ops["operations"].([]any)) != 2 {
		t.Errorf("operations: %v", ops)
	}
	if status, _, got := c.rest(t, "DELETE", "/v2/"+op["name"].(string), nil); status != 200 || len(got) != 0 {
		t.Errorf("delete of an operation: %d %v", status, got)
	}
	_, _, op = c.rest(t, "DELETE", "/v2/"+parent+"/jobs/web", nil)
	if got := await(op)["response"].(doc); got["deleteTime"] == nil {
		t.Errorf("the deleted job is %v", got)
	}
	status, header, gone := c.rest(t, "GET", "/v2/"+parent+"/jobs/web", nil)
	if kind, message, code := problem(gone); status != 404 || code != 404 || kind != "NOT_FOUND" || !strings.Contains(message, "does not exist") || header.Get("X-Pocket-Rule") != "run-job-missing" {
		t.Errorf("a job that is gone: %d %v %v", status, gone, header)
	}
}

// TestRESTRefuses sends what Google's front end refuses.
func TestRESTRefuses(t *testing.T) {
	c := newCloud(t, Options{})
	good := doc{"template": doc{"template": doc{"containers": []doc{{"image": "app"}}}}}
	for name, k := range map[string]struct {
		method, path string
		body         any
		status       int
		kind         string
	}{
		"unknown member":      {"POST", "/v2/" + parent + "/jobs?jobId=a", doc{"templat": doc{}}, 400, "INVALID_ARGUMENT"},
		"unknown deep inside": {"POST", "/v2/" + parent + "/jobs?jobId=a", doc{"template": doc{"template": doc{"containers": []doc{{"image": "app", "cmd": "x"}}}}}, 400, "INVALID_ARGUMENT"},
		"wrong type":          {"POST", "/v2/" + parent + "/jobs?jobId=a", doc{"template": 7}, 400, "INVALID_ARGUMENT"},
		"wrong enum":          {"POST", "/v2/" + parent + "/jobs?jobId=a", doc{"launchStage": "MOON"}, 400, "INVALID_ARGUMENT"},
		"unknown parameter":   {"POST", "/v2/" + parent + "/jobs?jobID=a", good, 400, "INVALID_ARGUMENT"},
		"no object":           {"POST", "/v2/" + parent + "/jobs?jobId=a", []string{}, 400, "INVALID_ARGUMENT"},
		"no such path":        {"GET", "/v2/" + parent + "/cats", nil, 404, "NOT_FOUND"},
		"no such verb":        {"POST", "/v2/" + parent + "/jobs/a:walk", nil, 404, "NOT_FOUND"},
		"other encoding":      {"GET", "/v2/" + parent + "/jobs?alt=proto", nil, 400, "INVALID_ARGUMENT"},
		"broken rule":         {"POST", "/v2/" + parent + "/jobs?jobId=A", good, 400, "INVALID_ARGUMENT"},
		"unimplemented":       {"POST", "/v2/" + parent + "/jobs/a:setIamPolicy", doc{}, 501, "UNIMPLEMENTED"},
		"worker pools":        {"GET", "/v2/" + parent + "/workerPools", nil, 404, "NOT_FOUND"},
	} {
		status, _, reply := c.rest(t, k.method, k.path, k.body)
		if kind, message, code := problem(reply); status != k.status || kind != k.kind || code != float64(k.status) || message == "" {
			t.Errorf("%s: got %d %v, want %d %s", name, status, reply, k.status, k.kind)
		}
	}
	status, _, reply := c.rest(t, "POST", "/v2/"+parent+"/jobs?jobId=A", good)
	details, _ := reply["error"].(doc)["details"].([]any)
	if status != 400 || len(details) != 1 || details[0].(doc)["@type"] != "type.googleapis.com/google.rpc.BadRequest" || details[0].(doc)["fieldViolations"].([]any)[0].(doc)["field"] != "CreateJobRequest.job_id" {
		t.Errorf("a violation is %v", reply)
	}
	counts := slices.Sorted(maps.Keys(c.Calls().Counts()))
	if !slices.Contains(counts, "rest:GET /v2/"+parent+"/cats") || c.Calls().Count("run:CreateJob") != 2 {
		t.Errorf("calls were recorded as %v", counts)
	}
}

// TestToken lets nobody in without the token.
func TestToken(t *testing.T) {
	c := newCloud(t, Options{Token: "secret"})
	status, _, reply := c.rest(t, "GET", "/v2/"+parent+"/jobs", nil)
	if kind, _, _ := problem(reply); status != 401 || kind != "UNAUTHENTICATED" {
		t.Errorf("without a token: %d %v", status, reply)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/v2/"+parent+"/jobs", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	resp, err := c.web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with the token: %d", resp.StatusCode)
	}
}
