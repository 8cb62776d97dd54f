package cloudlogging

import (
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The IDs of the rules.
const (
	ruleResources   = "logging-resource-names"
	ruleResources99 = "logging-resource-names-100"
	ruleResource    = "logging-resource-name"
	ruleOrder       = "logging-order-by"
	rulePageSize    = "logging-page-size"
	ruleLength      = "logging-filter-length"
	ruleFilter      = "logging-filter"
	ruleReads       = "logging-reads"
	ruleOther       = "logging-unsupported"
)

const (
	listDoc  = "https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list"
	queryDoc = "https://cloud.google.com/logging/docs/view/logging-query-language"
	quotaDoc = "https://cloud.google.com/logging/quotas"
)

// Rules returns what the service refuses, each with the page that says so.
func Rules() gapi.Table {
	return gapi.Table{
		{ID: ruleResources, Code: codes.InvalidArgument, Text: "A listing names its resources.", Doc: listDoc},
		{ID: ruleResources99, Code: codes.InvalidArgument, Text: "A listing names up to 100 resources.", Doc: listDoc},
		{ID: ruleResource, Code: codes.InvalidArgument, Text: "A resource is a project, an organization, a billing account, a folder or a view of one.", Doc: listDoc},
		{ID: ruleOrder, Code: codes.InvalidArgument, Text: `The order is "timestamp asc" or "timestamp desc".`, Doc: listDoc},
		{ID: rulePageSize, Code: codes.InvalidArgument, Text: "A page size is not negative and not above 1000.", Doc: listDoc},
		{ID: ruleLength, Code: codes.InvalidArgument, Text: "A filter has up to 20,000 characters.", Doc: listDoc},
		{ID: ruleFilter, Code: codes.InvalidArgument, Text: "A filter keeps to the query language and names fields that a log entry has.", Doc: queryDoc},
		{ID: ruleReads, Code: codes.ResourceExhausted, Text: "A project has 60 entries.list calls a minute.", Doc: quotaDoc},
		{ID: ruleOther, Code: codes.Unimplemented, Text: "What the pocket cloud can't do is refused, never overlooked: views, and the query language's functions but log_id.", Doc: queryDoc},
	}
}

func refuse(id, format string, args ...any) *gapi.Error { return Rules().Refuse(id, format, args...) }
