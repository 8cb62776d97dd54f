package argo

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWords gives each refusal of Argo Server its class; what isn't in its form is no
// word of its.
func TestWords(t *testing.T) {
	for name, k := range map[string]struct {
		status int
		body   string
		class  sdk.Code
		retry  bool
	}{
		"not found":          {404, `{"code":5,"message":"workflows.argoproj.io \"w\" not found"}`, sdk.NotFound, false},
		"a proxy's 404":      {404, `<html>`, sdk.Unavailable, true},
		"another's JSON":     {404, `{"message":"no route"}`, sdk.Unavailable, true},
		"exists":             {409, `{"code":6,"message":"x"}`, sdk.AlreadyExists, false},
		"invalid":            {400, `{"code":3,"message":"x"}`, sdk.InvalidArgument, false},
		"denied":             {403, `{"code":7,"message":"x"}`, sdk.PermissionDenied, false},
		"unauthenticated":    {401, `{"code":16,"message":"x"}`, sdk.Unauthenticated, false},
		"a proxy's 401":      {401, ``, sdk.Unauthenticated, false},
		"too many":           {429, `{"code":8,"message":"x"}`, sdk.ResourceExhausted, true},
		"not implemented":    {501, `{"code":12,"message":"x"}`, sdk.Unimplemented, false},
		"internal":           {500, `{"code":13,"message":"x"}`, sdk.Unavailable, true},
		"completed":          {500, `{"code":13,"message":"cannot shutdown a completed workflow: workflow: \"w\""}`, sdk.FailedPrecondition, false},
		"a success of none":  {200, `not JSON`, sdk.Unavailable, true},
		"a redirect":         {302, ``, sdk.Unavailable, true},
		"failed a condition": {400, `{"code":9,"message":"x"}`, sdk.FailedPrecondition, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer t" {
				t.Errorf("%s: the header is %q", name, r.Header.Get("Authorization"))
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(k.status)
			_, _ = w.Write([]byte(k.body)) // the test's own client reads it
		}))
		x, err := kube.OpenService(kube.Service{Address: server.URL, Token: "Bearer t", Namespace: "n", Words: Words})
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		err = x.Send(t.Context(), "get", http.MethodGet, kube.Place{Group: "api/v1"}, nil, nil, &out)
		if sdk.CodeOf(err) != k.class || sdk.IsRetryable(err) != k.retry {
			t.Errorf("%s: got %v (%s, retryable %t)", name, err, sdk.CodeOf(err), sdk.IsRetryable(err))
		}
		_ = x.Close() // it was only read
		server.Close()
	}
}

// FuzzEntries: whatever lines Argo Server sends, they are read as they are, and a
// stream that ends within one is no end.
func FuzzEntries(f *testing.F) {
	f.Add("2026-01-01T00:00:00Z a\n2026-01-01T00:00:00Z é家", uint16(20))
	f.Add("", uint16(0))
	f.Fuzz(func(t *testing.T, text string, cut uint16) {
		text = strings.ToValidUTF8(text, "?")
		var wire bytes.Buffer
		var ends []int
		lines := strings.Split(text, "\n")
		for _, line := range lines {
			raw, err := json.Marshal(map[string]any{"result": map[string]string{"content": line, "podName": "p"}})
			if err != nil {
				t.Fatal(err)
			}
			wire.Write(append(raw, '\n'))
			ends = append(ends, wire.Len())
		}
		got, err := io.ReadAll(&entries{d: json.NewDecoder(bytes.NewReader(wire.Bytes()))})
		if err != nil || string(got) != text+"\n" {
			t.Errorf("got %q, %v", got, err)
		}
		at := int(cut) % (wire.Len() + 1)
		part, err := io.ReadAll(&entries{d: json.NewDecoder(bytes.NewReader(wire.Bytes()[:at]))})
		if !strings.HasPrefix(text+"\n", string(part)) {
			t.Errorf("cut at %d: %q", at, part)
		}
		whole := at == 0
		for _, e := range ends {
			whole = whole || at == e || at == e-1
		}
		if whole != (err == nil) {
			t.Errorf("cut at %d of %v: %v", at, ends, err)
		}
	})
}

// TestStreamError: an error within a stream isn't its end.
func TestStreamError(t *testing.T) {
	e := &entries{d: json.NewDecoder(strings.NewReader(`{"result":{"content":"a"}}{"error":{"message":"gone","code":13}}`))}
	if got, err := io.ReadAll(e); string(got) != "a\n" || err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %q, %v", got, err)
	}
}
