package cloudmonitoring

import (
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The IDs of the rules.
const (
	ruleUnsupported = "monitoring-unsupported"
	ruleName        = "monitoring-name"
	ruleFilter      = "monitoring-filter"
	ruleInterval    = "monitoring-interval"
)

const listRef = "https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list"

// Rules returns what the service refuses, each with the page that says so.
func Rules() gapi.Table {
	return gapi.Table{
		{ID: ruleUnsupported, Code: codes.Unimplemented, Text: "What the pocket cloud can't do is refused, never overlooked: aggregation and order.", Doc: listRef},
		{ID: ruleName, Code: codes.InvalidArgument, Text: "Time series are those of a project.", Doc: listRef},
		{ID: ruleFilter, Code: codes.InvalidArgument, Text: "A filter names one type of metric; the pocket cloud knows equality and one_of, joined by AND.", Doc: "https://cloud.google.com/monitoring/api/v3/filters"},
		{ID: ruleInterval, Code: codes.InvalidArgument, Text: "An interval has an end, and no start after it.", Doc: listRef},
	}
}

func refuse(id, format string, args ...any) *gapi.Error { return Rules().Refuse(id, format, args...) }
