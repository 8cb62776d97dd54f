package kubernetes

import (
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// noteCancel, on a Job or a pod, says that we asked for its end.
const noteCancel = sdk.LabelPrefix + "cancelled"

// request is what a launch sends.
type request struct {
	Job batchv1.Job `json:"job"`
	// Sealed maps keys of the Secret to names of the launch's secrets. Without
	// any there is no Secret.
	Sealed map[string]string `json:"sealed,omitempty"`
	// Policy is the profile's.
	Policy *networkingv1.NetworkPolicy `json:"policy,omitempty"`
}

func decodeRequest(raw json.RawMessage) (*request, error) {
	r := &request{}
	if err := podspec.Strictly(raw, r); err != nil {
		return nil, err
	}
	if n := len(r.Job.Spec.Template.Spec.Containers); n != 1 || !strings.HasPrefix(r.Job.Name, kube.NamePrefix) {
		return nil, fmt.Errorf("it has %d containers and the name %q", n, r.Job.Name)
	}
	return r, nil
}
