package digitalocean

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// RuleHeader names the rule that a refusal follows, which the real API doesn't
// do.
const RuleHeader = "X-Pocket-Rule"

// Rule is one rule of behaviour.
type Rule struct {
	// ID is its name.
	ID string
	// Status is the HTTP status of a call that breaks it; 0 for a rule that
	// says what happens rather than what is refused.
	Status int
	// Text says what holds.
	Text string
	// Doc is the address of the page that says so.
	Doc string
	// Test names the test that shows a rule without a status.
	Test string
}

// The rules that a refusal names.
const (
	ruleToken        = "token"
	ruleScope        = "scope"
	ruleRateHour     = "rate-hour"
	ruleRateMinute   = "rate-minute"
	ruleRoute        = "route"
	ruleQuery        = "query"
	ruleBody         = "body"
	ruleUnknown      = "unknown-member"
	ruleType         = "type"
	rulePage         = "page"
	ruleApp          = "app"
	ruleDeployment   = "deployment"
	ruleInvocation   = "invocation"
	ruleSize         = "instance-size-slug"
	ruleSpec         = "spec"
	ruleName         = "app-name"
	ruleNameTaken    = "app-name-taken"
	ruleRegion       = "region"
	ruleComponents   = "components"
	ruleCompName     = "component-name"
	ruleCompTwice    = "component-twice"
	ruleUnsupported  = "unsupported"
	ruleKind         = "job-kind"
	ruleSchedule     = "job-schedule"
	ruleCron         = "job-cron"
	ruleTimeZone     = "job-time-zone"
	ruleTimeout      = "job-timeout"
	ruleGrace        = "job-grace"
	ruleSlug         = "job-size"
	ruleCount        = "job-count"
	ruleSource       = "job-source"
	ruleRegistryType = "image-registry-type"
	ruleRegistry     = "image-registry"
	ruleRepository   = "image-repository"
	ruleTagDigest    = "image-tag-or-digest"
	ruleDeployOnPush = "image-deploy-on-push"
	ruleEnvKey       = "env-key"
	ruleEnvTwice     = "env-twice"
	ruleEnvScope     = "env-scope"
	ruleEnvType      = "env-type"
	ruleSealed       = "env-sealed"
	ruleCancelDone   = "cancel-ended"
	ruleLogType      = "log-type"
	ruleLogNone      = "log-none"
	ruleLogComponent = "log-component"
	ruleLogURL       = "log-url"
)

const (
	apiPage  = "https://docs.digitalocean.com/reference/api/digitalocean/#tag/Apps"
	opPage   = "https://docs.digitalocean.com/reference/api/digitalocean/#operation/"
	specPage = "https://docs.digitalocean.com/products/app-platform/reference/app-spec/"
	jobsPage = "https://docs.digitalocean.com/products/app-platform/how-to/manage-jobs/"
	envPage  = "https://docs.digitalocean.com/products/app-platform/how-to/use-environment-variables/"
	errPage  = "https://docs.digitalocean.com/products/app-platform/reference/error-codes/"
	costPage = "https://docs.digitalocean.com/products/app-platform/details/pricing/"
	capPage  = "https://docs.digitalocean.com/products/app-platform/details/limits/"
	logPage  = "https://docs.digitalocean.com/products/app-platform/how-to/view-logs/"
	ratePage = "https://docs.digitalocean.com/reference/api/intro/"
	doctl    = "https://docs.digitalocean.com/reference/doctl/reference/apps/"
)

// Rules returns the rules that the cloud keeps.
func Rules() []Rule {
	const bad = http.StatusBadRequest
	return []Rule{
		{ID: ruleToken, Status: 401, Text: "A call bears a token that the account knows.", Doc: "https://docs.digitalocean.com/reference/api/create-personal-access-token/"},
		{ID: ruleScope, Status: 403, Text: "A token with scopes may do what its scopes allow.", Doc: "https://docs.digitalocean.com/reference/api/scopes/"},
		{ID: ruleRateHour, Status: 429, Text: "5,000 calls an hour for a token; a call counts for an hour (off unless set).", Doc: ratePage},
		{ID: ruleRateMinute, Status: 429, Text: "250 calls a minute for a token; the refusal says when to come again (off unless set).", Doc: "https://docs.digitalocean.com/notes/2023/api-rate-limit/"},
		{ID: ruleRoute, Status: 404, Text: "There are no other operations.", Doc: apiPage},
		{ID: ruleQuery, Status: bad, Text: "An operation takes no query parameters but its own, once each where they are no lists.", Doc: apiPage},
		{ID: ruleBody, Status: bad, Text: "A body is one JSON value.", Doc: apiPage},
		{ID: ruleUnknown, Status: bad, Text: "A body has no members that the API doesn't know.", Doc: specPage},
		{ID: ruleType, Status: bad, Text: "A member's value has the member's type.", Doc: specPage},
		{ID: rulePage, Status: bad, Text: "page is 1 or more, per_page 1 to 200.", Doc: opPage + "apps_list"},
		{ID: ruleApp, Status: 404, Text: "The app must exist.", Doc: opPage + "apps_get"},
		{ID: ruleDeployment, Status: 404, Text: "The deployment must exist and be the app's.", Doc: opPage + "apps_get_deployment"},
		{ID: ruleInvocation, Status: 404, Text: "The job invocation must exist and be the app's, and the job's that is named.", Doc: opPage + "apps_get_job_invocation"},
		{ID: ruleSize, Status: 404, Text: "The instance size must exist.", Doc: opPage + "apps_get_instanceSize"},

		{ID: ruleSpec, Status: bad, Text: "A request has a spec.", Doc: opPage + "apps_create"},
		{ID: ruleName, Status: bad, Text: "An app's name has 2 to 32 of a-z, 0-9 and hyphens, begins with a letter and ends with no hyphen.", Doc: opPage + "apps_create"},
		{ID: ruleNameTaken, Status: http.StatusConflict, Text: "An app's name is unique in the account.", Doc: opPage + "apps_create"},
		{ID: ruleRegion, Status: bad, Text: "The region is one of the list.", Doc: opPage + "apps_list_regions"},
		{ID: ruleComponents, Status: bad, Text: "An app has a component.", Doc: specPage},
		{ID: ruleCompName, Status: bad, Text: "A component's name has the form of an app's.", Doc: specPage},
		{ID: ruleCompTwice, Status: bad, Text: "A component's name is unique within the app.", Doc: specPage},
		{ID: ruleUnsupported, Status: bad, Text: "What the pocket cloud can't do is refused, never overlooked: components other than jobs, sources other than images, domains, databases, VPCs, log destinations, alerts.", Doc: specPage},
		{ID: ruleKind, Status: bad, Text: "A job's kind is PRE_DEPLOY, POST_DEPLOY, FAILED_DEPLOY or SCHEDULED.", Doc: jobsPage},
		{ID: ruleSchedule, Status: bad, Text: "A scheduled job has a schedule, and no other has one.", Doc: jobsPage},
		{ID: ruleCron, Status: bad, Text: "A schedule is a cron expression of five fields.", Doc: jobsPage},
		{ID: ruleTimeZone, Status: bad, Text: "A schedule's time zone is one of IANA's.", Doc: jobsPage},
		{ID: ruleTimeout, Status: bad, Text: "A job's timeout is a positive duration like 1h30m.", Doc: specPage},
		{ID: ruleGrace, Status: bad, Text: "A job's grace period has 1 to 600 seconds.", Doc: "https://docs.digitalocean.com/products/app-platform/how-to/configure-termination/"},
		{ID: ruleSlug, Status: bad, Text: "A component's instance size is one of the list.", Doc: costPage},
		{ID: ruleCount, Status: bad, Text: "A component has 1 to 250 instances, of a size that can't be scaled one; the pocket cloud runs a job in one.", Doc: capPage},
		{ID: ruleSource, Status: bad, Text: "A component has one source.", Doc: specPage},
		{ID: ruleRegistryType, Status: bad, Text: "An image's registry type is DOCR, DOCKER_HUB or GHCR.", Doc: specPage},
		{ID: ruleRegistry, Status: bad, Text: "registry is empty for DOCR, and set for DOCKER_HUB.", Doc: specPage},
		{ID: ruleRepository, Status: bad, Text: "An image has a repository.", Doc: specPage},
		{ID: ruleTagDigest, Status: bad, Text: "An image has a tag or a digest, not both.", Doc: specPage},
		{ID: ruleDeployOnPush, Status: bad, Text: "deploy_on_push is for images in DOCR with a tag.", Doc: specPage},
		{ID: ruleEnvKey, Status: bad, Text: "A variable's key has letters, digits and underscores, and begins with no digit.", Doc: specPage},
		{ID: ruleEnvTwice, Status: bad, Text: "A variable is set once for a component, and once for the app.", Doc: envPage},
		{ID: ruleEnvScope, Status: bad, Text: "A variable's scope is RUN_TIME, BUILD_TIME or RUN_AND_BUILD_TIME.", Doc: specPage},
		{ID: ruleEnvType, Status: bad, Text: "A variable's type is GENERAL or SECRET.", Doc: specPage},
		{ID: ruleSealed, Status: bad, Text: "An encrypted value is one that the account's spec came back with.", Doc: envPage},
		{ID: ruleCancelDone, Status: bad, Text: "What has ended can't be cancelled.", Doc: opPage + "apps_cancel_deployment"},
		{ID: ruleLogType, Status: bad, Text: "A log's type is one of the operation's.", Doc: opPage + "apps_get_logs"},
		{ID: ruleLogNone, Status: bad, Text: "There is no log of what was never reached, nor a build log of an image.", Doc: "https://github.com/digitalocean/app_action/blob/main/deploy/main.go"},
		{ID: ruleLogComponent, Status: 404, Text: "A log's component is one of the app's.", Doc: opPage + "apps_get_logs"},
		{ID: ruleLogURL, Status: 403, Text: "The address of a log bears a token of its own, and holds for an hour.", Doc: opPage + "apps_get_logs"},

		{ID: "phases", Text: "A deployment goes through PENDING_BUILD, BUILDING, PENDING_DEPLOY and DEPLOYING to ACTIVE, or ends in ERROR, CANCELED or SUPERSEDED.", Doc: opPage + "apps_get_deployment", Test: "TestPhases"},
		{ID: "pending-deployment", Text: "The reply to a create or update shows the deployment that it made as pending_deployment.", Doc: opPage + "apps_create", Test: "TestPhases"},
		{ID: "job-order", Text: "Jobs run before a deployment, after it, or after a component failed to deploy.", Doc: jobsPage, Test: "TestJobOrder"},
		{ID: "failed-deploy-pending", Text: "The step of a FAILED_DEPLOY job stays PENDING in a deployment that succeeds.", Doc: "https://github.com/digitalocean/terraform-provider-digitalocean/pull/1048", Test: "TestF45StepCounts"},
		{ID: "no-live-url", Text: "An app of jobs alone has no live URL.", Doc: "https://github.com/digitalocean/app_action/issues/265", Test: "TestF45StepCounts"},
		{ID: "exit-code", Text: "A job that ends other than with 0 fails its deployment with DeployContainerExitNonZero; the code isn't told.", Doc: errPage, Test: "TestJobFailures"},
		{ID: "image-pull", Text: "A job whose image can't be pulled fails its deployment, and never runs; words tell, for no code is published.", Doc: errPage, Test: "TestImagePull"},
		{ID: "job-deadline", Text: "A job that takes longer than its timeout is ended, 30 minutes by default; a deployment's job gets 30 minutes at most.", Doc: capPage, Test: "TestTimeout"},
		{ID: "job-term", Text: "A job that is ended gets TERM, and KILL after its grace period, 120 seconds by default.", Doc: "https://docs.digitalocean.com/products/app-platform/how-to/configure-termination/", Test: "TestCancel"},
		{ID: "run-command", Text: "A run command takes the place of the image's own, and is read by a shell (a knob has it split into words).", Doc: "https://docs.digitalocean.com/glossary/command/", Test: "TestRunCommand"},
		{ID: "env-merge", Text: "A component's variables win over the app's; those of BUILD_TIME aren't there at run time; ${APP_ID} and variables of components are put in.", Doc: envPage, Test: "TestEnvironment"},
		{ID: "env-secret", Text: "The value of a SECRET comes back encrypted, and may be submitted so.", Doc: envPage, Test: "TestSecrets"},
		{ID: "spec-defaults", Text: "A spec comes back with its defaults: kind, size, count, tag, scope.", Doc: specPage, Test: "TestSpecDefaults"},
		{ID: "invocations", Text: "A scheduled job's runs are invocations: PENDING, RUNNING, then SUCCEEDED, FAILED, CANCELED or SKIPPED (that of a job that still runs).", Doc: opPage + "apps_list_job_invocations", Test: "TestSchedule"},
		{ID: "log-lines", Text: "A line of a log begins with component and time; live ones come by websocket as {\"data\": LINE}.", Doc: doctl + "logs/", Test: "TestLogs"},
		{ID: "log-live", Text: "A log has a live URL while its job may still write, and historic URLs after.", Doc: opPage + "apps_get_logs", Test: "TestLogs"},
		{ID: "resource-exhausted", Text: "A deployment beyond the account's limits ends in ERROR with ResourceExhausted (knob).", Doc: errPage, Test: "TestMishaps"},
	}
}

// Error is the refusal of a call.
type Error struct {
	// Rule is the ID of the rule that was broken, empty for none.
	Rule   string
	Status int
	// Message is what the reply says.
	Message string
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// refuse makes the error of a rule that was broken. It panics for an ID that is
// no rule's, which a test of all rules would find.
func refuse(rule, format string, args ...any) *Error {
	list := Rules()
	i := slices.IndexFunc(list, func(r Rule) bool { return r.ID == rule })
	if i < 0 {
		panic("digitalocean: no rule " + rule)
	}
	return &Error{Rule: rule, Status: list[i].Status, Message: fmt.Sprintf(format, args...)}
}

// idOf is the short name that an error bears: that of the HTTP status.
// https://docs.digitalocean.com/reference/api/intro/
func idOf(status int) string {
	switch status {
	case 400:
		return "bad_request"
	case 401:
		return "unauthorized"
	case 403:
		return "forbidden"
	case 404:
		return "not_found"
	case 409:
		return "conflict"
	case 422:
		return "unprocessable_entity"
	case 429:
		return "too_many_requests"
	case 503:
		return "service_unavailable"
	default:
		return "server_error"
	}
}

// reply words a refusal.
func (e *Error) reply(request string, header http.Header) fault.Reply {
	body, _ := json.Marshal(map[string]string{"id": idOf(e.Status), "message": e.Message, "request_id": request}) // strings alone
	if e.Rule != "" {
		header.Set(RuleHeader, e.Rule)
	}
	return fault.Reply{Status: e.Status, Header: header, Body: body}
}
