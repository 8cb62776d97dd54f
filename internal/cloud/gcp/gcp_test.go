package gcp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOpen says what is missing, and takes nothing that leads elsewhere.
func TestOpen(t *testing.T) {
	token := map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "x"}
	canary := filepath.Join(t.TempDir(), "creds.json")
	if err := os.WriteFile(canary, []byte(`{"type":"service_account","private_key":"CANARY"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s     Settings
		code  sdk.Code
		field string
	}{
		"whole":          {Settings{Project: "my-project", Region: "europe-west1", Credentials: token}, 0, ""},
		"from variables": {Settings{Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "x", "GOOGLE_CLOUD_PROJECT": "my-project", "GOOGLE_CLOUD_REGION": "us-central1"}}, 0, ""},
		"no credentials": {Settings{Project: "my-project", Region: "europe-west1"}, sdk.Unauthenticated, ""},
		"no project":     {Settings{Region: "europe-west1", Credentials: token}, sdk.InvalidArgument, "config.project"},
		"a number":       {Settings{Project: "123456789012", Region: "europe-west1", Credentials: token}, sdk.InvalidArgument, "config.project"},
		"no region":      {Settings{Project: "my-project", Credentials: token}, sdk.InvalidArgument, "config.region"},
		"a zone":         {Settings{Project: "my-project", Region: "europe-west1-b", Credentials: token}, sdk.InvalidArgument, "config.region"},
		"far endpoint":   {Settings{Project: "my-project", Region: "europe-west1", Endpoint: "http://example.com:80", Credentials: token}, sdk.InvalidArgument, "config.endpoint"},
		"broken file":    {Settings{Project: "my-project", Region: "europe-west1", Credentials: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": canary}}, sdk.Unauthenticated, "GOOGLE_APPLICATION_CREDENTIALS"},
	} {
		x, err := Open(t.Context(), c.s)
		var e *sdk.Error
		if sdk.CodeOf(err) != c.code || errors.As(err, &e) && e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: the error holds what the file holds", name)
		}
		if x != nil {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCodes: only an answer that refuses is clear.
func TestCodes(t *testing.T) {
	x := &Session{provider: "p", timeout: defaultCall}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		err := x.Call(t.Context(), "op", func(context.Context) error { return status.Error(c, "text") })
		refusal := false
		switch c {
		case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition, codes.Aborted,
			codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
			refusal = true
		}
		if sdk.IsClear(err) != refusal || Text(err) != "text" || status.Code(errors.Unwrap(err)) == codes.OK {
			t.Errorf("%s: %v, clear %t", c, err, sdk.IsClear(err))
		}
	}
}

// FuzzLabelValue: every text has a legal value, and two have two.
func FuzzLabelValue(f *testing.F) {
	f.Add("a", "A")
	f.Add("owner@host", strings.Repeat("x", 100))
	f.Add("--0123456789abcdef", "x--0123456789abcdef")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := LabelValue(a), LabelValue(b)
		for _, v := range []string{x, y} {
			if msg := CheckLabel("k", v); msg != "" {
				t.Errorf("%q: %s", v, msg)
			}
		}
		if (a == b) != (x == y) {
			t.Errorf("%q and %q become %q and %q", a, b, x, y)
		}
	})
}
