package kube

import (
	"net/http"
	"strings"
	"testing"
)

// TestStanding: what is there without anybody's doing can be read and not changed;
// what isn't there is missed, in a namespace that isn't there all.
func TestStanding(t *testing.T) {
	s, call := serve(t)
	s.TuneKnobs(func(k *Knobs) { k.Unschedulable = "no node" })
	if code, text := call(http.MethodPost, jobsPath, typeJSON, job()); code != 201 {
		t.Fatal(text)
	}
	for _, k := range []struct {
		method, path string
		code         int
		text         string
	}{
		{http.MethodGet, "/api/v1/namespaces/jobs", 200, `"name":"jobs"`},
		{http.MethodGet, "/api/v1/namespaces/jbos", 404, `namespaces \"jbos\" not found`},
		{http.MethodDelete, "/api/v1/namespaces/jobs", 405, "MethodNotAllowed"},
		{http.MethodGet, "/api/v1/namespaces/jobs/serviceaccounts/jobs", 200, `"name":"jobs"`},
		{http.MethodGet, "/api/v1/namespaces/jobs/serviceaccounts/other", 404, `serviceaccounts \"other\" not found`},
		{http.MethodGet, "/api/v1/namespaces/other/serviceaccounts/jobs", 404, "not found"},
		{http.MethodGet, "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", 200, "system-node-critical"},
		{http.MethodGet, "/apis/scheduling.k8s.io/v1/priorityclasses/high", 404, "not found"},
		{http.MethodGet, "/apis/node.k8s.io/v1/runtimeclasses/gvisor", 404, "not found"},
		{http.MethodGet, "/api/v1/nodes/n", 404, "the server could not find the requested resource"},
		{http.MethodGet, "/apis/batch/v1/namespaces/other/jobs", 200, `"items":[]`},
		{http.MethodGet, jobsPath, 200, `"name":"j"`},
	} {
		if code, text := call(k.method, k.path, typeJSON, ""); code != k.code || !strings.Contains(text, k.text) {
			t.Errorf("%s %s: %d %s", k.method, k.path, code, text)
		}
	}
	s.TuneKnobs(func(k *Knobs) { k.Denied = []string{"get namespaces"} })
	if code, text := call(http.MethodGet, "/api/v1/namespaces/jobs", "", ""); code != 403 || !strings.Contains(text, `namespaces \"jobs\" is forbidden`) {
		t.Errorf("%d %s", code, text)
	}
}

// TestRefusesPod: a Job's pod that names what isn't there isn't made, and the Job
// stays.
func TestRefusesPod(t *testing.T) {
	for text, made := range map[string]bool{`"serviceAccountName":"jobs"`: true, `"serviceAccountName":"other"`: false, `"priorityClassName":"high"`: false, `"runtimeClassName":"gvisor"`: false} {
		s, call := serve(t)
		s.TuneKnobs(func(k *Knobs) { k.Unschedulable = "no node" })
		if code, answer := call(http.MethodPost, jobsPath, typeJSON, job(`"restartPolicy"`, text+`,"restartPolicy"`)); code != 201 {
			t.Fatal(answer)
		}
		if _, list := call(http.MethodGet, podsPath, "", ""); strings.Contains(list, `"kind":"PodList"`) && strings.Contains(list, `"name":"j-`) != made {
			t.Errorf("%s: %s", text, list)
		}
		if code, answer := call(http.MethodGet, jobsPath+"/j", "", ""); code != 200 || strings.Contains(answer, `"conditions"`) {
			t.Errorf("%s: %s", text, answer)
		}
	}
}
