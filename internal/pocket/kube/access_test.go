package kube

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// TestAccess: an unknown token is refused everywhere, and one that may only look
// where something would change, in the words of the API server.
func TestAccess(t *testing.T) {
	s := New(Options{Executor: run.NewProcesses(nil), Access: Access{Token: "all", Read: "look"}})
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	call := func(method, path, auth, body string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", auth)
		r.Header.Set("Content-Type", mergeOf)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		data, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(data)
	}
	const reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	review := func(verb string) string {
		return `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"namespace":"jobs","verb":"` + verb + `","group":"batch","resource":"jobs"}}}`
	}
	pending := job()
	s.TuneKnobs(func(k *Knobs) { k.Unschedulable = "no node" })
	for _, k := range []struct {
		method, path, auth, body string
		code                     int
		text                     string
	}{
		{http.MethodGet, jobsPath, "", "", 401, `"reason":"Unauthorized"`},
		{http.MethodGet, jobsPath, "Bearer ", "", 401, `"message":"Unauthorized"`},
		{http.MethodGet, jobsPath, "Bearer other", "", 401, `"kind":"Status"`},
		{http.MethodGet, jobsPath, "Basic all", "", 401, "Unauthorized"},
		{http.MethodGet, jobsPath, "all", "", 401, "Unauthorized"},
		{http.MethodGet, jobsPath + "?watch=true&resourceVersion=1", "Bearer other", "", 401, "Unauthorized"},
		{http.MethodGet, podsPath + "/p/log", "Bearer other", "", 401, "Unauthorized"},
		{http.MethodGet, "/apis/nothing", "Bearer other", "", 401, "Unauthorized"},
		{http.MethodPost, reviews, "Bearer other", review("get"), 401, "Unauthorized"},
		{http.MethodPost, jobsPath, "Bearer look", pending, 403, `jobs.batch is forbidden: User \"reader\" cannot create resource \"jobs\" in API group \"batch\" in the namespace \"jobs\"`},
		{http.MethodPost, jobsPath, "Bearer all", pending, 201, `"kind":"Job"`},
		{http.MethodPatch, jobsPath + "/j", "Bearer look", "{}", 403, `jobs.batch \"j\" is forbidden`},
		{http.MethodDelete, "/api/v1/namespaces/jobs/secrets/x", "Bearer look", "", 403, `secrets \"x\" is forbidden: User \"reader\" cannot delete resource \"secrets\" in API group \"\"`},
		{http.MethodGet, jobsPath + "/j", "Bearer look", "", 200, `"kind":"Job"`},
		{http.MethodGet, jobsPath, "Bearer look", "", 200, `"kind":"JobList"`},
		{http.MethodPost, reviews, "Bearer look", review("create"), 201, `"allowed":false`},
		{http.MethodPost, reviews, "Bearer look", review("watch"), 201, `"allowed":true`},
		{http.MethodPost, reviews, "Bearer all", review("create"), 201, `"allowed":true`},
	} {
		if code, text := call(k.method, k.path, k.auth, k.body); code != k.code || !strings.Contains(text, k.text) {
			t.Errorf("%s %s with %q: %d %s", k.method, k.path, k.auth, code, text)
		}
	}
}

// TestAnotherLife: a server that follows another takes no place or identity of its
// objects for one of its own.
func TestAnotherLife(t *testing.T) {
	_, call := serve(t)
	if code, text := call(http.MethodGet, podsPath+"?watch=true&resourceVersion=150", "", ""); code != 410 || !strings.Contains(text, `"reason":"Expired"`) {
		t.Errorf("a watch from the place of another server: %d %s", code, text)
	}
	uids := map[string]bool{}
	for range 2 {
		s, call := serve(t)
		s.TuneKnobs(func(k *Knobs) { k.Unschedulable = "no node" })
		_, text := call(http.MethodPost, jobsPath, typeJSON, job())
		_, uid, _ := strings.Cut(text, `"uid":"`)
		uid, _, _ = strings.Cut(uid, `"`)
		uids[uid] = true
	}
	if len(uids) != 2 || uids[""] {
		t.Errorf("the UIDs of two servers' Jobs are %v", uids)
	}
}

// TestForgetsOldChanges: changes beyond a bound are forgotten, and who watches from
// before them is told.
func TestForgetsOldChanges(t *testing.T) {
	s, call := serve(t)
	s.TuneKnobs(func(k *Knobs) { k.Unschedulable = "no node" })
	s.mu.Lock()
	begin := s.version
	s.mu.Unlock()
	if code, text := call(http.MethodPost, jobsPath, typeJSON, job()); code != 201 {
		t.Fatal(text)
	}
	s.mu.Lock()
	o, _ := s.get("jobs", "j")
	for range maxHistory {
		s.put("jobs", o, "MODIFIED")
	}
	kept := len(s.history)
	s.mu.Unlock()
	if kept > maxHistory {
		t.Errorf("%d changes are kept", kept)
	}
	if code, text := call(http.MethodGet, jobsPath+"?watch=true&resourceVersion="+strconv.FormatInt(begin, 10), "", ""); code != 410 {
		t.Errorf("a watch from the beginning: %d %s", code, text)
	}
}

// TestSecretText: a Secret that is written as text is kept as its bytes.
func TestSecretText(t *testing.T) {
	_, call := serve(t)
	const at = "/api/v1/namespaces/jobs/secrets"
	code, text := call(http.MethodPost, at, typeJSON, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"eA=="},"stringData":{"b":"opens-db"}}`)
	if code != 201 || !strings.Contains(text, `"data":{"a":"eA==","b":"b3BlbnMtZGI="}`) || strings.Contains(text, "stringData") {
		t.Errorf("%d %s", code, text)
	}
}

// TestCertificate: it is the token's, good on the loopback alone, and needs no other
// authority than itself.
func TestCertificate(t *testing.T) {
	var pems []string
	for _, token := range []string{"a", "a", "b"} {
		c, authority, err := Access{Token: token}.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		pems = append(pems, string(authority))
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authority) {
			t.Fatalf("no PEM: %s", authority)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"127.0.0.1", "localhost"} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
		if leaf.VerifyHostname("example.com") == nil {
			t.Error("it is good elsewhere")
		}
	}
	if pems[0] != pems[1] || pems[0] == pems[2] {
		t.Error("the certificates aren't the tokens'")
	}
}
