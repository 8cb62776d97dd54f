package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzF14LabelValue: any text becomes a legal label's value, and different texts
// different ones.
func FuzzF14LabelValue(f *testing.F) {
	f.Add("ann@laptop", "ann-laptop")
	f.Add(strings.Repeat("a", 64), strings.Repeat("a", 65))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := LabelValue(a), LabelValue(b)
		if msgs := validation.IsValidLabelValue(x); len(msgs) > 0 {
			t.Errorf("%q becomes %q: %v", a, x, msgs)
		}
		if a != b && x == y {
			t.Errorf("%q and %q both become %q", a, b, x)
		}
	})
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const twoContexts = `{"apiVersion":"v1","kind":"Config","current-context":"one","clusters":[{"name":"k","cluster":{"server":"SERVER"}}],
"users":[{"name":"u","user":USER}],"contexts":[{"name":"one","context":{"cluster":"k","user":"u"}},{"name":"two","context":{"cluster":"k","user":"u","namespace":"batch"}}]}`

func config(t *testing.T, server, user string) map[string]string {
	t.Helper()
	return map[string]string{"KUBECONFIG": write(t, "config", strings.NewReplacer("SERVER", server, "USER", user).Replace(twoContexts))}
}

// TestOpen finds the cluster by kubeconfig, home folder and service account.
func TestOpen(t *testing.T) {
	file := config(t, "https://k8s.example:6443", "{}")
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file["KUBECONFIG"])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".kube", "config"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	account := t.TempDir()
	for name, text := range map[string]string{"namespace": "mine\n", "token": "t"} {
		if err := os.WriteFile(filepath.Join(account, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
	for name, k := range map[string]struct {
		s                 Settings
		server, namespace string
		code              sdk.Code
	}{
		"current context":   {Settings{Credentials: file}, "https://k8s.example:6443", "default", 0},
		"named context":     {Settings{Credentials: file, Context: "two"}, "https://k8s.example:6443", "batch", 0},
		"own namespace":     {Settings{Credentials: file, Context: "two", Namespace: "x"}, "https://k8s.example:6443", "x", 0},
		"unknown context":   {Settings{Credentials: file, Context: "three"}, "", "", sdk.InvalidArgument},
		"home":              {Settings{Credentials: map[string]string{"HOME": home}, Ambient: true}, "https://k8s.example:6443", "default", 0},
		"home, not ambient": {Settings{Credentials: map[string]string{"HOME": home}}, "", "", sdk.Unauthenticated},
		"no file":           {Settings{Credentials: map[string]string{"KUBECONFIG": "/nowhere/config"}}, "", "", sdk.Unauthenticated},
		"a file that is named": {Settings{File: file["KUBECONFIG"], Credentials: map[string]string{"KUBECONFIG": "/nowhere/config"}},
			"https://k8s.example:6443", "default", 0},
		"a file that isn't there": {Settings{File: "/nowhere/config", Credentials: file}, "", "", sdk.Unauthenticated},
		"none, and within a pod":  {Settings{File: "/nowhere/config", Credentials: pod, Account: account, Ambient: true}, "", "", sdk.Unauthenticated},
		"pod, not ambient":        {Settings{Credentials: pod, Account: account}, "", "", sdk.Unauthenticated},
	} {
		x, err := Open(k.s)
		if k.code != 0 {
			if sdk.CodeOf(err) != k.code {
				t.Errorf("%s: got %v, want %s", name, err, k.code)
			}
			continue
		}
		if err != nil || x.Server != k.server || x.Namespace != k.namespace {
			t.Errorf("%s: got %+v, %v", name, x, err)
		}
	}
	empty := filepath.Join(home, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Settings{
		"there is no kubeconfig /nowhere/config":    {File: "/nowhere/config"},
		"no context is in the kubeconfig " + empty:  {File: empty},
		"no kubeconfig is named":                    {Credentials: map[string]string{"HOME": home}},
		"there is no kubeconfig /nowhere/a, /non/b": {Credentials: map[string]string{"KUBECONFIG": "/nowhere/a" + string(filepath.ListSeparator) + "/non/b"}},
	} {
		if _, err := Open(s); err == nil || !strings.Contains(err.Error(), want+"; set kubeconfig") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// A pod's authority must be there to be trusted.
	if _, err := Open(Settings{Credentials: pod, Account: account, Ambient: true}); err == nil {
		t.Error("a pod without a certificate authority is taken")
	}
}

// TestNamedFileIsHarmless: a kubeconfig that a provider's config names has no program
// run, and no file read for a token, since others may have written that config. One
// that KUBECONFIG names may.
func TestNamedFileIsHarmless(t *testing.T) {
	secret := write(t, "id", "canary-of-a-file")
	for name, user := range map[string]string{
		"exec":      `{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"/bin/true","interactiveMode":"Never"}}`,
		"tokenFile": `{"tokenFile":"` + secret + `"}`,
		"provider":  `{"auth-provider":{"name":"oidc"}}`,
	} {
		c := config(t, "https://k8s.example:6443", user)
		x, err := Open(Settings{File: c["KUBECONFIG"]})
		var e *sdk.Error
		if x != nil || !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field != "config.kubeconfig" || !strings.Contains(e.Remedy, "KUBECONFIG") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", name, err)
		}
		if name == "provider" {
			continue // client-go has none of them any more
		}
		if _, err := Open(Settings{Credentials: c}); err != nil {
			t.Errorf("%s by KUBECONFIG: %v", name, err)
		}
	}
	if _, err := Open(Settings{File: config(t, "https://k8s.example:6443", `{"token":"t"}`)["KUBECONFIG"]}); err != nil {
		t.Errorf("a token: %v", err)
	}
}

// TestErrors gives each answer its class; what is no Status is no word of the API.
func TestErrors(t *testing.T) {
	status := func(reason, message string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","message":"` + message + `"}`
	}
	for name, k := range map[string]struct {
		code  int
		body  string
		class sdk.Code
		retry bool
	}{
		"not found":         {404, status("NotFound", "x"), sdk.NotFound, false},
		"a proxy's 404":     {404, "<html>", sdk.Unavailable, true},
		"exists":            {409, status("AlreadyExists", "x"), sdk.AlreadyExists, false},
		"conflict":          {409, status("Conflict", "x"), sdk.Aborted, false},
		"expired":           {410, status("Expired", "x"), sdk.OutOfRange, false},
		"invalid":           {422, status("Invalid", "x"), sdk.InvalidArgument, false},
		"forbidden":         {403, status("Forbidden", "x"), sdk.PermissionDenied, false},
		"quota":             {403, status("Forbidden", "exceeded quota: q"), sdk.ResourceExhausted, true},
		"unauthorized":      {401, status("Unauthorized", "x"), sdk.Unauthenticated, false},
		"too many":          {429, status("TooManyRequests", "x"), sdk.ResourceExhausted, true},
		"server":            {500, status("InternalError", "x"), sdk.Unavailable, true},
		"a redirect":        {302, "", sdk.Unavailable, true},
		"an answer of none": {200, "not JSON", sdk.Unavailable, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(k.code)
			_, _ = w.Write([]byte(k.body)) // the test's own client reads it
		}))
		x, err := Open(Settings{Credentials: config(t, server.URL, "{}")})
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		err = x.Get(t.Context(), "get", Jobs("n", "j"), nil, &out)
		if sdk.CodeOf(err) != k.class || sdk.IsRetryable(err) != k.retry {
			t.Errorf("%s: got %v (%s, retryable %t)", name, err, sdk.CodeOf(err), sdk.IsRetryable(err))
		}
		if k.code != 200 && sdk.RetryAfter(err) != 7*time.Second {
			t.Errorf("%s: wait %s", name, sdk.RetryAfter(err))
		}
		_ = x.Close() // it was only read
		server.Close()
	}
}

// TestUnreached: where no connection could be made nothing was sent, and the error
// proves it; a connection that was cut proves nothing.
func TestUnreached(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	for _, k := range []struct {
		server    string
		unreached bool
	}{{"http://" + dead.Addr().String(), true}, {cut.URL, false}} {
		x, err := Open(Settings{Credentials: config(t, k.server, "{}")})
		if err != nil {
			t.Fatal(err)
		}
		err = x.Create(t.Context(), "create", Jobs("n", ""), map[string]any{}, nil)
		if sdk.CodeOf(err) != sdk.Unavailable || !sdk.IsRetryable(err) || sdk.IsUnreached(err) != k.unreached || sdk.IsClear(err) != k.unreached {
			t.Errorf("%s: %v, unreached %t", k.server, err, sdk.IsUnreached(err))
		}
		var e *sdk.Error
		if errors.As(err, &e) && k.unreached && !strings.Contains(e.Remedy, k.server) {
			t.Errorf("%v: remedy %q", err, e.Remedy)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := x.Create(ended, "create", Jobs("n", ""), map[string]any{}, nil); sdk.CodeOf(err) != sdk.Canceled {
			t.Errorf("ended before: %v", err)
		}
		_ = x.Close() // it was only used here
	}
}

// TestExecPlugin: a kubeconfig's plugin gives the credentials, and its failure is
// one of credentials, before anything is sent.
func TestExecPlugin(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("Authorization") != "Bearer from-plugin" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte("{}")) // the test's own client reads it
	}))
	defer server.Close()
	plugin := func(script string) string {
		return `{"exec":{"apiVersion":"client.authentication.k8s.io/v1","interactiveMode":"Never","command":"/bin/sh","args":["-c",` + script + `]}}`
	}
	for name, k := range map[string]struct {
		script string
		code   sdk.Code
	}{
		"good": {`"echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"from-plugin\"}}'"`, 0},
		"bad":  {`"exit 3"`, sdk.Unauthenticated},
	} {
		calls.Store(0)
		c := config(t, server.URL, plugin(k.script))
		text, err := os.ReadFile(c["KUBECONFIG"])
		if err != nil {
			t.Fatal(err)
		}
		c["KUBECONFIG"] = write(t, "insecure", strings.Replace(string(text), `"cluster":{`, `"cluster":{"insecure-skip-tls-verify":true,`, 1))
		x, err := Open(Settings{Credentials: c})
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		err = x.Get(t.Context(), "get", Jobs("n", "j"), nil, &out)
		if sdk.CodeOf(err) != k.code || k.code != 0 && calls.Load() > 0 {
			t.Errorf("%s: got %v after %d calls", name, err, calls.Load())
		}
		var e *sdk.Error
		if k.code != 0 && (!errors.As(err, &e) || e.Reason != sdk.ReasonCredentials) {
			t.Errorf("%s: got %v", name, err)
		}
		_ = x.Close() // it was only read
	}
}
