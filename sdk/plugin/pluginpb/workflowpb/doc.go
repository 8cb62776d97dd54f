// Package workflowpb is how the ecosystem's host asks a plugin who it is and what it
// serves, generated from proto/workflow/plugin/v1.
package workflowpb
