package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T) (*Server, func(method, path, media, body string) (int, string)) {
	t.Helper()
	s := New(Options{Executor: run.NewProcesses(nil)})
	return s, serveOn(t, s)
}

// serveOn serves a server until the test is over, and gives what calls it.
func serveOn(t *testing.T, s *Server) func(method, path, media, body string) (int, string) {
	web := httptest.NewServer(s)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	t.Cleanup(func() {
		web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(method, path, media, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", media)
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

const (
	jobsPath = "/apis/batch/v1/namespaces/jobs/jobs"
	podsPath = "/api/v1/namespaces/jobs/pods"
	typeJSON = "application/json"
	mergeOf  = "application/merge-patch+json"
)

// job is a Job whose pod runs until it is told to end; change replaces texts in it.
func job(change ...string) string {
	return strings.NewReplacer(change...).Replace(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","labels":{"a":"b"}},"spec":{"backoffLimit":0,"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"x","command":["sleep","100"]}]}}}}`)
}

// TestRefuses: what the API refuses is refused in its way.
func TestRefuses(t *testing.T) {
	_, call := serve(t)
	for name, k := range map[string]struct {
		body string
		code int
		text string
	}{
		"unknown field":  {job(`"backoffLimit"`, `"backofLimit"`), 400, `unknown field`},
		"another kind":   {job(`"kind":"Job"`, `"kind":"CronJob"`), 400, "not a Job"},
		"name":           {job(`"name":"j"`, `"name":"J"`), 422, "metadata.name"},
		"long name":      {job(`"name":"j"`, `"name":"`+strings.Repeat("j", 64)+`"`), 422, "pods' label"},
		"label":          {job(`"a":"b"`, `"a":"`+strings.Repeat("b", 64)+`"`), 422, "labels"},
		"restart policy": {job(`"Never"`, `"Always"`), 422, "restartPolicy"},
		"no image":       {job(`"image":"x",`, ``), 422, "image"},
		"no container":   {job(`{"name":"main","image":"x","command":["sleep","100"]}`, ``), 422, "containers"},
		"deadline":       {job(`"restartPolicy"`, `"activeDeadlineSeconds":0,"restartPolicy"`), 422, "activeDeadlineSeconds"},
		"mount":          {job(`"image":"x"`, `"image":"x","volumeMounts":[{"name":"v","mountPath":"/v"}]`), 422, "volumeMounts"},
	} {
		if code, text := call(http.MethodPost, jobsPath, typeJSON, k.body); code != k.code || !strings.Contains(text, k.text) || !strings.Contains(text, `"kind":"Status"`) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if code, _ := call(http.MethodPost, "/apis/batch/v1/namespaces/other/jobs", typeJSON, job()); code != 404 {
		t.Errorf("another namespace: %d", code)
	}
	if code, _ := call(http.MethodPost, jobsPath, typeJSON, job()); code != 201 {
		t.Errorf("a good Job: %d", code)
	}
	if code, text := call(http.MethodPost, jobsPath, typeJSON, job()); code != 409 || !strings.Contains(text, "AlreadyExists") {
		t.Errorf("a second Job: %d %s", code, text)
	}
}

// TestMayChange: a pod's deadline can be lowered and nothing else changed; a Job's
// template can't.
func TestMayChange(t *testing.T) {
	s, call := serve(t)
	if code, text := call(http.MethodPost, jobsPath, typeJSON, job()); code != 201 {
		t.Fatal(text)
	}
	pod := podsPath + "/" + s.Pods()[0]
	for _, k := range []struct {
		path, media, patch string
		code               int
	}{
		{pod, mergeOf, `{"spec":{"activeDeadlineSeconds":50}}`, 200},
		{pod, mergeOf, `{"spec":{"activeDeadlineSeconds":60}}`, 422},
		{pod, mergeOf, `{"spec":{"activeDeadlineSeconds":null}}`, 422},
		{pod, mergeOf, `{"spec":{"activeDeadlineSeconds":0}}`, 422},
		{pod, mergeOf, `{"spec":{"hostNetwork":true}}`, 403},
		{pod, mergeOf, `{"spec":{"deadline":1}}`, 400},
		{pod, mergeOf, `{"metadata":{"uid":"another"}}`, 409},
		{pod, "application/json-patch+json", `[]`, 415},
		{jobsPath + "/j", mergeOf, `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`, 422},
		{jobsPath + "/j", mergeOf, `{"metadata":{"labels":{"c":"d"}}}`, 200},
		{jobsPath + "/k", mergeOf, `{}`, 404},
	} {
		// A pod that is about to run changes by itself, which is no reason to refuse.
		if code, text := call(http.MethodPatch, k.path, k.media, k.patch); code != k.code {
			t.Errorf("%s: %d %s, want %d", k.patch, code, text, k.code)
		}
	}
	if code, _ := call(http.MethodDelete, jobsPath+"/j", typeJSON, `{"preconditions":{"uid":"another"}}`); code != 409 {
		t.Errorf("the deletion of another Job: %d", code)
	}
}

// TestPages: a list comes in pages, by label.
func TestPages(t *testing.T) {
	s, call := serve(t)
	s.TuneKnobs(func(k *Knobs) { k.StartDelay = time.Hour })
	for _, name := range []string{"a", "b", "c"} {
		if code, text := call(http.MethodPost, jobsPath, typeJSON, job(`"name":"j"`, `"name":"`+name+`"`)); code != 201 {
			t.Fatal(text)
		}
	}
	if _, text := call(http.MethodGet, jobsPath+"?limit=2", "", ""); strings.Count(text, `"kind":"Job"`) != 2 || !strings.Contains(text, `"continue":"b"`) {
		t.Errorf("the first page is %s", text)
	}
	if _, text := call(http.MethodGet, jobsPath+"?limit=2&continue=b", "", ""); strings.Count(text, `"kind":"Job"`) != 1 || strings.Contains(text, `"continue"`) {
		t.Errorf("the second page is %s", text)
	}
	if _, text := call(http.MethodGet, jobsPath+"?labelSelector=a%3Dc", "", ""); strings.Contains(text, `"kind":"Job"`) {
		t.Errorf("a selector chooses %s", text)
	}
	if code, _ := call(http.MethodGet, jobsPath+"?labelSelector=a%3D%3D%3D", "", ""); code != 400 {
		t.Errorf("a selector that is none: %d", code)
	}
	if code, text := call(http.MethodGet, podsPath+"/"+s.Pods()[0]+"/log?container=main", "", ""); code != 400 || !strings.Contains(text, "waiting to start") {
		t.Errorf("the log of a pod that waits: %d %s", code, text)
	}
}

func TestExpand(t *testing.T) {
	for in, want := range map[string]string{"$(A)": "1", "$$(A)": "$(A)", "$(B)": "$(B)", "$": "$", "$$": "$", "$x": "$x", "$(A": "$(A", "a$(A)$$b": "a1$b"} {
		if got := expand(in, map[string]string{"A": "1"}); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
