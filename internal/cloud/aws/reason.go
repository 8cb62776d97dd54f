package aws

import (
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// sign is a text of AWS's that tells why a task ended.
type sign struct {
	text   string
	reason sdk.Reason
}

// signs are sought in order, the most telling first, without regard to case.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/resource-initialization-error.html
func signs() []sign {
	return []sign{
		{"outofmemory", sdk.ReasonOOMKilled},
		{"oomkilled", sdk.ReasonOOMKilled},
		{"spot task was interrupted", sdk.ReasonPreempted},
		{"spot interruption", sdk.ReasonPreempted},
		{"spot instance", sdk.ReasonPreempted},
		{"spotinterruption", sdk.ReasonPreempted},
		{"cannotpull", sdk.ReasonImagePull},
		{"pull image manifest", sdk.ReasonImagePull},
		{"pull command failed", sdk.ReasonImagePull},
		{"image platform does not match", sdk.ReasonImagePull},
		{"exec format error", sdk.ReasonInvalidSpec},
		{"executable file not found", sdk.ReasonInvalidSpec},
		{"no such file or directory: unknown", sdk.ReasonInvalidSpec},
		{"permission denied: unknown", sdk.ReasonInvalidSpec},
		{"unable to find user", sdk.ReasonInvalidSpec},
		{"accessdenied", sdk.ReasonPermissionDenied},
		{"is not authorized to perform", sdk.ReasonPermissionDenied},
		{"unable to assume the role", sdk.ReasonPermissionDenied},
		{"capacity is unavailable", sdk.ReasonCapacity},
		{"no container instances were found", sdk.ReasonCapacity},
		{"insufficient capacity", sdk.ReasonCapacity},
		{"resource:", sdk.ReasonCapacity},
		{"reached the limit", sdk.ReasonQuota},
		{"network interface", sdk.ReasonInfrastructure},
		{"cni", sdk.ReasonInfrastructure},
		{"dockertimeouterror", sdk.ReasonInfrastructure},
		{"internalerror", sdk.ReasonInfrastructure},
		{"cannotstopcontainererror", sdk.ReasonInfrastructure},
		{"cannotinspectcontainererror", sdk.ReasonInfrastructure},
		{"host ec2", sdk.ReasonNodeLost},
		{"ec2 instance", sdk.ReasonNodeLost},
		{"agent disconnected", sdk.ReasonNodeLost},
		{"deregistration", sdk.ReasonEvicted},
		{"draining", sdk.ReasonEvicted},
		{"maintenance", sdk.ReasonEvicted},
		{"retirement", sdk.ReasonEvicted},
		{"scaling activity", sdk.ReasonEvicted},
		{"resourceinitializationerror", sdk.ReasonFailedToStart},
		{"cannotcreatecontainererror", sdk.ReasonFailedToStart},
		{"cannotstartcontainererror", sdk.ReasonFailedToStart},
		{"task failed to start", sdk.ReasonFailedToStart},
	}
}

// ReasonOf returns the reason that texts of ECS's tell, or nothing: of a task, of
// a container, or of what a service that runs its jobs as tasks passes on. The
// most telling sign wins, wherever it stands.
func ReasonOf(texts ...string) sdk.Reason {
	for _, s := range signs() {
		for _, t := range texts {
			if strings.Contains(strings.ToLower(t), s.text) {
				return s.reason
			}
		}
	}
	return ""
}

// Only returns a reason if it is one of those allowed.
func Only(r sdk.Reason, allowed ...sdk.Reason) sdk.Reason {
	for _, a := range allowed {
		if r == a {
			return r
		}
	}
	return ""
}
