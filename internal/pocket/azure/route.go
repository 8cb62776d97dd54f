package azure

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// plane is the API that an operation belongs to: each words errors in its own
// way.
type plane int

const (
	planeARM plane = iota
	planeToken
	planeVault
	planeConfig
)

// refuse writes a refusal.
func (p plane) refuse(e *Error, header http.Header) fault.Reply { return e.reply(p, header) }

// route is an operation.
type route struct {
	method, pattern string
	plane           plane
	// action is the operation's name in its API's own document.
	action string
	// permission is what the caller must be allowed, empty for nothing.
	permission string
	// query are the parameters that it takes besides api-version.
	query []string
	// versions are the API versions that have it; nil means any.
	versions func() []string
	// do carries it out under the lock.
	do func(*Server, *call) (result, *Error)

	segments []string
}

const (
	actionToken   = "Token"
	actionTokenV1 = "TokenV1"
)

// containerVersions are the versions of Container Instances whose container
// groups the pocket cloud understands; the members are those of 2023-05-01. See
// https://learn.microsoft.com/en-us/azure/templates/microsoft.containerinstance/change-log/containergroups
func containerVersions() []string {
	return []string{"2021-03-01", "2021-07-01", "2021-09-01", "2021-10-01", "2022-09-01", "2022-10-01-preview", "2023-05-01"}
}

// vaultVersions are those of Key Vault's secrets. See
// https://learn.microsoft.com/en-us/rest/api/keyvault/secrets/operation-groups
func vaultVersions() []string {
	return []string{"7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "2025-07-01", "2026-04-01"}
}

// configVersions are those of App Configuration's data. See
// https://learn.microsoft.com/en-us/azure/azure-app-configuration/rest-api-versioning
func configVersions() []string { return []string{"1.0", "2023-10-01", "2023-11-01", "2026-04-01"} }

// metricVersions are those of Azure Monitor's metrics. See
// https://learn.microsoft.com/en-us/rest/api/monitor/metrics/list
func metricVersions() []string {
	return []string{"2018-01-01", "2019-07-01", "2021-05-01", "2022-10-01-preview", "2023-10-01", "2024-02-01"}
}

// routes are the operations that a driver of jobs and workloads uses. Their names are those of
// https://github.com/Azure/azure-rest-api-specs
func routes() []route {
	const (
		subscription = "/subscriptions/{subscription}"
		rg           = subscription + "/resourceGroups/{rg}"
		instances    = "/providers/Microsoft.ContainerInstance"
		group        = rg + instances + "/containerGroups/{name}"
		kind         = "Microsoft.ContainerInstance/"
		resources    = "Microsoft.Resources/subscriptions/"
		secret       = "/secrets/{secret}"
		secrets      = "Microsoft.KeyVault/vaults/secrets/"
	)
	out := []route{
		{method: "POST", pattern: "/{tenant}/oauth2/v2.0/token", plane: planeToken, action: actionToken, do: (*Server).issueToken},
		{method: "POST", pattern: "/{tenant}/oauth2/token", plane: planeToken, action: actionTokenV1, do: (*Server).issueToken},
		{method: "GET", pattern: "/common/discovery/instance", plane: planeToken, action: "InstanceDiscovery", do: (*Server).discovery},
		{method: "GET", pattern: "/{tenant}/v2.0/.well-known/openid-configuration", plane: planeToken, action: "OpenID", do: (*Server).openID},
		{method: "GET", pattern: IdentityPath, plane: planeToken, action: "IdentityToken", do: (*Server).identityToken},
		{method: "POST", pattern: IdentityPath, plane: planeToken, action: "IdentityToken", do: (*Server).identityToken},
		{method: "GET", pattern: "/metadata/identity/oauth2/token", plane: planeToken, action: "IdentityToken", do: (*Server).identityToken},

		{method: "GET", pattern: "/tenants", action: "Tenants_List", do: (*Server).listTenants},
		{method: "GET", pattern: "/subscriptions", action: "Subscriptions_List", do: (*Server).listSubscriptions},
		{method: "GET", pattern: subscription, action: "Subscriptions_Get", permission: resources + "read", do: (*Server).getSubscription},
		{method: "GET", pattern: subscription + "/resourceGroups", action: "ResourceGroups_List", permission: resources + "resourceGroups/read", query: []string{"$filter", "$top"}, do: (*Server).listResourceGroups},
		{method: "GET", pattern: rg, action: "ResourceGroups_Get", permission: resources + "resourceGroups/read", do: (*Server).getResourceGroup},
		{method: "HEAD", pattern: rg, action: "ResourceGroups_CheckExistence", permission: resources + "resourceGroups/read", do: (*Server).headResourceGroup},
		{method: "PUT", pattern: rg, action: "ResourceGroups_CreateOrUpdate", permission: resources + "resourceGroups/write", do: (*Server).putResourceGroup},
		{method: "GET", pattern: rg + "/providers/Microsoft.Authorization/permissions", action: "Permissions_ListForResourceGroup", permission: "", do: (*Server).listPermissions},

		{method: "PUT", pattern: group, action: "ContainerGroups_CreateOrUpdate", permission: kind + "containerGroups/write", do: (*Server).putGroup},
		{method: "GET", pattern: group, action: "ContainerGroups_Get", permission: kind + "containerGroups/read", do: (*Server).getGroup},
		{method: "PATCH", pattern: group, action: "ContainerGroups_Update", permission: kind + "containerGroups/write", do: (*Server).patchGroup},
		{method: "DELETE", pattern: group, action: "ContainerGroups_Delete", permission: kind + "containerGroups/delete", do: (*Server).deleteGroup},
		{method: "POST", pattern: group + "/stop", action: "ContainerGroups_Stop", permission: kind + "containerGroups/stop/action", do: (*Server).stopGroup},
		{method: "POST", pattern: group + "/start", action: "ContainerGroups_Start", permission: kind + "containerGroups/start/action", do: (*Server).startGroup},
		{method: "POST", pattern: group + "/restart", action: "ContainerGroups_Restart", permission: kind + "containerGroups/restart/action", do: (*Server).restartGroup},
		{method: "GET", pattern: rg + instances + "/containerGroups", action: "ContainerGroups_ListByResourceGroup", permission: kind + "containerGroups/read", query: []string{"$skiptoken"}, do: (*Server).listGroups},
		{method: "GET", pattern: subscription + instances + "/containerGroups", action: "ContainerGroups_List", permission: kind + "containerGroups/read", query: []string{"$skiptoken"}, do: (*Server).listGroups},
		{method: "GET", pattern: group + "/containers/{container}/logs", action: "Containers_ListLogs", permission: kind + "containerGroups/containers/logs/read", query: []string{"tail", "timestamps"}, do: (*Server).listLogs},
		{method: "POST", pattern: group + "/containers/{container}/exec", action: "Containers_ExecuteCommand", permission: kind + "containerGroups/containers/exec/action", do: (*Server).executeCommand},
		{method: "GET", pattern: group + "/providers/Microsoft.Insights/metrics", action: "Metrics_List", permission: "Microsoft.Insights/metrics/read",
			query: []string{"timespan", "interval", "metricnames", "aggregation", "$filter", "metricnamespace", "top", "orderby", "resultType", "AutoAdjustTimegrain", "ValidateDimensions"}, do: (*Server).listMetrics},
		{method: "GET", pattern: subscription + instances + "/locations/{location}/usages", action: "Location_ListUsage", permission: kind + "locations/usages/read", do: (*Server).listUsage},
		{method: "GET", pattern: subscription + instances + "/locations/{location}/operations/{operation}", action: "Location_GetOperation", permission: kind + "locations/operations/read", do: (*Server).getOperation},
		{method: "GET", pattern: subscription + instances + "/locations/{location}/operationresults/{operation}", action: "Location_GetOperationResult", permission: kind + "locations/operationresults/read", do: (*Server).getOperationResult},

		{method: "GET", pattern: "/secrets", plane: planeVault, action: "GetSecrets", permission: secrets + "readMetadata/action", query: []string{"maxresults", "$skiptoken"}, do: (*Server).getSecrets},
		{method: "PUT", pattern: secret, plane: planeVault, action: "SetSecret", permission: secrets + "setSecret/action", do: (*Server).setSecret},
		{method: "DELETE", pattern: secret, plane: planeVault, action: "DeleteSecret", permission: secrets + "delete", do: (*Server).deleteSecret},
		{method: "GET", pattern: secret, plane: planeVault, action: "GetSecret", permission: secrets + "getSecret/action", query: []string{"outContentType"}, do: (*Server).getSecret},
		{method: "GET", pattern: secret + "/versions", plane: planeVault, action: "GetSecretVersions", permission: secrets + "readMetadata/action", query: []string{"maxresults", "$skiptoken"}, do: (*Server).getSecretVersions},
		{method: "GET", pattern: secret + "/{version}", plane: planeVault, action: "GetSecret", permission: secrets + "getSecret/action", query: []string{"outContentType"}, do: (*Server).getSecret},
		{method: "PATCH", pattern: secret + "/{version}", plane: planeVault, action: "UpdateSecret", permission: secrets + "update/action", do: (*Server).updateSecret},
		{method: "GET", pattern: "/deletedsecrets/{secret}", plane: planeVault, action: "GetDeletedSecret", permission: secrets + "readMetadata/action", do: (*Server).getDeletedSecret},
		{method: "DELETE", pattern: "/deletedsecrets/{secret}", plane: planeVault, action: "PurgeDeletedSecret", permission: secrets + "purge/action", do: (*Server).purgeSecret},
	}
	const config = "Microsoft.AppConfiguration/configurationStores/keyValues/"
	out = append(out,
		route{method: "GET", pattern: "/kv", plane: planeConfig, action: "GetKeyValues", permission: config + "read", query: []string{"key", "label", "after", "After", "$Select"}, do: (*Server).listSettings},
		route{method: "GET", pattern: "/kv/{key}", plane: planeConfig, action: "GetKeyValue", permission: config + "read", query: []string{"label", "$Select"}, do: (*Server).getSetting},
		route{method: "PUT", pattern: "/kv/{key}", plane: planeConfig, action: "PutKeyValue", permission: config + "write", query: []string{"label"}, do: (*Server).putSetting},
		route{method: "DELETE", pattern: "/kv/{key}", plane: planeConfig, action: "DeleteKeyValue", permission: config + "delete", query: []string{"label"}, do: (*Server).deleteSetting},
		route{method: "PUT", pattern: "/locks/{key}", plane: planeConfig, action: "PutLock", permission: config + "write", query: []string{"label"}, do: (*Server).lockSetting},
		route{method: "DELETE", pattern: "/locks/{key}", plane: planeConfig, action: "DeleteLock", permission: config + "write", query: []string{"label"}, do: (*Server).lockSetting},
	)
	const managed = "Microsoft.ContainerService/managedClusters/"
	out = append(out, route{method: "POST", pattern: rg + "/providers/Microsoft.ContainerService/managedClusters/{name}/listClusterUserCredential", action: "ManagedClusters_ListClusterUserCredentials",
		permission: managed + "listClusterUserCredential/action", query: []string{"server-fqdn", "format"}, do: (*Server).listClusterUserCredential})
	for i := range out {
		r := &out[i]
		r.segments = segments(r.pattern)
		switch {
		case r.plane == planeVault:
			r.versions = vaultVersions
		case r.plane == planeConfig:
			r.versions = configVersions
		case r.action == "Metrics_List":
			r.versions = metricVersions
		case strings.HasPrefix(r.permission, managed):
			r.versions = clusterVersions
		case strings.HasPrefix(r.permission, kind):
			r.versions = containerVersions
		}
	}
	return out
}

// Actions returns the names of the operations, once each.
func Actions() []string {
	var out []string
	for _, r := range routes() {
		if !slices.Contains(out, r.action) {
			out = append(out, r.action)
		}
	}
	return out
}

// segments splits a path. Empty parts count for nothing: clients write double
// and trailing slashes.
func segments(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
}

// vaultPath leads to a vault other than that of the host's name.
const vaultPath = "vaults"

// planeOf tells which API a path without an operation would be of.
func planeOf(path string) plane {
	if parts := segments(path); len(parts) > 0 && slices.Contains([]string{"kv", "locks"}, parts[0]) {
		return planeConfig
	}
	if parts := segments(path); len(parts) > 0 && slices.Contains([]string{"secrets", "deletedsecrets", vaultPath}, strings.ToLower(parts[0])) {
		return planeVault
	}
	return planeARM
}

// match finds a call's operation. Fixed parts of paths are compared without
// case, as Resource Manager does.
func (s *Server) match(c *call) bool {
	parts := segments(c.request.URL.EscapedPath())
	for i, p := range parts {
		if raw, err := url.PathUnescape(p); err == nil {
			parts[i] = raw
		}
	}
	name := vaultOfHost(c.request.Host)
	if len(parts) > 2 && parts[0] == vaultPath {
		name, parts = parts[1], parts[2:]
	}
	for i := range s.routes {
		r := &s.routes[i]
		if r.method != c.request.Method || len(r.segments) != len(parts) {
			continue
		}
		path, ok := map[string]string{}, true
		for j, want := range r.segments {
			if variable, is := strings.CutPrefix(want, "{"); is {
				path[strings.TrimSuffix(variable, "}")] = parts[j]
			} else if ok = strings.EqualFold(want, parts[j]); !ok {
				break
			}
		}
		if ok {
			path["vault"], path["store"] = name, storeOfHost(c.request.Host)
			c.route, c.path = r, path
			return true
		}
	}
	return false
}

// storeOfHost is the store of App Configuration that a host's name means:
// NAME.azconfig.localhost, else the one that there always is.
func storeOfHost(host string) string {
	name, rest, ok := strings.Cut(host, ".")
	if ok && strings.HasPrefix(rest, "azconfig.") {
		return strings.ToLower(name)
	}
	return Store
}

// vaultOfHost is the vault that a host's name means: NAME.vault.localhost, else
// the one that there always is.
func vaultOfHost(host string) string {
	name, rest, ok := strings.Cut(host, ".")
	if ok && strings.HasPrefix(rest, "vault.") {
		return strings.ToLower(name)
	}
	return Vault
}

var dateForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(-[a-z]+)?$`)
})

// admit checks who calls, for what and by which version.
func (s *Server) admit(c *call) *Error {
	r := c.route
	if r.plane == planeToken {
		return nil
	}
	if e := s.authenticate(c); e != nil {
		return e
	}
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return refuse(ruleQuery, "The query is malformed: %v.", err)
	}
	version := query.Get("api-version")
	if version == "" {
		return refuse(ruleNoVersion, "The api-version query parameter (?api-version=) is required for all requests.")
	}
	if r.versions != nil && !slices.Contains(r.versions(), version) {
		return refuse(ruleVersion, "No registered resource provider found for location '%s' and API version '%s' for this type. The supported api-versions are '%s'.", s.o.Location, version, strings.Join(r.versions(), ", "))
	}
	if r.versions == nil && !dateForm().MatchString(version) {
		return refuse(ruleVersion, "The api-version '%s' is invalid.", version)
	}
	for name, values := range query {
		if name != "api-version" && !slices.Contains(r.query, name) || len(values) > 1 {
			return refuse(ruleQuery, "%s has no query parameter '%s', or not twice.", r.action, name)
		}
	}
	if sub, ok := c.path["subscription"]; ok && !strings.EqualFold(sub, s.o.SubscriptionID) {
		return refuse(ruleSubscription, "The subscription '%s' could not be found.", sub)
	}
	if e := s.takeCall(c); e != nil {
		return e
	}
	return s.authorize(c)
}

// authorize checks what the caller may do.
func (s *Server) authorize(c *call) *Error {
	need := c.route.permission
	if need == "" || s.allowed(c.who.Client, need) {
		return nil
	}
	if c.route.plane == planeVault {
		e := refuse(ruleVaultRights, "Caller is not authorized to perform action on resource.\r\nIf role assignments, deny assignments or role definitions were changed recently, please observe propagation time.\r\nCaller: appid=%s;oid=%s;iss=%s\r\nAction: '%s'\r\nVault: %s;location=%s\r\n",
			c.who.Client, c.who.Object, c.who.Issuer, need, c.path["vault"], s.o.Location)
		e.Inner = "ForbiddenByRbac"
		return e
	}
	return refuse(ruleRights, "The client '%s' with object id '%s' does not have authorization to perform action '%s' over scope '%s' or the scope is invalid. If access was recently granted, please refresh your credentials.",
		c.who.Client, c.who.Object, need, c.request.URL.Path)
}

// allowed says whether a client has a permission.
func (s *Server) allowed(client, permission string) bool {
	if slices.ContainsFunc(s.denied, func(p string) bool { return wildcard(p, permission) }) {
		return false
	}
	known, ok := s.o.Clients[client]
	if !ok || known.Actions == nil {
		return true
	}
	return slices.ContainsFunc(known.Actions, func(p string) bool { return wildcard(p, permission) })
}

// wildcard matches a permission with a pattern in which a star stands for any
// text. See https://learn.microsoft.com/en-us/azure/role-based-access-control/role-definitions
func wildcard(pattern, permission string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	text, ok := strings.CutPrefix(strings.ToLower(permission), parts[0])
	if len(parts) == 1 || !ok {
		return ok && text == ""
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, p)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// Deny takes permissions away from all callers, by patterns such as
// "Microsoft.ContainerInstance/containerGroups/*", and returns the function that
// gives them back.
func (s *Server) Deny(permissions ...string) (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.denied
	s.denied = append(slices.Clone(old), permissions...)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.denied = old
	}
}
