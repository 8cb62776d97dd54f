package gcp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const account = "runner@my-project.iam.gserviceaccount.com"

// tokens is Google's endpoint for tokens, which takes what one key has signed.
type tokens struct {
	key *rsa.PrivateKey
	web *httptest.Server
	// asked counts exchanges that were right.
	asked atomic.Int32
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return serveTokens(t, key, nil)
}

// serveTokens is the endpoint of a key. answer, when not nil, answers in its place, and the
// context of its request ends with the test.
func serveTokens(t *testing.T, key *rsa.PrivateKey, answer http.HandlerFunc) *tokens {
	t.Helper()
	k := &tokens{key: key}
	k.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer != nil {
			answer(w, r.WithContext(t.Context()))
			return
		}
		if err := k.check(r); err != nil {
			http.Error(w, `{"error":"invalid_grant","error_description":"`+err.Error()+`"}`, http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3599,"token_type":"Bearer"}`, k.asked.Add(1))
	}))
	t.Cleanup(k.web.Close)
	return k
}

// check holds a request against what Google asks for.
// https://developers.google.com/identity/protocols/oauth2/service-account#authorizingrequests
func (k *tokens) check(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	if got := r.PostForm.Get("grant_type"); r.Method != http.MethodPost || got != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		return fmt.Errorf("%s with the grant type %s", r.Method, got)
	}
	parts := strings.Split(r.PostForm.Get("assertion"), ".")
	if len(parts) != 3 {
		return errors.New("the assertion has not three parts")
	}
	var raw [3][]byte
	for i, p := range parts {
		b, err := base64.RawURLEncoding.DecodeString(p)
		if err != nil {
			return err
		}
		raw[i] = b
	}
	var head struct{ Alg, Typ, Kid string }
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	if err := errors.Join(json.Unmarshal(raw[0], &head), json.Unmarshal(raw[1], &claims)); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	now := time.Now().Unix()
	switch {
	case head.Alg != "RS256" || head.Typ != "JWT" || head.Kid != "key-1":
		return fmt.Errorf("head %+v", head)
	case claims.Iss != account || claims.Aud != k.web.URL || claims.Scope != scope:
		return fmt.Errorf("claims %+v", claims)
	case claims.Exp-claims.Iat > 3600 || claims.Exp <= now || claims.Iat > now:
		return fmt.Errorf("from %d to %d, now %d", claims.Iat, claims.Exp, now)
	}
	return rsa.VerifyPKCS1v15(&k.key.PublicKey, crypto.SHA256, sum[:], raw[2])
}

// file writes a service account's file as the console does, signed by key.
func (k *tokens) file(t *testing.T, path string, key *rsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "my-project", "private_key_id": "key-1", "client_email": account,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": k.web.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServiceAccount: a service account's key is exchanged for a token, once for as
// long as that holds, and the token goes with each call.
func TestServiceAccount(t *testing.T) {
	k, cloud := newTokens(t), newCloud(t)
	file := k.file(t, filepath.Join(t.TempDir(), "key.json"), k.key)
	x := cloud.open(t, Settings{Credentials: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file, "GOOGLE_CLOUD_REGION": "europe-west1"}})
	if x.Project != "my-project" {
		t.Errorf("project %q; the file has it", x.Project)
	}
	if k.asked.Load() != 0 {
		t.Error("opening has asked for a token")
	}
	for range 3 {
		if err := cloud.call(t, x); err != nil {
			t.Fatal(err)
		}
	}
	if got := cloud.header("authorization"); len(got) != 3 || got[0] != "Bearer token-1" || got[2] != "Bearer token-1" {
		t.Errorf("authorized by %q", got)
	}
	if k.asked.Load() != 1 {
		t.Errorf("%d exchanges", k.asked.Load())
	}
}

// TestServiceAccountRefused: where no token can be had nothing was sent, the error
// says so, and holds neither key nor assertion.
func TestServiceAccountRefused(t *testing.T) {
	known, cloud := newTokens(t), newCloud(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key    *rsa.PrivateKey
		answer http.HandlerFunc
	}{
		"a revoked key": {other, nil},
		"down": {known.key, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "try later", http.StatusServiceUnavailable)
		}},
		"no JSON":  {known.key, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }},
		"no token": {known.key, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }},
		"hanging":  {known.key, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"cut":      {known.key, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			k := serveTokens(t, known.key, c.answer)
			file := k.file(t, filepath.Join(t.TempDir(), "key.json"), c.key)
			x := cloud.open(t, Settings{Region: "europe-west1", CallTimeout: 300 * time.Millisecond, Credentials: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file}})
			err := cloud.call(t, x)
			var e *sdk.Error
			code, why := sdk.Unauthenticated, sdk.ReasonCredentials
			if unheard := name == "hanging" || name == "cut"; unheard {
				code, why = sdk.Unavailable, "" // the key may be right
			}
			if !errors.As(err, &e) || e.Code != code || e.Reason != why || !sdk.IsClear(err) || !strings.Contains(err.Error(), "no access token could be had") {
				t.Errorf("got %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), "eyJ")) {
				t.Errorf("the error holds a secret: %v", err)
			}
			if got := cloud.header("authorization"); len(got) > 0 {
				t.Errorf("sent with %q", got)
			}
		})
	}
}

// TestAmbientCredentials: with ambient, gcloud's own login comes before the metadata
// server, and without it neither is used.
func TestAmbientCredentials(t *testing.T) {
	k, cloud, home := newTokens(t), newCloud(t), t.TempDir()
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || !strings.HasPrefix(r.URL.Path, "/computeMetadata/v1/instance/service-accounts/default/token") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Metadata-Flavor", "Google")
		_, _ = w.Write([]byte(`{"access_token":"of-the-machine","expires_in":3599,"token_type":"Bearer"}`))
	}))
	t.Cleanup(metadata.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata.URL, "http://"))
	t.Cleanup(func() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	login := func(vars map[string]string) string {
		x := cloud.open(t, Settings{Project: "my-project", Region: "europe-west1", Ambient: true, Credentials: vars})
		if err := cloud.call(t, x); err != nil {
			t.Error(err)
		}
		got := cloud.header("authorization")
		cloud.forget()
		if len(got) != 1 {
			return fmt.Sprint(got)
		}
		return got[0]
	}
	if got := login(map[string]string{"HOME": home}); got != "Bearer of-the-machine" {
		t.Errorf("without a login: %q", got)
	}
	k.file(t, filepath.Join(home, ".config", "gcloud", "application_default_credentials.json"), k.key)
	if got := login(map[string]string{"HOME": home}); got != "Bearer token-1" {
		t.Errorf("with a login: %q", got)
	}
	if got := login(map[string]string{"HOME": home, "GOOGLE_OAUTH_ACCESS_TOKEN": "given"}); got != "Bearer given" {
		t.Errorf("with a token: %q", got)
	}
	if _, err := Open(t.Context(), Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"HOME": home}}); !errors.Is(err, sdk.Unauthenticated) || !strings.Contains(err.Error(), "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_OAUTH_ACCESS_TOKEN") {
		t.Errorf("without ambient: %v", err)
	}
}

// TestLoginFile: gcloud's own variable comes before the folders of the systems.
func TestLoginFile(t *testing.T) {
	for _, c := range []struct {
		vars map[string]string
		want string
	}{
		{map[string]string{"CLOUDSDK_CONFIG": "/c", "HOME": "/h"}, filepath.Join("/c", "application_default_credentials.json")},
		{map[string]string{"APPDATA": "/a", "HOME": "/h"}, filepath.Join("/a", "gcloud", "application_default_credentials.json")},
		{map[string]string{"HOME": "/h"}, filepath.Join("/h", ".config", "gcloud", "application_default_credentials.json")},
		{nil, ""},
	} {
		if got := loginFile(c.vars); got != c.want {
			t.Errorf("%v: %q", c.vars, got)
		}
	}
}

// TestCredentialsFile: what can't be used is refused, naming the file and nothing
// of what it holds.
func TestCredentialsFile(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"unknown type": {`{"type":"canary_type","private_key":"CANARY"}`, `unknown type "canary_type"`},
		"no type":      {`{"private_key":"CANARY"}`, `unknown type ""`},
		"no external":  {`{"type":"external_account","credential_source":{"file":"CANARY"}}`, "can't be used as credentials of the type external_account"},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": file}})
		if !errors.Is(err, sdk.Unauthenticated) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Open(t.Context(), Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": filepath.Join(dir, "none")}})
	if !errors.Is(err, os.ErrNotExist) || !errors.Is(err, sdk.Unauthenticated) {
		t.Errorf("a missing file: %v", err)
	}
}
