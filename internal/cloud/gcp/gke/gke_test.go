package gke

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-token-of-no-worth"

func find(t *testing.T, url string, config map[string]any) (hosted.Source, hosted.Cluster, error) {
	t.Helper()
	config["endpoint"] = url
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	source, c, err := Cloud().Find(t.Context(), sdk.OpenRequest{Name: "p", Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": token, "GOOGLE_CLOUD_PROJECT": pocket.Project}}, raw)
	if err == nil {
		t.Cleanup(func() {
			if err := source.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return source, c, err
}

// TestCluster finds clusters by address or by name, says what may keep one from them,
// and why one isn't to be had.
func TestCluster(t *testing.T) {
	cloud, err := pocket.New(pocket.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	url, zone := "http://"+address, pocket.Location+"-b"
	for _, c := range []pocket.GKECluster{
		{Name: "prod", Endpoint: "192.0.2.1", Authority: []byte("PEM")},
		{Name: "zonal", Location: zone, Endpoint: "192.0.2.2", Authority: []byte("PEM"), Authorized: true},
		{Name: "private", Endpoint: "10.0.0.1", Authority: []byte("PEM"), Private: true},
		{Name: "named", DNS: "gke-1.europe-west1.gke.goog"},
		{Name: "hidden", DNS: "gke-2.europe-west1.gke.goog", Private: true},
		{Name: "made", Status: "PROVISIONING"},
	} {
		cloud.PutCluster(c)
	}
	for name, k := range map[string]struct{ location, server, authority, closed string }{
		"prod":    {pocket.Location, "https://192.0.2.1", "PEM", ""},
		"zonal":   {zone, "https://192.0.2.2", "PEM", "authorized networks alone"},
		"private": {pocket.Location, "https://10.0.0.1", "PEM", "enablePrivateEndpoint"},
		"named":   {pocket.Location, "https://gke-1.europe-west1.gke.goog", "", ""},
		"hidden":  {pocket.Location, "https://gke-2.europe-west1.gke.goog", "", "allowExternalTraffic is false"},
	} {
		source, c, err := find(t, url, map[string]any{"cluster": name, "location": k.location})
		if err != nil || c.Server != k.server || string(c.Authority) != k.authority || !strings.Contains(c.Closed, k.closed) || (c.Closed == "") != (k.closed == "") || c.Stranger == "" {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		if got, err := source.Token(t.Context()); err != nil || got.Value != token || !got.Expires.IsZero() {
			t.Errorf("%s: a token until %s, %v", name, got.Expires, err)
		}
	}
	for name, k := range map[string]struct {
		cluster, location string
		code              sdk.Code
		field, text       string
	}{
		"none":               {"nosuch", pocket.Location, sdk.NotFound, "config.gke.cluster", "gcloud container clusters list --project " + pocket.Project},
		"not ready":          {"made", pocket.Location, sdk.FailedPrecondition, "config.gke.cluster", "the cluster made is PROVISIONING"},
		"a strange name":     {"Prod", pocket.Location, sdk.InvalidArgument, "config.gke.cluster", "is no cluster's name"},
		"a strange location": {"prod", "Europe", sdk.InvalidArgument, "config.gke.location", "is neither a region"},
	} {
		_, _, err := find(t, url, map[string]any{"cluster": k.cluster, "location": k.location})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != k.code || e.Field != k.field || !strings.Contains(err.Error(), k.text) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cloud.Faults().Add(fault.Rule{Action: "container:GetCluster", Count: 1, Effect: fault.Effect{Refuse: &fault.Refusal{Status: http.StatusTooManyRequests, Code: "RESOURCE_EXHAUSTED", Message: "later"}}})
	if _, _, err := find(t, url, map[string]any{"cluster": "prod", "location": pocket.Location}); !errors.Is(err, sdk.ResourceExhausted) {
		t.Errorf("throttled: %v", err)
	}
}

// TestNoAnswerOfGKE: something on the way that answers is an outage, not a cluster that
// isn't there.
func TestNoAnswerOfGKE(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	config := func() map[string]any { return map[string]any{"cluster": "prod", "location": pocket.Location} }
	if _, _, err := find(t, web.URL, config()); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "HTTP 404, which is no answer") {
		t.Errorf("got %v", err)
	}
	web.Close()
	if _, _, err := find(t, web.URL, config()); !sdk.IsUnreached(err) {
		t.Errorf("nobody there: %v", err)
	}
}
