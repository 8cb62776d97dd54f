package azure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azarm "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testwait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long bounds the wait for what comes soon.
const long = 30 * time.Second

// doc is a JSON object.
type doc = map[string]any

// cloud is a server on a port, with Azure's own clients.
type cloud struct {
	*Server
	url        string
	http       *http.Client
	groups     *arm.ContainerGroupsClient
	containers *arm.ContainersClient
	location   *arm.LocationClient
	options    azcore.ClientOptions
}

// newCloud starts a server that is closed with the test.
func newCloud(t testing.TB, o Options) *cloud {
	t.Helper()
	o.Record = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	address, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CA()) {
		t.Fatal("the authority's certificate is no PEM")
	}
	c := &cloud{Server: s, url: "https://" + address, http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c.options = azcore.ClientOptions{Transport: c.http, Retry: policy.RetryOptions{MaxRetries: -1},
		Cloud: azcloud.Configuration{ActiveDirectoryAuthorityHost: c.url, Services: map[azcloud.ServiceName]azcloud.ServiceConfiguration{
			azcloud.ResourceManager: {Endpoint: c.url, Audience: "https://management.azure.com"}}}}
	c.as(t, "tester", "secret")
	return c
}

// as makes clients for a service principal.
func (c *cloud) as(t testing.TB, id, secret string) {
	t.Helper()
	f, err := arm.NewClientFactory(c.o.SubscriptionID, principal{c, id, secret}, &azarm.ClientOptions{ClientOptions: c.options, DisableRPRegistration: true})
	if err != nil {
		t.Fatal(err)
	}
	c.groups, c.containers, c.location = f.NewContainerGroupsClient(), f.NewContainersClient(), f.NewLocationClient()
}

// vault makes a client for a vault.
func (c *cloud) vault(t testing.TB, name string) *azsecrets.Client {
	t.Helper()
	client, err := azsecrets.NewClient(VaultURL(c.url, name), principal{c, "tester", "secret"}, &azsecrets.ClientOptions{ClientOptions: c.options, DisableChallengeResourceVerification: true})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// principal gets tokens by client credentials.
type principal struct {
	c          *cloud
	id, secret string
}

// GetToken implements azcore.TokenCredential.
func (p principal) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {p.id}, "client_secret": {p.secret}, "scope": {strings.Join(o.Scopes, " ")}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.c.url+"/"+p.c.o.TenantID+"/oauth2/v2.0/token", strings.NewReader(form.Encode()))
	if err != nil {
		return azcore.AccessToken{}, err
	}
	resp, err := p.c.http.Do(req)
	if err != nil {
		return azcore.AccessToken{}, err
	}
	defer resp.Body.Close()
	var out struct {
		Token       string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		Description string `json:"error_description"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return azcore.AccessToken{}, err
	}
	if out.Token == "" {
		return azcore.AccessToken{}, errors.New(out.Description)
	}
	return azcore.AccessToken{Token: out.Token, ExpiresOn: time.Now().Add(time.Duration(out.ExpiresIn) * time.Second)}, nil
}

// answer is a reply as any client might get it.
type answer struct {
	status int
	body   doc
	header http.Header
}

func (a answer) code() string {
	e, _ := a.body["error"].(doc)
	code, _ := e["code"].(string)
	return code
}

func (a answer) rule() string { return a.header.Get(RuleHeader) }

// call sends a request as any client might. A path of Resource Manager without a
// version gets one.
func (c *cloud) call(t testing.TB, method, path string, body any) answer {
	t.Helper()
	if !strings.Contains(path, "api-version=") {
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "api-version=2023-05-01"
	}
	return c.send(t, method, path, body, c.AccessToken("https://management.azure.com"))
}

// secretCall sends a request to Key Vault.
func (c *cloud) secretCall(t testing.TB, method, path string, body any) answer {
	t.Helper()
	return c.send(t, method, path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"api-version=7.6", body, c.AccessToken(vaultResource))
}

// configCall sends a request to App Configuration.
func (c *cloud) configCall(t testing.TB, method, path string, body any) answer {
	t.Helper()
	return c.send(t, method, path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"api-version=2023-11-01", body, c.AccessToken(configResource))
}

func (c *cloud) send(t testing.TB, method, path string, body any, token string) answer {
	t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		if data, err = json.Marshal(b); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	out := answer{status: resp.StatusCode, header: resp.Header}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out.body); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
	}
	return out
}

// groupPath is a group's address.
func (c *cloud) groupPath(name string) string {
	return "/subscriptions/" + c.o.SubscriptionID + "/resourceGroups/" + c.o.ResourceGroup + "/providers/" + groupType + "/" + name
}

// job is a group of one container, named main, that runs a command once.
func job(command ...string) arm.ContainerGroup {
	return arm.ContainerGroup{Location: to.Ptr(Location), Properties: &arm.ContainerGroupPropertiesProperties{
		OSType: to.Ptr(arm.OperatingSystemTypesLinux), RestartPolicy: to.Ptr(arm.ContainerGroupRestartPolicyNever),
		Containers: []*arm.Container{{Name: to.Ptr("main"), Properties: &arm.ContainerProperties{Image: to.Ptr("busybox:local"), Command: to.SliceOfPtrs(command...),
			Resources: &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: to.Ptr(1.0), MemoryInGB: to.Ptr(0.5)}}}}}}}
}

// with changes a group.
func with(g arm.ContainerGroup, change func(*arm.ContainerGroup)) arm.ContainerGroup {
	change(&g)
	return g
}

// put asks for a group, and returns the reply.
func (c *cloud) put(t testing.TB, name string, g arm.ContainerGroup) answer {
	t.Helper()
	return c.call(t, http.MethodPut, c.groupPath(name), g)
}

// create makes a group.
func (c *cloud) create(t testing.TB, name string, g arm.ContainerGroup) {
	t.Helper()
	if a := c.put(t, name, g); a.status != http.StatusCreated {
		t.Fatalf("create %s: %d %v", name, a.status, a.body)
	}
}

// get reads a group.
func (c *cloud) get(t testing.TB, name string) arm.ContainerGroup {
	t.Helper()
	out, err := c.groups.Get(t.Context(), c.o.ResourceGroup, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out.ContainerGroup
}

// until waits for a group's state.
func (c *cloud) until(t testing.TB, name, state string) arm.ContainerGroup {
	t.Helper()
	return c.untilThat(t, name, "in state "+state, func(g arm.ContainerGroup) bool { return *g.Properties.InstanceView.State == state })
}

func (c *cloud) untilThat(t testing.TB, name, what string, that func(arm.ContainerGroup) bool) arm.ContainerGroup {
	t.Helper()
	var g arm.ContainerGroup
	testwait.Until(t, long, "group "+name+" "+what, func() bool {
		g = c.get(t, name)
		return that(g)
	})
	return g
}

// main is the view of a group's first container.
func mainOf(g arm.ContainerGroup) *arm.ContainerPropertiesInstanceView {
	return g.Properties.Containers[0].Properties.InstanceView
}

// log reads the log of a group's container main; nil for a null content.
func (c *cloud) log(t testing.TB, name string, o *arm.ContainersClientListLogsOptions) *string {
	t.Helper()
	out, err := c.containers.ListLogs(t.Context(), c.o.ResourceGroup, name, "main", o)
	if err != nil {
		t.Fatal(err)
	}
	return out.Content
}

// codeOf is the code of one of Azure's errors.
func codeOf(err error) string {
	var e *azcore.ResponseError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	return ""
}
