package secretsmanager

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The IDs of the rules.
const (
	ruleSecret    = "secretsmanager-secret"
	ruleStage     = "secretsmanager-stage"
	ruleVersion   = "secretsmanager-version"
	ruleDeleted   = "secretsmanager-deleted"
	ruleTwoValues = "secretsmanager-one-value"
	ruleNoValue   = "secretsmanager-a-value"
	ruleExists    = "secretsmanager-exists"
	ruleScheduled = "secretsmanager-scheduled"
	ruleToken     = "secretsmanager-token"
	ruleForce     = "secretsmanager-force"
	ruleRecovery  = "secretsmanager-recovery"
)

const (
	api = "https://docs.aws.amazon.com/secretsmanager/latest/apireference/"

	notFound         = "ResourceNotFoundException"
	invalidRequest   = "InvalidRequestException"
	invalidParameter = "InvalidParameterException"
	exists           = "ResourceExistsException"
)

// Rules returns what the service keeps beyond its model, each with the page that
// says so.
func Rules() awsjson.Rules {
	row := func(id, code, text, page string) awsjson.Rule {
		return awsjson.Rule{ID: id, Code: code, Text: text, Doc: api + page}
	}
	return awsjson.Rules{
		row(ruleSecret, notFound, "The secret must exist.", "API_GetSecretValue.html"),
		row(ruleStage, notFound, "A version must have the staging label.", "API_GetSecretValue.html"),
		row(ruleVersion, notFound, "The version must exist.", "API_GetSecretValue.html"),
		row(ruleDeleted, invalidRequest, "A secret that is marked for deletion isn't read or written.", "API_DeleteSecret.html"),
		row(ruleTwoValues, invalidParameter, "A version is text or binary, not both.", "API_CreateSecret.html"),
		row(ruleNoValue, invalidRequest, "PutSecretValue has a value.", "API_PutSecretValue.html"),
		row(ruleExists, exists, "A name is used once.", "API_CreateSecret.html"),
		row(ruleScheduled, invalidRequest, "The name of a secret that is marked for deletion is still in use.", "API_CreateSecret.html"),
		row(ruleToken, exists, "ClientRequestToken stands for one value.", "API_PutSecretValue.html"),
		row(ruleForce, invalidParameter, "ForceDeleteWithoutRecovery and RecoveryWindowInDays exclude each other.", "API_DeleteSecret.html"),
		row(ruleRecovery, invalidParameter, "The recovery window has 7 to 30 days.", "API_DeleteSecret.html"),

		{ID: "secretsmanager-labels", Text: "A new version is AWSCURRENT, and the one before AWSPREVIOUS.", Doc: api + "API_PutSecretValue.html", Test: "TestSecretsManager"},
	}
}

// refuse makes the error of a rule that was broken.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, format, args...)
}
