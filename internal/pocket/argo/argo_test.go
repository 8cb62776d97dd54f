package argo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	kubePath = "/apis/argoproj.io/v1alpha1/namespaces/jobs/workflows"
	restPath = "/api/v1/workflows/jobs"
	patience = time.Minute
)

func serve(t *testing.T) (*Server, func(method, path, body string) (int, string)) {
	t.Helper()
	s := New(Options{Executor: run.NewProcesses(nil)})
	web := httptest.NewServer(s)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(func() {
		web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
		req.Header.Set("Authorization", "Bearer "+Token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
}

// flow is a Workflow; change replaces texts in it.
func flow(change ...string) string {
	return strings.NewReplacer(change...).Replace(`{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{"name":"w"},"spec":{"entrypoint":"main",
		"templates":[{"name":"main","container":{"image":"x","command":["sh","-c","echo out; exit 3"]}}]}}`)
}

// phase waits for a Workflow's end, or that it is gone.
func phase(t *testing.T, call func(method, path, body string) (int, string)) (w workflow) {
	t.Helper()
	testwait.Until(t, patience, "end of the Workflow", func() bool {
		code, text := call(http.MethodGet, kubePath+"/w", "")
		w = workflow{}
		return code == http.StatusOK && json.Unmarshal([]byte(text), &w) == nil && done(w.Status.Phase)
	})
	return w
}

// TestRefuses: what the CRD's schema refuses is refused, and what Argo's validation
// refuses is by Argo Server, and ends a Workflow in error otherwise.
func TestRefuses(t *testing.T) {
	for name, k := range map[string]struct {
		body string
		text string
		// late: the API server takes it.
		late bool
	}{
		"unknown member":   {flow(`"entrypoint"`, `"entryPoint"`), "unknown field", false},
		"another kind":     {flow(`"kind":"Workflow"`, `"kind":"CronWorkflow"`), "not a Workflow", false},
		"deadline":         {flow(`"container"`, `"activeDeadlineSeconds":0,"container"`), "activeDeadlineSeconds", false},
		"name":             {flow(`"name":"w"`, `"name":"W"`), "metadata.name", false},
		"entry point":      {flow(`"entrypoint":"main"`, `"entrypoint":"other"`), "undefined", true},
		"no entry point":   {flow(`"entrypoint":"main",`, ``), "spec.entrypoint is required", true},
		"no type":          {flow(`"container":{"image":"x","command":["sh","-c","echo out; exit 3"]}`, `"activeDeadlineSeconds":5`), "template type unspecified", true},
		"no image":         {flow(`"image":"x"`, `"name":"main"`), "image may not be empty", true},
		"expression":       {flow(`echo out`, `echo {{=x}}`), "failed to evaluate", true},
		"no account":       {flow(`"entrypoint"`, `"automountServiceAccountToken":false,"entrypoint"`), "executor.serviceAccountName must not be empty", true},
		"template's name":  {flow(`"name":"main"`, `"name":"ma in"`), "is invalid", true},
		"another strategy": {flow(`"entrypoint"`, `"podGC":{"strategy":"Never"},"entrypoint"`), "unknown strategy", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, call := serve(t)
			code, text := call(http.MethodPost, restPath, `{"namespace":"jobs","workflow":`+k.body+`}`)
			if code < 400 || !strings.Contains(text, `"code":`) {
				t.Errorf("Argo Server: %d %s", code, text)
			}
			if k.late && !strings.Contains(text, k.text) {
				t.Errorf("Argo Server says %s, want %q", text, k.text)
			}
			code, text = call(http.MethodPost, kubePath, k.body)
			if !k.late {
				if code < 400 || !strings.Contains(text, k.text) {
					t.Errorf("the API server: %d %s", code, text)
				}
				return
			}
			if code != http.StatusCreated {
				t.Fatalf("the API server: %d %s", code, text)
			}
			if w := phase(t, call); w.Status.Phase != "Error" || !strings.Contains(w.Status.Message, k.text) {
				t.Errorf("%s: %s", w.Status.Phase, w.Status.Message)
			}
		})
	}
}

// TestRuns: a Workflow's life, as it is told by either API.
func TestRuns(t *testing.T) {
	_, call := serve(t)
	if code, text := call(http.MethodPost, restPath, `{"namespace":"jobs","workflow":`+flow(`echo out`, `echo {{workflow.name}}`)+`}`); code != 200 {
		t.Fatalf("create: %d %s", code, text)
	}
	if code, text := call(http.MethodPost, restPath, `{"namespace":"jobs","workflow":`+flow()+`}`); code != 409 || !strings.Contains(text, `"code":6`) {
		t.Errorf("a second: %d %s", code, text)
	}
	w := phase(t, call)
	n := w.Status.Nodes["w"]
	if w.Status.Phase != "Failed" || n.Message != "main: Error (exit code 3)" || n.Outputs == nil || *n.Outputs.ExitCode != "3" {
		t.Errorf("%s: %+v", w.Status.Phase, n)
	}
	if code, text := call(http.MethodGet, restPath+"/w/log?logOptions.container=main", ""); code != 200 || !strings.HasPrefix(text, `{"result":{"content":"w","podName":"w"}}`+"\n") || !strings.Contains(text, "sub-process exited") {
		t.Errorf("log: %d %s", code, text)
	}
	if code, text := call(http.MethodPut, restPath+"/w/terminate", `{}`); code != 500 || !strings.Contains(text, "cannot shutdown a completed workflow") {
		t.Errorf("terminate: %d %s", code, text)
	}
	if code, text := call(http.MethodDelete, restPath+"/w", ""); code != 200 || text != "{}" {
		t.Errorf("delete: %d %s", code, text)
	}
	if code, text := call(http.MethodGet, restPath+"/w", ""); code != 404 || !strings.Contains(text, `"code":5`) {
		t.Errorf("get: %d %s", code, text)
	}
	for _, path := range []string{restPath + "/w/retry", "/api/v1/workflows", restPath + "/w/log/x"} {
		if code, _ := call(http.MethodGet, path, ""); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestTerminate: a Workflow that is told to end is over once its pod is, not before.
func TestTerminate(t *testing.T) {
	_, call := serve(t)
	if code, text := call(http.MethodPost, kubePath, flow(`echo out; exit 3`, `trap 'exit 4' TERM; while :; do sleep 0.01; done`)); code != 201 {
		t.Fatal(text)
	}
	testwait.Until(t, patience, "running pod", func() bool {
		_, text := call(http.MethodGet, kubePath+"/w", "")
		return strings.Contains(text, `{"type":"PodRunning","status":"True"}`)
	})
	if code, text := call(http.MethodPatch, kubePath+"/w", `{"spec":{"shutdown":"Terminate"}}`); code != 200 {
		t.Fatal(text)
	}
	w := phase(t, call)
	if n := w.Status.Nodes["w"]; w.Status.Message != "Stopped with strategy 'Terminate'" || n.Outputs == nil || *n.Outputs.ExitCode != "4" && *n.Outputs.ExitCode != "143" {
		t.Errorf("%s: %+v", w.Status.Message, n)
	}
}
