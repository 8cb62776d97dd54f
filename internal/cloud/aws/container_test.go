package aws

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// TestContainerCredentials: with ambient credentials a container's role serves,
// by the submitter's variables; a host elsewhere is asked for nothing.
func TestContainerCredentials(t *testing.T) {
	var calls atomic.Int64
	url := stsServer(t, &calls)
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "the-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, `{"AccessKeyId":"ASIATASK","SecretAccessKey":"s","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer platform.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]map[string]string{
		"token": {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "the-token"},
		"file":  {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file},
	} {
		v["AWS_CONTAINER_CREDENTIALS_FULL_URI"], v["AWS_REGION"] = platform.URL+"/role", "eu-west-1"
		x := mustOpen(t, Settings{Endpoint: url, Credentials: v, Ambient: true})
		if c, err := x.Config.Credentials.Retrieve(t.Context()); err != nil || c.AccessKeyID != "ASIATASK" {
			t.Errorf("%s: %s, %v", name, c.AccessKeyID, err)
		}
	}
	bad := map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": platform.URL, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "wrong", "AWS_REGION": "eu-west-1"}
	if _, err := Open(t.Context(), Settings{Endpoint: url, Credentials: bad, Ambient: true}); sdk.CodeOf(err) != sdk.Unauthenticated {
		t.Errorf("a wrong token: %v", err)
	}
	for _, uri := range []string{"http://example.com/role", "http://10.0.0.1/role", "ftp://127.0.0.1/x", "http://169.254.169.254/x"} {
		v := map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": uri, "AWS_REGION": "eu-west-1"}
		if _, err := Open(t.Context(), Settings{Endpoint: url, Credentials: v, Ambient: true}); sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if got := containerEndpoint(map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}); got != "http://169.254.170.2/v2/x" {
		t.Errorf("got %s", got)
	}
}
