package pluginhost

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// Attach connects to the process of a plugin that another process of this user hosts.
// Its lease knows nothing of the process's end, tells its host nothing, and Release only
// disconnects.
func Attach(ctx context.Context, name, address string) (*Lease, error) {
	if address == "" {
		return nil, sdk.Errorf(sdk.Unimplemented, "connect to plugin "+name, "only its host can speak to it on this system")
	}
	conn, err := grpc.NewClient("unix:"+address, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, sdk.Errorf(sdk.Unavailable, "connect to plugin "+name, "%w", err)
	}
	c, err := ask(ctx, conn, Manifest{})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Lease{Conn: conn, Address: address, Contract: c, Know: func(sdk.SecretValue) {}, Release: func() { _ = conn.Close() }}, nil
}
