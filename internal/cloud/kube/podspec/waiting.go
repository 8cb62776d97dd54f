package podspec

import "github.com/windlass-run/windlass/sdk"

// WaitingReason is why a container waits. What the kubelet tries again stays
// pending: it may still work, and the start time-out decides.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/images/types.go
func WaitingReason(word string) sdk.Reason {
	switch word {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return sdk.ReasonImagePull
	case "CreateContainerError", "RunContainerError", "NetworkNotReady":
		return sdk.ReasonInfrastructure
	}
	return ""
}
