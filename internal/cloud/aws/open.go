package aws

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-run/windlass/sdk"
)

// OpenFor makes the session of a provider whose owner stands in tags. Of the
// settings it wants Region, Endpoint and Account; the request has the rest.
func OpenFor(ctx context.Context, r sdk.OpenRequest, s Settings) (*Session, error) {
	if msg := CheckTag(sdk.LabelOwner, r.Owner); msg != "" {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: r.Name, Field: "owner",
			Err: fmt.Errorf("the owner %q can't be a tag: %s", r.Owner, msg), Remedy: "choose another name for the owner"}
	}
	s.Provider, s.Credentials, s.Ambient = r.Name, r.Credentials, r.AmbientCredentials
	s.CallTimeout, s.StateDir, s.Clock = r.CallTimeout, r.StateDir, r.Clock
	return Open(ctx, s)
}

// CheckTags returns what is wrong with the tags under a provider's config:, which
// no job could run with.
func CheckTags(provider string, tags map[string]string) error {
	for k, v := range tags {
		if msg := CheckUserTag(k, v); msg != "" {
			return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config.tags." + k, Err: errors.New(msg)}
		}
	}
	return nil
}
