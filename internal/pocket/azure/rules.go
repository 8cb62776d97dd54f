package azure

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// RuleHeader names the rule that a refusal follows, which the real APIs don't
// do.
const RuleHeader = "X-Pocket-Rule"

// Rule is one rule of behaviour.
type Rule struct {
	// ID is its name.
	ID string
	// Status is the HTTP status of a call that breaks it; 0 for a rule that
	// says what happens rather than what is refused.
	Status int
	// Code is the error's, as the API words it.
	Code string
	// Text says what holds.
	Text string
	// Doc is the address of the page that says so.
	Doc string
	// Test names the test that shows a rule without a status.
	Test string
}

// The rules that a refusal names.
const (
	ruleRoute             = "route"
	ruleQuery             = "query"
	ruleCluster           = "cluster"
	ruleBody              = "body"
	ruleType              = "type"
	ruleUnknown           = "unknown-member"
	ruleNoVersion         = "api-version-missing"
	ruleVersion           = "api-version"
	ruleTenant            = "token-tenant"
	ruleGrant             = "token-grant"
	ruleScope             = "token-scope"
	ruleResource          = "token-resource"
	ruleClient            = "token-client"
	ruleSecret            = "token-secret"
	ruleIdentity          = "identity-header"
	ruleNoToken           = "token-missing"
	ruleToken             = "token"
	ruleTokenExpired      = "token-expired"
	ruleTokenAudience     = "token-audience"
	ruleRights            = "rights"
	ruleSubscription      = "subscription"
	ruleResourceGroup     = "resource-group"
	ruleResourceGroupName = "resource-group-name"
	ruleLocation          = "location"
	ruleLocationMissing   = "location-missing"
	ruleTagCount          = "tag-count"
	ruleTagLength         = "tag-length"
	ruleTagName           = "tag-name"
	ruleTagTwice          = "tag-twice"
	ruleGroup             = "group"
	ruleGroupName         = "group-name"
	ruleUnsupported       = "unsupported"
	ruleOSType            = "os-type"
	ruleRestartPolicy     = "restart-policy"
	ruleSKU               = "sku"
	rulePriority          = "priority"
	ruleIdentityType      = "identity-type"
	ruleIdentityUser      = "identity-user"
	ruleSubnet            = "subnet"
	ruleAddress           = "address"
	ruleRegistry          = "registry"
	ruleRegistryServer    = "registry-server"
	ruleContainers        = "containers"
	ruleContainer         = "container"
	ruleContainerName     = "container-name"
	ruleContainerTwice    = "container-twice"
	ruleImage             = "image"
	ruleInaccessible      = "image-inaccessible"
	ruleCommand           = "command"
	ruleResources         = "resources"
	ruleResourceValue     = "resource-value"
	ruleResourceLimit     = "resource-limit"
	ruleMemoryStep        = "memory-step"
	ruleSize              = "size"
	ruleEnvName           = "env-name"
	ruleEnvValue          = "env-value"
	ruleTransitioning     = "transitioning"
	ruleUpdate            = "update"
	rulePatch             = "patch"
	ruleQuota             = "quota"
	ruleThrottled         = "rate"
	ruleARMThrottled      = "rate-subscription"
	ruleTail              = "log-query"
	ruleExecCommand       = "exec-command"
	ruleExecRunning       = "exec-running"
	ruleMetricName        = "metric-name"
	ruleMetricTime        = "metric-time"
	ruleMetricFilter      = "metric-filter"
	ruleOperation         = "operation"
	ruleVaultToken        = "vault-challenge"
	ruleVaultRights       = "vault-rights"
	ruleVaultName         = "vault-name"
	ruleSecretName        = "secret-name"
	ruleSecretVersion     = "secret-version"
	ruleSecretValue       = "secret-value"
	ruleSecretSize        = "secret-size"
	ruleSecretTags        = "secret-tags"
	ruleSecretMissing     = "secret"
	ruleSecretDisabled    = "secret-disabled"
	ruleSecretDeleted     = "secret-deleted"
	ruleConfigKey         = "setting-key"
	ruleConfigBody        = "setting-body"
	ruleConfigMatch       = "setting-state"
	ruleConfigLocked      = "setting-locked"
	ruleConfigSize        = "setting-size"
	ruleConfigMissing     = "setting"
	ruleMaxResults        = "secret-page"
)

const (
	learn         = "https://learn.microsoft.com/en-us/"
	aci           = learn + "azure/container-instances/"
	restPage      = learn + "rest/api/container-instances/"
	createPage    = restPage + "container-groups/create-or-update"
	groupPage     = learn + "azure/templates/microsoft.containerinstance/2023-05-01/containergroups"
	armErrors     = learn + "azure/azure-resource-manager/troubleshooting/common-deployment-errors"
	armTags       = learn + "azure/azure-resource-manager/management/tag-resources"
	tokenPage     = learn + "entra/identity-platform/v2-oauth2-client-creds-grant-flow"
	aadErrors     = learn + "entra/identity-platform/reference-error-codes"
	identities    = learn + "azure/app-service/overview-managed-identity"
	trouble       = learn + "troubleshoot/azure/azure-container-instances/"
	statePage     = aci + "container-state"
	updatePage    = aci + "container-instances-update"
	quotaPage     = aci + "container-instances-resource-and-quota-limits"
	stopPage      = aci + "container-instances-stop-start"
	metricPage    = learn + "azure/azure-monitor/reference/supported-metrics/microsoft-containerinstance-containergroups-metrics"
	configPageDoc = learn + "azure/azure-app-configuration/rest-api-key-value"
	kvErrors      = learn + "azure/key-vault/general/rest-error-codes"
	kvAuth        = learn + "azure/key-vault/general/authentication-requests-and-responses"
	kvSecrets     = learn + "azure/key-vault/secrets/about-secrets"
	kvNames       = learn + "azure/key-vault/general/about-keys-secrets-certificates"
	kvRest        = learn + "rest/api/keyvault/secrets/"
)

// Rules returns the rules that the cloud keeps.
func Rules() []Rule {
	const bad = http.StatusBadRequest
	return []Rule{
		{ID: ruleRoute, Status: 404, Code: "NotFound", Text: "There are no other operations.", Doc: restPage + "operation-groups"},
		{ID: ruleQuery, Status: bad, Code: "InvalidRequestUri", Text: "An operation takes no query parameters but its own, once each.", Doc: createPage},
		{ID: ruleBody, Status: bad, Code: "InvalidRequestContent", Text: "A body is one JSON value.", Doc: armErrors},
		{ID: ruleType, Status: bad, Code: "InvalidRequestContent", Text: "A member's value has the member's type.", Doc: armErrors},
		{ID: ruleUnknown, Status: bad, Code: "InvalidRequestContent", Text: "A body has no members that the API doesn't know; read-only ones are overlooked.", Doc: armErrors},
		{ID: ruleNoVersion, Status: bad, Code: "MissingApiVersionParameter", Text: "A call names the version of the API.", Doc: learn + "azure/azure-resource-manager/management/resource-providers-and-types"},
		{ID: ruleVersion, Status: bad, Code: "NoRegisteredProviderFound", Text: "The version of the API is one of those whose members the pocket cloud knows.", Doc: learn + "azure/azure-resource-manager/troubleshooting/error-register-resource-provider"},

		{ID: ruleTenant, Status: bad, Code: "invalid_request", Text: "Tokens are given out for one tenant.", Doc: aadErrors},
		{ID: ruleGrant, Status: bad, Code: "unsupported_grant_type", Text: "Service principals get tokens by their client credentials.", Doc: tokenPage},
		{ID: ruleScope, Status: bad, Code: "invalid_scope", Text: "The scope is a resource with /.default behind it.", Doc: tokenPage},
		{ID: ruleResource, Status: bad, Code: "invalid_resource", Text: "The resource is Resource Manager's, by any of its addresses, or Key Vault's.", Doc: aadErrors},
		{ID: ruleClient, Status: bad, Code: "unauthorized_client", Text: "The client must exist.", Doc: aadErrors},
		{ID: ruleSecret, Status: 401, Code: "invalid_client", Text: "The client's secret or federated token must be the right one.", Doc: aadErrors},
		{ID: ruleIdentity, Status: bad, Code: "invalid_request", Text: "The endpoint of managed identities wants its header.", Doc: identities},

		{ID: ruleNoToken, Status: 401, Code: "AuthenticationFailed", Text: "A call bears a token.", Doc: learn + "rest/api/azure/"},
		{ID: ruleToken, Status: 401, Code: "InvalidAuthenticationToken", Text: "The token is one that this cloud gave out.", Doc: learn + "rest/api/azure/"},
		{ID: ruleTokenExpired, Status: 401, Code: "ExpiredAuthenticationToken", Text: "The token must not have expired.", Doc: learn + "rest/api/azure/"},
		{ID: ruleTokenAudience, Status: 401, Code: "InvalidAuthenticationTokenAudience", Text: "The token is for the API that it is shown to.", Doc: learn + "rest/api/azure/"},
		{ID: ruleRights, Status: 403, Code: "AuthorizationFailed", Text: "The caller has the permission for the operation.", Doc: learn + "azure/role-based-access-control/troubleshooting"},
		{ID: ruleSubscription, Status: 404, Code: "SubscriptionNotFound", Text: "There is one subscription.", Doc: armErrors},
		{ID: ruleResourceGroup, Status: 404, Code: "ResourceGroupNotFound", Text: "The resource group must exist.", Doc: learn + "azure/azure-resource-manager/troubleshooting/error-not-found"},
		{ID: ruleResourceGroupName, Status: bad, Code: "InvalidResourceGroup", Text: "A resource group's name has 1 to 90 letters, digits, hyphens, underscores, periods and parentheses, and doesn't end with a period.", Doc: learn + "azure/azure-resource-manager/management/resource-name-rules"},
		{ID: ruleLocation, Status: bad, Code: "LocationNotAvailableForResourceType", Text: "There is one location.", Doc: learn + "azure/azure-resource-manager/troubleshooting/error-sku-not-available"},
		{ID: ruleLocationMissing, Status: bad, Code: "LocationRequired", Text: "A resource has a location.", Doc: armErrors},
		{ID: ruleTagCount, Status: bad, Code: "InvalidTagCount", Text: "A resource has up to 50 tags.", Doc: armTags},
		{ID: ruleTagLength, Status: bad, Code: "InvalidTagLength", Text: "A tag's name has up to 512 characters, its value up to 256.", Doc: armTags},
		{ID: ruleTagName, Status: bad, Code: "InvalidTagNameCharacters", Text: "A tag's name has none of < > % & \\ ? /", Doc: armTags},
		{ID: ruleTagTwice, Status: bad, Code: "InvalidRequestContent", Text: "Names of tags are compared without case.", Doc: armTags},

		{ID: ruleCluster, Status: 404, Code: "ResourceNotFound", Text: "The managed cluster must exist.", Doc: learn + "rest/api/aks/managed-clusters/list-cluster-user-credentials"},
		{ID: ruleGroup, Status: 404, Code: "ResourceNotFound", Text: "The container group must exist.", Doc: learn + "azure/azure-resource-manager/troubleshooting/error-not-found"},
		{ID: ruleGroupName, Status: bad, Code: "InvalidContainerGroupName", Text: "A group's name has 1 to 63 lowercase letters, numbers and single hyphens, and begins and ends with none.", Doc: groupPage},
		{ID: ruleUnsupported, Status: bad, Code: "NotSupported", Text: "What the pocket cloud can't do is refused, never overlooked: volumes, init containers, DNS names, probes, GPUs, Windows, Spot, confidential and dedicated groups, zones, DNS, diagnostics, own keys.", Doc: createPage},
		{ID: ruleOSType, Status: bad, Code: "InvalidOsType", Text: "A group has an osType.", Doc: "https://github.com/MicrosoftLearning/mslearn-azure-developer/pull/67"},
		{ID: ruleRestartPolicy, Status: bad, Code: "InvalidRestartPolicy", Text: "The restart policy is Always, OnFailure or Never.", Doc: aci + "container-instances-restart-policy"},
		{ID: ruleSKU, Status: bad, Code: "InvalidSku", Text: "The sku is Standard, Dedicated or Confidential.", Doc: groupPage},
		{ID: rulePriority, Status: bad, Code: "InvalidPriority", Text: "The priority is Regular or Spot.", Doc: groupPage},
		{ID: ruleIdentityType, Status: bad, Code: "InvalidIdentityType", Text: "An identity has a type.", Doc: aci + "container-instances-managed-identity"},
		{ID: ruleIdentityUser, Status: bad, Code: "InvalidIdentityValues", Text: "User assigned identities are resource IDs, and go with their type.", Doc: aci + "container-instances-managed-identity"},
		{ID: ruleSubnet, Status: bad, Code: "InvalidSubnet", Text: "A group has up to one subnet, given by its resource ID.", Doc: aci + "container-instances-virtual-network-concepts"},
		{ID: ruleAddress, Status: bad, Code: "InvalidIPAddress", Text: "A group's address is public without a subnet and private in one, and has ports, each once and each a container's.", Doc: aci + "container-instances-container-groups"},
		{ID: ruleRegistry, Status: bad, Code: "InvalidImageRegistryCredential", Text: "A registry's credentials are a name with a password, or an identity of the group.", Doc: aci + "container-instances-using-azure-container-registry"},
		{ID: ruleRegistryServer, Status: bad, Code: "InvalidImageRegistryCredentialServer", Text: "A registry's server has no protocol, and is given once.", Doc: groupPage},
		{ID: ruleContainers, Status: bad, Code: "InvalidContainerCount", Text: "A group has 1 to 60 containers.", Doc: quotaPage},
		{ID: ruleContainer, Status: 404, Code: "ContainerNotFound", Text: "The container must be the group's.", Doc: restPage + "containers/list-logs"},
		{ID: ruleContainerName, Status: bad, Code: "InvalidContainerName", Text: "A container's name has the form of a group's.", Doc: learn + "azure/azure-resource-manager/management/resource-name-rules"},
		{ID: ruleContainerTwice, Status: bad, Code: "DuplicateContainerName", Text: "A container's name is unique in its group.", Doc: groupPage},
		{ID: ruleImage, Status: bad, Code: "InvalidImageName", Text: "A container has an image.", Doc: groupPage},
		{ID: ruleInaccessible, Status: bad, Code: "InaccessibleImage", Text: "The image can be pulled (any can unless a knob lists those that there are).", Doc: trouble + "configuration-setup/inaccessible-image"},
		{ID: ruleCommand, Status: bad, Code: "InvalidContainerCommand", Text: "A command has no NUL characters.", Doc: aci + "container-instances-start-command"},
		{ID: ruleResources, Status: bad, Code: "ResourceRequestsNotSpecified", Text: "A container asks for CPU and memory.", Doc: "https://github.com/MicrosoftLearning/mslearn-azure-developer/pull/67"},
		{ID: ruleResourceValue, Status: bad, Code: "InvalidResourceRequest", Text: "It asks for some of each.", Doc: groupPage},
		{ID: ruleResourceLimit, Status: bad, Code: "InvalidResourceLimits", Text: "Limits aren't below requests.", Doc: aci + "container-instances-container-groups"},
		{ID: ruleMemoryStep, Status: bad, Code: "InvalidMemoryRequest", Text: "Memory is asked for in steps of 0.1 GB.", Doc: "https://github.com/Azure/azure-cli/issues/7355"},
		{ID: ruleSize, Status: 409, Code: "ServiceUnavailable", Text: "A group has up to 4 CPUs and 16 GB; a larger one is refused like one that there is no room for.", Doc: "https://github.com/Azure/azure-cli/issues/7355"},
		{ID: ruleEnvName, Status: bad, Code: "InvalidContainerEnvironmentVariable", Text: "A variable's name has letters, digits and underscores, and begins with no digit.", Doc: aci + "container-instances-environment-variables"},
		{ID: ruleEnvValue, Status: bad, Code: "InvalidContainerEnvironmentVariable", Text: "A variable has a value or a secure value, without NUL characters.", Doc: aci + "container-instances-environment-variables"},
		{ID: ruleTransitioning, Status: 409, Code: "ContainerGroupTransitioning", Text: "A group with which something goes on can't be put, started, restarted or stopped (nor deleted, by a knob).", Doc: trouble + "configuration-setup/container-group-transitioning-state"},
		{ID: ruleUpdate, Status: bad, Code: "InvalidContainerGroupUpdate", Text: "OS type, restart policy, subnet, CPU and memory of a group that hasn't ended can't be changed.", Doc: updatePage},
		{ID: rulePatch, Status: bad, Code: "InvalidRequestContent", Text: "A PATCH changes tags alone.", Doc: restPage + "container-groups/update"},
		{ID: ruleQuota, Status: bad, Code: "ContainerGroupQuotaReached", Text: "There are up to 100 groups, and 100 CPUs in groups that haven't ended (off unless set).", Doc: quotaPage},
		{ID: ruleThrottled, Status: 429, Code: "TooManyRequests", Text: "300 creates and 300 deletes an hour, 100 in 5 minutes (off unless set).", Doc: quotaPage},
		{ID: ruleARMThrottled, Status: 429, Code: "SubscriptionRequestsThrottled", Text: "A caller has a bucket of 250 reads, 200 writes and 200 deletes, filled by 25, 10 and 10 a second (off unless set).", Doc: learn + "azure/azure-resource-manager/management/request-limits-and-throttling"},
		{ID: ruleTail, Status: bad, Code: "InvalidRequestUri", Text: "tail is a positive number, timestamps true or false.", Doc: restPage + "containers/list-logs"},
		{ID: ruleExecCommand, Status: bad, Code: "InvalidExecRequest", Text: "An exec names a command, and a terminal's size from 1 up.", Doc: restPage + "containers/execute-command"},
		{ID: ruleExecRunning, Status: 409, Code: "ContainerNotRunning", Text: "The container runs in which a command is to be run.", Doc: restPage + "containers/execute-command"},
		{ID: ruleMetricName, Status: bad, Code: "BadRequest", Text: "Metrics are CpuUsage, MemoryUsage and bytes received and transmitted per second, of which the last two have no values here.", Doc: metricPage},
		{ID: ruleMetricTime, Status: bad, Code: "BadRequest", Text: "The interval is one of those that the metrics have, the timespan two times, the aggregations are the API's.", Doc: learn + "rest/api/monitor/metrics/list"},
		{ID: ruleMetricFilter, Status: bad, Code: "BadRequest", Text: "A filter asks for one container, or for all apart, by the dimension containerName.", Doc: learn + "rest/api/monitor/metrics/list"},
		{ID: ruleOperation, Status: 404, Code: "OperationNotFound", Text: "The operation must exist; ended ones are forgotten after a day.", Doc: learn + "azure/azure-resource-manager/management/async-operations"},

		{ID: ruleVaultToken, Status: 401, Code: "Unauthorized", Text: "A call without a token is told where to get one.", Doc: kvAuth},
		{ID: ruleVaultRights, Status: 403, Code: "Forbidden", Text: "The caller has the permission for the operation.", Doc: kvErrors},
		{ID: ruleVaultName, Status: bad, Code: "BadParameter", Text: "A vault's name has 3 to 24 letters, digits and hyphens, and begins with a letter.", Doc: kvNames},
		{ID: ruleSecretName, Status: bad, Code: "BadParameter", Text: "A secret's name has 1 to 127 letters, digits and hyphens.", Doc: kvNames},
		{ID: ruleSecretVersion, Status: bad, Code: "BadParameter", Text: "A version has 32 hexadecimal digits.", Doc: kvNames},
		{ID: ruleSecretValue, Status: bad, Code: "BadParameter", Text: "A secret has a value.", Doc: kvRest + "set-secret/set-secret"},
		{ID: ruleSecretSize, Status: bad, Code: "BadParameter", Text: "A secret has up to 25 KiB.", Doc: kvSecrets},
		{ID: ruleSecretTags, Status: bad, Code: "BadParameter", Text: "A secret has up to 15 tags, with names and values of up to 256 characters.", Doc: kvSecrets},
		{ID: ruleSecretMissing, Status: 404, Code: "SecretNotFound", Text: "The secret and its version must exist.", Doc: kvRest + "get-secret/get-secret"},
		{ID: ruleSecretDisabled, Status: 403, Code: "Forbidden", Text: "A disabled version can't be read; one outside its time can.", Doc: kvSecrets},
		{ID: ruleSecretDeleted, Status: 409, Code: "Conflict", Text: "The name of a deleted secret stays taken until the secret is purged.", Doc: learn + "azure/key-vault/general/soft-delete-overview"},
		{ID: ruleMaxResults, Status: bad, Code: "BadParameter", Text: "A page has up to 25 secrets.", Doc: kvRest + "get-secrets/get-secrets"},

		{ID: ruleConfigKey, Status: bad, Code: "InvalidKey", Text: "A setting's key isn't empty, . or .., and has no %.", Doc: configPageDoc},
		{ID: ruleConfigBody, Status: bad, Code: "InvalidBody", Text: "A setting has a value, a content type and tags.", Doc: configPageDoc},
		{ID: ruleConfigMatch, Status: 412, Code: "PreconditionFailed", Text: "A setting is written or deleted in the state that If-Match and If-None-Match ask for.", Doc: configPageDoc},
		{ID: ruleConfigLocked, Status: 409, Code: "KeyLocked", Text: "A setting that is locked isn't written or deleted.", Doc: learn + "azure/azure-app-configuration/rest-api-locks"},
		{ID: ruleConfigSize, Status: 413, Code: "PayloadTooLarge", Text: "A setting has up to 10,000 bytes with its key, label, content type and tags.", Doc: learn + "azure/azure-app-configuration/faq"},
		{ID: ruleConfigMissing, Status: 404, Code: "NotFound", Text: "The setting must exist.", Doc: configPageDoc},

		{ID: "put", Text: "A PUT answers 201 for a new group and 200 for one that is there, before it is deployed; Azure-AsyncOperation leads to how that goes.", Doc: statePage, Test: "TestPut"},
		{ID: "put-again", Text: "A PUT of a group that is there deploys it again: what runs is restarted in place, what has ended runs anew. There is no conditional PUT.", Doc: updatePage, Test: "TestF30PutAgain"},
		{ID: "provisioning", Text: "The provisioning state goes from Pending by Creating to Succeeded once the containers run, or to Failed.", Doc: statePage, Test: "TestStates"},
		{ID: "group-state", Text: "A group is Pending, Running, then Succeeded or Failed by its containers' codes, or Stopped; a knob shows another state than the containers have.", Doc: statePage, Test: "TestF30GroupState"},
		{ID: "container-state", Text: "A container is Waiting, Running, then Terminated with an exit code; what it was before a restart is its previous state.", Doc: statePage, Test: "TestStates"},
		{ID: "exit-codes", Text: "Exit codes are those of docker run: 127 and 126 for a command that can't be found or executed.", Doc: restPage + "container-groups/get#containerstate", Test: "TestUnstarted"},
		{ID: "restarts", Text: "With restart policy Always or OnFailure a container is run again, and counted.", Doc: aci + "container-instances-restart-policy", Test: "TestF32Restarts"},
		{ID: "command-replaces", Text: "A command takes the place of the image's entry point and command.", Doc: aci + "container-instances-start-command", Test: "TestCommand"},
		{ID: "secure-value", Text: "The value of a secure variable, and a registry's password, aren't shown again.", Doc: aci + "container-instances-environment-variables", Test: "TestSealed"},
		{ID: "lists", Text: "Lists leave instance views out.", Doc: "https://github.com/Azure/azure-sdk-for-net/issues/31058", Test: "TestJob"},
		{ID: "tags", Text: "A PATCH of tags replaces them, and leaves the containers alone.", Doc: restPage + "container-groups/update", Test: "TestTags"},
		{ID: "stop", Text: "A stop answers 204 at once, and ends the containers by TERM, then KILL; it has no effect on a group that has ended by itself.", Doc: stopPage, Test: "TestStop"},
		{ID: "start", Text: "A start deploys a stopped or ended group anew; a restart runs the containers once more.", Doc: stopPage, Test: "TestF98Start"},
		{ID: "new-address", Text: "A group that had ended and is deployed anew gets another address; one that is restarted in place keeps its own.", Doc: updatePage, Test: "TestF98Address"},
		{ID: "delete", Text: "A delete answers 200 with the group, 204 without one, or 202 for an operation (knob).", Doc: restPage + "container-groups/delete", Test: "TestDelete"},
		{ID: "log-size", Text: "A log has the last 4 MB; once its group was stopped, the last 16 KB or 1,000 lines.", Doc: quotaPage, Test: "TestLogSize"},
		{ID: "log-null", Text: "The log of a container that hasn't started is null.", Doc: "https://github.com/apache/airflow/pull/34627", Test: "TestF32LogNull"},
		{ID: "exec", Text: "An exec answers with the address of a websocket and its password, which is the first message; then it carries a terminal. Its command is one program without arguments, and its exit code isn't told.", Doc: aci + "container-instances-exec", Test: "TestExec"},
		{ID: "metrics", Text: "Metrics are series of minutes, of each container or of all together; a minute of which nothing is known has no value, as right after a start.", Doc: metricPage, Test: "TestF102Metrics"},
		{ID: "maintenance", Text: "The platform may end a container with code 7147 or 7148, and run it again (knob).", Doc: trouble + "management/container-group-restart-killing-event-interruption", Test: "TestMaintenance"},
		{ID: "pull", Text: "A container whose image can't be pulled waits; the deployment fails after 30 minutes.", Doc: statePage, Test: "TestPull"},
		{ID: "capacity", Text: "A deployment may fail after it was accepted, for want of a place (knob).", Doc: statePage, Test: "TestCapacity"},
		{ID: "rate-headers", Text: "Replies tell how many reads, writes or deletes are left, those to creates and deletes how many of them in 5 minutes and in an hour.", Doc: learn + "azure/azure-resource-manager/management/request-limits-and-throttling", Test: "TestLimits"},
	}
}

// Error is the refusal of a call.
type Error struct {
	Status        int
	Code, Message string
	// Inner is the code of the inner error that Key Vault adds.
	Inner string
	// Rule is empty for a refusal that follows none.
	Rule string
}

// refuse makes the refusal of a call that breaks a rule. An ID that isn't in the
// table is a mistake in the program.
func refuse(id, format string, args ...any) *Error {
	r := rule(id)
	return &Error{Status: r.Status, Code: r.Code, Message: fmt.Sprintf(format, args...), Rule: id}
}

// ruleError words a refusal as one of those for Faults.
func ruleError(id string, f *fault.Refusal) *Error {
	return &Error{Status: f.Status, Code: f.Code, Message: f.Message, Rule: rule(id).ID}
}

func rule(id string) Rule {
	rules := Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	if i < 0 || rules[i].Status == 0 {
		panic("azure: no rule " + id + " that refuses")
	}
	return rules[i]
}

// reply words a refusal as an API does: Resource Manager's form is
// https://learn.microsoft.com/en-us/rest/api/azure/#error-response-content
func (e *Error) reply(p plane, header http.Header) fault.Reply {
	header = maps.Clone(header)
	if e.Rule != "" {
		header.Set(RuleHeader, e.Rule)
	}
	inner := map[string]any{"code": e.Code, "message": e.Message}
	var body any = map[string]any{"error": inner}
	switch {
	case p == planeToken:
		number := 0
		if _, err := fmt.Sscanf(e.Message, "AADSTS%d:", &number); err != nil {
			number = 90000
		}
		body = map[string]any{"error": e.Code, "error_description": e.Message, "error_codes": []int{number}, "timestamp": header.Get("Date"),
			"trace_id": header.Get(requestHeader), "correlation_id": header.Get(requestHeader)}
	case p == planeConfig:
		// https://learn.microsoft.com/en-us/azure/azure-app-configuration/rest-api-key-value
		body = map[string]any{"type": "https://azconfig.io/errors/" + e.Rule, "title": e.Code, "detail": e.Message, "status": e.Status}
		header.Set("Content-Type", "application/problem+json; charset=utf-8")
	case p == planeVault && e.Inner != "":
		inner["innererror"] = map[string]string{"code": e.Inner}
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic("azure: write a refusal: " + err.Error()) // it has only strings and numbers
	}
	return fault.Reply{Status: e.Status, Header: header, Body: data}
}
