package argo

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// request is what a launch sends.
type request struct {
	Workflow argo.Workflow `json:"workflow"`
	// Sealed maps keys of the Secret to names of the launch's secrets. Without
	// any there is no Secret.
	Sealed map[string]string `json:"sealed,omitempty"`
}

func decodeRequest(raw json.RawMessage) (*request, error) {
	r := &request{}
	if err := podspec.Strictly(raw, r); err != nil {
		return nil, err
	}
	w := &r.Workflow
	if n := len(w.Spec.Templates); n != 1 || w.Spec.Templates[0].Container == nil || !strings.HasPrefix(w.Name, kube.NamePrefix) {
		return nil, fmt.Errorf("it has %d templates and the name %q", n, w.Name)
	}
	return r, nil
}

// keyUID is the member of a handle's metadata with the Workflow's UID: a Workflow of
// the name that somebody made later is another.
const keyUID = "uid"

// handle is enough for any machine: the identity has the namespace.
func (p *provider) handle(w *argo.Workflow) sdk.JobHandle {
	return sdk.JobHandle{V: sdk.HandleVersion, Kind: Kind, Identity: p.identity, ID: w.Name, Name: w.Name, Metadata: map[string]string{keyUID: string(w.UID)}}
}

// checkHandle refuses a handle of another provider, and one that can't be ours.
func (p *provider) checkHandle(op string, h sdk.JobHandle) error {
	if err := h.Check(op, p.identity); err != nil {
		return err
	}
	if _, ok := kube.AttemptOf(h.ID); !ok || h.Metadata[keyUID] == "" {
		return p.fail(sdk.InvalidArgument, op, fmt.Errorf("%q is no handle of a Workflow", h.ID))
	}
	return nil
}
