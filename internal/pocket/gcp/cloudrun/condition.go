package cloudrun

import (
	"slices"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The types of conditions of an execution and a task:
// https://cloud.google.com/run/docs/reference/rest/v2/Condition
const (
	completed          = "Completed"
	resourcesAvailable = "ResourcesAvailable"
	started            = "Started"
	containerReady     = "ContainerReady"
)

func condition(kind string, state runpb.Condition_State, message string, at *timestamppb.Timestamp) *runpb.Condition {
	return &runpb.Condition{Type: kind, State: state, Message: message, LastTransitionTime: at}
}

// with returns the conditions with one of them changed.
func with(list []*runpb.Condition, c *runpb.Condition) []*runpb.Condition {
	out := slices.Clone(list)
	i := slices.IndexFunc(out, func(o *runpb.Condition) bool { return o.Type == c.Type })
	if i < 0 {
		return append(out, c)
	}
	out[i] = c
	return out
}

// executionReason adds why an execution ended or is about to.
func executionReason(c *runpb.Condition, r runpb.Condition_ExecutionReason) *runpb.Condition {
	if r != runpb.Condition_EXECUTION_REASON_UNDEFINED {
		c.Reasons = &runpb.Condition_ExecutionReason_{ExecutionReason: r}
	}
	return c
}

// commonReason adds why a resource isn't ready.
func commonReason(c *runpb.Condition, r runpb.Condition_CommonReason) *runpb.Condition {
	if r != runpb.Condition_COMMON_REASON_UNDEFINED {
		c.Reasons = &runpb.Condition_Reason{Reason: r}
	}
	return c
}
