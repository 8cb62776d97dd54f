package ssm

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The IDs of the rules.
const (
	ruleName      = "ssm-name"
	rulePrefix    = "ssm-name-prefix"
	ruleQualified = "ssm-name-qualified"
	ruleLevels    = "ssm-name-levels"
	ruleSize      = "ssm-size"
	rulePattern   = "ssm-allowed-pattern"
	ruleMismatch  = "ssm-pattern-mismatch"
	ruleType      = "ssm-type"
	ruleExists    = "ssm-exists"
	ruleParameter = "ssm-parameter"
	ruleVersion   = "ssm-version"
	ruleTwice     = "ssm-names-twice"
	rulePath      = "ssm-path"
	ruleNextToken = "ssm-next-token"
	ruleNested    = "ssm-nested"
)

const (
	api = "https://docs.aws.amazon.com/systems-manager/latest/APIReference/"

	validation = "ValidationException"
)

// Rules returns what the service keeps beyond its model, each with the page that
// says so.
func Rules() awsjson.Rules {
	row := func(id, code, text, page string) awsjson.Rule {
		return awsjson.Rule{ID: id, Code: code, Text: text, Doc: api + page}
	}
	return awsjson.Rules{
		row(ruleName, validation, "A name has letters, numbers, and _.-/", "API_PutParameter.html"),
		row(rulePrefix, validation, "A name doesn't begin with aws or ssm.", "API_PutParameter.html"),
		row(ruleQualified, validation, "A name with levels begins with a slash.", "API_PutParameter.html"),
		row(ruleLevels, "HierarchyLevelLimitExceededException", "A name has up to 15 levels.", "API_PutParameter.html"),
		row(ruleSize, validation, "A value has up to 4 KB, of tier Advanced 8 KB.", "API_PutParameter.html"),
		row(rulePattern, "InvalidAllowedPatternException", "AllowedPattern is a regular expression.", "API_PutParameter.html"),
		row(ruleMismatch, "ParameterPatternMismatchException", "A value matches AllowedPattern.", "API_PutParameter.html"),
		row(ruleType, validation, "A new parameter has a type.", "API_PutParameter.html"),
		row(ruleExists, "ParameterAlreadyExists", "A parameter is overwritten only when told so.", "API_PutParameter.html"),
		row(ruleParameter, "ParameterNotFound", "The parameter must exist.", "API_GetParameter.html"),
		row(ruleVersion, "ParameterVersionNotFound", "The version must exist.", "API_GetParameter.html"),
		row(rulePath, validation, "A path begins with a slash.", "API_GetParametersByPath.html"),
		row(ruleNextToken, "InvalidNextToken", "NextToken is one that the same listing gave.", "API_GetParametersByPath.html"),
		row(ruleNested, validation, "A value has no {{}}: parameters aren't nested.", "API_PutParameter.html"),
		row(ruleTwice, validation, "GetParameters names each parameter once.", "API_GetParameters.html"),
	}
}

// refuse makes the error of a rule that was broken.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, format, args...)
}
