package azure

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/testwait"
)

// change returns a copy of an object with a member changed; a path leads inwards
// by dots, into the first of a list, and nil takes the member out.
func change(base doc, path string, value any) doc {
	data, _ := json.Marshal(base)
	var out doc
	_ = json.Unmarshal(data, &out)
	at := out
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		if list, ok := at[p].([]any); ok {
			at = list[0].(doc)
		} else {
			at = at[p].(doc)
		}
	}
	if last := parts[len(parts)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	return out
}

// plainGroup is a legal request.
func plainGroup() doc {
	return doc{"location": Location, "tags": doc{"a": "b"}, "properties": doc{"osType": "linux", "restartPolicy": "never", "containers": []any{doc{"name": "main", "properties": doc{
		"image": "busybox:local", "command": []any{"true"}, "environmentVariables": []any{doc{"name": "A", "value": "1"}},
		"resources": doc{"requests": doc{"cpu": 1, "memoryInGB": 0.5}}}}}}}
}

// TestRules breaks every rule: each row of the table must have a case here, and
// be named by the refusal with its status and code; what says how things go must
// have its test.
func TestRules(t *testing.T) {
	c := newCloud(t, Options{Clients: map[string]Client{"tester": {Secret: "secret"}}})
	c.create(t, "there", job("true"))
	c.until(t, "there", "Succeeded")
	c.create(t, "runs", job("sleep", "100"))
	c.until(t, "runs", "Running")
	remove := c.Strike(Mishap{Group: "stuck", Stage: StageWait})
	c.create(t, "stuck", job("true"))
	remove()
	for _, n := range []string{"off", "gone"} {
		if _, err := c.PutSecret(Vault, n, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if a := c.secretCall(t, http.MethodDelete, "/secrets/gone", nil); a.status != 200 {
		t.Fatal(a)
	}
	off := c.secretCall(t, http.MethodGet, "/secrets/off", nil).body["id"].(string)
	off = strings.TrimPrefix(off, c.url)
	if a := c.secretCall(t, http.MethodPatch, off, doc{"attributes": doc{"enabled": false}}); a.status != 200 {
		t.Fatal(a)
	}

	const (
		p    = "properties."
		main = "properties.containers.properties."
		id   = "/subscriptions/s/resourceGroups/g/providers/"
	)
	rg := "/subscriptions/" + SubscriptionID + "/resourceGroups/" + ResourceGroup
	here := "/subscriptions/" + SubscriptionID + "/providers/Microsoft.ContainerInstance/locations/"
	metrics := c.groupPath("runs") + "/providers/Microsoft.Insights/metrics?api-version=2024-02-01"
	good := plainGroup()
	container := good["properties"].(doc)["containers"].([]any)[0]
	with := func(path string, value any) doc { return change(good, path, value) }
	user := id + "Microsoft.ManagedIdentity/userAssignedIdentities/u"
	many := doc{}
	for i := range 51 {
		many[strings.Repeat("x", i+1)] = "y"
	}
	login := func(form url.Values) string { return form.Encode() }

	untested := map[string]Rule{}
	for _, r := range Rules() {
		if _, twice := untested[r.ID]; twice {
			t.Errorf("rule %s stands twice", r.ID)
		}
		if !strings.HasPrefix(r.Doc, "https://") || r.Text == "" || (r.Status == 0) != (r.Code == "") || (r.Status == 0) == (r.Test == "") {
			t.Errorf("rule %s wants a text, a page, and a status with a code or a test: %+v", r.ID, r)
		}
		untested[r.ID] = r
	}
	rules := maps.Clone(untested)
	clusterPath := "/subscriptions/" + c.o.SubscriptionID + "/resourceGroups/" + c.o.ResourceGroup + "/providers/Microsoft.ContainerService/managedClusters/nosuch/listClusterUserCredential"
	for _, k := range []struct {
		rule, method, path string
		body               any
	}{
		{ruleRoute, "GET", "/nothing", nil},
		{ruleRoute, "POST", c.groupPath("there") + "/explode", nil},
		{ruleQuery, "GET", c.groupPath("there") + "?x=1", nil},
		{ruleCluster, "POST", clusterPath + "?api-version=2025-10-01", nil},
		{ruleQuery, "POST", clusterPath + "?api-version=2025-10-01&colour=red", nil},
		{ruleVersion, "POST", clusterPath + "?api-version=2018-03-31", nil},
		{ruleQuery, "GET", c.groupPath("there") + "?$expand=instanceView", nil},
		{ruleBody, "PUT", c.groupPath("new"), `{`},
		{ruleBody, "PUT", c.groupPath("new"), ``},
		{ruleBody, "PUT", c.groupPath("new"), `{} {}`},
		{ruleType, "PUT", c.groupPath("new"), with("location", 1)},
		{ruleType, "PUT", c.groupPath("new"), with(p+"containers", doc{})},
		{ruleType, "PUT", c.groupPath("new"), with(main+"command", []any{nil})},
		{ruleType, "PUT", c.groupPath("new"), with(main+"resources.requests.cpu", "1")},
		{ruleUnknown, "PUT", c.groupPath("new"), with("propertes", doc{})},
		{ruleUnknown, "PUT", c.groupPath("new"), with(main+"Image", "x")},
		{ruleNoVersion, "GET", c.groupPath("there") + "?api-version=", nil},
		{ruleVersion, "GET", c.groupPath("there") + "?api-version=2017-08-01-preview", nil},
		{ruleVersion, "GET", rg + "?api-version=latest", nil},

		{ruleTenant, "POST", "/other/oauth2/v2.0/token", login(url.Values{})},
		{ruleGrant, "POST", "/" + TenantID + "/oauth2/v2.0/token", login(url.Values{"grant_type": {"password"}})},
		{ruleScope, "POST", "/" + TenantID + "/oauth2/v2.0/token", login(url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}})},
		{ruleResource, "POST", "/" + TenantID + "/oauth2/v2.0/token", login(url.Values{"grant_type": {"client_credentials"}, "scope": {"https://graph.microsoft.com/.default"}})},
		{ruleClient, "POST", "/" + TenantID + "/oauth2/v2.0/token", login(url.Values{"grant_type": {"client_credentials"}, "scope": {vaultResource + "/.default"}, "client_id": {"x"}})},
		{ruleSecret, "POST", "/" + TenantID + "/oauth2/v2.0/token", login(url.Values{"grant_type": {"client_credentials"}, "scope": {vaultResource + "/.default"}, "client_id": {"tester"}, "client_secret": {"x"}})},
		{ruleSecret, "POST", "/" + TenantID + "/oauth2/v2.0/token", login(url.Values{"grant_type": {"client_credentials"}, "scope": {vaultResource + "/.default"}, "client_id": {"tester"}, "client_assertion": {"x"}})},
		{ruleIdentity, "GET", IdentityPath + "?resource=" + vaultResource, nil},

		{ruleSubscription, "GET", "/subscriptions/other/resourceGroups", nil},
		{ruleResourceGroup, "GET", strings.Replace(c.groupPath("there"), "/"+ResourceGroup+"/", "/none/", 1), nil},
		{ruleResourceGroupName, "PUT", "/subscriptions/" + SubscriptionID + "/resourceGroups/bad.", doc{"location": Location}},
		{ruleLocationMissing, "PUT", "/subscriptions/" + SubscriptionID + "/resourceGroups/new", doc{}},
		{ruleLocationMissing, "PUT", c.groupPath("new"), with("location", nil)},
		{ruleLocation, "PUT", c.groupPath("new"), with("location", "mars")},
		{ruleLocation, "GET", here + "mars/usages", nil},
		{ruleTagCount, "PUT", c.groupPath("new"), with("tags", many)},
		{ruleTagLength, "PUT", c.groupPath("new"), with("tags", doc{"a": strings.Repeat("x", 257)})},
		{ruleTagLength, "PATCH", c.groupPath("there"), doc{"tags": doc{strings.Repeat("x", 513): "a"}}},
		{ruleTagName, "PUT", c.groupPath("new"), with("tags", doc{"a/b": "c"})},
		{ruleTagTwice, "PUT", c.groupPath("new"), with("tags", doc{"a": "b", "A": "b"})},

		{ruleGroup, "GET", c.groupPath("none"), nil},
		{ruleGroup, "POST", c.groupPath("none") + "/stop", nil},
		{ruleGroupName, "PUT", c.groupPath("Upper"), good},
		{ruleGroupName, "PUT", c.groupPath("a--b"), good},
		{ruleGroupName, "PUT", c.groupPath("-a"), good},
		{ruleGroupName, "PUT", c.groupPath("a-"), good},
		{ruleGroupName, "PUT", c.groupPath(strings.Repeat("a", 64)), good},
		{ruleUnsupported, "PUT", c.groupPath("new"), with(p+"volumes", []any{doc{"name": "v", "emptyDir": doc{}}})},
		{ruleUnsupported, "PUT", c.groupPath("new"), with(p+"ipAddress", doc{"type": "Public", "dnsNameLabel": "a", "ports": []any{doc{"port": 80}}})},
		{ruleAddress, "PUT", c.groupPath("new"), with(p+"ipAddress", doc{"type": "Public", "ports": []any{}})},
		{ruleAddress, "PUT", c.groupPath("new"), with(p+"ipAddress", doc{"type": "Private", "ports": []any{doc{"port": 80}}})},
		{ruleAddress, "PUT", c.groupPath("new"), with(p+"ipAddress", doc{"type": "Public", "ports": []any{doc{"port": 80}}})},
		{ruleAddress, "PUT", c.groupPath("new"), with(main+"ports", []any{doc{"port": 0}})},
		{ruleUnsupported, "PUT", c.groupPath("new"), with(p+"osType", "Windows")},
		{ruleUnsupported, "PUT", c.groupPath("new"), with(p+"priority", "spot")},
		{ruleUnsupported, "PUT", c.groupPath("new"), with(p+"initContainers", []any{doc{"name": "a"}})},
		{ruleUnsupported, "PUT", c.groupPath("new"), with(main+"livenessProbe", doc{"exec": doc{}})},
		{ruleUnsupported, "PUT", c.groupPath("new"), with("zones", []any{"1"})},
		{ruleOSType, "PUT", c.groupPath("new"), with(p+"osType", nil)},
		{ruleOSType, "PUT", c.groupPath("new"), with(p+"osType", "BeOS")},
		{ruleRestartPolicy, "PUT", c.groupPath("new"), with(p+"restartPolicy", "Sometimes")},
		{ruleSKU, "PUT", c.groupPath("new"), with(p+"sku", "Cheap")},
		{rulePriority, "PUT", c.groupPath("new"), with(p+"priority", "High")},
		{ruleIdentityType, "PUT", c.groupPath("new"), with("identity", doc{"type": "Secret"})},
		{ruleIdentityUser, "PUT", c.groupPath("new"), with("identity", doc{"type": "UserAssigned"})},
		{ruleIdentityUser, "PUT", c.groupPath("new"), with("identity", doc{"type": "UserAssigned", "userAssignedIdentities": doc{"u": doc{}}})},
		{ruleIdentityUser, "PUT", c.groupPath("new"), with("identity", doc{"type": "SystemAssigned", "userAssignedIdentities": doc{user: doc{}}})},
		{ruleSubnet, "PUT", c.groupPath("new"), with(p+"subnetIds", []any{doc{"id": "x"}})},
		{ruleSubnet, "PUT", c.groupPath("new"), with(p+"subnetIds", []any{doc{"id": id + "Microsoft.Network/virtualNetworks/v/subnets/a"}, doc{"id": id + "Microsoft.Network/virtualNetworks/v/subnets/b"}})},
		{ruleRegistryServer, "PUT", c.groupPath("new"), with(p+"imageRegistryCredentials", []any{doc{"server": "https://r.io", "username": "u", "password": "p"}})},
		{ruleRegistryServer, "PUT", c.groupPath("new"), with(p+"imageRegistryCredentials", []any{doc{"server": "r.io", "username": "u", "password": "p"}, doc{"server": "r.io", "username": "u", "password": "p"}})},
		{ruleRegistry, "PUT", c.groupPath("new"), with(p+"imageRegistryCredentials", []any{doc{"server": "r.io", "username": "u"}})},
		{ruleRegistry, "PUT", c.groupPath("new"), with(p+"imageRegistryCredentials", []any{doc{"server": "r.io", "identity": user}})},
		{ruleContainers, "PUT", c.groupPath("new"), with(p+"containers", []any{})},
		{ruleContainers, "PUT", c.groupPath("new"), with("properties", nil)},
		{ruleContainers, "PUT", c.groupPath("new"), with(p+"containers", slices.Repeat([]any{container}, 61))},
		{ruleContainer, "GET", c.groupPath("there") + "/containers/none/logs", nil},
		{ruleContainerName, "PUT", c.groupPath("new"), with(p+"containers.name", "Main")},
		{ruleContainerTwice, "PUT", c.groupPath("new"), with(p+"containers", []any{container, container})},
		{ruleImage, "PUT", c.groupPath("new"), with(main+"image", nil)},
		{ruleImage, "PUT", c.groupPath("new"), with(main+"image", "a b")},
		{ruleCommand, "PUT", c.groupPath("new"), with(main+"command", []any{"a\x00b"})},
		{ruleResources, "PUT", c.groupPath("new"), with(main+"resources", nil)},
		{ruleResources, "PUT", c.groupPath("new"), with(main+"resources.requests.cpu", nil)},
		{ruleResourceValue, "PUT", c.groupPath("new"), with(main+"resources.requests.cpu", 0)},
		{ruleResourceLimit, "PUT", c.groupPath("new"), with(main+"resources.limits", doc{"cpu": 0.5})},
		{ruleMemoryStep, "PUT", c.groupPath("new"), with(main+"resources.requests.memoryInGB", 0.25)},
		{ruleMemoryStep, "PUT", c.groupPath("new"), with(main+"resources.limits", doc{"memoryInGB": 1.25})},
		{ruleSize, "PUT", c.groupPath("new"), with(main+"resources.requests.cpu", 4.5)},
		{ruleSize, "PUT", c.groupPath("new"), with(main+"resources.requests.memoryInGB", 16.5)},
		{ruleEnvName, "PUT", c.groupPath("new"), with(main+"environmentVariables", []any{doc{"name": "a.b", "value": "1"}})},
		{ruleEnvValue, "PUT", c.groupPath("new"), with(main+"environmentVariables", []any{doc{"name": "A"}})},
		{ruleEnvValue, "PUT", c.groupPath("new"), with(main+"environmentVariables", []any{doc{"name": "A", "value": "1", "secureValue": "1"}})},
		{ruleEnvValue, "PUT", c.groupPath("new"), with(main+"environmentVariables", []any{doc{"name": "A", "secureValue": "\x00"}})},
		{ruleTransitioning, "PUT", c.groupPath("stuck"), good},
		{ruleTransitioning, "POST", c.groupPath("stuck") + "/start", nil},
		{ruleTransitioning, "POST", c.groupPath("stuck") + "/restart", nil},
		{ruleUpdate, "PUT", c.groupPath("runs"), with(main+"resources.requests.cpu", 2)},
		{ruleUpdate, "PUT", c.groupPath("runs"), with(p+"restartPolicy", "Always")},
		{rulePatch, "PATCH", c.groupPath("there"), doc{"location": "mars"}},
		{ruleTail, "GET", c.groupPath("there") + "/containers/main/logs?tail=0", nil},
		{ruleTail, "GET", c.groupPath("there") + "/containers/main/logs?timestamps=maybe", nil},
		{ruleExecCommand, "POST", c.groupPath("runs") + "/containers/main/exec", doc{"command": " "}},
		{ruleExecCommand, "POST", c.groupPath("runs") + "/containers/main/exec", doc{"command": "sh", "terminalSize": doc{"rows": 0}}},
		{ruleContainer, "POST", c.groupPath("runs") + "/containers/none/exec", doc{"command": "sh"}},
		{ruleExecRunning, "POST", c.groupPath("there") + "/containers/main/exec", doc{"command": "sh"}},
		{ruleMetricName, "GET", metrics + "&metricnames=Disk", nil},
		{ruleMetricTime, "GET", metrics + "&interval=PT2M", nil},
		{ruleMetricTime, "GET", metrics + "&timespan=now", nil},
		{ruleMetricTime, "GET", metrics + "&aggregation=median", nil},
		{ruleMetricFilter, "GET", metrics + "&$filter=" + url.QueryEscape("podName eq '*'"), nil},
		{ruleOperation, "GET", here + Location + "/operations/none", nil},

		{ruleVaultName, "GET", "/vaults/x/secrets/off", nil},
		{ruleSecretName, "GET", "/secrets/a_b", nil},
		{ruleSecretName, "PUT", "/secrets/a_b", doc{"value": "x"}},
		{ruleSecretVersion, "GET", "/secrets/off/1", nil},
		{ruleSecretValue, "PUT", "/secrets/new", doc{}},
		{ruleSecretSize, "PUT", "/secrets/new", doc{"value": strings.Repeat("x", 25<<10+1)}},
		{ruleSecretTags, "PUT", "/secrets/new", doc{"value": "x", "tags": doc{"a": strings.Repeat("x", 257)}}},
		{ruleSecretMissing, "GET", "/secrets/none", nil},
		{ruleSecretMissing, "GET", "/secrets/off/" + strings.Repeat("0", 32), nil},
		{ruleSecretDisabled, "GET", "/secrets/off", nil},
		{ruleSecretDeleted, "PUT", "/secrets/gone", doc{"value": "x"}},
		{ruleMaxResults, "GET", "/secrets?maxresults=26", nil},

		{ruleConfigKey, "PUT", "/kv/a%2525", doc{"value": "x"}},
		{ruleConfigBody, "PUT", "/kv/a", doc{"text": "x"}},
		{ruleConfigSize, "PUT", "/kv/a", doc{"value": strings.Repeat("x", 10_001)}},
		{ruleConfigMissing, "GET", "/kv/a", nil},
		{ruleConfigMissing, "PUT", "/locks/a", nil},
	} {
		send := c.call
		switch before, _, _ := strings.Cut(k.path, "?"); planeOf(before) {
		case planeVault:
			send = c.secretCall
		case planeConfig:
			send = c.configCall
		}
		r := rules[k.rule]
		a := send(t, k.method, k.path, k.body)
		code := a.code()
		if text, ok := a.body["title"].(string); ok { // App Configuration's
			code = text
		}
		if text, ok := a.body["error"].(string); ok { // a token's
			code = text
		}
		if a.status != r.Status || a.rule() != k.rule || code != r.Code {
			t.Errorf("%s %s %v: %d %s by rule %q, want %d %s by %q: %v", k.method, k.path, k.body, a.status, code, a.rule(), r.Status, r.Code, k.rule, a.body)
		}
		delete(untested, k.rule)
	}
	// These have tests of their own: TestTokens, TestRights, TestLimits, TestImages, TestSettings.
	for _, id := range []string{ruleNoToken, ruleToken, ruleTokenExpired, ruleTokenAudience, ruleRights, ruleVaultToken, ruleVaultRights, ruleQuota, ruleThrottled, ruleARMThrottled, ruleInaccessible, ruleConfigMatch, ruleConfigLocked} {
		delete(untested, id)
	}
	tests := testNames(t)
	for id, r := range untested {
		if r.Status != 0 || !slices.Contains(tests, r.Test) {
			t.Errorf("rule %s is shown by no test", id)
		}
	}
	if a := c.call(t, http.MethodPut, c.groupPath("good"), good); a.status != 201 {
		t.Errorf("the legal request is refused: %v", a.body)
	}
	testwait.Until(t, long, "end of the legal group", func() bool { g := c.get(t, "good"); return *g.Properties.InstanceView.State == "Succeeded" })
}

// testNames are the names of this package's tests.
func testNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out
}

// FuzzRead takes from a body nothing but what the types have.
func FuzzRead(f *testing.F) {
	seed, err := json.Marshal(plainGroup())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	for _, s := range []string{`{}`, `null`, `[]`, `{"properties":null}`, `{"properties":{"containers":[null]}}`, `{"properties":{"containers":[{}]}}`, `{"tags":{"a":null}}`, `{"identity":{}}`,
		`{"properties":{"osType":"Linux","subnetIds":[{}],"imageRegistryCredentials":[{}],"containers":[{"name":"a","properties":{"image":"i","resources":{"requests":{"cpu":1e400}}}}]}}`} {
		f.Add([]byte(s))
	}
	s, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, body []byte) {
		var in arm.ContainerGroup
		if read(body, s.shapes.group, &in) != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, e := s.check("name", s.resources[0], &in); e != nil {
			return
		}
		// What was taken can be written and taken again; secrets aside.
		out, err := encode(in)
		if err != nil {
			t.Fatal(err)
		}
		var again arm.ContainerGroup
		if e := read(out, s.shapes.group, &again); e != nil {
			t.Errorf("%s isn't taken again: %v", out, e)
		}
	})
}
