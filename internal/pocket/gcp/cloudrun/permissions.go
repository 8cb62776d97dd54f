package cloudrun

import (
	"context"

	"cloud.google.com/go/iam/apiv1/iampb"
)

// TestIamPermissions tells which of some permissions on a job the caller has.
// The job need not exist.
func (a jobsAPI) TestIamPermissions(_ context.Context, r *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	if _, err := a.s.parse(r.Resource, "/jobs/*", ""); err != nil {
		return nil, err
	}
	return &iampb.TestIamPermissionsResponse{Permissions: a.s.o.Policy.Granted(r.Permissions)}, nil
}
