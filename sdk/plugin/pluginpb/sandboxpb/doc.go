// Package sandboxpb is the wire of a remote runner: the ecosystem's service
// SandboxExecService, generated from proto/workflow/plugin/external/sandbox.
package sandboxpb
