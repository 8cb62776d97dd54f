package eks

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketeks "github.com/windlass-run/windlass/internal/pocket/eks"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key, secret = "AKIDEXAMPLEEXAMPLE", "a-secret-of-no-worth"

// world is a pocket cloud with clusters in every state.
func world(t *testing.T) (cloud *pocket.Server, url string) {
	t.Helper()
	cloud, err := pocket.New(pocket.Options{Record: true, Secrets: map[string]string{key: secret}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []pocketeks.Cluster{
		{Name: "prod", Endpoint: "https://prod.example", Authority: []byte("PEM")},
		{Name: "made", Status: "CREATING"},
		{Name: "private", Endpoint: "https://private.example", Authority: []byte("PEM"), Private: true},
		{Name: "office", Endpoint: "https://office.example", Authority: []byte("PEM"), Networks: []string{"192.0.2.0/24"}},
	} {
		cloud.EKS().Put(c)
	}
	return cloud, web.URL
}

func find(t *testing.T, url string, config map[string]any, more map[string]string) (hosted.Source, hosted.Cluster, error) {
	t.Helper()
	config["endpoint"] = url
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": pocket.Region}
	for k, v := range more {
		values[k] = v
	}
	source, c, err := Cloud().Find(t.Context(), sdk.OpenRequest{Name: "p", Credentials: values}, raw)
	if err == nil {
		t.Cleanup(func() {
			if err := source.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return source, c, err
}

// TestCluster finds clusters, says what may keep one from them, and why one isn't to be
// had; it asks nobody for the account.
func TestCluster(t *testing.T) {
	cloud, url := world(t)
	for name, closed := range map[string]string{"prod": "", "private": "endpointPublicAccess is false", "office": "open to 192.0.2.0/24 alone"} {
		_, c, err := find(t, url, map[string]any{"cluster": name}, nil)
		if err != nil || c.Server != "https://"+name+".example" || string(c.Authority) != "PEM" || !strings.Contains(c.Closed, closed) || (c.Closed == "") != (closed == "") || c.Stranger == "" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, k := range map[string]struct {
		config map[string]any
		code   sdk.Code
		field  string
		text   string
	}{
		"none":             {map[string]any{"cluster": "nosuch"}, sdk.NotFound, "config.eks.cluster", "aws eks list-clusters --region " + pocket.Region},
		"not ready":        {map[string]any{"cluster": "made"}, sdk.FailedPrecondition, "config.eks.cluster", "the cluster made is CREATING"},
		"an ARN":           {map[string]any{"cluster": "arn:aws:eks:eu-central-1:1:cluster/prod"}, sdk.InvalidArgument, "config.eks.cluster", "an ARN isn't one"},
		"a strange region": {map[string]any{"cluster": "prod", "region": "Europe"}, sdk.InvalidArgument, "config.eks.region", "is no region"},
	} {
		_, _, err := find(t, url, k.config, nil)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != k.code || e.Field != k.field || !strings.Contains(err.Error(), k.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := cloud.Calls().Count("sts:GetCallerIdentity"); n != 0 {
		t.Errorf("%d questions for the account", n)
	}
}

// TestNoAnswerOfEKS: something on the way that answers is an outage, not a cluster that
// isn't there.
func TestNoAnswerOfEKS(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	if _, _, err := find(t, web.URL, map[string]any{"cluster": "prod"}, nil); err == nil || !strings.Contains(err.Error(), "HTTP 404, which is no answer of EKS") {
		t.Errorf("got %v", err)
	}
	web.Close()
	if _, _, err := find(t, web.URL, map[string]any{"cluster": "prod"}, nil); !sdk.IsUnreached(err) {
		t.Errorf("nobody there: %v", err)
	}
}

// TestToken: STS tells whose a token is, for the cluster that it was made for alone; it
// ends with the credentials, if those end sooner.
func TestToken(t *testing.T) {
	_, url := world(t)
	made, _, err := find(t, url, map[string]any{"cluster": "prod"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	token, err := made.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := token.Expires.Sub(before); left < 14*time.Minute || left > 16*time.Minute {
		t.Errorf("it lives %s", left)
	}
	if strings.Contains(token.Value, secret) {
		t.Error("the token has the secret")
	}
	for cluster, ok := range map[string]bool{"prod": true, "office": false} {
		arn, err := pocketeks.Authenticator{Cluster: cluster, Endpoint: url, Client: http.DefaultClient, Now: time.Now}.Whose(t.Context(), token.Value)
		if (err == nil) != ok || ok && arn != "arn:aws:iam::"+pocket.Account+":user/"+key {
			t.Errorf("for %s it is of %q, %v", cluster, arn, err)
		}
	}

	soon := time.Now().Add(5 * time.Minute)
	s := made.(*source)
	s.session.Config.Credentials = awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
		return awssdk.Credentials{AccessKeyID: key, SecretAccessKey: secret, SessionToken: "session", CanExpire: true, Expires: soon}, nil
	})
	if token, err = made.Token(t.Context()); err != nil || !token.Expires.Equal(soon) {
		t.Errorf("it ends at %s, the credentials at %s; %v", token.Expires, soon, err)
	}
	if _, err := (pocketeks.Authenticator{Cluster: "prod", Endpoint: url, Client: http.DefaultClient, Now: time.Now}).Whose(t.Context(), token.Value); err != nil {
		t.Errorf("of a session: %v", err)
	}
	s.session.Config.Credentials = awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) { return awssdk.Credentials{}, errors.New("gone") })
	if _, err := made.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("without credentials: %v", err)
	}
}
