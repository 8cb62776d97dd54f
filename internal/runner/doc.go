// Package runner runs jobs for other machines: a server that speaks the
// ecosystem's SandboxExecService, and its client, an exec environment of
// package sandbox.
//
// The server lets in whom it knows, by a certificate or a token over TLS 1.3,
// lowers the security profile to what the caller may have, hands out only the
// secrets that the caller may have, and sends every job through the engine, so
// that each has its row with the caller as actor. The call is the job's life: a
// caller that goes away, a deadline that passes and a server that stops cancel
// it, and the call's place is free again only when the job is proven to be gone.
//
// The wire knows output and an exit code and nothing else. What it can't carry is
// refused, and an end without a code is an error, never a success.
package runner
