package kubernetes

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// keyUID is the member of a handle's metadata with the Job's UID: a Job of the
// name that somebody made later is another.
const keyUID = "uid"

// handle is enough for any machine: the identity has the namespace.
func (p *provider) handle(j *batchv1.Job) sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: j.Name, Name: j.Name, Metadata: map[string]string{keyUID: string(j.UID)}}
}

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	if _, ok := kube.AttemptOf(h.ID); !ok || h.Metadata[keyUID] == "" {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a Job", h.ID))
	}
	return nil
}
