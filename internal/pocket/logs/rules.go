package logs

import "github.com/windlass-run/windlass/internal/pocket/awsjson"

// The IDs of the rules.
const (
	ruleGroup        = "logs-group"
	ruleStream       = "logs-stream"
	ruleGroupExists  = "logs-group-exists"
	ruleStreamExists = "logs-stream-exists"
	ruleOneName      = "logs-group-name"
	ruleToken        = "logs-next-token"
	ruleForward      = "logs-forward-token"
	rulePrefix       = "logs-prefix-or-pattern"
	ruleOrderBy      = "logs-order-by"
	ruleRetention    = "logs-retention"
	ruleOrder        = "logs-batch-order"
	ruleSpan         = "logs-batch-span"
	ruleSize         = "logs-batch-size"

	ruleTagPrefix  = "logs-tag-prefix"
	ruleTags50     = "logs-tags-50"
	ruleTagged     = "logs-tagged"
	ruleTaggedForm = "logs-tagged-arn"

	ruleFilterNames   = "logs-filter-streams"
	ruleFilterToken   = "logs-filter-token"
	ruleFilterPattern = "logs-filter-pattern"
)

const (
	api = "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/"

	notFound         = "ResourceNotFoundException"
	exists           = "ResourceAlreadyExistsException"
	invalidParameter = "InvalidParameterException"
)

// Rules returns what the service keeps beyond its model, each with the page that
// says so.
func Rules() awsjson.Rules {
	row := func(id, code, text, page string) awsjson.Rule {
		return awsjson.Rule{ID: id, Code: code, Text: text, Doc: api + page}
	}
	return awsjson.Rules{
		row(ruleGroup, notFound, "The log group must exist.", "API_GetLogEvents.html"),
		row(ruleStream, notFound, "The log stream must exist; a new one may not be visible yet (knob).", "API_GetLogEvents.html"),
		row(ruleGroupExists, exists, "A log group is made once.", "API_CreateLogGroup.html"),
		row(ruleStreamExists, exists, "A log stream is made once.", "API_CreateLogStream.html"),
		row(ruleOneName, invalidParameter, "A group is given by logGroupName or logGroupIdentifier, not both.", "API_GetLogEvents.html"),
		row(ruleToken, invalidParameter, "nextToken is one that GetLogEvents gave.", "API_GetLogEvents.html"),
		row(ruleForward, invalidParameter, "nextForwardToken needs startFromHead.", "API_GetLogEvents.html"),
		row(rulePrefix, invalidParameter, "Groups are listed by prefix or by pattern, not both.", "API_DescribeLogGroups.html"),
		row(ruleOrderBy, invalidParameter, "Streams ordered by LastEventTime have no prefix.", "API_DescribeLogStreams.html"),
		row(ruleRetention, invalidParameter, "Retention is one of certain numbers of days.", "API_PutRetentionPolicy.html"),
		row(ruleOrder, invalidParameter, "Events of a batch are in the order of their times.", "API_PutLogEvents.html"),
		row(ruleSpan, invalidParameter, "A batch spans up to 24 hours.", "API_PutLogEvents.html"),
		row(ruleSize, invalidParameter, "A batch has up to 1,048,576 bytes, with 26 more for each event.", "API_PutLogEvents.html"),
		row(ruleTagPrefix, invalidParameter, "No tag begins with aws:.", "API_TagResource.html"),
		row(ruleTags50, "TooManyTagsException", "A group has up to 50 tags.", "API_TagResource.html"),
		row(ruleTagged, notFound, "What is tagged must exist.", "API_TagResource.html"),
		row(ruleTaggedForm, invalidParameter, "A group is tagged by its ARN, without :* at the end.", "API_TagResource.html"),
		row(ruleFilterNames, invalidParameter, "FilterLogEvents takes names of streams or a prefix, not both.", "API_FilterLogEvents.html"),
		row(ruleFilterToken, invalidParameter, "nextToken is one that FilterLogEvents gave within 24 hours.", "API_FilterLogEvents.html"),
		row(ruleFilterPattern, invalidParameter, "The pocket cloud has no filter patterns.", "API_FilterLogEvents.html"),

		{ID: "logs-filter-missing", Text: "FilterLogEvents fails as a whole where one of its streams isn't there.", Doc: "https://github.com/percona/rds_exporter/issues/81", Test: "TestFilterLogEvents"},
		{ID: "logs-filter-page", Text: "A page of FilterLogEvents has up to 10,000 events and 1 MB of up to 100 streams, by time and arrival, each with an ID of its own; it may be empty (knob), and only a missing token is an end.", Doc: api + "API_FilterLogEvents.html", Test: "TestFilterLogEvents"},
		{ID: "logs-page", Text: "A page of GetLogEvents has up to 10,000 events and 1 MB.", Doc: api + "API_GetLogEvents.html", Test: "TestPageSize"},
		{ID: "logs-end", Text: "At the end a token comes back as it was given; an empty page is no end (knob).", Doc: api + "API_GetLogEvents.html", Test: "TestF51LogKnobs"},
		{ID: "logs-rejected", Text: "Events more than 2 hours ahead or 14 days old are left out of a batch.", Doc: api + "API_PutLogEvents.html", Test: "TestPutLogEvents"},
		{ID: "logs-awslogs", Text: "The awslogs driver makes an event of each line that isn't empty, cuts lines at 256 KiB less 26 bytes, and replaces what is no UTF-8.", Doc: "https://docs.docker.com/engine/logging/drivers/awslogs/", Test: "TestAwslogs"},
	}
}

// refuse makes the error of a rule that was broken.
func refuse(rule, format string, args ...any) *awsjson.Error {
	return Rules().Refuse(rule, format, args...)
}
