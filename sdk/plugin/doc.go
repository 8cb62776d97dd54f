// Package plugin is the author's side of a provider that runs as a process of its own:
// it serves a driver over the wire of windlass.provider.v1.
//
// Register puts the services on a gRPC server. Every row of sdk.Capabilities has one;
// what the provider that was opened can't do is answered with Unimplemented, and Open
// names what it can.
package plugin
