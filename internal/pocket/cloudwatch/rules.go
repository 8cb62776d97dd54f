package cloudwatch

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The IDs of the rules.
const (
	ruleRequired   = "cloudwatch-required"
	ruleTimes      = "cloudwatch-times"
	ruleQueries    = "cloudwatch-queries"
	ruleToken      = "cloudwatch-next-token"
	ruleID         = "cloudwatch-query-id"
	ruleExpression = "cloudwatch-expression"
	rulePeriod     = "cloudwatch-period"
)

const (
	doc     = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/"
	invalid = "ValidationError"
)

// Rules returns what the service keeps, each with the page that says so.
func Rules() awsjson.Rules {
	row := func(id, code, text, page string) awsjson.Rule {
		return awsjson.Rule{ID: id, Code: code, Text: text, Doc: doc + page}
	}
	return awsjson.Rules{
		row(ruleRequired, "MissingParameter", "GetMetricData has queries and a time, a query its metric, period and statistic.", "API_GetMetricData.html"),
		row(ruleTimes, invalid, "StartTime lies before EndTime.", "API_GetMetricData.html"),
		row(ruleQueries, invalid, "Up to 500 queries.", "API_GetMetricData.html"),
		row(ruleToken, "InvalidNextToken", "NextToken is one that the same call gave; the pocket cloud's answers have one page.", "API_GetMetricData.html"),
		row(ruleID, invalid, "A query's ID is unique and begins with a lowercase letter.", "API_MetricDataQuery.html"),
		row(ruleExpression, invalid, "What the pocket cloud can't do is refused: expressions, other statistics than Average, Minimum and Maximum.", "API_MetricDataQuery.html"),
		row(rulePeriod, invalid, "A period is 1, 5, 10, 20 or 30 seconds, or whole minutes.", "API_MetricStat.html"),
	}
}

// refuse makes the error of a rule that was broken.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, format, args...)
}
