//go:build linux

package cluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
)

// Client returns a client that trusts the cluster and is its administrator. It
// keeps no connection.
func (c *Cluster) Client() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.Authority))
	return &http.Client{Transport: &bearer{token: c.Token, next: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}}
}

// bearer adds a token to requests that have none.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// Do makes a call, which must succeed, and reads the answer into out unless that is
// nil. A body is sent as JSON, of PATCH as a merge patch.
func (c *Cluster) Do(t testing.TB, method, path string, body, out any) {
	t.Helper()
	if status, err := c.call(t, method, path, body, out); err != nil || status >= http.StatusBadRequest {
		t.Fatalf("%s %s: status %d, %v", method, path, status, err)
	}
}

func (c *Cluster) call(t testing.TB, method, path string, body, out any) (status int, err error) {
	t.Helper()
	var in io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, c.Server+path, in)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.Client().Do(r)
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return resp.StatusCode, fmt.Errorf("%s", bytes.TrimSpace(data))
	}
	switch out := out.(type) {
	case nil:
		return resp.StatusCode, nil
	case *string:
		*out = string(data)
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.Unmarshal(data, out)
}

// serial tells namespaces of one process apart.
var serial atomic.Int64 //nolint:gochecknoglobals // a process's own count

// Namespace makes a namespace in which pods can be made, and deletes it with all
// that is in it when the test is over.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t-%s-%d", strings.ToLower(fmt.Sprintf("%x", time.Now().UnixNano())), serial.Add(1))
	c.Do(t, "POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}}, nil)
	t.Cleanup(func() {
		r, err := http.NewRequest(http.MethodDelete, c.Server+"/api/v1/namespaces/"+name, http.NoBody) //nolint:noctx // the test's context is over
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := c.Client().Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	})
	if c.Level != API {
		// Pods are refused until the controller has made their account.
		testwait.Until(t, patience, "the namespace's service account", func() bool {
			status, _ := c.call(t, "GET", "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil)
			return status == http.StatusOK
		})
	}
	return name
}
