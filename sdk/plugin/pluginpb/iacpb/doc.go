// Package iacpb is the wire between the ecosystem's host and its provider plugins,
// generated from proto/workflow/plugin/external/iac.
package iacpb
