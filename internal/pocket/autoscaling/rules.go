package autoscaling

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The IDs of the rules.
const (
	ruleECS       = "autoscaling-ecs"
	ruleResource  = "autoscaling-resource"
	ruleBounds    = "autoscaling-bounds"
	ruleTarget    = "autoscaling-target"
	ruleNextToken = "autoscaling-next-token"
)

const (
	api        = "https://docs.aws.amazon.com/autoscaling/application/APIReference/"
	validation = "ValidationException"
)

// Rules returns what the service keeps beyond its model, each with the page that
// says so.
func Rules() awsjson.Rules {
	row := func(id, code, text, page string) awsjson.Rule {
		return awsjson.Rule{ID: id, Code: code, Text: text, Doc: api + page}
	}
	return awsjson.Rules{
		row(ruleECS, validation, "What the pocket cloud can't do is refused: targets of other services than ECS.", "API_RegisterScalableTarget.html"),
		row(ruleResource, validation, "A service's resource ID is service/CLUSTER/SERVICE.", "API_RegisterScalableTarget.html"),
		row(ruleBounds, validation, "A new target has both bounds, and the lower isn't above the upper.", "API_RegisterScalableTarget.html"),
		row(ruleTarget, "ObjectNotFoundException", "The target must exist.", "API_DeregisterScalableTarget.html"),
		row(ruleNextToken, "InvalidNextTokenException", "NextToken is one that the same listing gave.", "API_DescribeScalableTargets.html"),
	}
}

// refuse makes the error of a rule that was broken.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, format, args...)
}
