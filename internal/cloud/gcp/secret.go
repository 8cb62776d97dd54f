package gcp

import (
	"cmp"
	"fmt"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

// SchemeSecretManager is that of references to Secret Manager.
const SchemeSecretManager = "gcp-sm"

// newestVersion is the version that a reference without one means.
const newestVersion = "latest"

var (
	// https://cloud.google.com/run/docs/reference/rest/v2/Container#SecretKeySelector
	secretForm  = form(`^(projects/[^/]+/secrets/)?[A-Za-z0-9_-]{1,255}$`)
	versionForm = form(`^([1-9][0-9]*|[a-z][A-Za-z0-9_-]{0,62})$`)
)

// SecretKey is a reference of the scheme gcp-sm as Cloud Run follows it. Where it
// can't, code is not zero, and why says so.
func SecretKey(r sdk.ParsedSecretRef) (key *runpb.SecretKeySelector, code sdk.Code, why string) {
	switch {
	case r.Key != "":
		return nil, sdk.Unimplemented, fmt.Sprintf("Cloud Run gives a secret as a whole; leave #%s out", r.Key)
	case !secretForm().MatchString(r.Path):
		return nil, sdk.InvalidArgument, "is neither a secret's ID nor projects/P/secrets/ID"
	case r.Version != "" && !versionForm().MatchString(r.Version):
		return nil, sdk.InvalidArgument, "a version is a number, latest or an alias"
	}
	return &runpb.SecretKeySelector{Secret: r.Path, Version: cmp.Or(r.Version, newestVersion)}, 0, ""
}
