package azure

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
)

// TestVault keeps secrets with their versions, by Azure's own client.
func TestVault(t *testing.T) {
	c := newCloud(t, Options{})
	v := c.vault(t, "mine")
	first, err := v.SetSecret(t.Context(), "db", azsecrets.SetSecretParameters{Value: to.Ptr("hush"), Tags: map[string]*string{"a": to.Ptr("b")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID.Name() != "db" || len(first.ID.Version()) != 32 || !*first.Attributes.Enabled || first.Attributes.Created == nil {
		t.Errorf("set: %+v", first.Secret)
	}
	// The first call of a client has no token, and is told where to get one.
	calls := c.Calls().Calls("SetSecret")
	if len(calls) != 2 || calls[0].Status != 401 || len(calls[0].Request) > 0 || !strings.Contains(string(calls[0].Reply), "AKV10000") || calls[1].Status != 200 {
		t.Errorf("%d calls: %v", len(calls), calls)
	}
	a := c.send(t, http.MethodGet, "/vaults/mine/secrets/db?api-version=7.6", nil, "")
	if got, want := a.header.Get("WWW-Authenticate"), `Bearer authorization="`+c.url+"/"+TenantID+`", resource="https://vault.azure.net"`; a.status != 401 || got != want || a.rule() != ruleVaultToken || a.code() != "Unauthorized" {
		t.Errorf("%d %q", a.status, got)
	}

	// A secret can be read out of its time.
	past := time.Now().Add(-time.Hour)
	if _, err := v.SetSecret(t.Context(), "db", azsecrets.SetSecretParameters{Value: to.Ptr("louder"), SecretAttributes: &azsecrets.SecretAttributes{Expires: &past}}, nil); err != nil {
		t.Fatal(err)
	}
	get := func(version string) string {
		t.Helper()
		s, err := v.GetSecret(t.Context(), "DB", version, nil)
		if err != nil {
			t.Fatal(err)
		}
		return *s.Value
	}
	if got := get("") + " " + get(first.ID.Version()); got != "louder hush" {
		t.Errorf("the values are %s", got)
	}
	if _, err := c.vault(t, "other").GetSecret(t.Context(), "db", "", nil); codeOf(err) != "SecretNotFound" {
		t.Errorf("in another vault: %v", err)
	}
	if id, err := c.PutSecret("other", "db", "else"); err != nil || len(id) != 32 {
		t.Errorf("%q, %v", id, err)
	}
	if s, err := c.vault(t, "other").GetSecret(t.Context(), "db", "", nil); err != nil || *s.Value != "else" {
		t.Errorf("in another vault: %v", err)
	}
	if _, err := c.PutSecret("other", "a_b", "x"); err == nil {
		t.Error("a bad name was taken")
	}
	// A vault is found by its host's name, too.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/secrets/db?api-version=7.6", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "other.vault.localhost"
	req.Header.Set("Authorization", "Bearer "+c.AccessToken(vaultResource))
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("by its host's name: %d", resp.StatusCode)
	}

	names := 0
	for pager := v.NewListSecretPropertiesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.Value {
			names++
			if p.ID.Version() != "" || p.ID.Name() != "db" {
				t.Errorf("listed: %s", *p.ID)
			}
		}
	}
	if names != 1 {
		t.Errorf("%d secrets are listed", names)
	}
	if _, err := v.DeleteSecret(t.Context(), "db", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.GetSecret(t.Context(), "db", "", nil); codeOf(err) != "SecretNotFound" {
		t.Errorf("deleted: %v", err)
	}
	if _, err := v.PurgeDeletedSecret(t.Context(), "db", nil); err != nil {
		t.Error(err)
	}
}
