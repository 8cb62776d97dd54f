package gsecrets

import (
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// The IDs of the rules.
const (
	ruleName        = "secret-name"
	ruleID          = "secret-id"
	ruleExists      = "secret-exists"
	ruleMissing     = "secret-missing"
	ruleReplication = "secret-replication"
	ruleImmutable   = "secret-replication-immutable"
	ruleMask        = "secret-update-mask"
	ruleLabels      = "secret-labels"
	ruleEtag        = "secret-etag"
	rulePayload     = "secret-payload"
	ruleSize        = "secret-payload-size"
	ruleChecksum    = "secret-payload-checksum"
	ruleVersion     = "secret-version"
	ruleState       = "secret-version-state"
	ruleDestroyed   = "secret-version-destroyed"
	rulePageSize    = "secret-page-size"
	ruleUnsupported = "secret-unsupported"
)

const (
	rest       = "https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets"
	versions   = "https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions"
	labelsDoc  = "https://cloud.google.com/resource-manager/docs/creating-managing-labels"
	quotas     = "https://cloud.google.com/secret-manager/quotas"
	disableDoc = "https://cloud.google.com/secret-manager/docs/disable-secret-version"
	destroyDoc = "https://cloud.google.com/secret-manager/docs/destroy-secret-version"
)

// Rules returns what the service refuses, each with the page that says so.
func Rules() gapi.Table {
	return gapi.Table{
		{ID: ruleName, Code: codes.InvalidArgument, Text: "Names have the form projects/*/secrets/* or projects/*/secrets/*/versions/*.", Doc: rest + "/get"},
		{ID: ruleID, Code: codes.InvalidArgument, Text: "A secret's ID has 1 to 255 letters, numerals, hyphens and underscores.", Doc: rest + "/create"},
		{ID: ruleExists, Code: codes.AlreadyExists, Text: "A secret's ID is unique in its project.", Doc: rest + "/create"},
		{ID: ruleMissing, Code: codes.NotFound, Text: "The secret must exist.", Doc: rest + "/get"},
		{ID: ruleReplication, Code: codes.InvalidArgument, Text: "A secret has a replication policy.", Doc: rest},
		{ID: ruleImmutable, Code: codes.InvalidArgument, Text: "Its replication policy can't be changed.", Doc: rest + "/patch"},
		{ID: ruleMask, Code: codes.InvalidArgument, Text: "An update names the fields that it changes.", Doc: rest + "/patch"},
		{ID: ruleLabels, Code: codes.InvalidArgument, Text: "A secret has up to 64 labels, keys and values of up to 63 lowercase letters, numerals, hyphens and underscores, keys beginning with a letter.", Doc: labelsDoc},
		{ID: ruleEtag, Code: codes.FailedPrecondition, Text: "An etag that is given is the current one.", Doc: rest + "/delete"},
		{ID: rulePayload, Code: codes.InvalidArgument, Text: "A version has a payload.", Doc: rest + "/addVersion"},
		{ID: ruleSize, Code: codes.InvalidArgument, Text: "A payload has up to 64 KiB.", Doc: quotas},
		{ID: ruleChecksum, Code: codes.InvalidArgument, Text: "A checksum that is given is the payload's CRC32C.", Doc: rest + "/addVersion"},
		{ID: ruleVersion, Code: codes.NotFound, Text: "The version must exist; latest is the one that was added last, in whatever state.", Doc: versions + "/access"},
		{ID: ruleState, Code: codes.FailedPrecondition, Text: "Only an enabled version can be accessed.", Doc: disableDoc},
		{ID: ruleDestroyed, Code: codes.FailedPrecondition, Text: "A destroyed version stays destroyed.", Doc: destroyDoc},
		{ID: rulePageSize, Code: codes.InvalidArgument, Text: "A page size isn't negative.", Doc: rest + "/list"},
		{ID: ruleUnsupported, Code: codes.Unimplemented, Text: "What the pocket cloud can't do is refused, never overlooked: regional secrets, filters, expiry, rotation, topics, version aliases, delayed destruction, customer-managed keys, policies.", Doc: rest},
	}
}

func refuse(id, format string, args ...any) *gapi.Error { return Rules().Refuse(id, format, args...) }
