package pluginhost

import "google.golang.org/grpc"

// Given is the schema of providers of a plugin whose entry has a config.
var Given = given

// Watched is the connection of a lease as calls have it.
func Watched(l *Lease, name string) grpc.ClientConnInterface { return watched{l, name} }
