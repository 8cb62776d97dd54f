package aks

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/cloud/hosted"
	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCluster finds clusters that take tokens and one that has a certificate alone, says
// what may keep one from them, and why one isn't to be had.
func TestCluster(t *testing.T) {
	state := t.TempDir()
	cloud, err := pocket.New(pocket.Options{State: state})
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
	cloud.PutCluster(pocket.ManagedCluster{Name: "prod", Server: "https://prod.hcp.westeurope.azmk8s.io:443", Authority: []byte("PEM")})
	cloud.PutCluster(pocket.ManagedCluster{Name: "private", Server: "https://x.privatelink.westeurope.azmk8s.io:443", Authority: []byte("PEM")})
	cloud.PutCluster(pocket.ManagedCluster{Name: "local", Server: "https://local.hcp.westeurope.azmk8s.io:443", Authority: []byte("PEM"), Certificate: []byte("CERT"), Key: []byte("KEY")})
	find := func(config map[string]any) (hosted.Source, hosted.Cluster, error) {
		t.Helper()
		config["endpoint"], config["ca_file"], config["subscription"] = "https://"+address, filepath.Join(state, pocket.CAFile), pocket.SubscriptionID
		raw, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		source, c, err := Cloud().Find(t.Context(), sdk.OpenRequest{Name: "p", Credentials: map[string]string{"AZURE_TENANT_ID": pocket.TenantID, "AZURE_CLIENT_ID": "22222222-3333-4444-5555-666666666666",
			"AZURE_CLIENT_SECRET": "a-secret-of-no-worth"}}, raw)
		if err == nil {
			t.Cleanup(func() {
				if err := source.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		return source, c, err
	}
	at := func(name string) map[string]any {
		return map[string]any{"cluster": name, "resource_group": pocket.ResourceGroup}
	}
	for name, closed := range map[string]string{"prod": "", "private": "the cluster private is private"} {
		source, c, err := find(at(name))
		if err != nil || !strings.HasSuffix(c.Server, ".azmk8s.io:443") || string(c.Authority) != "PEM" || c.Certificate != nil || !strings.Contains(c.Closed, closed) || (c.Closed == "") != (closed == "") {
			t.Errorf("%s: %+v, %v", name, c, err)
			continue
		}
		token, err := source.Token(t.Context())
		if _, ok := cloud.ClusterCaller(token.Value); err != nil || !ok || time.Until(token.Expires) < time.Minute {
			t.Errorf("%s: the cluster takes the token: %t; until %s, %v", name, ok, token.Expires, err)
		}
	}
	if _, c, err := find(at("local")); err != nil || string(c.Certificate) != "CERT" || string(c.Key) != "KEY" {
		t.Errorf("one of local accounts: %+v, %v", c, err)
	}
	for name, k := range map[string]struct {
		config map[string]any
		code   sdk.Code
		field  string
		text   string
	}{
		"none":            {at("nosuch"), sdk.NotFound, "config.aks.cluster", "az aks list --resource-group " + pocket.ResourceGroup},
		"no group":        {map[string]any{"cluster": "prod", "resource_group": "nosuch"}, sdk.NotFound, "config.aks.resource_group", "nosuch"},
		"a strange name":  {at("prod/x"), sdk.InvalidArgument, "config.aks.cluster", "is no cluster's name"},
		"a strange group": {map[string]any{"cluster": "prod", "resource_group": "a/b"}, sdk.InvalidArgument, "config.aks.resource_group", "is no resource group's name"},
	} {
		_, _, err := find(k.config)
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != k.code || e.Field != k.field || !strings.Contains(err.Error(), k.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEntry reads kubeconfigs as Azure gives them, and refuses what leads to nobody, in
// words that quote nothing of them.
func TestEntry(t *testing.T) {
	const head = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://x'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
	for text, want := range map[string]string{
		head + "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: kubelogin, args: [get-token, --server-id, mine]}}}]": "mine",
		head + "users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: kubelogin, args: [get-token, --server-id]}}}]":       serverApp,
		head + "users: [{name: u, user: {auth-provider: {name: azure, config: {apiserver-id: old}}}}]":                                                          "old",
		head + "users: [{name: u, user: {auth-provider: {name: azure}}}]":                                                                                       serverApp,
	} {
		if _, user, err := entry([]byte(text)); err != nil || serverOf(user) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "canary", head, head + "users: [{name: u, user: {token: canary}}]", head + "users: [{name: u, user: {client-certificate-data: Y2FuYXJ5}}]", "{"} {
		if _, _, err := entry([]byte(text)); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://x'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {exec: {args: [--server-id]}}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if place, user, err := entry(text); err == nil && (place == nil || user == nil) {
			t.Error("no error, and nothing found")
		}
	})
}
