package azure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/google/go-cmp/cmp"
)

// TestTokens lets in who shows the right token.
func TestTokens(t *testing.T) {
	var offset atomic.Int64
	c := newCloud(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
	path := c.groupPath("none") + "?api-version=2023-05-01"
	good := c.AccessToken("https://management.azure.com/")
	for _, k := range []struct {
		token, code, rule string
	}{
		{"", "AuthenticationFailed", ruleNoToken}, {"x", "InvalidAuthenticationToken", ruleToken}, {good + "x", "InvalidAuthenticationToken", ruleToken},
		{c.AccessToken(vaultResource), "InvalidAuthenticationTokenAudience", ruleTokenAudience},
		{good, "ResourceNotFound", ruleGroup}, {c.AccessToken(c.url), "ResourceNotFound", ruleGroup}, {c.AccessToken("https://management.core.windows.net/"), "ResourceNotFound", ruleGroup},
	} {
		a := c.send(t, http.MethodGet, path, nil, k.token)
		if a.code() != k.code || a.rule() != k.rule || (a.status == 401) != strings.Contains(a.header.Get("WWW-Authenticate"), `authorization_uri="`+c.url+"/"+TenantID+`"`) {
			t.Errorf("token %.8q: %d %v %v", k.token, a.status, a.body, a.header)
		}
	}
	offset.Store(int64(2 * time.Hour))
	if a := c.send(t, http.MethodGet, path, nil, good); a.status != 401 || a.code() != "ExpiredAuthenticationToken" || a.rule() != ruleTokenExpired {
		t.Errorf("two hours later: %d %v", a.status, a.body)
	}
	offset.Store(int64(-2 * time.Hour))
	if a := c.send(t, http.MethodGet, path, nil, good); a.status != 401 || a.rule() != ruleToken {
		t.Errorf("before its time: %d %v", a.status, a.body)
	}
	// Another tenant's is none of this one's.
	other := newCloud(t, Options{TenantID: "12121212-1111-1111-1111-111111111111"})
	offset.Store(0)
	if a := c.send(t, http.MethodGet, path, nil, other.AccessToken("https://management.azure.com")); a.status != 401 || a.rule() != ruleToken {
		t.Errorf("another's: %d %v", a.status, a.body)
	}
}

// form posts a form to an endpoint of tokens.
func (c *cloud) form(t *testing.T, path string, form url.Values) answer {
	t.Helper()
	return c.send(t, http.MethodPost, path, form.Encode(), "")
}

// TestClients gives tokens to service principals that know their secret.
func TestClients(t *testing.T) {
	c := newCloud(t, Options{Clients: map[string]Client{"tester": {Secret: "secret"}, "federated": {Secret: "other", Assertion: "assertion"}}})
	v2 := "/" + TenantID + "/oauth2/v2.0/token"
	ask := func(more url.Values) url.Values {
		out := url.Values{"grant_type": {"client_credentials"}, "scope": {"https://management.azure.com//.default"}}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	a := c.form(t, v2, ask(url.Values{"client_id": {"tester"}, "client_secret": {"secret"}}))
	if a.status != 200 || a.body["token_type"] != "Bearer" || a.body["expires_in"] != 3600.0 {
		t.Errorf("%d %v", a.status, a.body)
	}
	if got := c.send(t, http.MethodGet, c.groupPath("x")+"?api-version=2023-05-01", nil, a.body["access_token"].(string)); got.code() != "ResourceNotFound" {
		t.Errorf("its token: %v", got.body)
	}
	if a := c.form(t, v2, ask(url.Values{"client_id": {"federated"}, "client_assertion": {"assertion"}})); a.status != 200 {
		t.Errorf("%d %v", a.status, a.body)
	}
	a = c.form(t, v2, ask(url.Values{"client_id": {"tester"}, "client_secret": {"wrong"}}))
	if a.status != 401 || a.body["error"] != "invalid_client" || a.body["error_codes"].([]any)[0] != 7000215.0 || !strings.HasPrefix(a.body["error_description"].(string), "AADSTS7000215: ") {
		t.Errorf("%d %v", a.status, a.body)
	}
	a = c.form(t, "/"+TenantID+"/oauth2/token", url.Values{"grant_type": {"client_credentials"}, "resource": {vaultResource}, "client_id": {"tester"}, "client_secret": {"secret"}})
	if a.status != 200 || a.body["expires_in"] != "3600" || a.body["resource"] != vaultResource {
		t.Errorf("%d %v", a.status, a.body)
	}
}

// TestIdentity gives tokens to managed identities, in each version's form.
func TestIdentity(t *testing.T) {
	c := newCloud(t, Options{})
	for _, k := range []struct{ path, header, value, expires string }{
		{IdentityPath + "?api-version=2017-09-01&resource=" + url.QueryEscape(c.url), "secret", IdentitySecret, "01/02/2006 15:04:05 +00:00"},
		{IdentityPath + "?api-version=2019-08-01&resource=" + vaultResource, "X-IDENTITY-HEADER", IdentitySecret, ""},
		{"/metadata/identity/oauth2/token?api-version=2018-02-01&resource=" + vaultResource, "Metadata", "true", ""},
		{IdentityPath + "?resource=" + vaultResource, "secret", "wrong", "-"},
		{IdentityPath + "?resource=https://example.com", "secret", IdentitySecret, "-"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+k.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(k.header, k.value)
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Token   string `json:"access_token"`
			Expires string `json:"expires_on"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		switch {
		case k.expires == "-":
			if resp.StatusCode != 400 || body.Token != "" {
				t.Errorf("%s: %d", k.path, resp.StatusCode)
			}
		case resp.StatusCode != 200 || strings.Count(body.Token, ".") != 2:
			t.Errorf("%s: %d %v", k.path, resp.StatusCode, body)
		case k.expires != "":
			if at, err := time.Parse(k.expires, body.Expires); err != nil || time.Until(at) < 50*time.Minute {
				t.Errorf("%s: expires %s", k.path, body.Expires)
			}
		}
	}
}

// TestDiscovery describes the authority at the address that the caller used.
func TestDiscovery(t *testing.T) {
	c := newCloud(t, Options{})
	a := c.send(t, http.MethodGet, "/common/discovery/instance?api-version=1.1", nil, "")
	b := c.send(t, http.MethodGet, strings.TrimPrefix(a.body["tenant_discovery_endpoint"].(string), c.url), nil, "")
	if b.body["token_endpoint"] != c.url+"/"+TenantID+"/oauth2/v2.0/token" || b.body["issuer"] != c.url+"/"+TenantID+"/v2.0" {
		t.Errorf("%v", b.body)
	}
	for path, want := range map[string]string{"/subscriptions": SubscriptionID, "/tenants": TenantID, "/subscriptions/" + SubscriptionID: SubscriptionID, "/subscriptions/" + SubscriptionID + "/resourceGroups": ResourceGroup,
		"/subscriptions/" + strings.ToUpper(SubscriptionID) + "/resourcegroups/" + strings.ToUpper(ResourceGroup): ResourceGroup} {
		data, _ := json.Marshal(c.call(t, http.MethodGet, path, nil).body)
		if !strings.Contains(string(data), want) {
			t.Errorf("%s: %s", path, data)
		}
	}
	// Without TLS its addresses are those of plain HTTP: tests may wrap it.
	web := httptest.NewServer(c.Server)
	defer web.Close()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodHead, web.URL+"/subscriptions/"+SubscriptionID+"/resourceGroups/none?api-version=2021-04-01", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.AccessToken(web.URL))
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 401 && resp.StatusCode != 404 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// TestRights takes permissions away.
func TestRights(t *testing.T) {
	c := newCloud(t, Options{Clients: map[string]Client{"tester": {}, "reader": {Actions: []string{"Microsoft.ContainerInstance/containerGroups/read", "Microsoft.KeyVault/*"}}}})
	c.create(t, "one", job("true"))
	restore := c.Deny("microsoft.containerinstance/*/logs/read", "Microsoft.KeyVault/vaults/secrets/getSecret/action")
	a := c.call(t, http.MethodGet, c.groupPath("one")+"/containers/main/logs", nil)
	if text := a.body["error"].(doc)["message"].(string); a.status != 403 || a.code() != "AuthorizationFailed" || a.rule() != ruleRights || !strings.Contains(text, "action 'Microsoft.ContainerInstance/containerGroups/containers/logs/read' over scope '"+c.groupPath("one")) {
		t.Errorf("%d %v", a.status, a.body)
	}
	a = c.secretCall(t, http.MethodGet, "/secrets/x", nil)
	if a.status != 403 || a.code() != "Forbidden" || a.rule() != ruleVaultRights || a.body["error"].(doc)["innererror"].(doc)["code"] != "ForbiddenByRbac" {
		t.Errorf("%d %v", a.status, a.body)
	}
	list := c.call(t, http.MethodGet, "/subscriptions/"+SubscriptionID+"/resourceGroups/"+ResourceGroup+"/providers/Microsoft.Authorization/permissions", nil).body["value"].([]any)[0].(doc)
	want := doc{"actions": []any{"*"}, "dataActions": []any{"*"}, "notActions": []any{"microsoft.containerinstance/*/logs/read"}, "notDataActions": []any{"Microsoft.KeyVault/vaults/secrets/getSecret/action"}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Error(diff)
	}
	restore()
	if a := c.call(t, http.MethodGet, c.groupPath("one")+"/containers/main/logs", nil); a.status != 200 {
		t.Errorf("%d %v", a.status, a.body)
	}
	c.as(t, "reader", "any")
	if _, err := c.groups.Get(t.Context(), ResourceGroup, "one", nil); err != nil {
		t.Error(err)
	}
	if _, err := c.groups.BeginDelete(t.Context(), ResourceGroup, "one", nil); codeOf(err) != "AuthorizationFailed" {
		t.Errorf("a reader's delete: %v", err)
	}
	c.as(t, "nobody", "any")
	if _, err := c.groups.Get(t.Context(), ResourceGroup, "one", nil); err == nil || !strings.Contains(err.Error(), "AADSTS700016") {
		t.Errorf("an unknown client: %v", err)
	}
}

// FuzzToken opens nothing but what was signed.
func FuzzToken(f *testing.F) {
	s, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	good := s.AccessToken(vaultResource)
	f.Add(good)
	f.Add("a.b.c")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if c, ok := s.openToken(token); ok && token != good && c.Audience != vaultResource {
			t.Errorf("%q was opened: %+v", token, c)
		}
	})
}

// FuzzWildcard matches as a pattern does that is tried in every way.
func FuzzWildcard(f *testing.F) {
	f.Add("Microsoft.ContainerInstance/*", "Microsoft.ContainerInstance/containerGroups/read")
	f.Add("*/read", "a/b")
	f.Add("a*a", "a")
	f.Add("**", "")
	var slow func(p, s string) bool
	slow = func(p, s string) bool {
		if p == "" {
			return s == ""
		}
		if p[0] == '*' {
			return slow(p[1:], s) || s != "" && slow(p, s[1:])
		}
		return s != "" && p[0] == s[0] && slow(p[1:], s[1:])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 24 {
			return
		}
		if got, want := wildcard(pattern, text), slow(strings.ToLower(pattern), strings.ToLower(text)); got != want {
			t.Errorf("%q, %q: %v", pattern, text, got)
		}
	})
}

// TestTokenOfEarlierServer: callers keep their tokens when a server is started anew,
// with and without the state of the one before.
func TestTokenOfEarlierServer(t *testing.T) {
	for name, folder := range map[string]string{"forgotten": "", "kept": t.TempDir()} {
		first := newCloud(t, Options{State: folder})
		token := first.AccessToken("https://management.azure.com")
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		second := newCloud(t, Options{State: folder})
		if a := second.send(t, http.MethodGet, second.groupPath("none")+"?api-version=2023-05-01", nil, token); a.code() != "ResourceNotFound" {
			t.Errorf("%s: %d %v", name, a.status, a.body)
		}
	}
}

// TestAzidentity lets Microsoft's own library get tokens, for a service
// principal and for a managed identity.
func TestAzidentity(t *testing.T) {
	c := newCloud(t, Options{Clients: map[string]Client{"tester": {Secret: "secret"}}})
	t.Setenv("IDENTITY_ENDPOINT", c.url+IdentityPath)
	t.Setenv("IDENTITY_HEADER", IdentitySecret)
	principal, err := azidentity.NewClientSecretCredential(TenantID, "tester", "secret", &azidentity.ClientSecretCredentialOptions{ClientOptions: c.options, DisableInstanceDiscovery: true})
	if err != nil {
		t.Fatal(err)
	}
	// The library keeps an identity's token for the whole process.
	identity, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: c.options, ID: azidentity.ClientID(rand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	for name, credential := range map[string]azcore.TokenCredential{"principal": principal, "identity": identity} {
		token, err := credential.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if left := time.Until(token.ExpiresOn); left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("%s: the token expires in %s", name, left)
		}
		a := c.send(t, http.MethodGet, c.groupPath("none")+"?api-version=2023-05-01", nil, token.Token)
		// An identity isn't one of the principals, which alone are restricted.
		if a.code() != "ResourceNotFound" {
			t.Errorf("%s: %d %v", name, a.status, a.body)
		}
	}
	wrong, err := azidentity.NewClientSecretCredential(TenantID, "tester", "wrong", &azidentity.ClientSecretCredentialOptions{ClientOptions: c.options, DisableInstanceDiscovery: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://management.azure.com/.default"}}); err == nil || !strings.Contains(err.Error(), "AADSTS7000215") {
		t.Errorf("a wrong secret: %v", err)
	}
}
